"""Nested reference whose independent blocks of latent variables are weighed one by one."""

from typing import NamedTuple, cast

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.contract import Blocks, Density
from pymc_bdmc.reference.grid import HEIGHTS_OF_T4, cdf, masses_of, quantile
from pymc_bdmc.reference.nested import MOST_NUMBERS, NestedReference
from pymc_bdmc.reference.sparse import times_root, unroot

LARGEST_BLOCK = 1 / 8
"""Share of the latent variables that a block may have after others were taken out. Chosen."""


def parts_of(pattern: csr_array) -> ndarray:
    """Return the connected part of a precision's pattern that every latent variable is in."""
    return connected_components(pattern, directed=False)[1]


def separating(pattern: csr_array, most: int) -> ndarray:
    """Return at most so many latent variables without which the others fall into blocks.

    Variables with most neighbours, such as coefficients that all observations share, go first,
    until no block has over `LARGEST_BLOCK` of the rest.
    """
    d = pattern.shape[0]
    order = np.argsort(-np.diff(pattern.indptr), kind="stable")
    for m in range(min(most, d - 1) + 1):
        rest = np.sort(order[m:])
        if np.bincount(parts_of(pattern[rest][:, rest])).max() <= LARGEST_BLOCK * (d - m):
            return order[:m]
    return order[:0]


class BlockReference(NamedTuple):
    r"""Distribution of several draws of every block of x given ψ, of which each gives one.

    If log p + ℓ is c(ψ) + Σ_j f_j(ψ, x_j) for blocks x_1 … x_J, and r(x | ψ) = Π_j r_j(x_j | ψ),
    then with n draws x_ij of every block

    .. math::
        w = \frac{e^{c(ψ)}}{r(ψ)}
            \prod_j \frac{1}{n} \sum_i \frac{e^{f_j(ψ, x_{ij})}}{r_j(x_{ij} | ψ)}

    has the expectation Z, and x takes one draw of every block by its weight. If θ is given, its
    blocks take the places of draws at uniformly chosen indices. The law of all draws is then w/Z
    times the one above, so 1/w has the expectation 1/Z. The relative variance of w grows like the
    number of blocks, and not exponentially: pseudo-marginal importance sampling (Andrieu and
    Roberts 2009; Tran, Kohn, Quiroz and Villani 2016).

    The draws of a block are a randomly shifted lattice, turned into nearly t₄ distributed numbers
    (Hickernell, Lemieux and Owen 2005). All its points are uniform, and one gives the others,
    whatever its index. If the core has densities on a grid, these take the place of t₄.
    """

    core: NestedReference
    """r(ψ), and the modes and precisions of x given ψ."""
    draws: int
    """n, a power of 2 from 8 on."""

    @property
    def effort(self) -> int:
        """The number of draws."""
        return self.draws

    @property
    def knows_tails(self) -> bool:
        """True, since ψ has few elements."""
        return True

    def sample(self, n: int, rng: Generator, density: Density) -> tuple[ndarray, ndarray]:
        """Draw θ, one a row, and return log f(θ) − log w too, nats."""
        return self._weighed(self.core.marginal.draw(n, rng), None, density, rng)

    def log_density(self, thetas: ndarray, density: Density, rng: Generator) -> ndarray:
        """Return log f(θ) − log w of draws among which are the rows of ``thetas``, nats."""
        phis = self.core.to_units(thetas[:, self.core.others])
        return self._weighed(phis, thetas[:, self.core.latent], density, rng)[1]

    @property
    def _blocks(self) -> Blocks:
        return cast(Blocks, self.core.blocks)

    def _weighed(
        self, phis: ndarray, kept: ndarray | None, density: Density, rng: Generator
    ) -> tuple[ndarray, ndarray]:
        """Return θ of every row of φ, and log r; x is the kept one, or chosen by its weights."""
        numbers = self.draws * (len(self.core.latent) + len(self.core.others))
        at_once = max(MOST_NUMBERS // numbers, 1)
        parts = [
            self._weighed_at_once(
                phis[i : i + at_once], None if kept is None else kept[i : i + at_once], density, rng
            )
            for i in range(0, max(len(phis), 1), at_once)
        ]
        ends, log_r = map(np.concatenate, zip(*parts, strict=True))
        return ends, log_r

    def _weighed_at_once(self, phis, kept, density, rng):
        nested, blocks, n, m = self.core, self._blocks, self.draws, len(phis)
        psis, of_z = nested.from_units(phis), blocks.of_latent[nested.sparsity.order]
        found = nested.given(psis, density)
        own = np.full_like(found.modes, np.nan)
        if kept is not None:
            own[:] = kept - found.modes
            times_root(nested.sparsity, found.factors, own)
        places = rng.integers(n, size=(m, blocks.number))
        x, log_r_x = draw_blocks(nested.sparsity, found, of_z, _lattice(n, of_z), own, places, rng)
        thetas = np.empty((m, n, len(nested.latent) + len(nested.others)))
        thetas[:, :, nested.others], thetas[:, :, nested.latent] = psis[:, None], x
        by_block = density.by_block(blocks)(thetas.reshape(-1, thetas.shape[-1]))
        log_f = by_block[:, :-1].reshape(m, n, blocks.number)
        log_r = choose_blocks(log_f - log_r_x, places, kept is not None, rng)
        with np.errstate(over="ignore", invalid="ignore"):  # −1e308 less 1e308, ∞ less ∞
            log_r += np.take_along_axis(log_f, places[:, None], 1)[:, 0].sum(axis=1)
        chosen = np.arange(m)[:, None], places[:, blocks.of_latent], nested.latent
        ends = thetas[:, 0].copy()
        ends[:, nested.latent] = thetas[chosen]
        return ends, nested.log_marginal(phis) + np.where(np.isnan(log_r), np.inf, log_r)


def _lattice(n: int, of_z: ndarray) -> ndarray:
    """Return the points of a lattice in every block, shape (n, d), of Korobov's form.

    Powers of 3 modulo n repeat after n/4 elements of a block; those beyond are NaN.
    """
    order = np.argsort(of_z, kind="stable")
    first = np.searchsorted(of_z[order], of_z[order])
    within = np.empty(len(of_z), dtype=int)
    within[order] = np.arange(len(of_z)) - first
    steps = np.array([pow(3, k, n) for k in range(n // 4)])
    points = np.arange(n)[:, None] * steps % n / n
    return np.where(within < len(steps), points[:, np.minimum(within, len(steps) - 1)], np.nan)


@njit(nogil=True, cache=True)
def draw_blocks(sparsity, found, of_z, lattice, own, places, rng):
    """Return n draws of x at every ψ, and the log densities of their blocks, nats.

    z of the draws at the places of their blocks is ``own``, or NaN if none is kept.
    """
    (n, d), (rows, number) = lattice.shape, places.shape
    x, log_r = np.empty((rows, n, d)), np.zeros((rows, n, number))
    factors = np.empty((n, found.factors.shape[1]))
    heights, masses = HEIGHTS_OF_T4.copy(), np.empty(len(HEIGHTS_OF_T4) + 1)
    masses_of(heights, masses)
    for row in range(rows):
        z, factor = x[row], found.factors[row]
        for e in range(d):
            block, kept = of_z[e], own[row, e]
            place = -1 if np.isnan(kept) else places[row, block]
            shift, log_r_kept = rng.random(), 0.0
            if found.heights.shape[1]:
                heights[:] = found.heights[row, e]
                masses_of(heights, masses)
            if place >= 0:
                u, log_r_kept = cdf(kept, heights, masses)
                shift = u - lattice[place, e]
            log_scale = np.log(factor[sparsity.starts[e]])
            for i in range(n):
                u = lattice[i, e] + shift
                if np.isnan(u):
                    u = rng.random()
                if i == place:
                    z[i, e], log_r_i = kept, log_r_kept
                else:
                    z[i, e], log_r_i = quantile(u - np.floor(u), heights, masses)
                log_r[row, i, block] += log_scale + log_r_i
        factors[:] = factor
        unroot(sparsity, factors, z)
        z += found.modes[row]
    return x, log_r


@njit(nogil=True, cache=True)
def choose_blocks(log_w, places, is_kept, rng):
    """Choose a draw of every block by its weight, if none is kept, and write its place.

    Return minus the sum over blocks of the log of the mean weight, nats; ∞ if one is not positive.
    """
    rows, n, number = log_w.shape
    totals = np.zeros(rows)
    for row in range(rows):
        for j in range(number):
            highest = -np.inf
            for i in range(n):
                highest = max(highest, log_w[row, i, j])
            if not -np.inf < highest < np.inf:
                totals[row] = np.inf
                continue
            mass = 0.0
            for i in range(n):
                mass += np.exp(log_w[row, i, j] - highest)
            if not is_kept:
                left = mass * rng.random()
                for i in range(n):
                    left -= np.exp(log_w[row, i, j] - highest)
                    places[row, j] = i
                    if left < 0.0:
                        break
            totals[row] -= highest + np.log(mass / n)
    return totals
