"""Reference that is normal in the latent variables, given a few others.

θ = (ψ, x) with r(θ) = r(ψ) r(x | ψ). The mode x̂ of x given ψ, and the precision H there, are
functions of ψ and the data, by Newton steps from a fixed start. r(x | ψ) is the normal distribution
with this mode and precision, or a t distribution with many degrees of freedom. If the likelihood is
normal in x it is the exact conditional posterior, so that weights depend on ψ alone. r(ψ) is a
mixture of t distributions, near the Laplace approximation of the marginal posterior.
"""

from typing import NamedTuple, cast

import numpy as np
from numpy import ndarray
from numpy.random import Generator

from pymc_bdmc.reference.contract import Blocks, Density
from pymc_bdmc.reference.grid import HEIGHTS_OF_T4, NODES, log_integral, with_tails
from pymc_bdmc.reference.sparse import (
    Combination,
    Separable,
    Sparsity,
    factorise,
    solve,
    times_root,
    unroot,
)
from pymc_bdmc.reference.student import Reference, log_constant_of

MOST_OTHERS, MOST_LATENT = 12, 10_000
"""Most elements of ψ, whose marginal is fitted by differences, and most elements of x."""

MOST_STEPS = 30
"""Most Newton steps to a mode."""
MOST_HALVINGS = 40
"""Most halvings of a step until the density rises. With counts of a million, the first step of the
logarithm of a rate is a million too long."""
MOST_HALVINGS_ALONE, HIGHER = 12, 0.5
"""Most halvings of a step if the grid shows the rest, and nats by which a node is higher than a
mode, from which to climb again. Chosen."""
MOST_NUMBERS = 2**22
"""Size of the largest array of precisions, or of moved states."""
MOST_RISE = 1e4
"""If the density is known to be normal, a Newton step that gains at most this many nats needs no
trial. Differences give the precision to about 1e-8 of its size."""


class Conditional(NamedTuple):
    """The normal approximations of x given several ψ."""

    modes: ndarray
    """x̂, shape (n, d)."""
    factors: ndarray
    """Entries of the Cholesky factors L of the precisions, shape (n, entries); see `Sparsity`."""
    log_marginal: ndarray
    """Laplace approximation of log ∫ p(θ) e^ℓ(θ) dx, shape (n,), nats."""
    is_mode: ndarray
    """Whether Newton's method came to a mode with a positive definite precision, shape (n,)."""
    heights: ndarray
    """Log densities of every element of z = Lᵀ(x − x̂) at `NODES`, nats, shape (n, d, nodes), if
    r(x | ψ) follows them; else (n, 0, nodes)."""


class NestedReference(NamedTuple):
    """Distribution r(ψ) r(x | ψ) of the unconstrained θ = (ψ, x)."""

    marginal: Reference
    """Distribution of φ, which is ψ with some elements in units of others. The last component of a
    fit is as wide as the prior."""
    marginal_modes: ndarray
    """Modes of the marginal posterior of φ, from which fits to similar data start, shape (m, k)."""
    others: ndarray
    """Indices of ψ in θ, shape (k,)."""
    units: ndarray
    """Place in ψ of the logarithm of each element's unit, or −1 if it has none; shape (k,). The
    off-diagonal elements of a covariance matrix are in units of the diagonal element of their row,
    so that r(ψ) has no neck at a small variance."""
    latent: ndarray
    """Indices of x in θ, shape (d,)."""
    starts: ndarray
    """Coefficients that predict Newton's start, shape (1 + k, d), or (1, d) if the start does not
    depend on ψ; see `features`."""
    steps: ndarray
    """Steps of the differences of gradients, shape (d,)."""
    sparsity: Sparsity
    degrees_of_freedom: float
    """Degrees of freedom of r(x | ψ); infinite if it is normal."""
    accuracy: float
    """Largest difference, nats, between the gain of the last Newton step and the gain for a normal
    density. It is infinite if the density is known to be normal: one step then finds the mode."""
    combination: Combination | None = None
    """The few matrices whose combinations are the precisions, if there are only a few."""
    separable: Separable | None = None
    """Terms and moves that show the precisions, if each term is of a few latent variables."""
    blocks: Blocks | None = None
    """Blocks of x that are independent given ψ, if there are several."""
    is_on_grid: bool = False
    """Whether r(x | ψ) follows the density of every block of one element, by values at nodes."""

    @property
    def core(self) -> "NestedReference":
        """The distribution itself."""
        return self

    @property
    def knows_tails(self) -> bool:
        """True, since x is normal given ψ, and ψ has few elements."""
        return True

    @property
    def effort(self) -> int:
        """0, since no draw is annealed or chosen among others."""
        return 0

    def sample(self, n: int, rng: Generator, density: Density) -> tuple[ndarray, ndarray]:
        """Draw θ, one a row, and return its log density too, nats."""
        psis = self.from_units(phis := self.marginal.draw(n, rng))
        z = rng.standard_normal((n, len(self.latent)))
        if np.isfinite(dof := self.degrees_of_freedom):
            z *= np.sqrt(dof / rng.chisquare(dof, size=(n, 1)))
        found = self.given(psis, density)
        log_r = self.log_marginal(phis) + self.log_conditional(found, z)
        return self.join(psis, found, z), log_r

    def join(self, psis: ndarray, found: Conditional, z: ndarray) -> ndarray:
        """Return θ = (ψ, x) with z = Lᵀ(x − x̂), one a row."""
        turned = z.copy()
        unroot(self.sparsity, found.factors, turned)
        thetas = np.empty((len(z), len(self.others) + len(self.latent)))
        thetas[:, self.others], thetas[:, self.latent] = psis, found.modes + turned
        return thetas

    def log_density(
        self, thetas: ndarray, density: Density, rng: Generator | None = None
    ) -> ndarray:
        """Return the log density of every row of ``thetas``, nats."""
        psis = thetas[:, self.others]
        found = self.given(psis, density)
        z = thetas[:, self.latent] - found.modes
        times_root(self.sparsity, found.factors, z)
        return self.log_marginal(self.to_units(psis)) + self.log_conditional(found, z)

    def log_marginal(self, phis: ndarray) -> ndarray:
        """Return log r(ψ) at every row of φ, nats."""
        return self.marginal.log_density(phis) - self._log_units(phis).sum(axis=1)

    def from_units(self, phis: ndarray) -> ndarray:
        """Return ψ of every row of φ."""
        return phis * np.exp(self._log_units(phis))

    def to_units(self, psis: ndarray) -> ndarray:
        """Return φ of every row of ψ; units have no unit, and so are equal in both."""
        return psis * np.exp(-self._log_units(psis))

    def _log_units(self, psis: ndarray) -> ndarray:
        return np.where(self.units >= 0, psis[:, self.units], 0.0)

    def log_laplace(self, phis: ndarray, density: Density) -> ndarray:
        """Return the Laplace approximation of the log marginal density of φ, nats."""
        found = self.given(self.from_units(phis), density).log_marginal
        return found + self._log_units(phis).sum(axis=1)

    def log_conditional(self, found: Conditional, z: ndarray) -> ndarray:
        """Return log r(x | ψ) at z = Lᵀ(x − x̂), nats."""
        d, dof = z.shape[1], self.degrees_of_freedom
        with np.errstate(over="ignore", invalid="ignore"):  # states far out
            squares = (z**2).sum(axis=1)
        log_volume = self._log_volume(found.factors)
        if np.isinf(dof):
            return log_volume - d / 2 * np.log(2 * np.pi) - squares / 2
        return log_volume + log_constant_of(d, dof) - (dof + d) / 2 * np.log1p(squares / dof)

    def _log_volume(self, factors: ndarray) -> ndarray:
        """Return half of the log determinant of every precision."""
        return np.log(factors[:, self.sparsity.starts[:-1]]).sum(axis=1)

    def given(self, psis: ndarray, density: Density, starts: ndarray | None = None) -> Conditional:
        """Return the mode and the precision of x given every row of ψ.

        Newton's method starts at the predictions of `starts`, or at the rows of the argument.
        """
        starts = self.features(psis) @ self.starts if starts is None else starts
        n, d = len(psis), len(self.latent)
        groups = int(self.sparsity.groups.max()) + 1
        numbers = max(groups * (d + len(self.others)), len(self.sparsity.indices))
        if self.separable:
            moves, terms = len(self.separable.moves), self.separable.terms.number
            numbers = max(moves * (d + len(self.others) + terms), len(self.sparsity.indices))
        if self.is_on_grid:
            numbers = max(numbers, len(NODES) * (d + len(self.others)))
        at_once = max(MOST_NUMBERS // numbers, 1)
        firsts = range(0, max(n, 1), at_once)
        parts = [
            self._given(psis[i : i + at_once], density, starts[i : i + at_once]) for i in firsts
        ]
        return Conditional(*map(np.concatenate, zip(*parts, strict=True)))

    def features(self, psis: ndarray) -> ndarray:
        """Return the predictors of the modes of x, by ψ alone: 1 and, if used, the standardised φ.

        The shape is (n, 1 + k) or (n, 1).
        """
        ones = np.ones((len(psis), 1))
        if len(self.starts) == 1:
            return ones
        centre, scale = self.marginal.locations[0], self.marginal.scales[0]
        z = (self.to_units(psis) - centre) / scale
        return np.hstack([ones, np.clip(z, -3.0, 3.0)])  # beyond it is not extrapolated

    def _given(self, psis: ndarray, density: Density, starts: ndarray) -> Conditional:
        n, d, slopes = len(psis), len(self.latent), density.slopes_in(self.latent)
        thetas = np.empty((n, d + len(self.others)))
        thetas[:, self.others], thetas[:, self.latent] = psis, starts
        if self.is_on_grid and self._is_alone.all():
            return self._given_alone(thetas, density)
        values, gradients = slopes(thetas)
        factors = np.zeros((n, len(self.sparsity.indices)))
        factors[:, self.sparsity.starts[:-1]] = 1.0
        is_normal, is_sure = np.zeros((2, n), dtype=bool)
        is_exact = np.isinf(self.accuracy)
        active = np.flatnonzero(np.isfinite(values) & np.isfinite(gradients).all(axis=1))
        for _ in range(MOST_STEPS):
            if not len(active):
                break
            precisions = self.precisions(thetas[active], gradients[active], density)
            good = np.isfinite(precisions).all(axis=1)
            active, found, normal = active[good], factors[active[good]], is_normal[active[good]]
            factorise(self.sparsity, precisions[good], found, normal)
            factors[active], is_normal[active] = found, normal
            slope = gradients[np.ix_(active, self.latent)]
            step = slope.copy()
            solve(self.sparsity, found, step)
            rise = np.einsum("ni,ni->n", slope, step)
            if is_exact:
                diagonal = found[:, self.sparsity.starts[:-1]]
                spread = (diagonal.max(axis=1) / diagonal.min(axis=1)) ** 2
                # With a larger spread of conditional precisions, differences lose the smallest.
                far = ~((rise <= MOST_RISE) & (spread <= 1e6))
                is_sure[active[~far]] = True
                active, step, rise = active[far], step[far], rise[far]
            taken, gained = self._rise(thetas, values, gradients, active, step, rise, slopes)
            surprise = np.abs(gained - rise / 2)
            still = taken & ((surprise > self.accuracy) | ~is_normal[active])
            active = active[still & (rise > self.accuracy / 10)]
        slope = np.where(np.isfinite(gradients), gradients, 0.0)[:, self.latent]
        step = slope.copy()
        solve(self.sparsity, factors, step)
        rest = np.einsum("ni,ni->n", slope, step)  # twice what is left to the mode, in nats
        most = np.where(is_sure, MOST_RISE, 1.0)
        is_near, rest = np.isfinite(values) & (rest < most), np.clip(rest, 0, most)
        modes = thetas[:, self.latent] + np.where(is_near[:, None], step, 0.0)
        log_marginal = values + rest / 2 + d / 2 * np.log(2 * np.pi) - self._log_volume(factors)
        log_marginal = np.where(np.isfinite(log_marginal), log_marginal, -np.inf)
        heights = np.empty((n, 0, len(NODES)))
        if self.is_on_grid:
            heights = self._on_grid(psis, modes, factors, density)
            log_marginal += (log_integral(heights) - np.log(2 * np.pi) / 2).sum(axis=1)
            heights = with_tails(heights)
        return Conditional(modes, factors, log_marginal, is_normal & is_near, heights)

    @property
    def _is_alone(self) -> ndarray:
        """Whether each latent variable is a block, shape (d,)."""
        of_latent = cast(Blocks, self.blocks).of_latent
        return np.bincount(of_latent)[of_latent] == 1

    def _given_alone(self, thetas: ndarray, density: Density) -> Conditional:
        """Return what `given` does if every latent variable is a block, starting at rows of θ.

        Each climbs on its own, to a place of any shape: the grid takes its mass, and shows if there
        is a higher place, from which it climbs again.
        """
        order = self.sparsity.order

        def climbed(thetas: ndarray) -> tuple[ndarray, ndarray, ndarray]:
            values, curvatures = self._climb(thetas, density)
            factors = np.sqrt(curvatures[:, order])
            psis, modes = thetas[:, self.others], thetas[:, self.latent]
            return values, factors, self._on_grid(psis, modes, factors, density)

        values, factors, heights = found = climbed(thetas)
        # Row by row, since r(x | ψ) may depend on nothing but ψ.
        again = np.flatnonzero((heights.max(axis=2) > HIGHER).any(axis=1))
        higher = thetas[again]
        higher[:, self.latent[order]] += NODES[heights[again].argmax(axis=2)] / factors[again]
        for all_rows, new in zip(found, climbed(higher), strict=True):
            all_rows[again] = new
        thetas[again] = higher
        log_marginal = values + (log_integral(heights) - np.log(factors)).sum(axis=1)
        is_mode = np.isfinite(log_marginal)
        log_marginal = np.where(is_mode, log_marginal, -np.inf)
        modes = thetas[:, self.latent]
        return Conditional(modes, factors, log_marginal, is_mode, with_tails(heights))

    def _climb(self, thetas: ndarray, density: Density) -> tuple[ndarray, ndarray]:
        """Move latent variables uphill in place; return log p + ℓ and their curvatures.

        Newton's steps are halved for each until its own block rises. Where one rises at once, the
        next one is doubled, since on a slope such as that of −exp(x) each is only 1 long. Before
        that, none is longer than some ten deviations, which are 1e4 differences.
        """
        blocks, steps = cast(Blocks, self.blocks), self.steps
        by_block, slopes, of_latent = (
            density.by_block(blocks), density.slopes_in(self.latent), blocks.of_latent
        )  # fmt: skip
        heights, curvatures = by_block(thetas)[:, of_latent], np.empty((len(thetas), len(steps)))
        still, size = np.ones(curvatures.shape, dtype=bool), np.ones(curvatures.shape)
        for _ in range(MOST_STEPS):
            rows = np.flatnonzero(still.any(axis=1))
            if not len(rows):
                break
            left, here, before = still[rows], thetas[rows], heights[rows]
            moved = here.copy()
            moved[:, self.latent] += steps
            slope, bent = (slopes(each)[1][:, self.latent] for each in (here, moved))
            with np.errstate(invalid="ignore"):
                curvature = np.abs(slope - bent) / steps
            known = np.isfinite(curvature) & (curvature > 0)
            curvature = np.where(known, curvature, 1e-6 / steps**2)
            curvatures[rows] = np.where(left, curvature, curvatures[rows])
            left &= np.isfinite(slope)
            step = size[rows] * np.clip(slope / curvature, -1e4 * steps, 1e4 * steps)
            for halving in range(MOST_HALVINGS_ALONE):
                moved[:, self.latent] = here[:, self.latent] + np.where(left, step, 0.0)
                found = by_block(moved)[:, of_latent]
                rose = left & (found > heights[rows])
                if halving == 0:
                    size[rows] = np.where(rose, 2 * size[rows], 1.0)
                here[:, self.latent] = np.where(rose, moved[:, self.latent], here[:, self.latent])
                heights[rows] = np.where(rose, found, heights[rows])
                left, step = left & ~rose, step / 2
                if not left.any():
                    break
            thetas[rows] = here
            still[rows] &= heights[rows] > before + self.accuracy
        return slopes(thetas)[0], curvatures

    def _on_grid(
        self, psis: ndarray, modes: ndarray, factors: ndarray, density: Density
    ) -> ndarray:
        """Return by how much log f at the nodes exceeds that at z = 0, shape (n, d, nodes).

        All blocks of one element move at once, since their terms show how far each drops. For
        elements of other blocks they are the log heights of t₄, and √2π times as high.
        """
        blocks, order, is_alone = cast(Blocks, self.blocks), self.sparsity.order, self._is_alone
        n, d = modes.shape
        move = np.zeros((n, d))
        move[:, order] = 1 / factors[:, self.sparsity.starts[:-1]]
        thetas = np.empty((n, len(NODES), d + len(self.others)))
        thetas[:, :, self.others] = psis[:, None]
        thetas[:, :, self.latent] = modes[:, None] + NODES[:, None] * (move * is_alone)[:, None]
        found = density.by_block(blocks)(thetas.reshape(-1, thetas.shape[-1]))
        found = found[:, blocks.of_latent].reshape(n, len(NODES), d).swapaxes(1, 2)
        with np.errstate(invalid="ignore"):  # −∞ less −∞
            found = np.nan_to_num(found - found[:, :, [len(NODES) // 2]], nan=-np.inf)
        found = np.where(is_alone[:, None], found, HEIGHTS_OF_T4 + np.log(2 * np.pi) / 2)
        return np.clip(found[:, order], -1e4, 1e4)

    def _rise(self, thetas, values, gradients, active, step, rise, slopes):
        """Take Newton steps in place, halved until the density rises; return movers and gains."""
        before, taken = values[active].copy(), np.zeros(len(active), dtype=bool)
        left, size = np.arange(len(active)), 1.0
        for _ in range(MOST_HALVINGS):
            rows = active[left]
            trial = thetas[rows]
            trial[:, self.latent] += size * step[left]
            new, slope = slopes(trial)
            slack = 1e-12 * np.abs(before[left])
            with np.errstate(invalid="ignore"):
                rose = new >= before[left] + 1e-4 * size * rise[left] - slack
            rose &= np.isfinite(new) & np.isfinite(slope).all(axis=1)
            won = rows[rose]
            thetas[won], values[won], gradients[won] = trial[rose], new[rose], slope[rose]
            taken[left[rose]] = True
            left, size = left[~rose], size / 2
            if not len(left):
                break
        return taken, values[active] - before

    def precisions(self, thetas: ndarray, gradients: ndarray, density: Density) -> ndarray:
        """Return the entries of minus the second derivatives in x at every row, shape (n, E)."""
        groups, rows, columns = self.sparsity[:3]
        if self.separable:
            steps = 10 * self.steps  # since second differences lose more digits than first ones
            moved = np.repeat(thetas[:, None], len(self.separable.moves), axis=1)
            moved[:, :, self.latent] += self.separable.moves * steps
            by_term = density.by_block(self.separable.terms)
            values = by_term(moved.reshape(-1, thetas.shape[1]))[:, :-1]
            with np.errstate(invalid="ignore"):  # −∞ less −∞
                entries = self.separable.entries(values.reshape(*moved.shape[:2], -1))
            return -entries / (steps[rows] * steps[columns])
        slopes = density.slopes_in(self.latent)
        if combination := self.combination:
            rows, columns = rows[combination.measured], columns[combination.measured]
        used, place = np.unique(groups[columns], return_inverse=True)
        offsets = np.zeros((len(used), thetas.shape[1]))
        offsets[:, self.latent] = np.where(groups == used[:, None], self.steps, 0.0)
        moved = thetas[:, None] + offsets
        slope = slopes(moved.reshape(-1, thetas.shape[1]))[1].reshape(moved.shape)
        rows, columns = self.latent[rows], self.latent[columns]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # entries may be ∞
            change = gradients[:, rows] - slope[:, place, rows]
            entries = change / (moved[:, place, columns] - thetas[:, columns])
        return combination.complete(entries) if combination else entries
