"""Simulate data sets y* with a posterior sample θ*: from the joint, a fit, or given pairs."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.vartypes import discrete_types
from pytensor.graph.traversal import ancestors

from pymc_bdmc.base.arguments import check_choice, check_counts, check_flags
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import LKJ
from pymc_bdmc.model.checks import check_simulable
from pymc_bdmc.model.draws import as_idata
from pymc_bdmc.model.forward_sampling import Unrepresentable
from pymc_bdmc.model.posterior import posterior_draws, shape_of
from pymc_bdmc.model.tempered import TemperedDensity

_log = logging.getLogger("pymc.bdmc")

DATASETS = 20
"""Default number of data sets; 20 can certify a total variation of 1 − 0.05^(1/20) = 0.14."""

Status = Literal["exact", "burned-in", "heuristic"]

Fit = Callable[[], xr.DataTree]
"""Function that returns a fit to the real data."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated data set with one sample θ* of its posterior.

    Attributes
    ----------
    point : Point
        θ*, unconstrained.
    data : mapping of str to ndarray
        y*, by the name of the observed variable.
    status : {"exact", "burned-in", "heuristic"}
        Kind of start that θ* is, on which the upper bound rests.
    burn_in : int
        Transitions at β = 1 before a reverse chain starts.
    hyperparameters : tuple of str
        Variables held at fitted values.
    shorter : tuple of int
        Other burn-ins to try.
    attrs : mapping of str to float
        Further attributes for the result.
    """

    point: Point
    data: Mapping[str, np.ndarray]
    status: Status
    burn_in: int = 0
    hyperparameters: tuple[str, ...] = ()
    shorter: tuple[int, ...] = ()
    attrs: Mapping[str, float] = field(default_factory=dict)


class Simulation(ABC):
    """Source of the simulated data of `sample_bdmc`.

    It is one of `FromHyperparameters`, `FromPrior`, `Matched` and `Given`.

    Attributes
    ----------
    name : str
        Name in a result.
    datasets : int
        Number of data sets.
    renews : bool
        Whether it can simulate further data sets.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> simulate = bdmc.FromPrior(datasets=3)
    >>> simulate.name, simulate.datasets
    ('prior', 3)
    """

    name: ClassVar[str]
    renews: ClassVar[bool] = True
    datasets: int

    @abstractmethod
    def check(self, density: TemperedDensity) -> None:
        """Raise an error for a model that cannot be simulated in this way, before compiling.

        Raises
        ------
        ValueError
            If it cannot; the message names the variable or the argument, and the remedy.
        """

    @abstractmethod
    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Return every simulated data set with its θ*.

        Parameters
        ----------
        density : TemperedDensity
            Density of a model that passed `check`.
        entropy : int or sequence of int
            Entropy of the whole call; every data set has its own random stream.
        fit : callable
            Returns a fit to the real data; called only where one is needed.
        first : int, default 0
            Index of the first data set; each index has its own random stream.
        """


@dataclass(frozen=True)
class FromPrior(Simulation):
    r"""Draw parameters and data together from the model: θ\* is an exact posterior sample.

    Parameters
    ----------
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    Grosse, Ghahramani and Adams (2015), Section 4.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> dt = pm.sample_bdmc(model, simulate=bdmc.FromPrior(datasets=2), chains=4, temperatures=10,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"], dt["simulated"].sizes["dataset"]
    ('exact', 2)
    """

    datasets: int = DATASETS
    name = "prior"

    def __post_init__(self):
        check_counts(datasets=self.datasets)

    def check(self, density: TemperedDensity) -> None:
        """Raise an error for Potentials, and observed variables that cannot be drawn."""
        check_drawable(density)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit | None = None, first: int = 0
    ) -> list[Simulated]:
        """Draw parameters and data from the joint distribution."""
        return [
            Simulated(*pair, "exact")
            for place in range(first, first + self.datasets)
            for pair in joint_draws(density, entropy, place)
        ]


@dataclass(frozen=True, eq=False)
class FromHyperparameters(Simulation):
    r"""Hold the hyperparameters at values that fit the real data, and simulate everything else.

    Such data resemble the real ones. But θ\* is only close to a posterior sample, since the
    hyperparameters were not drawn from their prior, so reverse chains start after a burn-in.

    Parameters
    ----------
    names : str or sequence of str, optional
        Variables held at fitted values. Default: the free variables without random parents that
        are scalars or have an LKJ prior. If there are none, everything is drawn from the model, and
        the start is exact.
    at : {"draw", "mean"}
        Hold them at a posterior draw (a different one for every data set if there are enough), or
        at the posterior mean.
    idata : DataTree, Dataset or InferenceData, optional
        Your own fit to the real data. Default: the ``posterior`` of `sample_bdmc`; without it,
        particles of a few forward runs on them.
    burn_in : int or sequence of int, default 100
        Transitions at β = 1 before a reverse chain starts; with 0 the upper bound is heuristic.
        If runs weigh draws from a fit, transitions are Metropolis moves to independent draws; then
        fewer are made if these forget the start but for 0.1 %, by the largest weight. With several,
        in increasing order, the result has the last one. Reverse chains after each of them, on the
        same data with the same tuning, show whether it is long enough: see `burn_in_effect` and
        `plot_burn_in`.
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    Grosse, Ancha and Roy (2016), Section 4.2.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, pm.HalfNormal("scale")), observed=0.5)
    >>> simulate = bdmc.FromHyperparameters("scale", burn_in=20)
    >>> simulate.names
    ('scale',)
    """

    names: str | Sequence[str] | None = None
    at: Literal["draw", "mean"] = "draw"
    idata: xr.DataTree | None = None
    burn_in: int | Sequence[int] = 100
    datasets: int = DATASETS
    name = "hyperparameters"

    def __post_init__(self):
        if self.names is not None:
            names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
            object.__setattr__(self, "names", names)
        check_choice("at", self.at, ["draw", "mean"])
        check_counts(datasets=self.datasets)
        for burn_in in self._burn_ins:
            check_counts(burn_in=burn_in)
        if not self._burn_ins or any(np.diff(self._burn_ins) <= 0):
            raise ValueError(f"burn_in: several of them must increase, got {self.burn_in!r}.")
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))

    @property
    def _burn_ins(self) -> list[int]:
        return list(self.burn_in) if isinstance(self.burn_in, Sequence) else [self.burn_in]

    def _names(self, model: pm.Model) -> tuple[str, ...]:
        return tuple(default_hyperparameters(model) if self.names is None else self.names)

    def check(self, density: TemperedDensity) -> None:
        """Raise an error also for wrong names, means of discrete variables, or a wrong fit."""
        model = density.model
        names = self._names(model)
        if self.names == ():
            raise ValueError("names: give at least one variable, or use FromPrior().")
        free = [rv.name for rv in model.free_RVs]
        unknown = [name for name in names if name not in free]
        if unknown:
            raise ValueError(f"names: {unknown} are not among the free variables {free}.")
        discrete = [name for name in names if model[name].dtype in discrete_types]
        if discrete and self.at == "mean":
            raise ValueError(f"at: the discrete {discrete} cannot be held at a mean.")
        if self.idata is not None:
            posterior_draws("idata", self.idata, names, model)
        check_drawable(density)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw from the model given the hyperparameters."""
        names = self._names(density.model)
        if not names:
            return FromPrior(self.datasets).simulate(density, entropy, first=first)
        fitted = fit() if self.idata is None else self.idata
        draws = posterior_draws("idata", fitted, names, density.model)
        _log.info(f"Hyperparameters held at a posterior {self.at}: {', '.join(names)}")
        seed = stream(entropy, Purpose.FIT, 1, 0, first)
        values = self._values(draws, np.random.default_rng(seed))
        *shorter, burn_in = self._burn_ins
        status: Status = "burned-in" if burn_in else "heuristic"
        return [
            Simulated(*pair, status, burn_in, names, tuple(shorter))
            for place, held in enumerate(values, start=first)
            for pair in joint_draws(
                density, entropy, place, held=dict(zip(names, held, strict=True))
            )
        ]

    def _values(self, draws: list[np.ndarray], rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return the hyperparameters of every data set, from all posterior draws of each."""
        if self.at == "mean":
            return [[each.mean(axis=0) for each in draws]] * self.datasets
        size = len(draws[0])
        chosen = rng.choice(size, size=self.datasets, replace=self.datasets > size)
        return [[each[i] for each in draws] for i in chosen]


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


_NAMED = {simulation.name: simulation for simulation in (FromHyperparameters, FromPrior)}


def make_simulation(simulate: str | Simulation | None) -> Simulation | None:
    """Return the simulation of this name with default options; an object is returned unchanged.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(simulate, Simulation | None):
        return simulate
    objects = "FromHyperparameters(...)", "FromPrior(...)", "Matched(...)", "Given(point, data)"
    check_choice("simulate", simulate, _NAMED, *objects, "None")
    return _NAMED[simulate]()


def possible_simulation(
    simulation: Simulation | None, model: pm.Model, *, needed: bool
) -> Simulation | None:
    """Return the default simulation, or None with a warning if data cannot be simulated.

    Parameters
    ----------
    simulation : Simulation or None
        The simulation for ``simulate="hyperparameters"``.
    model : pymc.Model
    needed : bool
        Whether the call needs simulated data.

    Raises
    ------
    ValueError
        If it cannot be simulated and simulated data are needed.
    """
    try:
        check_simulable(model)
    except ValueError as reason:
        if needed:
            raise
        _log.warning(
            "No data are simulated, so log ML is estimated, but the posterior draws are not "
            f"judged, as with simulate=None. ({reason})"
        )
        return None
    return simulation


def default_hyperparameters(model: pm.Model) -> list[str]:
    """Return the names of the hyperparameters: free variables without random parents.

    They are scalars, and covariance or correlation matrices with an LKJ prior. Vectors, such as
    regression weights or non-centred effects, are simulated from their prior with everything else,
    which is exact; so is the missing part of a partly observed variable.
    """
    basic = set(model.basic_RVs)
    return [
        rv.name
        for rv in model.free_RVs
        if (not rv.type.ndim or isinstance(rv.owner.op, LKJ))
        and not basic.intersection(ancestors(rv.owner.inputs))
        and not (rv.name.endswith("_unobserved") and rv.name[:-10] + "observed" in model.named_vars)
    ]


def check_drawable(density: TemperedDensity) -> None:
    """Raise an error for models whose data cannot be drawn; the message names the variable."""
    check_simulable(density.model)
    sampler = density.joint()
    sampler.seed(np.random.default_rng(0))
    for _ in range(20):  # parameters may leave their domain in a few draws only
        with suppress(Unrepresentable):  # data may be smaller with fitted hyperparameters
            sampler.draw()


def joint_draws(
    density: TemperedDensity,
    entropy: Entropy,
    place: int,
    n: int = 1,
    held: Mapping[str, np.ndarray] | None = None,
) -> list[tuple[Point, dict[str, np.ndarray]]]:
    """Draw pairs of θ and y for the data set of this index, given the values of some variables.

    Pairs whose y cannot be represented are drawn again: see `ForwardSampler.draw_supported`.
    """
    held = held or {}
    sampler = density.joint(given=tuple(held))
    sampler.seed(np.random.default_rng(stream(entropy, Purpose.SIMULATE, place)))
    types = {name: y.dtype for name, y in density.data.items()}
    pairs = []
    for _ in range(n):
        point, data, _ = sampler.draw_supported(*held.values())
        pairs.append((point, {name: np.asarray(y, types[name]) for name, y in data.items()}))
    return pairs


def _value(rv, value: ArrayLike) -> np.ndarray:
    """Return a given value of a free variable, checked for shape and type."""
    given = np.asarray(value).astype(rv.dtype)
    shape = shape_of(rv)
    if given.shape != shape or not np.array_equal(given, value):
        raise ValueError(
            f"simulate: {rv.name} must be of type {rv.dtype} and shape {shape}, got {value!r}."
        )
    return given
