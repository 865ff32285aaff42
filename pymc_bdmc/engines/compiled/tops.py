"""Fit a reference to the tops of a posterior, by climbs and the curvature at their ends."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from pymc_bdmc.reference.metric import Metric, metric_of, root_of
from pymc_bdmc.reference.student import Reference, make_reference, mix_references

LogDensity = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Function that returns log p + ℓ of one θ and its gradient, nats; maybe NaN or −∞."""

MOST_ELEMENTS = 500
"""Most elements of θ. The curvature takes about two gradients for each element."""
CLIMBS, MOST_CLIMBS = 16, 64
"""Fewest climbs from prior draws on the first data set, and most. With 16 climbs, the chance that
all end at the same one of two tops with equal basins is 3e-5."""
OVERLOOKED = 1e-3
"""Largest chance, on the first data set, that the climbs miss one more top whose basin is as large.
This takes 16 climbs for one top, 20 for two, 48 for five and 58 for six."""
FEWEST = 2
"""Number of climbs after which the fit fails if there is no top yet."""
MOST_TOPS = 8
LOST, JUDGED = 0.25, 16
"""Largest share of climbs that may end at no top. A larger share is final after 16 climbs."""
MOST_STEPS, MOST_GRADIENTS = 150, 250
"""Limits of one climb."""
STEEP = 0.01
"""Slope at which a climb ends, in units of its metric."""
CORRECTIONS = 3
"""Most Newton steps after a climb."""
REACHED = 0.01
"""Nats below the top, by a Newton step, at which a climb has arrived."""
NEAR = 0.5
"""A climb has found a top if it ends within this many standard deviations per element."""
RARE = 0.02
"""Climbs end if tops that a single climb found hold at most this share of the posterior."""
SEEN_ONCE = 0.05
"""Climbs end if at most this share of them ended at tops that no other climb found. The next climb
ends at a new top with about this probability: Good (1953). Chosen."""
NOTABLE = 1e-3
"""Least share of the posterior, relative to the largest top, of a top that is kept."""
DIFFERENCE, LEAST, MOST = 1e-3, 1e-5, 1e-2
"""Step of finite differences, its least and its largest value, in conditional deviations."""
MOST_TRIALS = 4
"""Most steps of finite differences that are tried for an element."""


class Climbing(NamedTuple):
    """A way for `fit_to_tops` to climb a density and to measure its curvature."""

    climb: Callable[..., np.ndarray | None]
    """``climb(log_density, start, root, near)`` returns its last state, where it ends or is near a
    known top."""
    top: "Callable[..., tuple[float, Top | None]]"
    """``top(log_density, theta, unit)`` returns the height at the end of a climb, and the top there
    or None."""
    most_elements: int
    """Most elements of θ for which the curvature is affordable."""


class Tops(NamedTuple):
    """The tops that climbs found, as a reference."""

    reference: Reference | None
    """Mixture of a t distribution for each top that matters; None if there is none."""
    is_all: bool
    """Whether there is no sign of further tops."""
    reason: str
    is_unfinished: bool = False
    """Whether climbs keep finding new tops, high or low."""


@dataclass(frozen=True, eq=False)
class Top:
    """A maximum of the density, with its normal approximation."""

    theta: np.ndarray
    height: float
    metric: Metric
    whiten: np.ndarray
    """Inverse of the matrix L of `root_of`."""
    log_mass: float
    """Log of the normal approximation's integral, nats."""

    @classmethod
    def of(cls, theta: np.ndarray, height: float, covariance: np.ndarray) -> "Top":
        """Return a top with the shape of a covariance, shape (n, n)."""
        metric, (_, log_det) = metric_of(covariance), np.linalg.slogdet(2 * np.pi * covariance)
        return cls(theta, height, metric, np.linalg.inv(root_of(metric)), height + log_det / 2)

    def is_near(self, theta: np.ndarray) -> bool:
        """Return whether a state is so near that a climb from it would end here."""
        z = self.whiten @ (theta - self.theta)
        return bool(z @ z <= NEAR**2 * len(z))


def fit_to_tops(
    log_density: LogDensity,
    starts: Iterable[np.ndarray],
    metric: Metric,
    climbs: int,
    degrees_of_freedom: float | None = None,
    overlooked: float = 1.0,
    climbing: Climbing | None = None,
    most_lost: float = LOST,
) -> Tops:
    """Climb from several starts, and mix a t distribution for each top by the curvature there.

    Climbs go on while some end at tops that no other climb found, however low these are: the share
    of such climbs is about the chance that the next one finds a new top (Good 1953). Those tops
    must also hold little of the posterior. This is not enough if several tops are alike, as in a
    mixture with switched labels. So the number of climbs must also make it unlikely to miss one of
    n + 1 tops that are found with equal probability.

    Parameters
    ----------
    log_density : callable
        log p + ℓ of one θ of shape (n,), and its gradient.
    starts : iterable of ndarray of shape (n,)
        States from which climbs start, such as prior draws. States with a density that is not
        finite are left out.
    metric : Metric
        Rough shape of the density, which gives the units of the climbs.
    climbs : int
        Fewest climbs.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distributions; see `make_reference`.
    overlooked : float
        Largest probability that one of the n + 1 tops is not found; 1 if starts are near known
        tops.
    climbing : Climbing, optional
        How to climb and to measure the curvature. Default: by gradients.
    most_lost : float
        Largest share of climbs that may end at no top.
    """
    climb, top_at, _ = climbing or BY_GRADIENTS
    tops: list[Top] = []
    visits: list[int] = []
    kept: list[int] = []
    root, unit, highest = root_of(metric), metric.scale, -np.inf
    n_climbs, n_lost, are_lost, is_all = 0, 0, False, False
    for start in islice(starts, MOST_CLIMBS):
        end = climb(log_density, start, root, partial(_nearest, tops))
        if end is None:
            continue
        n_climbs += 1
        near = _nearest(tops, end)
        if near is None:
            height, top = top_at(log_density, end, unit)
            near = _nearest(tops, top.theta) if top else None
            if top and near is None:
                near = len(tops)
                tops.append(top)
                visits.append(0)
                root, unit = root_of(top.metric), top.metric.scale
        if near is None:
            n_lost += 1
            highest = max(highest, height)
        else:
            visits[near] += 1
        kept = _notable(tops, highest)
        if not kept and n_climbs >= FEWEST:
            break
        are_lost = n_lost > most_lost * n_climbs
        too_many = len(kept) > MOST_TOPS or (are_lost and n_climbs >= max(climbs, JUDGED))
        is_all = bool(kept) and n_climbs >= climbs and not (too_many or are_lost)
        is_all = is_all and visits.count(1) <= SEEN_ONCE * n_climbs
        is_all = is_all and _rare_share(tops, visits, kept) <= RARE
        is_all = is_all and _chance_to_overlook(len(kept), n_climbs) <= overlooked
        if too_many or is_all:
            break
    if not kept:
        reason = "no mode was found where the posterior is curved like a normal density"
        return Tops(None, False, reason)
    parts = [make_reference(tops[i].theta, tops[i].metric, degrees_of_freedom) for i in kept]
    reason = f"{n_climbs} optimisations found {len(kept)} mode{'s' if len(kept) > 1 else ''}"
    once = visits.count(1)
    if is_unfinished := not (is_all or are_lost) and once > SEEN_ONCE * n_climbs:
        reason = (
            f"{n_climbs} optimisations ended at {len(tops)} modes, {once} of which a single one "
            "found: the search is not finished"
        )
    elif not is_all:
        reason += ", and may miss others"
    return Tops(mix_references(parts), is_all, reason, is_unfinished)


def _chance_to_overlook(n_tops: int, n_climbs: int) -> float:
    """Bound the probability that climbs miss one of n + 1 tops with equal basins."""
    return (n_tops + 1) * (n_tops / (n_tops + 1)) ** n_climbs


def _rare_share(tops: Sequence[Top], visits: Sequence[int], kept: Sequence[int]) -> float:
    """Return the share of the posterior at tops that only one climb found; 0 for a single top."""
    if len(kept) == 1:
        return 0.0
    shares = softmax([tops[i].log_mass for i in kept])
    return float(sum(share for share, i in zip(shares, kept, strict=True) if visits[i] == 1))


def _notable(tops: list[Top], highest: float) -> list[int]:
    """Return the tops that matter; none if a lost climb went higher than all of them."""
    if not tops or highest > max(top.height for top in tops):
        return []
    most = max(top.log_mass for top in tops)
    return [i for i, top in enumerate(tops) if top.log_mass > most + np.log(NOTABLE)]


def _nearest(tops: Sequence[Top], theta: np.ndarray) -> int | None:
    """Return the index of the first top that is near; None if none is."""
    return next((i for i, top in enumerate(tops) if top.is_near(theta)), None)


def _climb(
    log_density: LogDensity,
    start: np.ndarray,
    root: np.ndarray,
    near: Callable[[np.ndarray], int | None],
) -> np.ndarray | None:
    """Climb by L-BFGS until a known top is near; return the last state.

    The columns of ``root`` are the units. Return None if the density is not finite at the start.
    Later states with a density that is not finite get one that falls as steeply as it rose at the
    highest state so far. Line searches return from there, but would end at −∞ or at a flat floor.
    """
    highest = -np.inf, np.zeros(0), np.zeros(0)

    def depth(z: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal highest
        value, slope = log_density(start + root @ z)
        slope = root.T @ slope
        if np.isfinite(value) and np.isfinite(slope).all():
            highest = max(highest, (value, z.copy(), slope), key=itemgetter(0))
            return -value, -slope
        value, place, slope = highest
        if not len(place):
            return np.finfo(float).max, np.zeros_like(z)
        return float(abs(slope @ (z - place)) - value), slope

    def stop_near(z: np.ndarray) -> None:
        if near(start + root @ z) is not None:
            raise StopIteration

    options = dict(maxiter=MOST_STEPS, maxfun=MOST_GRADIENTS, gtol=STEEP)
    with np.errstate(all="ignore"):
        found = minimize(
            depth, np.zeros(len(start)), jac=True, method="L-BFGS-B", options=options,
            callback=stop_near,
        )  # fmt: skip
    return start + root @ found.x if len(highest[1]) else None


def _top(log_density: LogDensity, theta: np.ndarray, unit: np.ndarray) -> tuple[float, Top | None]:
    """Return the height at the end of a climb, and the top there, or None if there is no top."""
    height, slope = log_density(theta)
    for _ in range(CORRECTIONS + 1):
        if not (np.isfinite(height) and np.isfinite(slope).all()):
            return -np.inf, None
        precision = _curvature(log_density, theta, slope, unit)
        if precision is None:
            break
        unit = 1 / np.sqrt(np.diag(precision))
        values, vectors = np.linalg.eigh(precision * np.outer(unit, unit))
        if values[0] < 1e-9 * values[-1]:
            break
        half = unit[:, None] * vectors / np.sqrt(values)
        rise = half.T @ slope
        if rise @ rise / 2 <= REACHED:
            return height, Top.of(theta, height, half @ half.T)
        theta, below = theta + half @ rise, height
        height, slope = log_density(theta)
        if not height >= below:
            return below, None
    return height, None


@np.errstate(divide="ignore", invalid="ignore")  # a slope that is infinite gives None
def _curvature(
    log_density: LogDensity, theta: np.ndarray, slope: np.ndarray, unit: np.ndarray
) -> np.ndarray | None:
    """Return minus the matrix of second derivatives; None if the state is no top."""
    n = len(theta)
    bending = np.empty((n, n))
    for i in range(n):
        step = DIFFERENCE * unit[i]
        for _ in range(MOST_TRIALS):
            moved = theta.copy()
            moved[i] += step
            bending[i] = (slope - log_density(moved)[1]) / (moved[i] - theta[i])
            reach = step * np.sqrt(max(bending[i, i], 0.0))
            if LEAST <= reach <= MOST:
                break
            step = DIFFERENCE / np.sqrt(bending[i, i]) if bending[i, i] > 0 else step / 100
        else:
            return None
    return (bending + bending.T) / 2


BY_GRADIENTS = Climbing(_climb, _top, MOST_ELEMENTS)
