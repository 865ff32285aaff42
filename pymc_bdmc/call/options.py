"""The arguments of a call, checked before anything is compiled."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base import VERSION, logger
from pymc_bdmc.base.arguments import (
    check_choice,
    check_counts,
    check_flags,
    check_memory,
    check_positive,
    check_progressbar,
    number_of_cores,
)
from pymc_bdmc.base.schedules import SCHEDULES, Schedule, make_schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.density.draws import all_draws
from pymc_bdmc.density.identity import digest, fingerprint
from pymc_bdmc.density.refuse import check_simulable, check_storable
from pymc_bdmc.fits import limits
from pymc_bdmc.kernels.steps import check_step
from pymc_bdmc.paths import Path
from pymc_bdmc.simulations import (
    DATASETS,
    FromPosterior,
    HyperparametersIfAlike,
    Simulation,
    if_possible,
)

_log = logger(__name__)

CHAINS = 16
"""Default number of runs on the real data if their log weights vary little. Chosen."""
MAX_TEMPERATURES = 2000
"""Largest T that pilots choose. Chosen."""
MAX_STATES, MAX_NUMBERS = 8192, 4_000_000
"""States at β = 1 of all runs on the real data, and numbers in them, if moves there are cheap."""


def make_schedules(
    temperatures: int | ArrayLike | None,
    schedule: str | Schedule,
    default_temperatures: int | None = None,
    default_schedule: str = "adaptive",
) -> list[Schedule]:
    """Return the schedule of each planned round; stand-ins if pilots will choose."""
    ladder = _ladder(temperatures)
    if isinstance(schedule, str):
        check_choice("schedule", schedule, {**SCHEDULES, default_schedule: None})
        if temperatures is None:
            ladder = [MAX_TEMPERATURES]
        if schedule == "adaptive" and not np.ndim(ladder[0]):
            schedule = "power"
    return [make_schedule(schedule, n, default_temperatures, default_schedule) for n in ladder]


def _ladder(temperatures: Any) -> list:
    """Return T, or the inverse temperatures, of each round."""
    values = np.asarray(temperatures)
    are_numbers = values.ndim and values.size and values.dtype.kind in "iuf"
    if not are_numbers or values.flat[0] < 1:
        return [temperatures]
    whole = np.isfinite(values) & (np.floor(values) == values)
    if values.ndim > 1 or not whole.all() or not (np.diff(values) > 0).all():
        raise ValueError(
            "temperatures: a ladder is a sequence of increasing whole numbers; inverse "
            f"temperatures begin with 0. Got {temperatures!r}."
        )
    return values.tolist()


@dataclass(frozen=True, eq=False, kw_only=True)
class CallOptions:
    """The arguments that `bdmc.anneal` and `sample_bdmc` share."""

    chains: int | None = None
    temperatures: int | ArrayLike | None = None
    schedule: str | Schedule = "adaptive"
    target_gap: float | None = None
    max_temperatures: int | None = None
    max_time: float | None = None
    random_seed: RandomSeed = None
    cores: int | None = None
    executor: Executor | None = None
    progressbar: bool | str = True
    store: str | os.PathLike | None = None
    callback: Callable[[xr.DataTree], object] | None = None
    schedules: Sequence[Schedule] = ()
    """Results of `make_schedules`."""

    decisive: ClassVar[tuple[str, ...]] = ("target_gap", "temperatures", "schedule")
    """Arguments on which finished runs depend, besides the seed."""

    def resolved(self, schedules: Sequence[Schedule], has_gap: bool) -> Self:
        """Check the shared arguments; return them with schedules and the number of cores."""
        check_progressbar(self.progressbar)
        cores = number_of_cores(self.cores, self.executor)
        if not (self.callback is None or callable(self.callback)):
            raise TypeError(
                f"callback: a function of the result so far is needed, got {self.callback!r}."
            )
        if self.chains is not None:
            check_counts(chains=self.chains)
        self._check_limits(schedules, has_gap)
        return replace(self, schedules=schedules, cores=cores)

    def _check_limits(self, schedules: Sequence[Schedule], has_gap: bool) -> None:
        """Refuse a target without a gap or beside a ladder, and limits without a target."""
        check_positive(target_gap=self.target_gap, max_time=self.max_time)
        names = ("target_gap", "max_temperatures", "max_time")
        given = [name for name in names if getattr(self, name) is not None]
        if given and len(schedules) > 1:
            raise ValueError(
                f"{given[0]}: every number in temperatures is run, whatever the gap; leave "
                "it out, or pass the number of the first round alone."
            )
        if given and self.target_gap is None:
            raise ValueError(
                f"{given[0]}: it limits the rounds until target_gap is reached; pass that too."
            )
        if given and not has_gap:
            raise ValueError("target_gap: a gap needs simulated data; simulate=None gives none.")
        if self.max_temperatures is not None:
            check_counts(max_temperatures=self.max_temperatures)
            n = schedules[0].n_temperatures
            if not self.pilots_choose_temperatures and n > self.max_temperatures:
                raise ValueError(
                    f"max_temperatures: the first round has {n} temperatures already, more than "
                    f"{self.max_temperatures}."
                )

    @property
    def pilots_choose_temperatures(self) -> bool:
        """Whether pilots choose T."""
        return self.temperatures is None and isinstance(self.schedule, str)

    @property
    def is_adaptive(self) -> bool:
        """Whether pilots choose the inverse temperatures."""
        named = isinstance(self.schedule, str) and self.schedule == "adaptive"
        return named and not np.ndim(_ladder(self.temperatures)[0])

    def origin(self, **more: object) -> dict[str, dict[str, str]]:
        """Return hashes of everything on which finished runs depend, besides the seed."""
        arguments = {name: getattr(self, name) for name in self.decisive} | more
        versions = {each.__name__: each.__version__ for each in (np, pm, pytensor)}
        return {
            "argument": {name: digest(value) for name, value in arguments.items()},
            "version": {"pymc_bdmc": VERSION} | versions,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class Options(CallOptions):
    """The arguments of `sample_bdmc`; `checked` refuses what is wrong, and resolves the rest."""

    model: pm.Model
    particles: int | None = None
    path: Path | None = None
    """The path that is asked for; None if it is to be chosen."""
    simulate: Simulation | None = None
    real_data: bool = True
    posterior: xr.DataTree | None = None
    """Draws from which reverse runs on the real data start, and which data are simulated from."""
    judged: xr.DataTree | None = None
    """Draws with which those of the run are compared."""
    target_error: float | None = None
    step: Any = None
    backend: str | None = None
    compile_kwargs: dict | None = None

    decisive = (
        *CallOptions.decisive, "particles", "path", "simulate", "real_data", "posterior", "step",
        "backend", "compile_kwargs",
    )  # fmt: skip

    def checked(self) -> "Options":
        """Return the options with their defaults, or raise an error; nothing is compiled yet."""
        self._check_sizes()
        options = self._with_simulation()._with_draws()
        options._check_draws()
        if options.path is not None and options.path.in_turn and options.is_adaptive:
            options = replace(options, schedule="linear")
        schedules = make_schedules(options.temperatures, options.schedule)
        options = options.resolved(schedules, has_gap=options.simulate is not None)
        options._check_memory()
        if options.path and options.path.latent and not options.may_skip_annealing:
            raise ValueError(
                "path: latent variables are named for runs that need no annealing; leave "
                "temperatures, schedule, step and target_gap out, or latent."
            )
        options._check_compilation()
        return options

    def _check_sizes(self) -> None:
        check_flags(real_data=self.real_data)
        if self.particles is not None:
            check_counts(particles=self.particles)
        check_positive(target_error=self.target_error)
        if self.chains and self.target_error:
            raise ValueError(
                "target_error: it chooses the number of runs on the real data, which chains="
                f"{self.chains} gives; leave one of them out."
            )
        if self.target_error and not self.real_data:
            raise ValueError(
                "target_error: it is the error on the real data; leave real_data=False out."
            )

    def _with_simulation(self) -> "Options":
        """Leave simulated data out if the call can do without them and they cannot be drawn."""

        def simulable() -> Simulation | None:
            check_simulable(self.model)
            return self.simulate

        if not isinstance(self.simulate, HyperparametersIfAlike):
            return self  # the data sets are asked for; `Simulation.check` looks at them
        return replace(self, simulate=if_possible(simulable, needed=self.needs_simulated))

    def _with_draws(self) -> "Options":
        """Find the draws that reverse runs start from, and those that are judged."""
        posterior = judged = self.posterior
        if self.path and self.path.idata is not None:
            if not self.real_data:
                raise ValueError("path: its draws are of the real data; leave real_data=False out.")
            if posterior is None:
                posterior, judged = self.path.starts, self.path.idata
        if judged is None and isinstance(self.simulate, FromPosterior) and self.real_data:
            judged = self.simulate.idata
        return replace(self, posterior=posterior, judged=judged)

    def _check_draws(self) -> None:
        if self.posterior is not None:
            if not self.real_data:
                raise ValueError(
                    "posterior: its runs are on the real data; leave real_data=False out."
                )
            names = [rv.name for rv in self.model.free_RVs]
            all_draws(self.source_of_draws, self.posterior, names, self.model)
            if self.target_error:
                raise ValueError(
                    "target_error: with posterior draws there are as many reverse as forward runs; "
                    "pass their number, chains, in its place."
                )
        check_storable(self.model, real=self.real_data, simulated=self.simulate is not None)
        if not (self.real_data or self.simulate):
            raise ValueError("real_data: with simulate=None there is nothing left to run.")

    def _check_memory(self) -> None:
        n = 1 if self.pilots_choose_temperatures else sum(s.n_temperatures for s in self.schedules)
        chains, datasets = self.n_real_chains, self.datasets
        check_memory(self.bytes_of_records, chains=chains, temperatures=n, datasets=datasets)

    def _check_compilation(self) -> None:
        check_step(self.step)
        if self.backend is not None:
            check_choice("backend", self.backend, ["numba", "c", "jax"])
        if not isinstance(self.compile_kwargs, Mapping | None):
            raise TypeError(f"compile_kwargs: a dict is needed, got {self.compile_kwargs!r}.")
        ours = {"inputs", "outputs", "updates", "givens", "on_unused_input"}
        known = [name for name in signature(pytensor.function).parameters if name not in ours]
        for name in self.compile_kwargs or {}:
            check_choice("compile_kwargs", name, known)

    def without_path(self) -> "Options":
        """Return the options without the path that is asked for, and without its draws."""
        is_callers = self.judged is self.posterior
        return replace(self, path=None, posterior=self.posterior if is_callers else None)

    def origin(self, **more: object) -> dict[str, dict[str, str]]:
        """Return hashes of everything on which finished runs depend, besides the seed."""
        return {"variable of the model": fingerprint(self.model)} | super().origin(**more)

    @property
    def needs_simulated(self) -> bool:
        """Whether the call ends if data cannot be simulated, since they are asked for."""
        by_default = isinstance(self.simulate, HyperparametersIfAlike)
        return not (by_default and self.real_data) or self.target_gap is not None

    @property
    def source_of_draws(self) -> str:
        """The argument that `posterior` is from."""
        return "posterior" if self.judged is self.posterior else "path"

    @property
    def may_skip_annealing(self) -> bool:
        """Whether importance sampling from a fit, with T = 1 and no moves, is allowed."""
        is_open = self.pilots_choose_temperatures and self.is_adaptive
        free = self.step is None and self.target_gap is None
        return is_open and free and (self.path is None or self.path.is_fitted)

    @property
    def datasets(self) -> int:
        """Number of simulated data sets."""
        return self.simulate.datasets if self.simulate else 0

    @property
    def n_real_chains(self) -> int:
        """Number of runs a direction on the real data, before pilots choose it."""
        return self.chains or CHAINS

    @property
    def n_simulated_chains(self) -> int:
        """Number of runs a direction on each simulated data set.

        At equal cost many data sets with few runs certify more than few with many: so two runs on
        each of `DATASETS` data sets, or of more.
        """
        return self.chains or int(np.clip(2 * DATASETS // max(self.datasets, 1), 2, CHAINS))

    def enough_simulated_chains(self, variance: float) -> int:
        """Return the number of runs a direction on each data set that can certify a distance.

        `variance` is that of log Ẑ of a run, nats². Simulated with normal log Ẑ and `DATASETS` data
        sets: if it is 0.13² for each run, the bound on the total variation is below 0.25 with a
        probability of 0.92 (16 runs) to 0.99. If more than `CHAINS` would be needed, there are no
        more than usual.
        """
        needed = int(np.ceil(min(variance / 0.13**2, CHAINS + 1.0)))
        if self.chains or self.target_gap or needed > CHAINS:
            return self.n_simulated_chains
        return max(needed, self.n_simulated_chains)

    @property
    def n_real_sides(self) -> int:
        """Number of directions on the real data."""
        return self.real_data + (self.posterior is not None)

    @property
    def n_runs(self) -> int:
        """Number of runs of a round."""
        simulated = 2 * self.datasets * self.n_simulated_chains
        return self.n_real_sides * self.n_real_chains + simulated

    def enough_chains(self, variance: float, fewest: int) -> int:
        """Return the number of runs on the real data needed to reach `target_error`.

        `variance` is that of log Ẑ of a run, nats². Without a target, or if no number of runs
        reaches it, 48 runs are the most.
        """
        if self.chains:
            return self.chains
        needed = np.ceil(variance / (self.target_error or 0.05) ** 2)
        is_hopeless = variance > limits.HOPELESS
        most = 4096 if self.target_error and not is_hopeless else 48
        chains = int(np.clip(needed, fewest, most))
        if needed > chains:
            error = np.sqrt(variance / chains)
            more = "more are no remedy" if is_hopeless else "pass target_error, or chains, for more"
            _log.info(
                f"log ML on the real data will have an error of about {error:.2g} nats with "
                f"{chains} runs; {more}"
            )
        return chains

    def bytes_of_records(self, chains: int, temperatures: int, datasets: int) -> float:
        """Return the bytes that the records of so many temperatures, runs and data sets take."""
        runs = self.n_real_sides * chains + 2 * datasets * self.n_simulated_chains
        # Measured: 800 for the task and the result of a run, 140 for the records at a temperature.
        return 800 * runs + 140 * temperatures * (self.n_real_sides + 2 * datasets)

    def bytes_of_states(self, dimension: int, chains: int, particles: int) -> float:
        """Return the bytes that the last states of runs take, and those of the runs at work."""
        n_kept = len(self.schedules) if self.real_data else 0
        more = min(dimension * MAX_STATES, MAX_NUMBERS)
        kept = n_kept * (dimension * chains * particles + more)
        return 8 * max(kept, dimension * (self.cores or 1) * particles)
