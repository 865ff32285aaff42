"""Fit a reference that is normal in the latent variables given the few others, and check it."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from scipy.sparse import csr_array, diags_array
from scipy.special import softmax

from pymc_bdmc.fits import limits
from pymc_bdmc.fits.adapt import adapted
from pymc_bdmc.fits.modes import SEARCHES, LogDensity, Modes, ascend_by_gradients, find_modes
from pymc_bdmc.reference.blocks import parts_of, separating
from pymc_bdmc.reference.contract import Blocks, Density, Slopes
from pymc_bdmc.reference.grid import log_density_at
from pymc_bdmc.reference.metric import spread_of
from pymc_bdmc.reference.nested import (
    MOST_LATENT,
    MOST_NUMBERS,
    MOST_OTHERS,
    Conditional,
    NestedReference,
)
from pymc_bdmc.reference.sparse import combination_of, separable_of, sparsity_of, times_root
from pymc_bdmc.reference.student import Reference, make_reference, mix_references, no_reference

MOST_COLUMNS = 500
"""Most differences of gradients that give a precision of x. Chosen: with 300, a fit finds log ML
where annealed runs do not, in a quarter of their time to two and a half times as long."""
MANY_LATENT = 50
"""Latent variables from which normal ones that join all others become parameters. Chosen: with
fewer, joint draws of all are even enough."""
LOOSE, TIGHT = 1e-3, 1e-8
"""Accuracy of modes for draws, and for the marginal density, in nats. The precision is that before
the last Newton step. So with the first one, log det H of thousands of groups is nats off."""
WIDE = 0.1
"""Share of r(ψ) that is as wide as the prior. Chosen: weights are at most 10 times as large as with
it alone, and their relative variance is 0.11 larger than without it."""
MOST_PROBED = 64
"""States at which latent variables are probed, or from which other modes of them are sought.
Chosen: of 48 fits to y ~ N(sin x, 0.2), all but two were found to have several modes."""
REMOTE = np.array([5.0, 6, 8, 12, 16, 24, 32, 48, 64])
"""Deviations from the mode at which what is assumed of latent variables is asked. Draws show what
is nearer."""
EXACT = 1e-5
"""Error of a normal density a deviation from the mode, nats. Differences are off by less."""


class NoFit(Exception):
    """No reference can be fitted; what `Fit` then says."""

    def __init__(self, reason: str, misses: bool = False, log_weights: ArrayLike = ()):
        super().__init__(reason)
        self.misses, self.log_weights = misses, np.asarray(log_weights, dtype=float)


class Structure(NamedTuple):
    """Structure of a model: the elements of θ whose prior is normal given the others, and more."""

    latent: ndarray
    """Whether an element is latent, shape (n,)."""
    units: ndarray
    """Element that is the logarithm of each element's unit, or −1; shape (n,)."""
    is_centred: bool
    """Whether the scale of some effects is unknown, so that the posterior may have a neck."""
    has_heavy_tails: bool
    """Whether a prior has polynomial tails, which the posterior has too if ℓ is flat there."""
    must_split: bool = False
    """Whether the latent variables, which may be of any family, must be several blocks."""

    @property
    def may_nest(self) -> bool:
        """Whether there are latent elements, and a few others."""
        n = self.latent.sum()
        return 0 < len(self.latent) - n <= MOST_OTHERS and 1 < n <= MOST_LATENT

    @property
    def title(self) -> str:
        """Numbers of elements in words."""
        sizes = {"parameter": (~self.latent).sum(), "latent variable": self.latent.sum()}
        return ", ".join(f"{n} {name}{'s' * int(n > 1)}" for name, n in sizes.items())


class Marginal(Density):
    """Laplace approximation of the marginal density of φ; r(ψ) of the reference is not used."""

    def __init__(self, reference: NestedReference, density: Density):
        super().__init__()
        self._reference, self._density = reference, density

    @property
    def evaluations(self) -> int:
        """Number of evaluations of log p + ℓ so far."""
        return self._density.evaluations

    def terms(self, phis: ndarray) -> ndarray:
        """Return the log density of every row as the second column; the first is 0."""
        found = self._reference.log_laplace(phis, self._density)
        return np.stack([np.zeros_like(found), found], axis=1)

    def slopes(self, phis: ndarray) -> tuple[ndarray, ndarray]:
        """Return the log density of every row, and its gradient by differences."""
        n, k = phis.shape
        step = 1e-2  # on the unconstrained scale
        moves = step * np.concatenate([np.zeros((1, k)), np.eye(k), -np.eye(k)])
        values = self.terms((phis[:, None] + moves).reshape(-1, k))[:, 1].reshape(n, -1)
        up, down = np.split(values[:, 1:], 2, axis=1)
        with np.errstate(invalid="ignore"):  # −∞ less −∞
            return values[:, 0], (up - down) / (2 * step)

    def draw_prior(self, n: int, rng: Generator) -> ndarray:
        """Draw φ from its prior, one a row."""
        thetas = self._density.draw_prior(n, rng)
        return self._reference.to_units(thetas[:, self._reference.others])


def fit_nested(
    density: Density, prior: ndarray, ells: ndarray, structure: Structure, rng: Generator,
    steps: ndarray | None = None,
) -> tuple[NestedReference, Modes]:  # fmt: skip
    """Fit a nested reference to first data, with ℓ of the prior draws; return it and its search.

    The likeliest draw shows which latent variables depend on each other, and Newton's method starts
    there. If a logit, say, is flat there, no mode is found from it. Then x is moved to the mode of
    its prior, which gives the steps of differences too: a vague one spreads draws over decades.
    """
    latent, others = np.flatnonzero(structure.latent), np.flatnonzero(~structure.latent)
    units = structure.units[others]
    units = np.where(units >= 0, np.searchsorted(others, units), -1)
    likely = prior[np.argsort(-ells, kind="stable")]
    slopes = density.slopes_in(latent)
    values, gradients = slopes(likely[:16])
    usable = np.flatnonzero(np.isfinite(values) & np.isfinite(gradients).all(axis=1))
    if len(usable) < 2:
        raise NoFit("log p has no finite gradient at the likeliest prior draws")
    is_first = steps is None
    spread = spread_of(prior).scale[latent] if steps is None else 1e4 * steps
    steps = 1e-4 * spread
    first, second = (_pattern(slopes, likely[i], gradients[i], latent, steps) for i in usable[:2])
    pattern = first + second
    apart = separating(pattern, MOST_OTHERS - len(others))
    if len(apart) and (structure.must_split or len(latent) >= MANY_LATENT):
        is_latent = structure.latent.copy()
        is_latent[latent[apart]] = False
        return fit_nested(density, prior, ells, structure._replace(latent=is_latent), rng)
    of_latent = parts_of(pattern)
    if structure.must_split and not of_latent.any():
        raise NoFit("the latent variables are not independent given the others")
    found = NestedReference(
        no_reference(), np.empty((0, len(others))), others, units, latent,
        likely[usable[:1]][:, latent], steps, sparsity_of(pattern), np.inf, LOOSE,
    )  # fmt: skip
    if (groups := int(found.sparsity.groups.max()) + 1) > MOST_COLUMNS:
        raise NoFit("too many of the latent variables depend on each other")
    if groups > 8:  # with fewer, a combination saves little
        found = _with_few_differences(found, density, likely[usable], gradients[usable], groups)
    first = found.given(likely[usable[:1]][:, others], density)
    if is_first and not first.is_mode[0]:
        moved, units = _prior_mode(density, latent, likely[usable[0]], steps)
        prior, ells = np.vstack([moved, prior]), np.append(np.inf, ells)
        return fit_nested(density, prior, ells, structure, rng, 1e-4 * units)
    found = _started(found, first) if first.is_mode[0] else found._replace(starts=first.modes)
    phis = found.to_units(likely[: 8 * SEARCHES, others])
    heights = Marginal(found, density).terms(phis)[:, 1]
    if not np.isfinite(heights).any():
        raise NoFit("the latent variables have no mode given the others")
    search = partial(
        find_modes, starts=phis[np.argsort(-heights, kind="stable")],
        metric=spread_of(found.to_units(prior[:, others])), searches=SEARCHES,
        overlooked=limits.OVERLOOKED,
    )  # fmt: skip
    fitted = partial(
        _fitted, density=density, search=search, prior=prior, n_starts=MOST_PROBED, rng=rng,
        checked=64 * (1 + len(others)),  # draws of φ that judge and improve the marginal
    )  # fmt: skip
    split = partial(_split, density, likely[usable[:2]], latent, of_latent, spread)
    try:
        found, modes = fitted(found)
    except NoFit:
        if np.bincount(of_latent).max() > 1 or not (blocks := split()):
            raise
        found, modes = fitted(found._replace(blocks=blocks, is_on_grid=True))
    if np.isfinite(found.accuracy) and of_latent.any() and not found.blocks:
        found = found._replace(blocks=split())
    return found, modes


def _with_few_differences(
    found: NestedReference, density: Density, likely: ndarray, gradients: ndarray, groups: int
) -> NestedReference:
    """Return the reference with a quicker way to its precisions, if likely rows show one."""
    rows, columns = found.sparsity.rows, found.sparsity.columns
    entries = found.precisions(likely, gradients, density)
    if combination := combination_of(entries, found.sparsity.groups[columns]):
        return found._replace(combination=combination)
    if separated := density.separate(found.latent, likely[:2], found.steps):
        return found._replace(separable=separable_of(*separated, rows, columns, groups))
    return found


def _prior_mode(
    density: Density, latent: ndarray, theta: ndarray, steps: ndarray
) -> tuple[ndarray, ndarray]:
    """Return θ with x at the mode of its prior given ψ, by L-BFGS, and the widths of this prior."""
    place = theta.copy()

    def log_prior(x: ndarray) -> tuple[float, ndarray]:
        place[latent] = x
        value, gradient = density.prior(place)
        return value, gradient[latent]

    start = theta[latent]
    curvature = np.abs(log_prior(start + steps)[1] - log_prior(start)[1]) / steps
    units = np.fmax(curvature, 1e-8 / steps**2) ** -0.5  # no wider than all draws
    end = ascend_by_gradients(log_prior, start, diags_array(units))
    place[latent] = start if end is None else end
    return place, units


def _split(
    density: Density, likely: ndarray, latent: ndarray, of_latent: ndarray, spread: ndarray
) -> Blocks | None:
    """Return `Density.split` by two likely rows, and by remote ones on both sides of the first.

    Terms may depend on a latent variable on one side only.
    """
    rows = np.repeat(likely, [5, 1], axis=0)
    rows[1:5, latent] += np.outer([-8, -1, 1, 8], spread)
    return density.split(latent, of_latent, rows)


def refit_nested(
    density: Density, known: NestedReference, prior: ndarray, rng: Generator
) -> tuple[NestedReference, Modes]:
    """Fit a nested reference to similar data; see `fit_nested`."""
    modes = known.marginal_modes
    first = known.given(known.from_units(modes[:1]), density)
    found = _started(known._replace(degrees_of_freedom=np.inf), first)
    checked = min(128, 32 * (1 + len(known.others)))
    search = partial(
        find_modes, starts=chain(modes, known.to_units(prior[:, known.others])),
        metric=known.marginal.metric(0), searches=len(modes),
        overlooked=limits.OVERLOOKED if len(modes) > 1 else 1.0,
    )  # fmt: skip
    return _fitted(found, density, search, checked, prior, 0, rng)


def _fitted(
    found: NestedReference, density: Density, search: Callable[[LogDensity], Modes],
    checked: int, prior: ndarray, n_starts: int, rng: Generator
) -> tuple[NestedReference, Modes]:  # fmt: skip
    """Fit r(ψ), and find whether r(x | ψ) is exact.

    The marginal density may have no mode: for a matrix of two unknown scales it is flat towards a
    scale of 0. So some draws come from a distribution as wide as the prior.
    """
    phis = found.to_units(prior[:, found.others])
    wide = make_reference(np.median(phis, axis=0), spread_of(phis))
    tight = found if np.isinf(found.accuracy) else found._replace(accuracy=TIGHT)
    modes = search(Marginal(tight, density))
    modes = modes._replace(reason=f"marginally, {modes.reason}")
    is_single = modes.reference is None or len(modes.reference.locations) == 1
    if modes.is_unfinished or not (is_single or modes.is_all):
        raise NoFit(modes.reason, modes.is_unfinished)
    mixture = modes.reference
    first = mixture or (found.marginal if len(found.marginal.locations) else wide)

    def with_tails(reference: Reference) -> Reference:
        return mix_references([reference, wide], np.array([1 - WIDE, WIDE]))

    uneven = (1 + limits.UNEVEN) / (1 - WIDE) - 1
    drawn = adapted(Marginal(tight, density), first, checked, rng, with_tails, uneven)
    if np.isinf(drawn.variance):
        raise NoFit("the latent variables have no mode given the others")
    heights = drawn.g + drawn.reference.log_density(drawn.thetas)
    best = found.from_units(drawn.thetas[[np.argmax(heights)]])
    n = 4 * (1 + len(found.others))  # modes of x per coefficient of the regression that predicts it
    psis = found.from_units(drawn.thetas[rng.choice(len(drawn.g), size=n, p=softmax(drawn.g))])
    at = np.concatenate([best, psis])[: max(n_starts, 1)]
    check_modes(found, density, at, prior[:n_starts])
    found = _started(found, found.given(best, density))._replace(
        marginal=drawn.reference,
        marginal_modes=mixture.locations if mixture else drawn.reference.locations[:1],
    )
    if found.is_on_grid:
        return _predicting(found._replace(accuracy=LOOSE), density, psis), modes
    if (lost := lost_by_rounding(found, density, psis)) > limits.RESOLVED:
        raise NoFit(
            "the data hardly inform a combination of the latent variables, and rounding hides what "
            f"its wide prior says (up to {min(lost, 1):.0%} of its precision)"
        )
    if is_exact(found, density, rng):
        return found._replace(accuracy=np.inf), modes
    found = _predicting(found._replace(accuracy=LOOSE), density, psis)
    return found._replace(degrees_of_freedom=float(max(len(found.latent), 10))), modes


def _started(found: NestedReference, centre: Conditional) -> NestedReference:
    """Return the reference that starts Newton's method at a mode, with steps by its precision."""
    steps = np.minimum(1e-3 * deviations(found, centre)[0], 10 * found.steps)
    return found._replace(starts=centre.modes[:1], steps=steps)


def _predicting(found: NestedReference, density: Density, psis: ndarray) -> NestedReference:
    """Return the reference that predicts Newton's starts by a regression of modes on φ."""
    modes = found.given(psis, density).modes
    predicting = found._replace(starts=np.zeros((1 + len(found.others), len(found.latent))))
    return found._replace(starts=np.linalg.lstsq(predicting.features(psis), modes, rcond=None)[0])


def _pattern(
    slopes: Slopes, theta: ndarray, gradient: ndarray, latent: ndarray, steps: ndarray
) -> csr_array:
    """Return the pattern of nonzero entries of the precision of x, by differences of gradients."""
    rows, columns, sizes = [], [], []
    d, at_once = len(latent), max(MOST_NUMBERS // len(theta), 1)
    for first in range(0, d, at_once):
        moving = np.arange(first, min(first + at_once, d))
        moved = np.tile(theta, (len(moving), 1))
        moved[np.arange(len(moving)), latent[moving]] += steps[moving]
        change = np.abs(slopes(moved)[1] - gradient)[:, latent] / steps[moving, None]
        of_moving, row = np.nonzero(change)
        rows.append(row)
        columns.append(moving[of_moving])
        sizes.append(change[of_moving, row])
    data = np.concatenate(sizes), (np.concatenate(rows), np.concatenate(columns))
    size = csr_array(data, shape=(d, d))
    size = (size + size.T).tocoo()
    unit = np.sqrt(np.maximum(size.diagonal(), np.finfo(float).tiny))
    matter = size.data > 1e-7 * unit[size.row] * unit[size.col]
    row, column = (np.append(each[matter], np.arange(d)) for each in (size.row, size.col))
    return csr_array((np.ones(len(row)), (row, column)), shape=(d, d))


def check_modes(found: NestedReference, density: Density, psis: ndarray, prior: ndarray) -> None:
    """Raise an error if x has no mode given the first ψ, or several given one of them.

    Newton's method starts at the prior draws of x, if any, at each ψ in turn. Another mode, over a
    standard deviation away, matters if its Laplace approximation is at most 7 nats lower. If many
    elements have two modes, each end is far below the highest mode, so the search goes on from
    states in which only one element is that of an end. If r(x | ψ) is on a grid, only what it
    misses at the ends matters.
    """
    centres = found.given(psis, density)
    if not centres.is_mode[0]:
        raise NoFit("the latent variables have no mode given the others")
    if not len(prior):
        return
    at, starts = np.resize(np.arange(len(psis)), len(prior)), prior[:, found.latent]
    for _ in range(2):
        ends = found.given(psis[at], density, starts)
        distances = ends.modes - centres.modes[at]
        is_apart = np.abs(distances) > deviations(found, centres)[at]
        if found.is_on_grid:
            n = int((_missed_at(found, psis, centres, ends, at, density) > limits.MISSED).sum())
        else:
            times_root(found.sparsity, centres.factors[at], distances)
            with np.errstate(over="ignore"):
                is_other = ends.is_mode & ((distances**2).sum(axis=1) > 1)
            n = int((is_other & (ends.log_marginal > centres.log_marginal[at] - 7)).sum())
        if n:
            reason = f"{n} of {len(starts)} searches ended at a further one"
            raise NoFit(f"the latent variables have several modes given the others ({reason})")
        if found.is_on_grid:
            return
        row, element = np.nonzero(is_apart & is_other[:, None])
        row, element = row[:MOST_PROBED], element[:MOST_PROBED]
        at, alone = at[row], np.arange(len(row))
        starts = centres.modes[at]
        starts[alone, element] = ends.modes[row, element]


def _missed_at(
    found: NestedReference, psis: ndarray, centres: Conditional, ends: Conditional, at: ndarray,
    density: Density,
) -> ndarray:  # fmt: skip
    """Estimate the share of x given ψ, by row, at modes where r(x | ψ) on a grid has too little."""
    blocks = cast(Blocks, found.blocks)
    thetas = np.empty((2, len(at), len(found.latent) + len(found.others)))
    thetas[:, :, found.others] = psis[at]
    thetas[:, :, found.latent] = ends.modes, centres.modes[at]
    of_blocks = density.by_block(blocks)(thetas.reshape(-1, thetas.shape[2]))
    above, below = of_blocks[:, blocks.of_latent].reshape(2, len(at), -1)
    units, widths = deviations(found, centres)[at], deviations(found, ends)
    z, places = (ends.modes - centres.modes[at]) / units, np.argsort(found.sparsity.order)
    log_r, highest = (
        _log_conditional(centres, at[:, None], places, each[:, :, None])[:, :, 0]
        for each in (z, np.zeros_like(z))
    )
    log_p = np.minimum(above - below + highest, 99.0)
    masses = np.exp(log_p) * np.sqrt(2 * np.pi) * widths / units
    return np.where(log_p - log_r > limits.RARE, masses, 0.0).sum(axis=1)


def lost_by_rounding(found: NestedReference, density: Density, psis: ndarray) -> float:
    """Return the largest share of a pivot of the precision of x that rounding may take.

    A pivot p_j, a squared diagonal entry of the Cholesky factor, is what is left of H_jj after the
    elimination of other elements. H_jj is a difference of gradients over a step h_j. Rounding of
    x_j by ε|x_j| alone takes a share of ε|x_j| H_jj/(h_j p_j) of the pivot, and half as many nats
    of the log volume. h_j √H_jj is about 1e-3, so this share grows like the 3/2 power of the
    condition number. If such errors do not cancel, pivots depend on the steps.
    """
    references = found, found._replace(steps=1.5 * found.steps)
    first, second = (each.given(psis, density) for each in references)
    if not (first.is_mode & second.is_mode).all():
        return np.inf
    order, diagonal = found.sparsity.order, found.sparsity.starts[:-1]
    pivots, others = first.factors[:, diagonal] ** 2, second.factors[:, diagonal] ** 2
    moved = np.finfo(float).eps * np.abs(first.modes) / found.steps
    rounded = moved[:, order] * _diagonals(found, first) / pivots
    return float(np.maximum(rounded, np.abs(others / pivots - 1)).max())


def is_exact(found: NestedReference, density: Density, rng: Generator) -> bool:
    """Return whether the density is normal in x given ψ, by a few draws and by points far out.

    A density that is not normal everywhere, such as one with a kink, may be normal wherever draws
    lie. So it is asked at points 5 to 64 deviations away, on both sides of every latent variable.
    All of them move at once, by ± the same distance in z, so that independent ones are all asked,
    and directions in which others vary together too. The error may grow like the drop itself, since
    differences give the precision.
    """
    thetas, log_r = found.sample(8, rng, density)
    phis = found.to_units(thetas[:, found.others])
    log_x = log_r - found.log_marginal(phis)
    log_laplace = found.log_laplace(phis, density)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        misses = density.slopes(thetas)[0] - log_laplace - log_x
    if not np.abs(misses).max() < EXACT:
        return False
    psis, d = thetas[:4, found.others], len(found.latent)
    signs = rng.choice([-1.0, 1.0], (len(psis), d))
    far = np.concatenate([-REMOTE, REMOTE])
    psis, signs, far = np.repeat(psis, len(far), 0), np.repeat(signs, len(far), 0), np.tile(far, 4)
    centres = found.given(psis, density)
    thetas = found.join(psis, centres, far[:, None] * signs)
    with np.errstate(invalid="ignore"):
        misses = density.heights(thetas) - centres.log_marginal
        misses -= found.log_conditional(centres, far[:, None] * signs)
    return bool((np.abs(misses) < EXACT * far**2).all())


def share_in_tails(found: NestedReference, density: Density, rng: Generator) -> float:
    """Estimate the share of the posterior in tails of single latent variables that r(x | ψ) lacks.

    Noise with heavy tails gives each latent variable a long shoulder from the mode near its
    observation towards its prior, which no draws from a normal distribution reach, so that their
    weights may be even. So log p + ℓ is integrated along variables where it exceeds the density of
    r by more than `RARE` nats: at many ψ, drawn by the Laplace approximation, since the shoulder
    may be long at some ψ only. One variable of each block moves, all at once, since their terms
    show how far each drops: a share that is missed in one block is missed of the whole posterior.
    """
    n, d, blocks = MOST_PROBED, len(found.latent), found.blocks
    phis = found.marginal.draw(n, rng)
    log_w = found.log_laplace(phis, density) - found.marginal.log_density(phis)
    psis = found.from_units(phis[rng.choice(n, size=n, p=softmax(log_w))])
    centres, row = found.given(psis, density), np.arange(n)[:, None]
    of_latent = blocks.of_latent if blocks else np.zeros(d, dtype=int)
    sizes, shuffled = np.bincount(of_latent), np.lexsort([rng.random(d), of_latent])
    within = (row + rng.integers(sizes)) % sizes
    probed = shuffled[np.cumsum(sizes) - sizes + within]
    # At random places, so that those of a grid are no better known than others.
    z = np.append(-REMOTE[::-1], REMOTE) * np.exp(rng.uniform(-0.07, 0.07, (n, 1)))
    at = found.join(psis, centres, np.zeros((n, d)))
    thetas = np.repeat(at[:, None], z.shape[1], axis=1)
    moves = z[:, :, None] * deviations(found, centres)[row, probed][:, None]
    thetas[row[:, :, None], np.arange(z.shape[1])[:, None], found.latent[probed][:, None]] += moves
    heights = density.by_block(blocks) if blocks else density.heights
    ends = np.concatenate([at, thetas.reshape(-1, at.shape[1])])
    of_ends = heights(ends).reshape(len(ends), -1)[:, : len(sizes)]
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        drops = (of_ends[n:].reshape(n, -1, len(sizes)) - of_ends[:n, None]).swapaxes(1, 2)
    places = np.argsort(found.sparsity.order)[probed]
    log_r, highest = (_log_conditional(centres, row, places, each[:, None]) for each in (z, 0 * z))
    log_p = np.minimum(drops + highest, 99.0)
    is_beyond = log_p - log_r > limits.RARE
    densities = np.where(is_beyond, np.exp(log_p), 0.0).reshape(*drops.shape[:2], 2, -1)
    sides = trapezoid(densities, z.reshape(n, 1, 2, -1), axis=3)
    missed = (sides.sum(axis=2) * sizes).sum(axis=1).mean()
    return float(missed / (1 + missed))


def _log_conditional(centres: Conditional, row: ndarray, places: ndarray, z: ndarray) -> ndarray:
    """Return log r of elements of z at places in the order of elimination, one a row, nats."""
    if not centres.heights.shape[1]:
        return -(z**2 + np.log(2 * np.pi)) / 2
    return log_density_at(z, centres.heights[row, places])


def deviations(found: NestedReference, centres: Conditional) -> ndarray:
    """Return the standard deviations of latent variables given all others, shape (n, d)."""
    conditional = np.empty_like(centres.modes)
    conditional[:, found.sparsity.order] = 1 / np.sqrt(_diagonals(found, centres))
    return conditional


def _diagonals(found: NestedReference, centres: Conditional) -> ndarray:
    """Return the diagonals of the precisions L Lᵀ in the order of elimination, shape (n, d)."""
    indices, d = found.sparsity.indices, len(found.latent)
    return np.array([np.bincount(indices, factor**2, d) for factor in centres.factors])
