"""Bounded functions of parameters and data, to compare distributions."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from pytensor.gradient import NullTypeGradError

from pymc_bdmc.base.types import Point
from pymc_bdmc.density.refuse import angles
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators.exchangeability import interquartile_range

SHAPES = ("location", "spread", "skewness", "tails")
"""Properties of every value that are compared."""


class Features:
    """Features of the elements of θ, the slopes of log p, log p itself and moments of the data.

    The slope ∂ log p(θ, y)/∂θ_i shows the position of θ_i within its posterior, for any data. For a
    normal posterior it is the distance from the conditional mean divided by the conditional
    variance. So slopes show faults that are small relative to the prior but not to the posterior.

    Each value is converted to u in (0, 1) by its rank among joint draws, so values may have any
    distribution. The features are cos(πju) for j = 1, 2, 3, 4, which respond to location, spread,
    skewness and tails (Neyman 1937, Smooth test for goodness of fit).

    ``draw`` returns θ from the joint distribution and sets its data in the density. Moments of the
    observed variables are among the values if ``data`` is true. ``titles`` are those of features,
    such as ``"spread of mu"``.
    """

    def __init__(
        self,
        density: TemperedDensity,
        draw: Callable[[], Point],
        rng: np.random.Generator,
        data: bool = False,
    ):
        self._density = density
        model = density.model
        self._observed = list(model.observed.items()) if data else []
        self._slopes = _gradient_of(density)
        self._angles = {model.rvs_to_values[rv].name for rv in angles(model)}
        learned = [self._parts(draw()) for _ in range(500)]  # draws that are not tested
        elements, slopes, _ = map(np.array, zip(*learned, strict=True))
        self._centre, self._scale = np.median(elements, axis=0), _spread(elements)
        self._steepness = _spread(slopes)
        pairs = list(combinations(range(elements.shape[1]), 2))
        most = 45  # products of two elements
        if len(pairs) > most:
            pairs = [pairs[i] for i in rng.choice(len(pairs), most, replace=False)]
        self._pairs = np.array(pairs, dtype=int).reshape(-1, 2).T
        values = np.transpose([self._values(*parts) for parts in learned])
        self._learned = list(zip(*map(_midranks, values), strict=True))
        self.names = self._named()
        self.titles = [f"{shape} of {name}" for name in self.names for shape in SHAPES]

    def too_small(self, ratio: float) -> str:
        """Describe the effects that are too small to be found."""
        scale = "posterior" if len(self._steepness) else "prior"
        # Derivatives of the means of the first two waves of a normal value, with respect to its
        # mean in standard deviations and to the log of its standard deviation: 0.671 and 0.742
        return (
            f"small effects: shifts of a mean by less than about {ratio / 0.671:.2g} {scale} "
            f"standard deviations, or relative changes of a standard deviation by less than about "
            f"{np.expm1(ratio / 0.742):.2g}, on each data set"
        )

    def _named(self) -> list[str]:
        elements = {
            self._density.titles[name] + (str(list(place)) if place else ""): name
            for name, shape in self._density.shapes.items()
            for place in np.ndindex(shape)
        }
        names, slopes = list(elements), []
        pairs = [f"{names[i]} · {names[j]}" for i, j in self._pairs.T]
        if len(self._steepness):
            sloping = {value.name for value in self._density.model.continuous_value_vars}
            slopes = [f"slope along {each}" for each in names if elements[each] in sloping]
        sizes = ["size of the slopes"] if slopes else []
        moments = [f"{name}{of}" for name, _ in self._observed for of in (" mean", " mean square")]
        logs = ["log prior", "log likelihood", "log joint"]
        return [*elements, *pairs, *slopes, *sizes, *logs, *moments]

    def _parts(self, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return elements of θ, slopes, and log p, ℓ, their sum and moments of the data."""
        # Angles are reduced modulo a full turn.
        turned = {
            name: np.arctan2(np.sin(point[name]), np.cos(point[name])) for name in self._angles
        }
        elements = [np.asarray(x, float).ravel() for x in ({**point} | turned).values()]
        data = [shared.get_value(borrow=True) for _, shared in self._observed]
        moments = [np.mean(y**power) if y.size else 0.0 for y in data for power in (1, 2)]
        log_prior, ell = map(float, self._density.terms(point, self._density.present_data))
        others = np.array([log_prior, ell, log_prior + ell, *moments])
        return np.concatenate(elements), self._slopes(point), others

    def _values(self, elements: np.ndarray, slopes: np.ndarray, others: np.ndarray) -> np.ndarray:
        standard = (elements - self._centre) / self._scale
        pairs = standard[self._pairs[0]] * standard[self._pairs[1]]
        size = [np.sum((slopes / self._steepness) ** 2)] if slopes.size else []
        return np.concatenate([elements, pairs, slopes, size, others])

    def values(self, points: Sequence[Point]) -> np.ndarray:
        """Return the named values at each θ, shape (points, names), with −∞ in place of NaN."""
        found = np.array([self._values(*self._parts(point)) for point in points])
        return np.where(np.isnan(found), -np.inf, found)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the features of named values, from −1 to 1, shape (..., names, shapes)."""
        columns = zip(np.moveaxis(values, -1, 0), *self._learned, strict=True)
        return waves(np.stack([np.interp(*column) for column in columns], axis=-1))


def _gradient_of(density: TemperedDensity) -> Callable[[Point], np.ndarray]:
    """Return the slopes of log p(θ, y) along continuous elements, or none without a gradient."""
    try:
        gradient = density.gradient
    except (NotImplementedError, NullTypeGradError):
        return lambda point: np.zeros(0)

    def slopes(point: Point) -> np.ndarray:
        density.set_beta(1.0)
        return np.concatenate(
            [np.zeros(0), *map(np.ravel, gradient(point, density.present_data).values())]
        )

    return slopes


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the interquartile range of every column, with 0 in place of infinite values."""
    return interquartile_range(np.nan_to_num(values, posinf=0, neginf=0))


def waves(ranks: np.ndarray) -> np.ndarray:
    """Return cos(πju), whose mean is 0 for uniform u, with j along the last axis."""
    return np.cos(np.pi * ranks[..., None] * np.arange(1, len(SHAPES) + 1))


def _midranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct values and their relative mean ranks, for interpolation."""
    values, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if not values.size:
        return np.zeros(1), np.full(1, 0.5)
    return values, (np.cumsum(counts) - counts / 2) / counts.sum()
