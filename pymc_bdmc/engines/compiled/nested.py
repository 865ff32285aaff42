"""Fit a reference that is normal in the latent variables given the few others."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import softmax

from pymc_bdmc.engines.compiled.conditional import (
    RESOLVED,
    deviations,
    is_exact,
    lost_by_rounding,
    wrong_modes,
)
from pymc_bdmc.engines.compiled.counted import Counted
from pymc_bdmc.engines.compiled.improving import adapted
from pymc_bdmc.engines.compiled.tops import CLIMBS, OVERLOOKED, LogDensity, Tops, fit_to_tops
from pymc_bdmc.reference.combined import combination_of
from pymc_bdmc.reference.metric import spread_of
from pymc_bdmc.reference.nested import (
    MOST_LATENT,
    MOST_NUMBERS,
    MOST_OTHERS,
    Conditional,
    NestedReference,
)
from pymc_bdmc.reference.sparse import sparsity_of
from pymc_bdmc.reference.student import (
    Reference,
    Slopes,
    make_reference,
    metric_at,
    mix_references,
    no_reference,
)

MOST_COLUMNS, MOST_GROUPS = 200, 500
"""Most differences of gradients that give a precision of x; if few columns give all of it, or each
difference is much cheaper than a gradient of θ, the second number."""
RELEVANT = 1e-7
"""Smallest entry of a precision that counts, in units of its diagonal."""
POSITIVE_CLIMBS = 4
"""Fewest optimisations of the marginal on the first data set if all parameters are positive."""
SEARCHES, FEW_SEARCHES = 16, 8
"""Numbers of prior draws from which other modes of x given ψ are searched: for each optimisation of
the marginal, and on similar data. Chosen: of 48 fits to y ~ N(sin x, 0.2), all but two were refused
with 16, and all but eight with 8."""
PROBED = 8
"""Number of prior draws of ψ, per optimisation, among which the starts are chosen."""
CHECKED, FEW_CHECKED = 64, 32
"""Numbers of draws of ψ that judge and improve the marginal, per element of ψ and one more: on the
first data set, and on similar data, where there are at most `MOST_CHECKED`."""
MOST_CHECKED = 128
FIRST_WIDE, WIDE = 0.2, 0.1
"""Share of draws of ψ that are spread like the prior: at first, and in the final reference."""
EXAMPLES, FEW_GROUPS = 16, 8
"""Number of precisions, at prior draws, that show whether a few columns give all entries. With at
most as many groups of columns as the second number, this is not tried."""
PREDICTING = 4
"""Number of modes of x per coefficient of the regression that predicts modes."""
FIRST_STEP, STEP = 1e-4, 1e-3
"""Steps of differences in x, in standard deviations of the prior, then in conditional ones."""
MARGINAL_STEP = 1e-2
"""Step of differences in ψ, which are on the unconstrained scale."""
TIGHT, LOOSE = 1e-8, 1e-3
"""Accuracy of modes, in nats, for differences of the marginal and for draws."""
FEWEST_DEGREES = 10
"""Least degrees of freedom of r(x | ψ) if it is not normal; otherwise the number of elements."""


class NoFit(Exception):
    """No reference can be fitted.

    Parameters
    ----------
    reason : str
    misses : bool, optional
        Whether modes of the marginal may be unseen, since its search is not finished.
    """

    def __init__(self, reason: str, misses: bool = False):
        super().__init__(reason)
        self.misses = misses


class Split(NamedTuple):
    """The elements of θ whose prior is normal given the others, and the units of the others."""

    latent: np.ndarray
    """Whether an element is latent, shape (n,)."""
    units: np.ndarray
    """Element that is the logarithm of each element's unit, or −1; shape (n,)."""
    is_signed: bool
    """Whether some of the others may be negative, so that there may be a mode for either sign."""

    @property
    def is_possible(self) -> bool:
        """Whether a nested reference is: there are latent elements, and a few others."""
        n = self.latent.sum()
        return 0 < len(self.latent) - n <= MOST_OTHERS and 1 < n <= MOST_LATENT

    @property
    def title(self) -> str:
        """Return the numbers of elements in words."""
        latent = int(self.latent.sum())
        others = len(self.latent) - latent
        return (
            f"{others} parameter{'s' * (others > 1)}, {latent} latent variable{'s' * (latent > 1)}"
        )


class Marginal:
    """Laplace approximation of the marginal density of φ, with the counts of its density.

    Parameters
    ----------
    reference : NestedReference
        Its own r(ψ) is not used.
    density : Counted
    """

    def __init__(self, reference: NestedReference, density: Counted):
        self._reference, self._density = reference, density

    @property
    def evaluations(self) -> int:
        """Return the number of evaluations of log p + ℓ so far."""
        return self._density.evaluations

    def terms(self, phis: np.ndarray) -> np.ndarray:
        """Return the log density of every row as the second column; the first is 0."""
        found = self._reference.log_laplace(phis, self._density)
        return np.stack([np.zeros_like(found), found], axis=1)

    def slopes(self, phis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the log density of every row, and its gradient by differences."""
        n, k = phis.shape
        moves = MARGINAL_STEP * np.concatenate([np.zeros((1, k)), np.eye(k), -np.eye(k)])
        values = self.terms((phis[:, None] + moves).reshape(-1, k))[:, 1].reshape(n, -1)
        up, down = np.split(values[:, 1:], 2, axis=1)
        with np.errstate(invalid="ignore"):  # −∞ less −∞
            return values[:, 0], (up - down) / (2 * MARGINAL_STEP)

    def slopes_in(self, latent: np.ndarray) -> Slopes:
        """Return `slopes`, which gives all of the gradient."""
        return self.slopes

    def __call__(self, phi: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log density of one φ, and its gradient."""
        values, gradients = self.slopes(phi[None])
        return float(values[0]), gradients[0]

    def draw_prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw φ from its prior, one a row."""
        thetas = self._density.draw_prior(n, rng)
        return self._reference.to_units(thetas[:, self._reference.others])


def fit_nested(
    density: Counted, prior: np.ndarray, ells: np.ndarray, split: Split, rng: np.random.Generator
) -> tuple[NestedReference, str]:
    """Fit a nested reference to first data; return it, and what optimisations found.

    Parameters
    ----------
    density : Counted
    prior : ndarray of shape (P, n)
        Prior draws.
    ells : ndarray of shape (P,)
        ℓ there, nats.
    split : Split
    rng : numpy.random.Generator

    Raises
    ------
    NoFit
        If none can be fitted.
    """
    latent, others = np.flatnonzero(split.latent), np.flatnonzero(~split.latent)
    units = split.units[others]
    units = np.where(units >= 0, np.searchsorted(others, units), -1)
    likely = prior[np.argsort(-ells, kind="stable")]
    slopes = density.slopes_in(latent)
    values, gradients = slopes(likely[:EXAMPLES])
    usable = np.flatnonzero(np.isfinite(values) & np.isfinite(gradients).all(axis=1))
    if len(usable) < 2:
        raise NoFit("log p has no finite gradient at the likeliest prior draws")
    steps = FIRST_STEP * spread_of(prior).scale[latent]
    first, second = (_pattern(slopes, likely[i], gradients[i], latent, steps) for i in usable[:2])
    found = NestedReference(
        no_reference(), np.empty((0, len(others))), others, units, latent,
        likely[usable[:1]][:, latent], steps, sparsity_of(first + second), np.inf, LOOSE,
    )  # fmt: skip
    groups = int(found.sparsity.groups.max()) + 1
    if FEW_GROUPS < groups <= MOST_GROUPS:
        entries = found.precisions(likely[usable], gradients[usable], slopes)
        of_entry = found.sparsity.groups[found.sparsity.columns]
        found = found._replace(combination=combination_of(entries, of_entry))
    is_quick = found.combination is not None or slopes != density.slopes
    if groups > (MOST_GROUPS if is_quick else MOST_COLUMNS):
        raise NoFit("too many of the latent variables depend on each other")
    centre = found.given(likely[usable[:1]][:, others], density)
    found = _started(found, centre)
    wide = _wide(found.to_units(prior[:, others]))
    climbs, overlooked = (CLIMBS, OVERLOOKED) if split.is_signed else (POSITIVE_CLIMBS, 1.0)
    phis = found.to_units(likely[: PROBED * climbs, others])
    heights = Marginal(found, density).terms(phis)[:, 1]
    if not np.isfinite(heights).any():
        raise NoFit("the latent variables have no mode given the others")
    starts = phis[np.argsort(-heights, kind="stable")]
    find_tops = partial(
        fit_to_tops, starts=starts, metric=metric_at(wide, 0), climbs=climbs, overlooked=overlooked
    )
    checked = CHECKED * (1 + len(others))
    return _fitted(found, density, find_tops, checked, prior, SEARCHES * climbs, rng)


def refit_nested(
    density: Counted, known: NestedReference, prior: np.ndarray, rng: np.random.Generator
) -> tuple[NestedReference, str]:
    """Fit a nested reference to similar data; see `fit_nested`."""
    first = known.given(known.from_units(known.tops[:1]), density)
    found = _started(known._replace(degrees_of_freedom=np.inf), first)
    checked = min(MOST_CHECKED, FEW_CHECKED * (1 + len(known.others)))
    find_tops = partial(
        fit_to_tops, starts=chain(known.tops, known.to_units(prior[:, known.others])),
        metric=metric_at(known.marginal, 0), climbs=len(known.tops),
        overlooked=OVERLOOKED if len(known.tops) > 1 else 1.0,
    )  # fmt: skip
    return _fitted(found, density, find_tops, checked, prior, FEW_SEARCHES, rng)


def _wide(phis: np.ndarray) -> Reference:
    """Return a reference of φ as wide as its prior draws."""
    return make_reference(np.median(phis, axis=0), spread_of(phis))


def _widened(mixture: Reference, wide: Reference, share: float) -> Reference:
    """Return a mixture with a share of another reference."""
    return mix_references([mixture, wide], np.array([1 - share, share]))


def _fitted(
    found: NestedReference, density: Counted, find_tops: Callable[[LogDensity], Tops],
    checked: int, prior: np.ndarray, searched: int, rng: np.random.Generator,
) -> tuple[NestedReference, str]:  # fmt: skip
    """Fit r(ψ), and find whether r(x | ψ) is exact.

    The marginal density may have no mode. With a matrix of two unknown scales, for example, it is
    flat towards a scale of 0. So the first draws come partly from the prior.
    """
    wide = _wide(found.to_units(prior[:, found.others]))
    tight = found if np.isinf(found.accuracy) else found._replace(accuracy=TIGHT)
    tops = find_tops(Marginal(tight, density))
    reason = f"marginally, {tops.reason}"
    is_single = tops.reference is None or len(tops.reference.locations) == 1
    if tops.is_unfinished or not (is_single or tops.is_all):
        raise NoFit(reason, tops.is_unfinished)
    first = _widened(tops.reference, wide, FIRST_WIDE) if tops.reference else wide
    drawn = adapted(Marginal(found, density), first, checked, rng, lambda mixture: mixture)
    if np.isinf(drawn.variance):
        raise NoFit("the latent variables have no mode given the others")
    best = found.from_units(drawn.thetas[[np.argmax(drawn.g)]])
    n = PREDICTING * (1 + len(found.others))
    psis = found.from_units(drawn.thetas[rng.choice(len(drawn.g), size=n, p=softmax(drawn.g))])
    looked = np.concatenate([best, psis])[:searched]
    if wrong := wrong_modes(found, density, looked, prior[:searched]):
        raise NoFit(f"the latent variables have {wrong}")
    found = _started(found, found.given(best, density))
    found = found._replace(
        marginal=_widened(drawn.reference, wide, WIDE),
        tops=tops.reference.locations if tops.reference else drawn.reference.locations[:1],
    )
    if (lost := lost_by_rounding(found, density, psis)) > RESOLVED:
        raise NoFit(
            "the data hardly inform a combination of the latent variables, and rounding hides what "
            f"its wide prior says (up to {min(lost, 1):.0%} of its precision)"
        )
    if is_exact(found, density, rng):
        return found._replace(accuracy=np.inf), reason
    found = _predicting(found._replace(accuracy=LOOSE), density, psis)
    degrees_of_freedom = float(max(len(found.latent), FEWEST_DEGREES))
    return found._replace(degrees_of_freedom=degrees_of_freedom), reason


def _started(found: NestedReference, centre: Conditional) -> NestedReference:
    """Return the reference that starts Newton's method at a mode, with steps by its precision."""
    steps = np.minimum(STEP * deviations(found, centre)[0], 10 * found.steps)
    return found._replace(starts=centre.modes[:1], steps=steps)


def _predicting(found: NestedReference, density: Counted, psis: np.ndarray) -> NestedReference:
    """Return the reference that predicts Newton's starts by a regression of modes on φ."""
    modes = found.given(psis, density).modes
    predicting = found._replace(starts=np.zeros((1 + len(found.others), len(found.latent))))
    return found._replace(starts=np.linalg.lstsq(predicting.features(psis), modes, rcond=None)[0])


def _pattern(
    slopes: Slopes, theta: np.ndarray, gradient: np.ndarray, latent: np.ndarray, steps: np.ndarray
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
    matter = size.data > RELEVANT * unit[size.row] * unit[size.col]
    row, column = (np.append(each[matter], np.arange(d)) for each in (size.row, size.col))
    return csr_array((np.ones(len(row)), (row, column)), shape=(d, d))
