"""Paths of densities, which start at the prior or at a reference near the posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Protocol

import numpy as np
import xarray as xr
from numpy import ndarray
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_choice, check_positive
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.density.draws import as_idata, posterior_states
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.reference.metric import Metric, diagonal_metric, estimate_metric
from pymc_bdmc.reference.nested import MOST_LATENT, MOST_OTHERS
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.reference.student import make_reference as make_reference


class PathEngine(Protocol):
    """The part of an engine that a path may ask."""

    density: TemperedDensity
    """The model's path of densities; a path from a reference may use its ``jitted`` form."""
    rows: int
    """Number of observations that come in turn in its runs; 0 if they come together."""

    has_gradient: bool
    """Whether the density has a gradient, and runs may use it."""

    @property
    def lock(self) -> AbstractContextManager:
        """A lock to take while the density is used."""

    @property
    def no_reference(self) -> str:
        """The reason why paths start at the prior only; empty if they need not."""


class Path(ABC):
    """A way from a start that can be drawn from to the posterior: f_β(θ) = r^(1−β) (p e^ℓ)^β.

    A subclass says where it starts. Estimates and bounds mean the same on any path: the divergence
    is that of the last particles of *its* runs from the posterior.

    Attributes
    ----------
    name : str
        The path's name in results.
    starts_at_prior : bool
        Whether r is the prior, so that kernels see log p and ℓ, and no reference is asked for.
    in_turn : bool
        Whether one observation comes after the other. Pilots do not see how long such a path is:
        temperatures are even, ten an observation, unless the caller says otherwise.
    order : tuple of int or None
        Order in which observations come in turn, by their numbers; None: as they are.
    is_fitted : bool
        Whether r is fitted to what a pilot sees. Narrow modes that it misses are then added to it,
        and further data sets take over the tuning of the first, with a quick fit of their own.
    degrees_of_freedom : float or None
        Degrees of freedom of the t distributions that are fitted, if they were chosen.
    latent : sequence of str or None
        Names of the latent variables in which a reference is normal, if they were chosen.
    fewest_temperatures : int
        Least T by default. Kernels mix less than perfectly, the more so the further they go.
    idata : DataTree or None
        Draws from the posterior on the real data by which the path is made, if any.

    Examples
    --------
    A path from a normal-like distribution at 0, for every model whose variables are continuous:

    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_bdmc.paths import Path, make_reference
    >>> from pymc_bdmc.reference.metric import diagonal_metric
    >>> class FromZero(Path):
    ...     name = "zero"
    ...     def reference(self, engine, dataset, from_prior):
    ...         n = engine.density.size
    ...         return make_reference(np.zeros(n), diagonal_metric(np.ones(n)))
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 100), observed=0.5)
    >>> dt = pm.sample_bdmc(model, path=FromZero(), chains=4, temperatures=10, simulate=None,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'zero'
    """

    name: ClassVar[str]
    starts_at_prior: ClassVar[bool] = False
    in_turn: ClassVar[bool] = False
    order: tuple[int, ...] | None = None
    is_fitted: ClassVar[bool] = False
    degrees_of_freedom: float | None = None
    latent: Sequence[str] | None = None
    fewest_temperatures: int = 30
    idata: xr.DataTree | None = None

    @property
    def starts(self) -> xr.DataTree | None:
        """Draws that the path has not seen, from which reverse runs may start; None without any."""
        return None

    def check(self, engine: PathEngine) -> None:
        """Refuse a model that has no such path.

        Raises
        ------
        ValueError
            Names the variables, or the argument, and the remedy.
        """
        if engine.no_reference:
            raise ValueError(
                f"path: {self.name!r} is not possible here, {engine.no_reference}. Use 'prior'."
            )

    @abstractmethod
    def reference(
        self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]
    ) -> Reference | None:
        """Return the distribution r at which the path starts; None for the prior.

        It must not depend on the θ* of simulated data.

        Parameters
        ----------
        engine : PathEngine
        dataset : int
            0 is the real data.
        from_prior : callable
            Returns what a pilot on the path from the prior found on the data at hand, such as its
            ``fit``. It runs the pilot, so a path that has no need of it does not call it.
        """


@dataclass(frozen=True)
class PriorPath(Path):
    """The path from the prior, f_β(θ) = p(θ) p(y|θ)^β, as in BDMC and BREAD.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> bdmc.PriorPath().name
    'prior'
    """

    name = "prior"
    starts_at_prior = True
    fewest_temperatures = 100

    def check(self, engine: PathEngine) -> None:
        """Accept every model."""

    def reference(self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]) -> None:
        """Return None, for the prior."""


@dataclass(frozen=True)
class DataPath(Path):
    """The path on which one observation comes after the other: at β, the first βN of N have.

    All densities on the way are posteriors of fewer data [1]_ [2]_; a schedule may add several
    observations in a step, or one in several. Rows, along the first dimension of every observed
    variable, must be independent given θ. Of the observation that is only coming a part of its log
    density counts. Pilots do not see how long this way is: temperatures are spaced evenly, by
    default ten an observation, but at least 100 and at most 2000 in all. If a temperature ends with
    each observation, as then with up to 2000 of them, `pointwise` reads their predictive densities.

    Parameters
    ----------
    order : sequence of int, optional
        Order in which the observations come, by their numbers from 0. Default: as they are.

    References
    ----------
    .. [1] Habeck (2017), Model evidence from nonequilibrium simulations, Section 6.4.
       https://papers.nips.cc/paper/2017/hash/4da04049a062f5adfe81b67dd755cecc-Abstract.html
    .. [2] Chopin (2002), A sequential particle filter method for static models.
       https://doi.org/10.1093/biomet/89.3.539

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    >>> last_first = bdmc.DataPath(order=[2, 0, 1])
    >>> dt = pm.sample_bdmc(model, path=last_first, chains=4, temperatures=30, simulate=None,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'data'
    """

    order: Sequence[int] | None = None  # type: ignore[assignment]

    name = "data"
    starts_at_prior = True
    in_turn = True
    fewest_temperatures = 100

    def __post_init__(self):
        if self.order is not None:
            object.__setattr__(self, "order", tuple(map(int, self.order)))

    def check(self, engine: PathEngine) -> None:
        """Refuse step methods, whose observations come together."""
        if not engine.rows:
            raise ValueError(
                "path: 'data' is not possible here, since PyMC's step methods move along the path "
                "from the prior. Use 'prior', or leave step out."
            )

    def reference(self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]) -> None:
        """Return None, for the prior."""


@dataclass(frozen=True, eq=False)
class FittedPath(Path):
    """The path from a reference r near the posterior, f_β(θ) = r(θ)^(1−β) (p(θ) p(y|θ))^β.

    A pilot on the path from the prior fits r to the data, a multivariate t distribution on the
    unconstrained scale, before any weighted run and without θ* [1]_. So all identities hold. With
    up to 20 elements of θ, the density is maximised from some draws from r, and a narrow mode found
    this way gets a component of its own. The path is shorter by far if the posterior has one mode;
    a mode that neither the pilot nor an optimisation finds stays missed. With one temperature, the
    estimate from both sides is bridge sampling [2]_.

    With ``idata``, draws of the posterior by NUTS say, the r of the real data is fitted to the
    first half of every chain, and reverse runs on the real data start from states of the second
    half, as with ``posterior=idata``. Runs are then importance sampling from r, if it is so near
    the posterior that draws need no annealing. If it is not, since the draws that were given are
    wrong or of a shape that no t distribution has, a warning says so; then the path is chosen, and
    the call costs, as without them. If temperatures, schedule, kernel or a target for the gap are
    given, runs are annealed from r, whatever it is like; ten temperatures do if it is good.

    With ``latent``, runs are importance sampling from a reference that is normal in the variables
    of these names given the others. If draws need annealing, the call goes on as by default, and
    the attribute ``path_reason`` says why. The program finds latent variables itself: those with a
    normal prior given the others, the larger one of two that are multiplied and, if that is not
    enough, effects of any family in groups that do not interact.

    Parameters
    ----------
    idata : DataTree, Dataset or InferenceData, optional
        With draws of the free variables in its group ``posterior``, from the real data.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distribution: the fewer, the heavier its tails. By default as
        many as θ has elements, but at least 3 and at most 10, or more if importance weights then
        become more even.
    latent : str or sequence of str, optional
        Names of free variables. The others may have up to 12 elements on the unconstrained scale,
        and these up to 10,000. Not with the other two arguments.

    Raises
    ------
    ValueError
        By `sample_bdmc`, before it samples: if a name is unknown, if none or too many elements are
        left among the others, if too many are latent, or if the call asks for annealing.

    References
    ----------
    .. [1] Surjanovic, Syed, Bouchard-Côté and Campbell (2022), Parallel tempering with a
       variational reference. https://doi.org/10.48550/arXiv.2206.00080
    .. [2] Meng and Wong (1996), Simulating ratios of normalizing constants via a simple identity: a
       theoretical exploration. Statistica Sinica 6, 831-860.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> options = dict(chains=4, simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> dt = pm.sample_bdmc(model, path=bdmc.FittedPath(degrees_of_freedom=5), **options)
    >>> dt.attrs["path"]
    'fitted'

    Effects that are log-normal given their scale:

    >>> with pm.Model() as model:
    ...     effect = pm.LogNormal("effect", 0, pm.HalfNormal("scale"), shape=3)
    ...     y = pm.Poisson("y", 10 * effect, observed=[8, 15, 12])
    >>> dt = pm.sample_bdmc(model, path=bdmc.FittedPath(latent="effect"), **options)
    >>> dt.attrs["path_reason"].split(":")[0]
    '1 parameter, 3 latent variables'
    """

    idata: xr.DataTree | None = None
    degrees_of_freedom: float | None = None
    latent: Sequence[str] | None = None
    name = "fitted"
    is_fitted = True

    def __post_init__(self):
        check_positive(degrees_of_freedom=self.degrees_of_freedom)
        if self.latent is not None:
            if self.idata is not None or self.degrees_of_freedom is not None:
                raise ValueError(
                    "latent: idata and degrees_of_freedom are about a t distribution in all "
                    "variables; leave them out, or latent. Draws may be passed as posterior=idata."
                )
            names = (self.latent,) if isinstance(self.latent, str) else tuple(self.latent)
            object.__setattr__(self, "latent", names)
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))
            # A fit to draws knows the posterior better than a fit to a pilot.
            object.__setattr__(self, "fewest_temperatures", 10)

    @property
    def starts(self) -> xr.DataTree | None:
        """The second half of the draws of every chain."""
        return None if self.idata is None else _half(self.idata, 1)

    def check(self, engine: PathEngine) -> None:
        """Refuse also what cannot be the latent variables."""
        super().check(engine)
        if self.latent is not None:
            _check_latent(self.latent, engine)

    def reference(
        self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]
    ) -> Reference:
        """Return a t distribution with the mean and the shape of draws, or of what a pilot saw."""
        if self.idata is not None and dataset == 0:
            fit = _fit_to_draws(_half(self.idata, 0), engine)
        else:
            found = from_prior().fit
            assert found is not None, "an engine with references has only continuous elements"
            fit = found
        return make_reference(*fit, self.degrees_of_freedom)


@dataclass(frozen=True, eq=False)
class ReferencePath(Path):
    """The path from a reference of your own: independent t distributions, stretched together.

    Parameters
    ----------
    location, scale : mapping of str to array_like
        Location and scale of every free variable, by its name, on the unconstrained scale: that of
        log σ for a positive σ, say. They may come from a fit to the real data, but not from the θ*
        of simulated ones.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distribution. By default as many as θ has elements, but at least
        3 and at most 10.

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
    degrees_of_freedom: float | None = None
    name = "reference"

    def __post_init__(self):
        check_positive(degrees_of_freedom=self.degrees_of_freedom)

    def check(self, engine: PathEngine) -> None:
        """Refuse also what does not fit the variables."""
        super().check(engine)
        self._made(engine)

    def reference(
        self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]
    ) -> Reference:
        """Return the same for all data."""
        return self._made(engine)

    def _made(self, engine: PathEngine) -> Reference:
        scale = self._flat("scale", engine)
        if not (scale > 0).all():
            raise ValueError(f"scale: must be positive, got {dict(self.scale)}.")
        shape = diagonal_metric(scale)
        return make_reference(self._flat("location", engine), shape, self.degrees_of_freedom)

    def _flat(self, argument: str, engine: PathEngine) -> ndarray:
        """Return the values of an argument as θ."""
        given, density = getattr(self, argument), engine.density
        names = [rv.name for rv in density.model.free_RVs]
        if set(given) != set(names):
            raise ValueError(f"{argument}: must give {names}, got {sorted(given)}.")
        point = {}
        for name, (value, shape) in zip(names, density.shapes.items(), strict=True):
            point[value] = np.asarray(given[name], float)
            if point[value].shape != shape or not np.isfinite(point[value]).all():
                raise ValueError(
                    f"{argument}: {name} must be finite and of shape {shape} on the unconstrained "
                    f"scale, got {given[name]!r}."
                )
        return density.jitted.ravel(point)


def _check_latent(names: Sequence[str], engine: PathEngine) -> None:
    """Refuse names of latent variables that are not free, or leave none or too many others."""
    if not engine.has_gradient:
        raise ValueError("latent: needs the gradient of the density, which has none; leave it out.")
    model, shapes = engine.density.model, engine.density.shapes.values()
    sizes = {rv.name: prod(shape) for rv, shape in zip(model.free_RVs, shapes, strict=True)}
    observed = [rv.name for rv in model.observed_RVs]
    for name in names:
        if name not in sizes:
            kind = "observed" if name in observed else "no free variable of the model"
            raise ValueError(f"latent: {name!r} is {kind}; choose among {[*sizes]}.")
    others = {name: size for name, size in sizes.items() if name not in names}
    n_latent = sum(sizes.values()) - sum(others.values())
    if not names:
        raise ValueError(f"latent: name at least one of {[*sizes]}, or leave it out.")
    if not others:
        raise ValueError(
            f"latent: {[*names]} are all free variables; leave out those that are not normal given "
            "the others, such as scales."
        )
    if sum(others.values()) > MOST_OTHERS:
        raise ValueError(
            f"latent: {sum(others.values())} elements are left among the others, {others}, and at "
            f"most {MOST_OTHERS} can be; name more of them, or leave latent out."
        )
    if n_latent > MOST_LATENT:
        raise ValueError(
            f"latent: {[*names]} have {n_latent} elements, and at most {MOST_LATENT} can be "
            "latent; leave latent out."
        )


def _fit_to_draws(idata: xr.DataTree, engine: PathEngine) -> tuple[ndarray, Metric]:
    """Return mean and shape of 100 to 2000 draws on the unconstrained scale."""
    density = engine.density
    with engine.lock:
        density.set_data(density.data)
        n = max(100, 2 * density.size)
        points = posterior_states("path", idata, n, density, most=2000)
    thetas = np.array([density.jitted.ravel(point) for point in points])
    return thetas.mean(axis=0), estimate_metric(thetas, np.zeros_like(thetas), for_moves=False)


def _half(idata: xr.DataTree, which: int) -> xr.DataTree:
    """Return one half of the draws of every chain, and the data that they are fitted to."""
    posterior = idata["posterior"].dataset
    if "draw" in posterior.dims:
        middle = posterior.sizes["draw"] // 2
        posterior = posterior.isel(draw=[slice(middle), slice(middle, None)][which])
    groups = {"posterior": posterior}
    if "observed_data" in idata.children:
        groups["observed_data"] = idata["observed_data"].dataset
    return xr.DataTree.from_dict(groups)


PATHS: dict[str, Path] = {path.name: path for path in (PriorPath(), FittedPath(), DataPath())}
"""By name; a path with arguments is passed as an object."""


def make_path(path: str | Path | None) -> Path | None:
    """Return the path of a name; an object, or None, is returned unchanged."""
    if isinstance(path, Path | None):
        return path
    check_choice("path", path, PATHS, "FittedPath(...)", "ReferencePath(...)", "None")
    return PATHS[path]
