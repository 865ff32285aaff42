"""Where a path of densities starts: at the prior, or at a reference near the posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.logprob.transforms import CircularTransform

from pymc_bdmc.base.arguments import check_choice, check_positive
from pymc_bdmc.engines.compiled.engine import CompiledEngine
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.tasks import Engine
from pymc_bdmc.kernels.metric import Metric, estimate_metric
from pymc_bdmc.kernels.reference import DEGREES_OF_FREEDOM, Reference, make_reference
from pymc_bdmc.model.posterior import check_idata, posterior_states

__all__ = [
    "DataPath",
    "Fit",
    "FittedPath",
    "Path",
    "PriorPath",
    "ReferencePath",
    "make_path",
    "no_reference_for",
]


Fit = tuple[np.ndarray, Metric]
"""Mean and shape of states on the unconstrained scale."""
FEWEST_FROM_DRAWS = 10
"""Temperatures from a fit to draws, which knows the posterior better than one to a pilot."""
FEWEST_TO_FIT, MOST_TO_FIT = 100, 2000
"""Draws for a fit."""


class Path(ABC):
    """Where the path of densities to the posterior starts.

    One of `PriorPath`, `DataPath`, `FittedPath` and `ReferencePath`. Estimates and bounds mean the
    same on any of them: the divergence is that of the last particles of *its* runs from the
    posterior.

    Attributes
    ----------
    name : str
        What a result calls it.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> bdmc.FittedPath().name
    'fitted'
    """

    name: ClassVar[str]
    fewest_temperatures: int = 30
    """However short the path: kernels mix less than perfectly, the more so the further they go."""
    idata: xr.DataTree | None = None
    """Draws from the posterior on the real data by which the path is made, if any."""

    @property
    def starts(self) -> xr.DataTree | None:
        """Those of the draws that the path has not seen, from which reverse runs may start."""
        return None

    def check(self, engine: Engine) -> None:
        """Refuse a model that has no such path.

        Raises
        ------
        ValueError
            Names the variables, or the argument, and the remedy.
        """
        if reason := no_reference_for(engine):
            raise ValueError(f"path: {self.name!r} is not possible here, {reason}. Use 'prior'.")

    @abstractmethod
    def reference(
        self, engine: CompiledEngine, dataset: int, from_prior: Callable[[], PathTuning]
    ) -> Reference | None:
        """Return where the path starts; None: at the prior.

        Parameters
        ----------
        engine : CompiledEngine
        dataset : int
            0 is the real data.
        from_prior : callable
            Returns what a pilot on the path from the prior found on the data at hand. It runs the
            pilot, so a path that has no need of it does not call it.
        """


@dataclass(frozen=True)
class PriorPath(Path):
    """From the prior: f_β(θ) = p(θ) p(y|θ)^β, the path of BDMC and of BREAD.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> bdmc.PriorPath().name
    'prior'
    """

    name = "prior"
    fewest_temperatures = 100

    def check(self, engine: Engine) -> None:
        """Every model has it."""

    def reference(
        self, engine: CompiledEngine, dataset: int, from_prior: Callable[[], PathTuning]
    ) -> None:
        """Return None, for the prior."""


@dataclass(frozen=True)
class DataPath(PriorPath):
    """From the prior, one observation after the other: at β the first βN of N have come.

    All densities on the way are posteriors of fewer data; a schedule may add several observations
    in a step, or one in several. Rows, along the first dimension of every observed variable, must
    be independent given θ. Of the observation that is only coming a part of its log density counts.
    Pilots do not see how long this way is: temperatures are spaced evenly, ten an observation
    within 100 and 2000, where no other schedule and no number is given.

    References
    ----------
    Habeck (2017), Section 6.4. Chopin (2002), A sequential particle filter method for static
    models.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 10), observed=[0.5, 1.0, 0.2])
    >>> dt = pm.sample_bdmc(model, path="data", chains=4, temperatures=30, random_seed=1, cores=1,
    ...                     progressbar=False)
    >>> dt.attrs["path"]
    'data'
    """

    name = "data"

    def check(self, engine: Engine) -> None:
        """Refuse step methods."""
        if not isinstance(engine, CompiledEngine):
            raise ValueError(
                "path: 'data' is not possible here, since PyMC's step methods move along the path "
                "from the prior. Use 'prior', or leave step out."
            )


@dataclass(frozen=True, eq=False)
class FittedPath(Path):
    """From a reference r near the posterior: f_β(θ) = r(θ)^(1−β) (p(θ) p(y|θ))^β.

    A pilot on the path from the prior fits r to the data, a multivariate t distribution on the
    unconstrained scale, before any weighted run and without θ*. So all identities hold. With up to
    20 elements of θ, some draws from r climb, and a narrow peak that one comes upon gets a
    component of its own. The path is shorter by far where the posterior has one mode; a mode that
    neither the pilot nor a climb came upon stays missed.

    Whoever has draws of the posterior already, of NUTS say, saves the pilot from the prior and the
    scouts: with ``idata`` the r of the real data is fitted to the first half of every chain, and
    reverse runs on the real data start from states of the second half, as with ``posterior=idata``.
    Ten temperatures then do, where the fit is good.

    Parameters
    ----------
    idata : DataTree, optional
        With draws of the free variables in its group ``posterior``, from the real data.
    degrees_of_freedom : float, default 10
        Of the t distribution: the smaller, the heavier its tails.

    References
    ----------
    Surjanovic, Syed, Bouchard-Côté and Campbell (2022), Parallel tempering with a variational
    reference. With T = 1 it is bridge sampling: Meng and Wong (1996).

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 100), observed=0.5)
    >>> dt = pm.sample_bdmc(model, path=bdmc.FittedPath(degrees_of_freedom=5), chains=4,
    ...                     temperatures=10, random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'fitted'
    """

    idata: xr.DataTree | None = None
    degrees_of_freedom: float = DEGREES_OF_FREEDOM
    name = "fitted"

    def __post_init__(self):
        check_idata(idata=self.idata)
        check_positive(degrees_of_freedom=self.degrees_of_freedom)
        if self.idata is not None:
            object.__setattr__(self, "fewest_temperatures", FEWEST_FROM_DRAWS)

    @property
    def starts(self) -> xr.DataTree | None:
        """The second half of the draws of every chain."""
        return None if self.idata is None else _half(self.idata, 1)

    def reference(
        self, engine: CompiledEngine, dataset: int, from_prior: Callable[[], PathTuning]
    ) -> Reference:
        """Return a t distribution with the mean and the shape of draws, or of what a pilot saw."""
        if self.idata is not None and dataset == 0:
            return self.fitted_to(self._of_draws(engine))
        return self.fitted_to(cast(Fit, from_prior().fit))

    def fitted_to(self, fit: Fit) -> Reference:
        """Return a t distribution with this mean and shape."""
        return make_reference(*fit, self.degrees_of_freedom)

    def _of_draws(self, engine: CompiledEngine) -> Fit:
        """Mean and shape of the first half of the draws."""
        half = _half(cast(xr.DataTree, self.idata), 0)
        n = max(FEWEST_TO_FIT, 2 * engine.density.size)
        with engine.lock:
            engine.density.set_data(engine.density.data)
            points = posterior_states("path", half, n, engine.density, most=MOST_TO_FIT)
        thetas = np.array([engine.jitted.ravel(point) for point in points])
        return thetas.mean(axis=0), estimate_metric(thetas, np.zeros_like(thetas), for_moves=False)


def _half(idata: xr.DataTree, which: int) -> xr.DataTree:
    """One half of the draws of every chain, and the data that it says it is fitted to."""
    posterior = idata["posterior"].dataset
    if "draw" in posterior.dims:
        middle = posterior.sizes["draw"] // 2
        posterior = posterior.isel(draw=[slice(middle), slice(middle, None)][which])
    groups = {"posterior": posterior}
    if "observed_data" in idata.children:
        groups["observed_data"] = idata["observed_data"].dataset
    return xr.DataTree.from_dict(groups)


@dataclass(frozen=True, eq=False)
class ReferencePath(Path):
    """From a reference of your own: independent t distributions, stretched together.

    Parameters
    ----------
    location, scale : mapping of str to array_like
        Of every free variable on the unconstrained scale, by its name: of log σ for a positive
        σ, say. They may come from a fit to the real data, but not from the θ* of simulated ones.
    degrees_of_freedom : float, default 10
        Of the t distribution.

    Raises
    ------
    ValueError
        By `sample_bdmc`: if a variable is missing or unknown, has another shape, or a scale is not
        positive.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 100), observed=0.5)
    >>> path = bdmc.ReferencePath(location={"x": 0.0}, scale={"x": 3.0})
    >>> dt = pm.sample_bdmc(model, path=path, chains=4, temperatures=10, simulate=None,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'reference'
    """

    location: Mapping[str, ArrayLike]
    scale: Mapping[str, ArrayLike]
    degrees_of_freedom: float = DEGREES_OF_FREEDOM
    name = "reference"

    def __post_init__(self):
        check_positive(degrees_of_freedom=self.degrees_of_freedom)

    def check(self, engine: Engine) -> None:
        """Refuse also what does not fit the variables."""
        super().check(engine)
        self._made(cast(CompiledEngine, engine))

    def reference(
        self, engine: CompiledEngine, dataset: int, from_prior: Callable[[], PathTuning]
    ) -> Reference:
        """Return the same for all data."""
        return self._made(engine)

    def _made(self, engine: CompiledEngine) -> Reference:
        scale = self._flat("scale", engine)
        if not (scale > 0).all():
            raise ValueError(f"scale: must be positive, got {dict(self.scale)}.")
        shape = Metric(scale, np.zeros((0, len(scale))), np.zeros(0))
        return make_reference(self._flat("location", engine), shape, self.degrees_of_freedom)

    def _flat(self, argument: str, engine: CompiledEngine) -> np.ndarray:
        """The values of an argument as θ."""
        given, model = getattr(self, argument), engine.density.model
        names = [rv.name for rv in model.free_RVs]
        if set(given) != set(names):
            raise ValueError(f"{argument}: must give {names}, got {sorted(given)}.")
        point = {}
        for name, (value, shape) in zip(names, engine.density.shapes.items(), strict=True):
            point[value] = np.asarray(given[name], float)
            if point[value].shape != shape or not np.isfinite(point[value]).all():
                raise ValueError(
                    f"{argument}: {name} must be finite and of shape {shape} on the unconstrained "
                    f"scale, got {given[name]!r}."
                )
        return engine.jitted.ravel(point)


_NAMED: dict[str, Path] = {path.name: path for path in (PriorPath(), FittedPath(), DataPath())}


def make_path(path: str | Path | None) -> Path | None:
    """The path of a name; an object, or None, is returned as it is.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(path, Path | None):
        return path
    check_choice("path", path, _NAMED, "FittedPath(...)", "ReferencePath(...)", "None")
    return _NAMED[path]


def no_reference_for(engine: Engine) -> str:
    """Why a path can start from the prior only; empty where it need not."""
    if not isinstance(engine, CompiledEngine):
        return "since PyMC's step methods move along the path from the prior"
    _, discrete = engine.jitted.names
    if discrete:
        return f"since a reference has no density for the discrete {', '.join(discrete)}"
    for rv in engine.density.model.free_RVs:
        if isinstance(engine.density.model.rvs_to_transforms[rv], CircularTransform):
            return f"since {rv.name} lies on a circle"
        if isinstance(rv.owner.op, CustomDistRV | CustomSymbolicDistRV):
            return f"since the density of {rv.name}, a CustomDist, need not integrate to 1"
    return ""
