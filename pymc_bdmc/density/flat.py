"""Lay out the unconstrained variables of a model as one vector."""

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from pymc.distributions.discrete import Bernoulli, Categorical
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable

from pymc_bdmc.base.types import Point

if TYPE_CHECKING:
    from pymc_bdmc.density.tempered import TemperedDensity


class Flat:
    """Places of the unconstrained variables in one vector.

    Parameters
    ----------
    density : TemperedDensity
    values : sequence of Variable
        The value variables in the order of the vector.

    Attributes
    ----------
    shapes : dict of str to tuple of int
        Shapes of the unconstrained variables, by name.
    titles : dict of str to str
        Names of the model's variables, by the names of the unconstrained ones.
    parts : dict of str to slice
        Places of the elements, by name.
    size : int
        Number of elements.
    """

    def __init__(self, density: "TemperedDensity", values: Sequence[Variable]):
        self._model, self.size = density.model, density.size
        self.shapes = {value.name: density.shapes[value.name] for value in values}
        self.titles = {name: density.titles[name] for name in self.shapes}
        ends = np.cumsum([prod(shape) for shape in self.shapes.values()]).tolist()
        self.parts = {
            name: slice(end - prod(shape), end)
            for (name, shape), end in zip(self.shapes.items(), ends, strict=True)
        }

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables of one or many flat θ, by name and in the model's order."""
        before = theta.shape[:-1]
        return {
            each.name: theta[..., self.parts[each.name]]
            .reshape((*before, *self.shapes[each.name]))
            .astype(each.dtype)
            for each in self._model.value_vars
        }


class ContinuousFirst(Flat):
    """The order of compiled functions: continuous variables first.

    Attributes
    ----------
    n_continuous : int
        Length of the continuous part of θ.
    categories : ndarray of int, shape (number of discrete elements,)
        Number of values of each element, 0 if unlimited.
    """

    def __init__(self, density: "TemperedDensity"):
        values: tuple[list[Variable], list[Variable]] = ([], [])
        for value in density.model.value_vars:
            values[value.dtype not in continuous_types].append(value)
        super().__init__(density, [*values[0], *values[1]])
        self.names = tuple([self.titles[value.name] for value in kind] for kind in values)
        """Names of the continuous and of the discrete variables."""
        numbers = [
            np.full(prod(self.shapes[value.name]), _n_categories(self._model.values_to_rvs[value]))
            for value in values[1]
        ]
        self.categories = np.concatenate([np.zeros(0, int), *numbers])
        self.n_continuous = self.size - len(self.categories)

    def elements_of(self, names: Collection[str]) -> np.ndarray:
        """Return which elements of θ belong to the variables of these names; bool, shape (n,)."""
        found = np.zeros(self.size, dtype=bool)
        for name, part in self.parts.items():
            found[part] = self.titles[name] in names
        return found

    @property
    def units(self) -> np.ndarray:
        """Return the element that is the logarithm of each element's unit, or −1; shape (n,).

        In the Cholesky factor of a covariance matrix, the elements of a row are of the size of its
        diagonal element.
        """
        model, found = self._model, np.full(self.size, -1)
        for name, part in self.parts.items():
            if isinstance(model.rvs_to_transforms[model[self.titles[name]]], CholeskyCovPacked):
                length = self.shapes[name][-1]
                rows, columns = np.tril_indices(int(np.sqrt(2 * length)))
                diagonal = np.flatnonzero(rows == columns)[rows]
                units = np.where(rows == columns, -1, diagonal)
                for first in range(part.start, part.stop, length):
                    found[first : first + length] = np.where(units < 0, -1, first + units)
        return found

    def ravel(self, point: Point) -> np.ndarray:
        """Return θ as one vector."""
        return np.concatenate([np.asarray(point[name], float).ravel() for name in self.parts])

    def ravel_many(self, points: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return many θ, one a row, from arrays with one point a row."""
        n = len(next(iter(points.values())))
        rows = [
            np.asarray(points[name], float).reshape(n, part.stop - part.start)
            for name, part in self.parts.items()
        ]
        return np.concatenate(rows, axis=1)


def _n_categories(rv: Variable) -> int:
    """Return the number of values of a discrete variable with support 0, …, n − 1, else 0."""
    if isinstance(rv.owner.op, Bernoulli.rv_type):
        return 2
    if isinstance(rv.owner.op, Categorical.rv_type):
        return int(rv.owner.inputs[-1].type.shape[-1] or 0)
    return 0
