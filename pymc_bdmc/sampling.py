"""What is behind `sample_bdmc`: check, wire, run, convert."""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from inspect import signature
from itertools import zip_longest
from typing import Literal

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import (
    check_choice,
    check_counts,
    check_flags,
    check_memory,
    check_positive,
    number_of_cores,
)
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.base.schedules import (
    SCHEDULES,
    Schedule,
    make_schedule,
    mean_between,
    thermodynamic_length,
)
from pymc_bdmc.base.streams import Entropy, Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point, Tuning
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.campaign.preparation import (
    IDEAL_GAP,
    MOST_TEMPERATURES,
    Preparation,
)
from pymc_bdmc.campaign.rounds import Plan, Round, Side, anneal_in_rounds
from pymc_bdmc.campaign.store import Store, StoredPool
from pymc_bdmc.engines import CompiledEngine, make_engine
from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.model.checks import check_model, check_storable
from pymc_bdmc.model.fingerprint import digest, fingerprint
from pymc_bdmc.model.lending import Loan
from pymc_bdmc.model.posterior import check_idata, posterior_states
from pymc_bdmc.model.simulation import (
    FromHyperparameters,
    Simulated,
    Simulation,
    make_simulation,
    possible_simulation,
)
from pymc_bdmc.model.structure import hard_variables
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.paths import DataPath, Path, PriorPath, make_path
from pymc_bdmc.results.agreement import agreement, agreement_dataset
from pymc_bdmc.results.attributes import run_attributes
from pymc_bdmc.results.convert import (
    annealing_dataset,
    burn_in_dataset,
    observed_dataset,
    particles_dataset,
    posterior_dataset,
    simulated_dataset,
    starts_dataset,
)
from pymc_bdmc.results.diagnose import warn
from pymc_bdmc.results.groups import GROUPS, SIDES

__all__ = ["sample"]

_log = logging.getLogger("pymc.bdmc")

_MAX_TEMPERATURES = 1_000_000
"""Largest T of a round, unless the caller says otherwise."""

_CHAINS = 16
"""Runs on the real data, unless the caller says otherwise."""
_DRAWS, _NUMBERS, _FURTHER = 8192, 4_000_000, 1 / 3
"""States at β = 1 of all runs on the real data, and numbers in them, if the moves there cost no
more than this share of the others."""
_SIMULATED_RUNS, _FEWEST_RUNS = 60, 3
"""Runs a direction on all simulated data sets together, and on each of them."""

_BYTES_A_CHAIN, _BYTES_A_TEMPERATURE = 800, 140
"""As measured: a chain's task and result, and what is kept along β."""

_OF_THE_CALL = {
    "model", "chains", "max_temperatures", "max_time", "random_seed", "cores", "executor",
    "progressbar", "store", "callback",
}  # fmt: skip
"""Arguments on which no finished run depends, or that a store looks at by itself."""

_GIVEN = {"inputs", "outputs", "updates", "givens", "on_unused_input"}
"""Arguments of `pytensor.function` that are not the caller's."""


def sample(
    model: pm.Model | None,
    *,
    chains: int | None,
    particles: int | None,
    temperatures: int | ArrayLike | None,
    path: Literal["prior", "fitted", "data"] | Path | None,
    schedule: str | Schedule,
    step: str | StepFactory | Sequence[StepFactory] | None,
    simulate: Literal["hyperparameters", "prior"] | Simulation | None,
    real_data: bool,
    posterior: xr.DataTree | None,
    target_gap: float | None,
    max_temperatures: int | None,
    max_time: float | None,
    random_seed: RandomSeed,
    cores: int | None,
    executor: Executor | None,
    progressbar: bool,
    backend: str | None,
    compile_kwargs: dict | None,
    store: str | os.PathLike | None,
    callback: Callable[[xr.DataTree], object] | None,
) -> xr.DataTree:
    """As `pymc_bdmc.sample_bdmc`, which see."""
    arguments = {name: each for name, each in locals().items() if name not in _OF_THE_CALL}
    started = time.perf_counter()
    model = pm.modelcontext(model)
    check_model(model)
    check_flags(real_data=real_data, progressbar=progressbar)
    check_counts(
        chains=_CHAINS if chains is None else chains,
        particles=1 if particles is None else particles,
    )
    n_cores = number_of_cores(cores, executor)
    simulation, wanted = make_simulation(simulate), make_path(path)
    if isinstance(simulate, str) and simulate == FromHyperparameters.name:  # the default
        needed = not real_data or target_gap is not None
        simulation = possible_simulation(simulation, model, needed=needed)
    check_idata(posterior=posterior)
    judged = posterior
    if wanted and wanted.idata is not None:
        if not real_data:
            raise ValueError("path: its draws are of the real data; leave real_data=False out.")
        if posterior is None:
            posterior, judged = wanted.starts, wanted.idata
    if posterior is not None and not real_data:
        raise ValueError("posterior: its runs are on the real data; leave real_data=False out.")
    check_storable(model, real=real_data, simulated=simulation is not None)
    if isinstance(wanted, DataPath) and _is_adaptive(schedule, temperatures):
        schedule = "linear"
    rungs = _schedules(schedule, temperatures)
    is_open = temperatures is None and isinstance(schedule, str)
    n_temperatures = 1 if is_open else sum(rung.n_temperatures for rung in rungs)
    datasets = simulation.datasets if simulation else 0
    n_real = real_data + (posterior is not None)
    if not n_real + datasets:
        raise ValueError("real_data: with simulate=None there is nothing left to run.")
    # Given the cost of all runs, many data sets of few runs certify more than a few of many.
    few = chains or int(np.clip(_SIMULATED_RUNS // max(datasets, 1), _FEWEST_RUNS, _CHAINS))
    chains = chains or _CHAINS

    def tables(chains: int, temperatures: int, datasets: int) -> float:
        runs = n_real * chains + 2 * datasets * few
        return _BYTES_A_CHAIN * runs + _BYTES_A_TEMPERATURE * temperatures * (n_real + 2 * datasets)

    check_memory(tables, chains=chains, temperatures=n_temperatures, datasets=datasets)
    _check_rounds(target_gap, max_temperatures, max_time, simulation, rungs, is_open)
    _check_compilation(backend, compile_kwargs)
    if not (callback is None or callable(callback)):
        raise TypeError(f"callback: a function of the result so far is needed, got {callback!r}.")
    kept = None if store is None else Store(store, _origin(model, arguments), random_seed)
    entropy = kept.entropy if kept else entropy_of(random_seed)

    with nothing_to_keep():
        loan = Loan(model, backend, compile_kwargs)
        density, variables = loan.density, loan.fingerprint
        if simulation:
            simulation.check(density)
        engine = make_engine(
            density, rungs[0].betas, step, backend, compile_kwargs, isinstance(wanted, DataPath)
        )
        if compile_kwargs and isinstance(engine, CompiledEngine):
            raise ValueError(
                "compile_kwargs: the compiled chains have no use for it. Leave it out, or choose "
                "PyMC's step methods: by step, by another backend, or by a mode in it."
            )
        if wanted:
            wanted.check(engine)
        most_particles = particles or engine.default_particles
        size, n_kept = density.size, len(rungs) if real_data else 0

        def states(chains: int, particles: int) -> float:
            kept = n_kept * (size * chains * particles + min(size * _DRAWS, _NUMBERS))
            return 8 * max(kept, size * n_cores * particles)

        check_memory(states, chains=chains, particles=most_particles)
        source = "posterior" if judged is posterior else "path"
        draws = posterior_states(source, posterior, chains, density) if posterior else []
        _log.info(f"Kernel: {engine.description}")

    compiled = time.perf_counter()
    with kept.locked() if kept else nullcontext(), interruptible() as stop:
        n_runs = n_real * chains + 2 * datasets * few
        with engine.pool(min(n_cores, n_runs), stop, executor) as workers:
            pool = StoredPool(workers, kept, stop) if kept else workers
            prepare = Preparation(pool, engine, entropy, progressbar)
            taken, reason = wanted or PriorPath(), "as asked for"

            def simulate_sets(first: int) -> list[Simulated]:
                if simulation is None:
                    return []
                fit = partial(_fit, model, density, prepare, taken, entropy, posterior)
                make = partial(simulation.simulate, density, entropy, fit, first)
                return kept.remember("renewed" if first else "simulated", make) if kept else make()

            with nothing_to_keep():
                # One data set decides on the path, so that all go the same way.
                simulated = [] if real_data else simulate_sets(0)
                decides = {0: density.data} if real_data else {1: simulated[0].data}
                taken, reason = prepare.choose(decides, wanted)
                _log.info(f"Path: {taken.name}, {reason}")
                chosen = time.perf_counter()
                if real_data:
                    simulated = simulate_sets(0)

            def sides_of(simulated: Sequence[Simulated], first: int) -> list[Side]:
                """Sides of all sandwiches; the simulated sets are numbered from ``first``."""
                numbered = dict(enumerate(simulated, start=first))
                data = {d: source.data for d, source in numbered.items()}
                known = {0: density.data} if real_data else {}
                tunings = prepare.tunings(known | data, taken, fits=False)
                sides = [Side("real", 0, density.data, tunings[0], chains)] if real_data else []
                if draws:
                    starts = [Simulated(point, density.data, "heuristic") for point in draws]
                    sides.append(Side("real_reverse", 0, density.data, tunings[0], chains, starts))
                for d, source in numbered.items():
                    sides.append(Side("forward", d, source.data, tunings[d], few))
                    sides.append(Side("reverse", d, source.data, tunings[d], few, [source]))
                    for i, burn_in in enumerate(source.shorter, start=1):
                        less = [replace(source, burn_in=burn_in)]
                        sides.append(Side("burn_in", d, source.data, tunings[d], few, less, i))
                return sides

            def renew() -> list[Side]:
                return sides_of(simulate_sets(datasets), first=datasets + 1)

            with nothing_to_keep():
                sides = sides_of(simulated, first=1)
            preparation = time.perf_counter() - chosen
            tunings = {side.dataset: side.tuning for side in sides}
            if particles is None and is_open and target_gap:
                particles = prepare.enough_particles(tunings, target_gap, taken)
            particles = particles or most_particles
            if is_open:
                gap = target_gap or IDEAL_GAP
                n = prepare.enough_temperatures(tunings, particles, gap, taken)
                rungs = _schedules(schedule, min(n, max_temperatures or n))
            further = 0
            if real_data and engine.moves_further:
                affordable = int(_FURTHER * rungs[0].n_temperatures)
                wanted_states = max(min(_DRAWS, _NUMBERS // max(size, 1)), 1)
                further = min(-(-wanted_states // (chains * particles)) - 1, affordable)
            plan = Plan(
                particles, entropy, target_gap, max_temperatures or _MAX_TEMPERATURES, max_time,
                progressbar, preparation, further,
            )  # fmt: skip
            is_adaptive = _is_adaptive(schedule, temperatures)
            lengths = [rung.n_temperatures for rung in rungs]
            seconds = sum(side.seconds(plan, n) for side in sides for n in lengths)
            mebibytes = (tables(chains, sum(lengths), datasets) + states(chains, particles)) / 2**20
            _log.info(
                f"Ahead: {n_runs} runs, "
                f"T = {', '.join(map(str, lengths))}, N = {particles}: by the pilot about "
                f"{seconds:.2g} s of one core; at least {mebibytes:.2g} MiB"
            )

            def result(rounds: Sequence[Round]) -> xr.DataTree:
                last = rounds[-1]
                simulated = [each.sources[0] for each in last.sides if each.group == "reverse"]
                attrs = run_attributes(last.schedule, entropy, compiled, last.interrupted) | {
                    **hard_variables(model),
                    "model": json.dumps(variables),
                    "step": engine.description,
                    "path": taken.name,
                    "path_reason": reason,
                    "particles": particles,
                    "simulate": simulation.name if simulation else "none",
                    "upper_bound": simulated[0].status if simulated else "none",
                    "hyperparameters": ", ".join(simulated[0].hyperparameters if simulated else []),
                    "burn_in": simulated[0].burn_in if simulated else 0,
                    "rounds": 0 if target_gap is None else sum(not r.confirms for r in rounds),
                    "pymc_version": pm.__version__,
                    "preparation_time": compiled - started,
                }
                with engine.lock:  # it holds the data of one run or another
                    return _to_datatree(
                        model, density, rounds, simulated, draws,
                        prepare.scouted(0), target_gap, entropy, attrs,
                    )  # fmt: skip

            def report(so_far: Callable[[], Sequence[Round]]) -> None:
                if kept and kept.view.is_due and (rounds := so_far())[-1].is_readable:
                    kept.show(lambda: result(rounds))
                if callback:
                    try:
                        callback(result(so_far()))
                    except KeyboardInterrupt:  # as in PyMC
                        stop[0] = 1

            may_renew = simulation and simulation.renews
            rounds = anneal_in_rounds(
                pool, sides, rungs, is_adaptive, plan, report, renew if may_renew else None
            )

        dt = result(rounds)
        if judged is not None:
            _judge(dt, judged, model)
        if kept:
            kept.show(lambda: dt)
        warn(dt)
    loan.give_back()
    return dt


def _origin(model: pm.Model, arguments: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """All that the runs of a call depend on besides its seed: hashes, and versions as they are."""
    packages = (np, pm, pytensor)
    return {
        "variable of the model": fingerprint(model),
        "argument": {name: digest(value) for name, value in arguments.items()},
        "version": {"pymc_bdmc": VERSION} | {each.__name__: each.__version__ for each in packages},
    }


def _ladder(temperatures: int | ArrayLike | None) -> list:
    """The temperatures of every round; inverse ones, which begin with 0, are those of one."""
    values = np.asarray(temperatures)
    numbers = values.ndim and values.size and values.dtype.kind in "iuf"
    if not numbers or values.flat[0] < 1:
        return [temperatures]
    whole = np.isfinite(values) & (np.floor(values) == values)
    if values.ndim > 1 or not whole.all() or not (np.diff(values) > 0).all():
        raise ValueError(
            "temperatures: a ladder is a sequence of increasing whole numbers; inverse "
            f"temperatures begin with 0. Got {temperatures!r}."
        )
    return values.tolist()


def _is_adaptive(schedule: str | Schedule, temperatures: int | ArrayLike | None) -> bool:
    """Whether the temperatures follow from the pilots; a sequence of them says what they are."""
    named = isinstance(schedule, str) and schedule == "adaptive"
    return named and not np.ndim(_ladder(temperatures)[0])


def _schedules(schedule: str | Schedule, temperatures: int | ArrayLike | None) -> list[Schedule]:
    """Of the rounds that are planned; of an adaptive or open one, that of its pilots."""
    if isinstance(schedule, str):
        check_choice("schedule", schedule, [*SCHEDULES, "adaptive"])
        if temperatures is None:
            temperatures = MOST_TEMPERATURES
        if _is_adaptive(schedule, temperatures):
            schedule = "power"
    return [
        make_schedule(schedule, each, default_name="adaptive") for each in _ladder(temperatures)
    ]


def _check_rounds(
    target_gap: float | None,
    max_temperatures: int | None,
    max_time: float | None,
    simulation: Simulation | None,
    rungs: Sequence[Schedule],
    is_open: bool,
) -> None:
    """Refuse a target without a gap or beside a ladder, and limits without a target."""
    check_positive(target_gap=target_gap, max_time=max_time)
    if len(rungs) > 1:
        given = {"target_gap": target_gap, "max_temperatures": max_temperatures}
        for name, value in (given | {"max_time": max_time}).items():
            if value is not None:
                raise ValueError(
                    f"{name}: every rung of the ladder in temperatures is run, whatever the gap; "
                    "leave it out, or pass the T of the first round alone."
                )
    if target_gap is None:
        for name, value in {"max_temperatures": max_temperatures, "max_time": max_time}.items():
            if value is not None:
                raise ValueError(
                    f"{name}: it limits the rounds until target_gap is reached; pass that too."
                )
        return
    if simulation is None:
        raise ValueError("target_gap: a gap needs simulated data; simulate=None gives none.")
    if max_temperatures is not None:
        check_counts(max_temperatures=max_temperatures)
        n = rungs[0].n_temperatures
        if not is_open and n > max_temperatures:
            raise ValueError(
                f"max_temperatures: the first round has {n} temperatures already, more than "
                f"{max_temperatures}."
            )


def _check_compilation(backend: str | None, compile_kwargs: dict | None) -> None:
    """Refuse unknown backends, and options that PyTensor does not have."""
    if backend is not None:
        check_choice("backend", backend, ["numba", "c", "jax"])
    if not isinstance(compile_kwargs, Mapping | None):
        raise TypeError(f"compile_kwargs: a dict is needed, got {compile_kwargs!r}.")
    options = [name for name in signature(pytensor.function).parameters if name not in _GIVEN]
    for name in compile_kwargs or {}:
        check_choice("compile_kwargs", name, options)


def _fit(
    model: pm.Model,
    density: TemperedDensity,
    prepare: Preparation,
    path: Path,
    entropy: Entropy,
    posterior: xr.DataTree | None,
) -> xr.DataTree:
    """Return the caller's posterior draws; without them, draws from last particles of scouts."""
    if posterior is not None:
        return posterior
    scouts = prepare.scouts({0: density.data}, path)
    states = _last_states(
        model, density, [(run.ends, run.weights) for run in scouts],
        [run.log_weight for run in scouts], [run.population.ancestors for run in scouts],
        stream(entropy, Purpose.FIT), len(scouts[0].weights),
    )  # fmt: skip
    if "posterior" not in states:
        raise ValueError(
            "simulate: no run on the real data came to a state where they are possible, so there "
            "are no hyperparameters to hold; use 'prior'."
        )
    return xr.DataTree.from_dict(states)


def _judge(dt: xr.DataTree, judged: xr.DataTree, model: pm.Model) -> None:
    """Write the group ``agreement``: all of the caller's draws against those of the run."""
    if "posterior" not in dt.children:  # every weight is zero, or nothing was finished
        return
    try:
        dt["agreement"] = xr.DataTree(agreement_dataset(agreement(dt, judged, model=model)))
    except Exception as error:  # the runs are done, and must not be lost
        _log.warning(
            f"posterior: its draws are not judged ({type(error).__name__}: {error}). Try "
            "bdmc.agreement(dt, idata, var_names=[...])."
        )


def _last_states(
    model: pm.Model,
    density: TemperedDensity,
    ends: Sequence[tuple[Point, np.ndarray]],
    log_weights: ArrayLike,
    ancestors: ArrayLike,
    seed: np.random.SeedSequence,
    n_particles: int,
) -> dict[str, xr.Dataset]:
    """Last particles of runs on the real data, and draws from them if they have weight."""
    particles = particles_dataset(density, ends, np.asarray(log_weights), n_particles)
    if not np.isfinite(particles["bdmc_weight"]).all():
        return {"particles": particles}
    posterior = posterior_dataset(particles, np.asarray(ancestors), np.random.default_rng(seed))
    return {"particles": particles, "posterior": posterior}


def _to_datatree(
    model, density, rounds, simulated, draws, scouted, target_gap, entropy, attrs
) -> xr.DataTree:
    last = rounds[-1]
    betas = last.schedule.betas
    groups = {"observed_data": observed_dataset(density)}
    for group, annealed in last.runs.items():
        if group not in GROUPS:
            continue
        tunings = [side.tuning for side in last.sides if side.group == group]
        drawn = [tuning.prior_log_likelihood for tuning in tunings]
        groups[group] = annealing_dataset(annealed, betas).assign(
            **({} if attrs["path"] == DataPath.name else _along_the_path(tunings, betas)),
            pilot_rhat=("dataset", np.array([tuning.rhat for tuning in tunings])),
            prior_log_likelihood=(
                ("dataset", "prior_draw"),
                np.array(list(zip_longest(*drawn, fillvalue=np.nan))).T,
            ),
        )  # fmt: skip
    for group in set(SIDES["real"]).intersection(groups):
        groups[group] = groups[group].isel(dataset=0, drop=True)
        groups[group].attrs["sample_dims"] = []
    if last.ends:
        places, (run,) = sorted(last.ends), last.runs["real"]
        ancestors = run.populations.ancestors if run.populations else np.ones_like(run.log_weight)
        groups |= _last_states(
            model, density, [last.ends[place] for place in places], run.log_weight[places],
            ancestors[places], stream(entropy, Purpose.POSTERIOR), attrs["particles"],
        )  # fmt: skip
    if draws:
        groups["real_starts"] = starts_dataset(density, draws)
    if simulated:
        groups["simulated"] = simulated_dataset(density, simulated)
    if "burn_in" in last.runs:
        groups["burn_in"] = burn_in_dataset(last.log_weights, simulated)
    if scouted:
        dims, paths = ("path", "chain"), list(scouted)
        groups["scouts"] = xr.Dataset(
            {"log_weight": (dims, np.array(list(scouted.values())))}, {"path": paths}
        )
    groups["rounds"] = _rounds_dataset(rounds, target_gap)
    dt = xr.DataTree.from_dict(groups)
    dt.attrs.update(attrs)
    return dt


def _along_the_path(tunings: Sequence[Tuning], betas: np.ndarray) -> dict[str, tuple]:
    """What pilots saw of ℓ; on a path of the data their ℓ is not that of the runs."""
    pilots = [(tuning.path_betas, tuning.mean_log_likelihood) for tuning in tunings]
    means = np.array([mean_between(betas, *pilot) for pilot in pilots])
    lengths = np.array([thermodynamic_length(*pilot) for pilot in pilots])
    return {
        "pilot_log_likelihood": (("dataset", "beta"), means),
        "thermodynamic_length": ("dataset", lengths),
    }


def _rounds_dataset(rounds: Sequence[Round], target_gap: float | None) -> xr.Dataset:
    """T, role, Jeffreys bound with its error, gradients, seconds and log weights of every round."""
    gaps = np.array([each.gap for each in rounds])
    gradients = [
        sum(run.gradient_evaluations for runs in each.runs.values() for run in runs)
        for each in rounds
    ]
    columns = {
        "temperatures": [each.schedule.n_temperatures for each in rounds],
        "meets_target": [target_gap is not None and each.meets(target_gap) for each in rounds],
        "confirms": [each.confirms for each in rounds],
        "jeffreys_bound": gaps[:, 0],
        "error": gaps[:, 1],
        "gradient_evaluations": gradients,
        "seconds": [each.seconds for each in rounds],
    }
    dataset = xr.Dataset({name: ("round", np.array(values)) for name, values in columns.items()})
    for group in [each for each in rounds[0].runs if each in GROUPS]:
        weights = np.array([each.log_weights(group) for each in rounds])
        if group in SIDES["real"]:  # which may have other numbers of runs than simulated data
            dataset[f"{group}_log_weight"] = ("round", "real_chain"), weights[:, 0]
        else:
            dataset[f"{group}_log_weight"] = ("round", "dataset", "chain"), weights
    return dataset
