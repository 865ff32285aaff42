"""Bounded functions of parameters and data, by which laws of them are compared."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from pymc.logprob.transforms import CircularTransform

from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.types import Point

__all__ = ["SHAPES", "Features", "waves"]

LEARNING = 500
"""Joint draws that give every feature its scale, and are not tested."""
MOST_PAIRS = 45
"""Products of two elements: all pairs of ten, or so many at random."""
SHAPES = ("location", "spread", "skewness", "tails")
"""What is compared of every value."""


class Features:
    """Elements of θ, products of two, log p, ℓ, their sum, moments of the data; each by its shape.

    A value is made u in (0, 1) by its rank among joint draws, and compared are cos(πju), j = 1, 2,
    3, 4, which tell of location, spread, skewness and tails (Neyman 1937, Smooth test for goodness
    of fit). Nothing is asked of the law of the value.

    Parameters
    ----------
    density : TemperedDensity
        Of whose present data the features are functions too.
    draw : callable
        Returns θ from the joint distribution and leaves its data with the density.
    rng : numpy.random.Generator
        Chooses among too many pairs.
    data : bool
        Whether moments of the observed variables are among the values.

    Attributes
    ----------
    names : list of str
        Of the values.
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
        self._angles = {
            model.rvs_to_values[rv].name
            for rv, transform in model.rvs_to_transforms.items()
            if isinstance(transform, CircularTransform)
        }
        points, others = [], []
        for _ in range(LEARNING):
            point = draw()
            points.append(self._elements(point))
            others.append(self._others(point))
        elements = np.array(points)
        self._centre = np.median(elements, axis=0)
        self._scale = np.quantile(elements, 0.75, axis=0) - np.quantile(elements, 0.25, axis=0)
        self._scale[self._scale == 0] = 1.0
        pairs = list(combinations(range(elements.shape[1]), 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[i] for i in rng.choice(len(pairs), MOST_PAIRS, replace=False)]
        self._pairs = np.array(pairs, dtype=int).reshape(-1, 2).T
        learned = [self._values(*row) for row in zip(elements, others, strict=True)]
        self._learned = list(zip(*map(_midranks, np.transpose(learned)), strict=True))
        self.names = self._named()

    def _named(self) -> list[str]:
        elements = [
            self._density.titles[name] + (str(list(place)) if place else "")
            for name, shape in self._density.shapes.items()
            for place in np.ndindex(shape)
        ]
        pairs = [f"{elements[i]} · {elements[j]}" for i, j in self._pairs.T]
        moments = [f"{name}{of}" for name, _ in self._observed for of in (" mean", " mean square")]
        return [*elements, *pairs, "log prior", "log likelihood", "log joint", *moments]

    def _elements(self, point: Point) -> np.ndarray:
        """All of θ; an angle may have gone round any number of times, which is no matter."""
        turned = {
            name: np.arctan2(np.sin(point[name]), np.cos(point[name])) for name in self._angles
        }
        values = ({**point} | turned).values()
        return np.concatenate([np.asarray(value, float).ravel() for value in values])

    def _others(self, point: Point) -> np.ndarray:
        """Log p, ℓ, and mean and mean square of every observed variable."""
        data = [shared.get_value(borrow=True) for _, shared in self._observed]
        moments = [np.mean(y**power) if y.size else 0.0 for y in data for power in (1, 2)]
        log_prior, ell = map(float, self._density.terms(*point.values()))
        return np.array([log_prior, ell, log_prior + ell, *moments])

    def _values(self, elements: np.ndarray, others: np.ndarray) -> np.ndarray:
        standard = (elements - self._centre) / self._scale
        return np.concatenate(
            [elements, standard[self._pairs[0]] * standard[self._pairs[1]], others]
        )

    def values(self, points: Sequence[Point]) -> np.ndarray:
        """What has a name, at each θ, shape (points, names); −∞ where it is no number."""
        found = np.array(
            [self._values(self._elements(point), self._others(point)) for point in points]
        )
        return np.where(np.isnan(found), -np.inf, found)

    def __call__(self, points: Sequence[Point]) -> np.ndarray:
        """All features of each θ with the density's data, from −1 to 1.

        Returns
        -------
        ndarray of shape (points, names, shapes)
        """
        columns = zip(self.values(points).T, *self._learned, strict=True)
        return waves(np.stack([np.interp(*column) for column in columns], axis=1))


def waves(ranks: np.ndarray) -> np.ndarray:
    """cos(πju) by j in a last axis; of mean 0 where u is uniform."""
    return np.cos(np.pi * ranks[..., None] * np.arange(1, len(SHAPES) + 1))


def _midranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values that occur, increasing, and their mean ranks as shares; between them u is linear."""
    values, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if not values.size:
        return np.zeros(1), np.full(1, 0.5)
    return values, (np.cumsum(counts) - counts / 2) / counts.sum()
