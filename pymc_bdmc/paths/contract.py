"""The contract of a path: where it starts, and what a campaign must know of it beforehand."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

import xarray as xr

from pymc_bdmc.base.types import Tuning
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.reference.student import Reference


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
        """A lock, held while the density is used."""

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
        Whether r is fitted to what a pilot sees. Narrow peaks that it misses are then added to it,
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
    >>> from pymc_bdmc.reference.metric import Metric
    >>> class FromZero(Path):
    ...     name = "zero"
    ...     def reference(self, engine, dataset, from_prior):
    ...         n = engine.density.size
    ...         round_shape = Metric(np.ones(n), np.zeros((0, n)), np.zeros(0))
    ...         return make_reference(np.zeros(n), round_shape)
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
