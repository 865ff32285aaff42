"""Simulations of data y* with a sample θ* of the posterior given them: their kinds, and by name."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.vartypes import discrete_types
from pytensor.graph.traversal import ancestors

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_choice, check_counts, check_flags
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import LKJ
from pymc_bdmc.density.draws import as_idata, check_observed, posterior_draws, shape_of
from pymc_bdmc.density.prior import MOST_FAILED, Unrepresentable
from pymc_bdmc.density.refuse import check_simulable
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import rank_among, spread_and_tails

_log = logger(__name__)

DATASETS = 20
"""Default number of data sets; 20 can certify a total variation of 1 − 0.05^(1/20) = 0.14."""

Data = Mapping[str, np.ndarray]
"""Values of the observed variables, by name."""

Status = Literal["exact", "posterior draw", "burned-in", "heuristic"]
"""Kind of start that θ* is, on which the upper bound rests."""

Fit = Callable[[], xr.DataTree]
"""Function that returns a fit to the real data."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """Simulated data set with one sample θ* of its posterior."""

    point: Point
    """θ*, unconstrained."""
    data: Data
    """y*."""
    status: Status
    """A posterior draw is exact if the draws of the posterior on the real data are."""
    burn_in: int = 0
    """Transitions at β = 1 before a reverse chain starts."""
    hyperparameters: tuple[str, ...] = ()
    """Variables fixed at fitted values."""
    shorter: tuple[int, ...] = ()
    """Other burn-ins to try."""
    real: Data | None = None
    """The real data, if the posterior is that given them and y* together."""

    @property
    def all_data(self) -> Data:
        """The data of the runs: y*, or y and y* stacked along a new first axis."""
        if self.real is None:
            return self.data
        return {name: np.stack([y, self.data[name]]) for name, y in self.real.items()}


class Simulation(ABC):
    """Source of the simulated data of `sample_bdmc`.

    It is one of `FromHyperparameters`, `FromPosterior`, `FromPrior` and `Given`.

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

    @property
    def needs_fit(self) -> bool:
        """Whether `simulate` asks for a fit to the real data."""
        return False

    @property
    def if_unlike(self) -> "Simulation | None":
        """The simulation to use in addition if the real data are like none of its own."""
        return None

    def suited(self, model: pm.Model, stacks_data: bool) -> "Simulation":
        """Return the simulation for a model, and for runs that can be on several data sets or not.

        Raises
        ------
        ValueError
            If runs cannot be on several data sets, and this simulation needs it.
        """
        return self

    def check(self, density: TemperedDensity) -> None:
        """Raise an error for a model whose data cannot be drawn in this way, before compiling.

        Raises
        ------
        ValueError
            If they cannot; the message names the variable or the argument, and the remedy.
        """
        check_simulable(density.model)
        sampler = density.joint()
        sampler.seed(np.random.default_rng(0))
        for _ in range(20):  # parameters may leave their domain in a few draws only
            with suppress(Unrepresentable):  # data may be smaller with fitted hyperparameters
                sampler.draw()

    @abstractmethod
    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Return every simulated data set with its θ*.

        Each has a random stream of its own, numbered from ``first``. The model passed `check`;
        ``fit`` is called only if a fit to the real data is needed.
        """


def if_possible[T](simulate: Callable[[], T], *, needed: bool) -> T | None:
    """Return what a function simulates; if it fails and is not needed, None with a warning."""
    try:
        return simulate()
    except Exception as reason:  # draws of the data call functions of the user
        if needed:
            raise
        _log.warning(
            "No data are simulated, so log ML is estimated, but the posterior draws are not "
            f"judged, as with simulate=None. ({reason})"
        )
        return None


def joint_draw(
    density: TemperedDensity, entropy: Entropy, place: int, fixed: Data
) -> tuple[Point, Data]:
    """Draw θ and y for the data set of this index, with some variables fixed.

    A pair whose y cannot be represented is drawn again: see `ForwardSampler.draw_supported`. So is
    one at which the density is NaN or 0, through overflow. Given y, θ of the others is an exact
    draw from the posterior that runs have as their target; NaN counts as −∞ there.
    """
    sampler = density.joint(given=tuple(fixed))
    sampler.seed(np.random.default_rng(stream(entropy, Purpose.SIMULATE, place)))
    types = {name: y.dtype for name, y in density.data.items()}
    for _ in range(MOST_FAILED):
        point, drawn, _ = sampler.draw_supported(*fixed.values())
        data = {name: np.asarray(y, types[name]) for name, y in drawn.items()}
        if density(point, data)[1] > -np.inf:
            return point, data
    raise density.impossible([point], MOST_FAILED, data)


def _pairs(
    density: TemperedDensity, entropy: Entropy, first: int, held: Sequence[Data]
) -> list[tuple[Point, Data]]:
    """Return a pair of θ and y for each of these values of the variables that are not drawn."""
    return [joint_draw(density, entropy, *each) for each in enumerate(held, start=first)]


def _draws(idata: xr.DataTree, model: pm.Model, names: Sequence[str] = ()) -> Data:
    """Return the draws of variables in a fit, by name; by default of all free ones."""
    names = names or [rv.name for rv in model.free_RVs]
    return dict(zip(names, posterior_draws("idata", idata, names, model), strict=True))


def _chosen(draws: Data, entropy: Entropy, first: int, datasets: int) -> list[Data]:
    """Return a draw of a fit for each data set: other draws, if there are enough."""
    rng = np.random.default_rng(stream(entropy, Purpose.FIT, 1, 0, first))
    size = len(next(iter(draws.values())))
    chosen = rng.choice(size, size=datasets, replace=datasets > size)
    return [{name: each[i] for name, each in draws.items()} for i in chosen]


@dataclass(frozen=True)
class FromPrior(Simulation):
    r"""Draw parameters and data together from the model: θ\* is an exact posterior sample.

    So reverse runs bound the log ML of the simulated data from above [1]_.

    Parameters
    ----------
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    .. [1] Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using
       bidirectional Monte Carlo, Section 4. https://doi.org/10.48550/arXiv.1511.02543

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

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit | None = None, first: int = 0
    ) -> list[Simulated]:
        """Draw parameters and data from the joint distribution."""
        pairs = _pairs(density, entropy, first, [{}] * self.datasets)
        return [Simulated(*pair, "exact") for pair in pairs]


@dataclass(frozen=True, eq=False)
class FromPosterior(Simulation):
    r"""Simulate data y′ from draws θ′ of the posterior, and run on the real data and y′ together.

    Runs target :math:`p(\theta)\,p(y \mid \theta)\,p(y' \mid \theta)`. If θ′ is a draw of the
    posterior given the real data y, and y′ is drawn from the model given θ′, then θ′ is an exact
    sample of the posterior given y and y′, so reverse runs need no burn-in [1]_. Every data set
    contains the real one, with its outliers and its conflict with the prior. All that rests on the
    draws: a part of the posterior that they miss is never a θ′.

    All variables are fixed, latent ones too, so y′ is a second data set of the same groups or of
    the same path of a time series.

    Parameters
    ----------
    idata : DataTree, Dataset or InferenceData, optional
        Your own draws from the posterior on the real data. Default: the ``posterior`` of
        `sample_bdmc`; without it, particles of a few forward runs.
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05.

    References
    ----------
    .. [1] Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC: simulation-based
       calibration checking conditional on data. https://doi.org/10.48550/arXiv.2502.03279

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> dt = pm.sample_bdmc(model, simulate=bdmc.FromPosterior(datasets=2), chains=4,
    ...                     temperatures=10, random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"], dt["simulated"].sizes["dataset"]
    ('posterior draw', 2)
    """

    idata: xr.DataTree | None = None
    datasets: int = DATASETS
    name = "posterior"

    def __post_init__(self):
        check_counts(datasets=self.datasets)
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Raise an error if runs cannot be on the real and on simulated data together."""
        if not stacks_data:
            raise ValueError(
                "simulate: runs on the real and on simulated data together need compiled kernels, "
                "and a path on which all observations come at once. Pass simulate='prior', or "
                "leave step, backend and path out."
            )
        return self

    @property
    def needs_fit(self) -> bool:
        """Whether no posterior draws were given."""
        return self.idata is None

    def check(self, density: TemperedDensity) -> None:
        """Raise an error also for draws that do not fit the model."""
        super().check(density)
        if self.idata is not None:
            check_observed("idata", self.idata, density.data)
            _draws(self.idata, density.model)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw a data set for each of several posterior draws."""
        draws = _draws(fit() if self.idata is None else self.idata, density.model)
        held = _chosen(draws, entropy, first, self.datasets)
        pairs = _pairs(density, entropy, first, held)
        return [Simulated(*pair, "posterior draw", real=density.data) for pair in pairs]


@dataclass(frozen=True, eq=False)
class FromHyperparameters(Simulation):
    r"""Fix the hyperparameters at values that fit the real data, and simulate everything else.

    Such data resemble the real ones. But θ\* is only close to a posterior sample, since the
    hyperparameters were not drawn from their prior, so reverse chains start after a burn-in [1]_.

    Parameters
    ----------
    names : str or sequence of str, optional
        Variables fixed at fitted values. Default: the free variables without random parents that
        are scalars or have an LKJ prior. If there are none, data are simulated as by
        `FromPosterior`.
    at : {"draw", "mean"}
        Fix them at a posterior draw (a different one for every data set if there are enough), or
        at the posterior mean.
    idata : DataTree, Dataset or InferenceData, optional
        Your own fit to the real data. Default: the ``posterior`` of `sample_bdmc`; without it,
        particles of a few forward runs on them.
    burn_in : int or sequence of int, default 100
        Transitions at β = 1 before a reverse chain starts; with 0 the upper bound is heuristic. If
        runs are importance sampling from a fit, transitions are Metropolis moves to independent
        draws; if the weights are even, fewer are made, which forget the start but for 0.1 %. With
        several, in increasing order, the result has the last one. Reverse chains after each of
        them, on the same data with the same tuning, show whether it is long enough: see
        `burn_in_effect` and `plot_burn_in`.
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    .. [1] Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
       bidirectional Monte Carlo, Section 4.2. https://doi.org/10.48550/arXiv.1606.02275

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

    @property
    def needs_fit(self) -> bool:
        """Whether no posterior draws were given."""
        return self.idata is None

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Return another simulation for a model without hyperparameters."""
        if self._names(model):
            return self
        return FromPosterior(self.idata, self.datasets) if stacks_data else FromPrior(self.datasets)

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
        super().check(density)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw from the model given the hyperparameters."""
        names = self._names(density.model)
        fitted = fit() if self.idata is None else self.idata
        draws = _draws(fitted, density.model, names)
        _log.debug(f"Hyperparameters held at a posterior {self.at}: {', '.join(names)}")
        held = _chosen(draws, entropy, first, self.datasets)
        if self.at == "mean":
            held = [{name: each.mean(axis=0) for name, each in draws.items()}] * self.datasets
        *shorter, burn_in = self._burn_ins
        status: Status = "burned-in" if burn_in else "heuristic"
        pairs = _pairs(density, entropy, first, held)
        return [Simulated(*pair, status, burn_in, names, tuple(shorter)) for pair in pairs]


@dataclass(frozen=True, eq=False)
class HyperparametersIfAlike(FromHyperparameters):
    """Fix the hyperparameters, unless the real data stand out among the data that these give.

    Then the model does not fit, and results on its data need not apply to the real ones. Data that
    contain the real ones are simulated in their place.
    """

    @property
    def if_unlike(self) -> Simulation:
        """Data that contain the real ones."""
        return FromPosterior(self.idata, self.datasets)

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Return another one without hyperparameters, or if runs are on one data set."""
        suited = super().suited(model, stacks_data)
        return suited if stacks_data or suited is not self else FromHyperparameters()

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw from the model given the hyperparameters, or given posterior draws.

        The first data sets decide, so that all others are simulated in the same way.
        """
        alike = super().simulate(density, entropy, fit)
        odd = [
            name
            for name, real in density.data.items()
            if _stands_out(real, [each.data[name] for each in alike])
        ]
        if not odd:
            return super().simulate(density, entropy, fit, first) if first else alike
        _log.info(f"Simulated data contain the real ones, since no others are like {odd[0]}")
        return self.if_unlike.simulate(density, entropy, fit, first)


def _stands_out(real: np.ndarray, simulated: Sequence[np.ndarray]) -> bool:
    """Return whether the real data are the most extreme of all, by their spread or their tails.

    For each observed variable this happens with one right model in twenty, or more often if many
    hyperparameters are fixed, since the data are then close to the fit. It does no harm there.
    """
    features = spread_and_tails(np.stack([real, *simulated]))
    return rank_among(features).p_value <= 1 / len(features)


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


_NAMED = {each.name: each for each in (HyperparametersIfAlike, FromPosterior, FromPrior)}


def make_simulation(simulate: str | Simulation | None) -> Simulation | None:
    """Return the simulation of this name with default options; others, and None, are unchanged."""
    if isinstance(simulate, Simulation | None):
        return simulate
    objects = [f"From{name.capitalize()}(...)" for name in _NAMED]
    check_choice("simulate", simulate, _NAMED, *objects, "Given(point, data)", "None")
    return _NAMED[simulate]()
