"""The contract of a simulation: pairs of data y* and a sample θ* of the posterior given them."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.prior import MOST_FAILED, Unrepresentable
from pymc_bdmc.density.refuse import check_simulable
from pymc_bdmc.density.tempered import TemperedDensity

_log = logging.getLogger("pymc.bdmc")

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
    attrs: Mapping[str, float] = field(default_factory=dict)
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

    It is one of `FromHyperparameters`, `FromPosterior`, `FromPrior`, `Matched` and `Given`.

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

    def suited(self, model: pm.Model, stacks_data: bool) -> "Simulation":
        """Return the simulation for a model, and for runs that can be on several data sets or not.

        Raises
        ------
        ValueError
            If runs cannot be on several data sets, and this simulation needs it.
        """
        return self

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


def check_drawable(density: TemperedDensity) -> None:
    """Raise an error for models whose data cannot be drawn."""
    check_simulable(density.model)
    sampler = density.joint()
    sampler.seed(np.random.default_rng(0))
    for _ in range(20):  # parameters may leave their domain in a few draws only
        with suppress(Unrepresentable):  # data may be smaller with fitted hyperparameters
            sampler.draw()


def chosen_draws(entropy: Entropy, first: int, size: int, datasets: int) -> np.ndarray:
    """Return which of so many draws of a fit each data set takes: others, if there are enough."""
    rng = np.random.default_rng(stream(entropy, Purpose.FIT, 1, 0, first))
    return rng.choice(size, size=datasets, replace=datasets > size)


def joint_draws(
    density: TemperedDensity,
    entropy: Entropy,
    place: int,
    n: int = 1,
    fixed: Mapping[str, np.ndarray] | None = None,
) -> list[tuple[Point, dict[str, np.ndarray]]]:
    """Draw pairs of θ and y for the data set of this index, with some variables fixed.

    Pairs whose y cannot be represented are drawn again: see `ForwardSampler.draw_supported`. So are
    pairs at which the density is NaN or 0, through overflow. Given y, θ of the others is an exact
    draw from the posterior that runs have as their target; NaN counts as −∞ there.
    """
    fixed = fixed or {}
    sampler = density.joint(given=tuple(fixed))
    sampler.seed(np.random.default_rng(stream(entropy, Purpose.SIMULATE, place)))
    types = {name: y.dtype for name, y in density.data.items()}
    pairs: list[tuple[Point, dict[str, np.ndarray]]] = []
    failed = 0
    while len(pairs) < n:
        point, drawn, _ = sampler.draw_supported(*fixed.values())
        data = {name: np.asarray(y, types[name]) for name, y in drawn.items()}
        if density(point, data)[1] > -np.inf:
            pairs.append((point, data))
            failed = 0
        elif (failed := failed + 1) == MOST_FAILED:
            raise density.impossible([point], failed, data)
    return pairs
