"""Fit a reference to the modes of a posterior, by optimisations and the curvature at their ends."""

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.optimize import minimize
from scipy.special import softmax

from pymc_bdmc.fits import limits
from pymc_bdmc.reference.metric import Metric, metric_of, root_of
from pymc_bdmc.reference.student import Reference, make_reference, mix_references

LogDensity = Callable[[ndarray], tuple[float, ndarray]]
"""Function that returns log p + ℓ of one θ and its gradient, nats; maybe NaN or −∞."""

SEARCHES, MOST_SEARCHES = 16, 64
"""Fewest searches from prior draws on the first data set, and most. With 16 searches, the chance
that all end at the same one of two modes with equal basins is 3e-5."""
NEAR = 0.5
"""A search has found a mode if it ends within this many standard deviations per element."""


class Mode(NamedTuple):
    """A maximum of the density, with its normal approximation."""

    theta: ndarray
    height: float
    metric: Metric
    whiten: ndarray
    """Inverse of the matrix L of `root_of`."""
    log_mass: float
    """Log of the normal approximation's integral, nats."""

    @classmethod
    def of(cls, theta: ndarray, height: float, covariance: ndarray) -> "Mode":
        """Return a mode with the shape of a covariance, shape (n, n)."""
        metric, (_, log_det) = metric_of(covariance), np.linalg.slogdet(2 * np.pi * covariance)
        return cls(theta, height, metric, np.linalg.inv(root_of(metric)), height + log_det / 2)

    def is_near(self, theta: ndarray) -> bool:
        """Return whether a state is so near that a search from it would end here."""
        z = self.whiten @ (theta - self.theta)
        return bool(z @ z <= NEAR**2 * len(z))


class Modes(NamedTuple):
    """The modes that searches found, as a reference."""

    reference: Reference | None
    """Mixture of a t distribution for each mode that matters; None if there is none."""
    is_all: bool
    """Whether there is no sign of further modes."""
    reason: str
    basins: int
    """Number of modes at which searches ended, low ones too."""
    is_unfinished: bool = False
    """Whether searches keep finding new modes, high or low."""


def find_modes(
    log_density: LogDensity,
    starts: Iterable[ndarray],
    metric: Metric,
    searches: int,
    degrees_of_freedom: float | None = None,
    overlooked: float = 1.0,
    has_gradient: bool = True,
    most_lost: float = limits.LOST,
) -> Modes:
    """Search from several starts, and mix a t distribution for each mode by the curvature there.

    At least ``searches`` are made. They go on while many end at modes that no other one found,
    since their share is about the chance that the next one finds a new mode (Good 1953), or while
    those modes hold much of the posterior. If several modes are alike, as with switched labels,
    this is not enough: it must also be unlikely, by ``overlooked``, to miss one of n + 1 modes that
    are found with equal probability. Starts with a density that is not finite are left out. The
    metric gives the units.
    """
    ascend = ascend_by_gradients if has_gradient else _ascend_by_values
    mode_at = _mode_by_gradients if has_gradient else _mode_by_values
    modes: list[Mode] = []
    ends: list[int | None] = []  # the mode at which each search ended; None if it was lost
    kept: list[int] = []
    root, unit, highest, n = root_of(metric), metric.scale, -np.inf, 0
    are_lost = is_all = False
    for start in starts:
        end = ascend(log_density, start, root, lambda theta: _nearest(modes, theta) is not None)
        if end is None:
            continue
        place = _nearest(modes, end)
        if place is None:
            height, mode = mode_at(log_density, end, unit)
            place = _nearest(modes, mode.theta) if mode else None
            if mode and place is None:
                place = len(modes)
                modes.append(mode)
                root, unit = root_of(mode.metric), mode.metric.scale
        if place is None:
            highest = max(highest, height)
        ends.append(place)
        n, kept = len(ends), _notable(modes, highest)
        if not kept and n >= 2:
            break
        are_lost = ends.count(None) > most_lost * n
        too_many = len(kept) > 8 or (are_lost and n >= max(searches, 16))
        is_all = bool(kept) and n >= searches and not (too_many or are_lost)
        is_all = is_all and _is_complete(modes, ends, kept, overlooked)
        if too_many or is_all or n == MOST_SEARCHES:
            break
    if not kept:
        reason = "no mode was found where the posterior is curved like a normal density"
        return Modes(None, False, reason, len(modes))
    parts = [make_reference(modes[i].theta, modes[i].metric, degrees_of_freedom) for i in kept]
    reason = f"{n} optimisations found {len(kept)} mode{'s' if len(kept) > 1 else ''}"
    once = len(_seen_once(ends))
    if is_unfinished := not (is_all or are_lost) and once > limits.SEEN_ONCE * n:
        reason = (
            f"{n} optimisations ended at {len(modes)} modes, {once} of which a single one "
            "found: the search is not finished"
        )
    elif not is_all:
        reason += ", and may miss others"
    return Modes(mix_references(parts), is_all, reason, len(modes), is_unfinished)


def _is_complete(
    modes: Sequence[Mode], ends: Sequence[int | None], kept: Sequence[int], overlooked: float
) -> bool:
    """Return whether few searches found a mode alone, and one more is unlikely to exist."""
    shares, once, n = softmax([modes[i].log_mass for i in kept]), _seen_once(ends), len(ends)
    rare = sum(share for share, i in zip(shares, kept, strict=True) if i in once)
    if len(kept) > 1 and rare > limits.FOUND_ONCE:
        return False
    chance = (len(kept) + 1) * (len(kept) / (len(kept) + 1)) ** n  # a bound, by equal basins
    return len(once) <= limits.SEEN_ONCE * n and chance <= overlooked


def _seen_once(ends: Sequence[int | None]) -> set[int | None]:
    """Return the modes that a single search found."""
    return {i for i in ends if i is not None and ends.count(i) == 1}


def _notable(modes: Sequence[Mode], highest: float) -> list[int]:
    """Return the modes that matter; none if a lost search went higher than all of them."""
    if not modes or highest > max(mode.height for mode in modes):
        return []
    most = max(mode.log_mass for mode in modes)
    return [i for i, mode in enumerate(modes) if mode.log_mass > most + np.log(1e-3)]


def _nearest(modes: Sequence[Mode], theta: ndarray) -> int | None:
    """Return the index of the first mode that is near; None if none is."""
    return next((i for i, mode in enumerate(modes) if mode.is_near(theta)), None)


def ascend_by_gradients(
    log_density: LogDensity,
    start: ndarray,
    root: ndarray,
    is_known: Callable[[ndarray], bool] = lambda theta: False,
) -> ndarray | None:
    """Maximise by L-BFGS until a known mode is near; return the highest state.

    The columns of ``root`` are the units. Return None if the density is not finite at the start.
    Later states with a density that is not finite get one that falls as steeply as it rose at the
    highest state so far. Line searches return from there, but would end at −∞ or at a flat floor.
    """
    highest = -np.inf, np.zeros(0), np.zeros(0)

    def depth(z: ndarray) -> tuple[float, ndarray]:
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

    limits = dict(maxiter=150, maxfun=250, gtol=0.01)
    _minimum(depth, start, root, is_known, method="L-BFGS-B", jac=True, options=limits)
    return start + root @ highest[1] if len(highest[1]) else None


def _ascend_by_values(
    log_density: LogDensity, start: ndarray, root: ndarray, is_known: Callable[[ndarray], bool]
) -> ndarray | None:
    """Maximise like `ascend_by_gradients`, by quadratic models of a density without a gradient.

    COBYQA: Ragonneau and Zhang (2024). Values that are not finite count as the lowest so far.
    """
    lowest = log_density(start)[0]
    if not np.isfinite(lowest):
        return None

    def depth(z: ndarray) -> float:
        nonlocal lowest
        value = log_density(start + root @ z)[0]
        lowest = min(lowest, value) if np.isfinite(value) else lowest
        return -(value if np.isfinite(value) else lowest)

    limits = dict(final_tr_radius=0.01, maxfev=50 + 20 * len(start))
    return _minimum(depth, start, root, is_known, method="COBYQA", options=limits)


def _minimum(
    depth: Callable, start: ndarray, root: ndarray, is_known: Callable, **options
) -> ndarray:
    """Return the state where a minimisation in units of ``root`` ends, or is near a known mode."""

    def stop_near(z: ndarray) -> None:
        if is_known(start + root @ z):
            raise StopIteration

    with np.errstate(all="ignore"):
        found = minimize(depth, np.zeros(len(start)), callback=stop_near, **options)
    return start + root @ found.x


def _mode_by_gradients(
    log_density: LogDensity, theta: ndarray, unit: ndarray
) -> tuple[float, Mode | None]:
    """Return the height at the end of a search, and the mode there after at most 3 Newton steps."""
    height, slope = log_density(theta)
    for _ in range(4):
        if not (np.isfinite(height) and np.isfinite(slope).all()):
            return -np.inf, None
        precision = _curvature(log_density, theta, slope, unit)
        if precision is None:
            break
        unit = 1 / np.sqrt(np.diag(precision))
        scaled = precision * np.outer(unit, unit)
        if not np.isfinite(scaled).all():
            break
        values, vectors = np.linalg.eigh(scaled)
        if values[0] < 1e-9 * values[-1]:
            break
        half = unit[:, None] * vectors / np.sqrt(values)
        rise = half.T @ slope
        if rise @ rise / 2 <= 0.01:  # nats that are left to the mode
            return height, Mode.of(theta, height, half @ half.T)
        theta, below = theta + half @ rise, height
        height, slope = log_density(theta)
        if not height >= below:
            return below, None
    return height, None


@np.errstate(divide="ignore", invalid="ignore")  # a slope that is infinite gives None
def _curvature(
    log_density: LogDensity, theta: ndarray, slope: ndarray, unit: ndarray
) -> ndarray | None:
    """Return minus the matrix of second derivatives; None if the state is no mode.

    A step of differences must lie between 1e-5 and 0.01 conditional deviations. If it does not, the
    curvature by this step gives the next one.
    """
    n = len(theta)
    bending = np.empty((n, n))
    for i in range(n):
        step = 1e-3 * unit[i]
        for _ in range(4):
            moved = theta.copy()
            moved[i] += step
            bending[i] = (slope - log_density(moved)[1]) / (moved[i] - theta[i])
            if 1e-5 <= step * np.sqrt(max(bending[i, i], 0.0)) <= 1e-2:
                break
            step = 1e-3 / np.sqrt(bending[i, i]) if bending[i, i] > 0 else step / 100
        else:
            return None
    return (bending + bending.T) / 2


def _mode_by_values(
    log_density: LogDensity, theta: ndarray, unit: ndarray
) -> tuple[float, Mode | None]:
    """Return the height at the end of a search, and the mode there or None.

    Central differences along steps give slope and curvature. These correct the place, and the steps
    until each is one standard deviation along its own principal axis, so that the noise of a solver
    with tolerances of its own does not matter.
    """
    steps, height = np.diag(unit), log_density(theta)[0]
    for _ in range(10):
        slope, precision = _differences(log_density, theta, height, steps)
        if not np.isfinite(precision).all():
            steps = steps / 4
            continue
        values, vectors = np.linalg.eigh(precision)
        is_round = values[0] >= 1 / 2 and values[-1] <= 2
        half = vectors / np.sqrt(np.maximum(values, 1 / 16))  # steps grow by 4 if it is flat
        rise = half.T @ slope
        steps = steps @ half
        if is_round and rise @ rise / 2 <= 0.02:  # nats that are left to the mode
            return height, Mode.of(theta, height, steps @ steps.T)
        further = theta + steps @ rise / max(1.0, np.sqrt(rise @ rise / len(rise)))
        above = log_density(further)[0]
        if above > height:
            theta, height = further, above
    return height, None


@np.errstate(invalid="ignore")  # −∞ less −∞ gives NaN, which is no mode
def _differences(
    log_density: LogDensity, theta: ndarray, height: float, steps: ndarray
) -> tuple[ndarray, ndarray]:
    """Return slope and minus the second derivatives along steps, the columns of an array."""
    n = len(theta)
    up, down = (
        np.array([log_density(theta + sign * step)[0] for step in steps.T]) for sign in (1, -1)
    )
    falls = 2 * height - up - down
    precision = np.diag(falls)
    for i, j in zip(*np.triu_indices(n, 1), strict=True):
        both = steps[:, i] + steps[:, j]
        fall = 2 * height - log_density(theta + both)[0] - log_density(theta - both)[0]
        precision[i, j] = precision[j, i] = (fall - falls[i] - falls[j]) / 2
    return (up - down) / 2, precision
