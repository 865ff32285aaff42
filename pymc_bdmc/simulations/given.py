"""Use the caller's own pair of parameters and data."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_flags
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.density.draws import shape_of
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations.contract import Fit, Simulated, Simulation


@dataclass(frozen=True, eq=False)
class Given(Simulation):
    r"""Use your own pair of parameters and data.

    Parameters
    ----------
    point : mapping of str to array_like
        Constrained values of the free variables, by name.
    data : mapping of str to array_like
        The observed variables.
    exact : bool, default False
        True only if your simulator drew the pair together from the joint distribution of the model.
        Then the point is an exact posterior sample; this cannot be checked. If the point is a draw
        of some sampler, leave it False; the upper bound is then heuristic.

    Raises
    ------
    ValueError
        If a variable is missing, unknown, of another shape, or outside its support; or if ``exact``
        is True for the real data. Raised by `sample_bdmc`.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> simulate = bdmc.Given({"x": 0.3}, {"y": -0.2})
    >>> dt = pm.sample_bdmc(model, simulate=simulate, chains=4, temperatures=10, random_seed=1,
    ...                     cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"]
    'heuristic'
    """

    point: Mapping[str, ArrayLike]
    data: Mapping[str, ArrayLike]
    exact: bool = False
    name = "given"
    renews = False
    datasets = 1

    def __post_init__(self):
        for name in ("point", "data"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise TypeError(f"{name}: a mapping by variable name is needed, got {value!r}.")
        check_flags(exact=self.exact)

    def check(self, density: TemperedDensity) -> None:
        """Raise an error unless the pair is a state of the model."""
        self.simulate(density)

    def simulate(
        self,
        density: TemperedDensity,
        entropy: Entropy | None = None,
        fit: Fit | None = None,
        first: int = 0,
    ) -> list[Simulated]:
        """Return the given pair."""
        model = density.model
        free = [rv.name for rv in model.free_RVs]
        if set(self.point) != set(free):
            raise ValueError(f"simulate: the point must give {free}, got {sorted(self.point)}.")
        density.set_data(self.data)
        given = {rv.name: _value(rv, self.point[rv.name]) for rv in model.free_RVs}
        unconstrained = density.unconstrain(given)
        for name, value in zip(free, unconstrained.values(), strict=True):
            if not np.isfinite(value).all():
                raise ValueError(f"simulate: the value of {name} lies outside its support.")
        log_density = sum(terms.sum() for _, terms in density.factors(unconstrained))
        density.set_data(density.data)
        if not np.isfinite(log_density):
            raise ValueError(
                f"simulate: the log density of the point is {log_density:g} with these data."
            )
        real = density.data
        data = {name: np.asarray(self.data[name], real[name].dtype) for name in real}
        if self.exact and all(np.array_equal(data[name], real[name]) for name in real):
            raise ValueError(
                "simulate: exact=True says that point and data were drawn together, but these data "
                "are those that the model observes. Leave `exact` out: the upper bound is then "
                "heuristic."
            )
        return [Simulated(unconstrained, data, "exact" if self.exact else "heuristic")]


def _value(rv, value: ArrayLike) -> np.ndarray:
    """Return a given value of a free variable, checked for shape and type."""
    given = np.asarray(value).astype(rv.dtype)
    shape = shape_of(rv)
    if given.shape != shape or not np.array_equal(given, value):
        raise ValueError(
            f"simulate: {rv.name} must be of type {rv.dtype} and shape {shape}, got {value!r}."
        )
    return given
