"""Convert the unconstrained variables of a model to rows of numbers and back."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import xarray as xr
from pymc.vartypes import continuous_types

from pymc_bdmc.density.flat import Flat
from pymc_bdmc.density.tempered import TemperedDensity


class Layout(Flat):
    """Order of the elements of θ: the value variables in the model's order, each raveled.

    This is the order of ``pymc.blocking.DictToArrayBijection.map(model.initial_point())``.

    Parameters
    ----------
    density : TemperedDensity

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.layout import Layout
    >>> from pymc_bdmc.density.tempered import TemperedDensity
    >>> with pm.Model() as model:
    ...     a, s = pm.Normal("a", shape=2), pm.HalfNormal("s")
    ...     y = pm.Normal("y", a, s, observed=[1.0, 2.0])
    >>> print(Layout(TemperedDensity(model)))
    a (2,), s_log__ ()
    """

    def __init__(self, density: TemperedDensity):
        super().__init__(density, density.model.value_vars)
        self._dtypes = {value.name: value.dtype for value in density.model.value_vars}

    def __str__(self):
        return ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())

    def ravel(self, argument: str, values: Mapping[str, Any] | xr.Dataset) -> np.ndarray:
        """Convert values by variable to rows; arrays have shape (n, *shape), or chains and draws.

        Raises
        ------
        ValueError
            If a variable is missing, unknown or of another shape; the message names it and the
            argument.
        """
        if isinstance(values, xr.Dataset):
            order = [dim for dim in ("chain", "draw", "sample") if dim in values.dims]
            values = {str(name): each.transpose(*order, ...) for name, each in values.items()}
        arrays = {name: np.asarray(each) for name, each in values.items()}
        self._check_names(argument, arrays)
        rows = []
        for name, shape in self.shapes.items():
            array = arrays[name]
            if array.ndim <= len(shape) or array.shape[array.ndim - len(shape) :] != shape:
                raise ValueError(
                    f"{argument}: its {name} has the shape {array.shape}; the number of draws, "
                    f"followed by {shape}, is needed."
                )
            rows.append(array.reshape(-1, prod(shape)).astype(float))
        if len({len(each) for each in rows}) > 1:
            raise ValueError(f"{argument}: its variables differ in the number of draws.")
        return self.checked(argument, np.concatenate(rows, axis=1))

    def checked(self, argument: str, rows: np.ndarray) -> np.ndarray:
        """Return rows; raise an error unless finite, and integers for discrete variables."""
        for name, part in self.parts.items():
            values = rows[:, part]
            if not np.isfinite(values).all():
                raise ValueError(f"{argument}: its {name} is not finite in some draws.")
            if self._dtypes[name] not in continuous_types and (values != np.round(values)).any():
                raise ValueError(
                    f"{argument}: {name} is discrete, and some of its draws are not integers, so q "
                    "is not a density of it. Pass a pair (draws, log_q)."
                )
        return rows

    def check(self, argument: str, sizes: Mapping[str, int]) -> None:
        """Raise an error unless names and sizes are those of the model."""
        self._check_names(argument, sizes)
        for name, size in sizes.items():
            if size != prod(self.shapes[name]):
                raise ValueError(
                    f"{argument}: its {name} has {size} elements, the model's "
                    f"{prod(self.shapes[name])}. Is it a fit of another model?"
                )

    def places(self, names: Sequence[str]) -> np.ndarray:
        """Return the position of each element of θ among variables in another order."""
        given = np.concatenate([np.arange(self.size)[self.parts[name]] for name in names])
        return np.argsort(given)

    def places_of_labels(self, labels: Sequence[str]) -> np.ndarray:
        """Return `places`, from a label for every element: ``name`` or ``name[index]``."""
        names = [
            next((n for n in self.shapes if label == n or label.startswith(f"{n}[")), label)
            for label in map(str, labels)
        ]
        sizes = {name: names.count(name) for name in dict.fromkeys(names)}
        self.check("approximation", sizes)
        return self.places(list(sizes))

    def _check_names(self, argument: str, names: Mapping[str, Any]) -> None:
        for value, title in self.titles.items():
            if value != title and title in names and value not in names:
                raise ValueError(
                    f"{argument}: {title} is on the model's own scale. Pass {value}, its value on "
                    "the unconstrained scale, and log q as a density there."
                )
        missing = sorted(set(self.shapes) - set(names))
        unknown = sorted(set(map(str, names)) - set(self.shapes))
        if missing or unknown:
            told = [f"lacks {missing}"] * bool(missing) + [f"has {unknown} besides"] * bool(unknown)
            raise ValueError(
                f"{argument}: it {' and '.join(told)}; the model's unconstrained variables are "
                f"{list(self.shapes)}. Is it of another model?"
            )
