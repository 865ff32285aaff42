"""Climb a density that has no gradient, and measure its curvature, by its values alone.

Differences are taken over about a standard deviation, so that the noise of a solver, which has
tolerances of its own, does not matter.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from pymc_bdmc.engines.compiled.tops import Climbing, LogDensity, Top

MOST_ELEMENTS = 30
"""Most elements of θ. The curvature takes several times their square in evaluations."""
SOME_VALUES, VALUES_AN_ELEMENT = 50, 20
"""Most evaluations of one climb: a constant, and a number for each element. Chosen."""
FINEST = 0.01
"""Radius of trust at which a climb ends, in units of its metric."""
MOST_PASSES = 10
"""Most corrections of the place and the shape of a top."""
ROUND = 2.0
"""Largest curvature, and the inverse of the least, in units of a shape that needs no correction."""
STRETCH = 4.0
"""Factor by which steps grow along a direction without curvature, and shrink at −∞."""
REACHED = 0.02
"""Nats below the top, by a Newton step, at which a climb has arrived."""


def _climb(
    log_density: LogDensity,
    start: np.ndarray,
    root: np.ndarray,
    near: Callable[[np.ndarray], int | None],
) -> np.ndarray | None:
    """Climb by quadratic models until a known top is near; return the last state.

    The columns of ``root`` are the units. COBYQA: Ragonneau and Zhang (2024). Return None if the
    density is not finite at the start.
    Values that are not finite count as the lowest so far.
    """
    lowest = log_density(start)[0]
    if not np.isfinite(lowest):
        return None

    def depth(z: np.ndarray) -> float:
        nonlocal lowest
        value = log_density(start + root @ z)[0]
        lowest = min(lowest, value) if np.isfinite(value) else lowest
        return -(value if np.isfinite(value) else lowest)

    def stop_near(z: np.ndarray) -> None:
        if near(start + root @ z) is not None:
            raise StopIteration

    n = len(start)
    options = dict(final_tr_radius=FINEST, maxfev=SOME_VALUES + VALUES_AN_ELEMENT * n)
    with np.errstate(all="ignore"):
        found = minimize(depth, np.zeros(n), method="COBYQA", options=options, callback=stop_near)
    return start + root @ found.x


def _top(log_density: LogDensity, theta: np.ndarray, unit: np.ndarray) -> tuple[float, Top | None]:
    """Return the height at the end of a climb, and the top there, or None if there is no top.

    Central differences along steps give slope and curvature. These correct the place, and the steps
    until each is one standard deviation along its own principal axis.
    """
    steps, height = np.diag(unit), log_density(theta)[0]
    for _ in range(MOST_PASSES):
        slope, precision = _differences(log_density, theta, height, steps)
        if not np.isfinite(precision).all():
            steps = steps / STRETCH
            continue
        values, vectors = np.linalg.eigh(precision)
        is_round = values[0] >= 1 / ROUND and values[-1] <= ROUND
        half = vectors / np.sqrt(np.maximum(values, STRETCH**-2))
        rise = half.T @ slope
        steps = steps @ half
        if is_round and rise @ rise / 2 <= REACHED:
            return height, Top.of(theta, height, steps @ steps.T)
        further = theta + steps @ rise / max(1.0, np.sqrt(rise @ rise / len(rise)))
        above = log_density(further)[0]
        if above > height:
            theta, height = further, above
    return height, None


@np.errstate(invalid="ignore")  # −∞ less −∞ gives NaN, which is no top
def _differences(
    log_density: LogDensity, theta: np.ndarray, height: float, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return slope and minus the second derivatives along steps, the columns of an array."""
    n = len(theta)
    ahead, behind = (
        np.array([log_density(theta + sign * step)[0] for step in steps.T]) for sign in (1, -1)
    )
    falls = 2 * height - ahead - behind
    precision = np.diag(falls)
    for i, j in zip(*np.triu_indices(n, 1), strict=True):
        both = steps[:, i] + steps[:, j]
        fall = 2 * height - log_density(theta + both)[0] - log_density(theta - both)[0]
        precision[i, j] = precision[j, i] = (fall - falls[i] - falls[j]) / 2
    return (ahead - behind) / 2, precision


BY_VALUES = Climbing(_climb, _top, MOST_ELEMENTS)
