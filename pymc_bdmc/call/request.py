"""A call on a PyMC model as one checked value: the first stage of a campaign."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.arguments import check_counts, check_flags, check_memory, check_positive
from pymc_bdmc.call.options import Compilation, Ladder, Limits, Resources
from pymc_bdmc.call.store import origin
from pymc_bdmc.density.draws import all_draws, as_idata
from pymc_bdmc.density.identity import fingerprint
from pymc_bdmc.density.refuse import check_simulable, check_storable
from pymc_bdmc.paths import Path, make_path
from pymc_bdmc.simulations import (
    DATASETS,
    FromHyperparameters,
    FromPosterior,
    Simulation,
    if_possible,
    make_simulation,
)

_log = logging.getLogger("pymc.bdmc")

CHAINS = 16
"""Runs on the real data, unless the caller says otherwise."""
ERROR = 0.05
"""Default of ``target_error``, nats."""
SOME_CHAINS, MOST_CHAINS = 48, 4096
"""Most runs on the real data: by default, and if the caller gives a target for the error."""
FEWEST_RUNS = 2
"""Runs a direction on each of `DATASETS` simulated data sets, or of more."""
DRAWS, NUMBERS = 8192, 4_000_000
"""States at β = 1 of all runs on the real data, and numbers in them, if moves there are cheap."""

_BYTES_A_CHAIN, _BYTES_A_TEMPERATURE = 800, 140
"""Measured bytes of the task and result of a run, and of the records of a temperature."""


@dataclass(frozen=True)
class Size:
    """Number of runs of a direction on a data set, and of particles in a run; None: by default."""

    chains: int | None = None
    particles: int | None = None
    target_error: float | None = None
    """Standard error of log ML on the real data for which the number of runs there is chosen."""

    def check(self) -> None:
        """Refuse what is no number of runs or particles, and an error with a number of runs.

        Raises
        ------
        ValueError
            Names the argument.
        """
        given = {"chains": self.chains, "particles": self.particles}
        check_counts(**{name: value for name, value in given.items() if value is not None})
        check_positive(target_error=self.target_error)
        if self.chains and self.target_error:
            raise ValueError(
                "target_error: it chooses the number of runs on the real data, which chains="
                f"{self.chains} gives; leave one of them out."
            )

    def enough(self, variance: float, fewest: int) -> int:
        """Return the runs on the real data by which log ML gets the target for its error.

        Parameters
        ----------
        variance : float
            To be expected of log Ẑ of a run, nats².
        fewest : int
            The least number by default.
        """
        if self.chains:
            return self.chains
        needed = np.ceil(variance / (self.target_error or ERROR) ** 2)
        chains = int(np.clip(needed, fewest, MOST_CHAINS if self.target_error else SOME_CHAINS))
        if needed > chains:
            error = np.sqrt(variance / chains)
            _log.info(
                f"log ML on the real data will have an error of about {error:.2g} nats with "
                f"{chains} runs; pass target_error, or chains, for more"
            )
        return chains

    @property
    def real(self) -> int:
        """Number of runs on the real data."""
        return self.chains or CHAINS

    def simulated(self, datasets: int) -> int:
        """Return the number of runs a direction on each of several simulated data sets.

        Given the cost of all runs, many data sets of few runs certify more than a few of many.
        """
        few = int(np.clip(DATASETS * FEWEST_RUNS // max(datasets, 1), FEWEST_RUNS, CHAINS))
        return self.chains or few


@dataclass(frozen=True, eq=False)
class Question:
    """The data and draws that the runs are about, and the path of densities."""

    path: Any = None
    simulate: Any = FromHyperparameters.name
    real_data: bool = True
    posterior: xr.DataTree | None = None


@dataclass(frozen=True, eq=False)
class Request:
    """A checked call on a model; `Request.of` makes it.

    Attributes
    ----------
    model : pymc.Model
    size : Size
    ladder : Ladder
    limits : Limits
    path : Path or None
        None: to be chosen.
    simulation : Simulation or None
    needs_simulated : bool
        Whether the call ends if data cannot be simulated: if the caller chose how, wants a gap, or
        has no runs on the real data.
    real_data : bool
    posterior : DataTree or None
        Draws from which reverse runs on the real data start, and to which the simulated data are
        fitted.
    judged : DataTree or None
        Draws that the run's own are compared with.
    compilation : Compilation
    resources : Resources
    origin : callable
        Returns hashes of everything that finished runs depend on besides the seed, for a store.
    """

    model: pm.Model
    size: Size
    ladder: Ladder
    limits: Limits
    path: Path | None
    simulation: Simulation | None
    needs_simulated: bool
    real_data: bool
    posterior: xr.DataTree | None
    judged: xr.DataTree | None
    compilation: Compilation
    resources: Resources
    origin: Callable[[], Mapping[str, Mapping[str, str]]]

    @classmethod
    def of(
        cls,
        model: pm.Model,
        size: Size,
        ladder: Ladder,
        limits: Limits,
        question: Question,
        compilation: Compilation,
        resources: Resources,
    ) -> "Request":
        """Check what is asked for, without compiling anything.

        Raises
        ------
        TypeError, ValueError, NotImplementedError
            Names the argument or the variable, and the remedy.
        """
        check_flags(real_data=question.real_data)
        size.check()
        simulation, needed = _simulation(model, question, limits)
        path = make_path(question.path)
        posterior, judged = _draws(question, path)
        if posterior is not None:  # the first look at them, before anything is compiled
            source = "posterior" if judged is posterior else "path"
            all_draws(source, posterior, [rv.name for rv in model.free_RVs], model)
        if isinstance(simulation, FromPosterior) and question.real_data:
            judged = judged or simulation.idata
        if size.target_error and posterior is not None:
            raise ValueError(
                "target_error: with posterior draws there are as many reverse as forward runs; "
                "pass their number, chains, in its place."
            )
        check_storable(model, real=question.real_data, simulated=simulation is not None)
        if path is not None and path.in_turn and ladder.is_adaptive:
            ladder = replace(ladder, schedule="linear")
        _ = ladder.schedules  # looks at them
        if size.target_error and not question.real_data:
            raise ValueError(
                "target_error: it is the error on the real data; leave real_data=False out."
            )
        if not (question.real_data or simulation):
            raise ValueError("real_data: with simulate=None there is nothing left to run.")
        asked: dict[str, object] = {"particles": size.particles, "target_gap": limits.target_gap}
        asked |= {"temperatures": ladder.temperatures, "schedule": ladder.schedule}
        asked |= {"path": question.path, "simulate": question.simulate}
        asked |= {"real_data": question.real_data, "posterior": question.posterior}
        asked |= {"step": compilation.step, "backend": compilation.backend}
        asked |= {"compile_kwargs": compilation.compile_kwargs}
        request = cls(
            model, size, ladder, limits, path, simulation, needed, question.real_data, posterior,
            judged, compilation, resources,
            lambda: {"variable of the model": fingerprint(model)} | origin(asked),
        )  # fmt: skip
        temperatures = 1 if ladder.is_open else sum(s.n_temperatures for s in ladder.schedules)
        check_memory(
            lambda chains, temperatures, datasets: request.tables(temperatures, chains, datasets),
            chains=size.real, temperatures=temperatures, datasets=request.datasets,
        )  # fmt: skip
        if path is not None and path.latent and not request.may_weigh:
            raise ValueError(
                "path: latent variables are named for runs that need no annealing; leave "
                "temperatures, schedule, step and target_gap out, or latent."
            )
        limits.check(ladder, has_gap=simulation is not None)
        compilation.check()
        return request

    def suited(self, stacks_data: bool) -> "Request":
        """Return the request with the simulation for its model and an engine."""
        if self.simulation is None:
            return self
        return replace(self, simulation=self.simulation.suited(self.model, stacks_data))

    @property
    def datasets(self) -> int:
        """Number of simulated data sets."""
        return self.simulation.datasets if self.simulation else 0

    @property
    def may_weigh(self) -> bool:
        """Whether runs may weigh draws from a fit, without temperatures and moves."""
        is_open = self.ladder.is_open and self.ladder.is_adaptive
        free = self.compilation.step is None and self.limits.target_gap is None
        return is_open and free and (self.path is None or self.path.is_fitted)

    @property
    def few(self) -> int:
        """Number of runs a direction on each of them."""
        return self.size.simulated(self.datasets)

    @property
    def n_real(self) -> int:
        """Number of directions on the real data."""
        return self.real_data + (self.posterior is not None)

    @property
    def n_runs(self) -> int:
        """Number of runs of a round."""
        return self.n_real * self.size.real + 2 * self.datasets * self.few

    def tables(
        self, temperatures: int, chains: int | None = None, datasets: int | None = None
    ) -> float:
        """Return the bytes that the records of so many temperatures, runs and data sets take."""
        n = self.datasets if datasets is None else datasets
        runs = self.n_real * (chains or self.size.real) + 2 * n * self.few
        return _BYTES_A_CHAIN * runs + _BYTES_A_TEMPERATURE * temperatures * (self.n_real + 2 * n)

    def states(self, dimension: int, chains: int, particles: int) -> float:
        """Return the bytes that the last states of runs take, and those of the runs at work."""
        n_kept = len(self.ladder.schedules) if self.real_data else 0
        kept = n_kept * (dimension * chains * particles + min(dimension * DRAWS, NUMBERS))
        return 8 * max(kept, dimension * self.resources.n_cores * particles)


def _simulation(
    model: pm.Model, question: Question, limits: Limits
) -> tuple[Simulation | None, bool]:
    """Return how to simulate data, and whether the call needs them; None if it can do without."""
    chosen = question.simulate
    simulation = make_simulation(chosen)
    if not (isinstance(chosen, str) and chosen == FromHyperparameters.name):
        return simulation, True
    needed = not question.real_data or limits.target_gap is not None

    def checked() -> Simulation | None:
        check_simulable(model)
        return simulation

    return if_possible(checked, needed=needed), needed


def _draws(question: Question, path: Path | None) -> tuple[xr.DataTree | None, xr.DataTree | None]:
    """Return the draws that reverse runs start from, and those that are judged."""
    posterior = judged = question.posterior
    if posterior is not None:
        posterior = judged = as_idata("posterior", posterior)
    if path and path.idata is not None:
        if not question.real_data:
            raise ValueError("path: its draws are of the real data; leave real_data=False out.")
        if posterior is None:
            posterior, judged = path.starts, path.idata
    if posterior is not None and not question.real_data:
        raise ValueError("posterior: its runs are on the real data; leave real_data=False out.")
    return posterior, judged
