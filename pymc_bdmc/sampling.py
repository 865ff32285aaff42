"""The front door: `sample_bdmc` checks, wires, runs and converts."""

import logging
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from importlib.metadata import version
from typing import Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.pytensorf import resolve_backend_compile_kwargs
from pymc.vartypes import discrete_types

from pymc_bdmc.annealing import AnnealTask, PilotTask, StepEngine, WorkerPool
from pymc_bdmc.checks import check_counts, check_model, check_names, check_simulable
from pymc_bdmc.convert import (
    annealing_dataset,
    observed_dataset,
    posterior_dataset,
    simulated_dataset,
)
from pymc_bdmc.kernels import PILOT_CHAINS, StepFactory, Tuning, combine
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.schedules import Schedule, make_schedule
from pymc_bdmc.simulation import (
    Simulated,
    as_simulated,
    check_drawable,
    default_hyperparameters,
    hyperparameter_values,
    simulate_from_hyperparameters,
    simulate_from_prior,
)
from pymc_bdmc.stats import diagnose
from pymc_bdmc.tempering import TemperedDensity
from pymc_bdmc.types import Chain, Direction

__all__ = ["sample_bdmc"]

_log = logging.getLogger("pymc.bdmc")

_TEMPERATURES = 1000
_FIT_DRAWS = 500

Simulate = Literal["hyperparameters", "prior"] | tuple[Mapping, Mapping] | None


class _Purpose(IntEnum):
    """First entry of a random stream's key: streams of different purposes never meet."""

    FIT = 0
    SIMULATE = 1
    PILOT = 2
    ANNEAL = 3


@dataclass
class _Run:
    """Chains of one direction on one data set, filled in as they finish."""

    group: Literal["real", "forward", "reverse"]
    dataset: int
    """0 is the real data; the simulated sets count from 1."""
    data: Mapping[str, np.ndarray]
    source: Simulated | None = None
    """Where reverse chains start."""
    tuning: Tuning | None = None
    chains: list[Chain | None] = field(default_factory=list)

    def task(self, chain: int, burn_in: int, entropy) -> AnnealTask:
        direction = Direction.REVERSE if self.source else Direction.FORWARD
        key = (_Purpose.ANNEAL, self.dataset, int(direction is Direction.REVERSE), chain)
        return AnnealTask(
            direction,
            self.data,
            self.tuning,
            _stream(entropy, *key),
            self.source.point if self.source else None,
            burn_in if self.source and self.source.status == "burned-in" else 0,
        )


def sample_bdmc(
    model: pm.Model | None = None,
    *,
    chains: int = 64,
    temperatures: int | ArrayLike = _TEMPERATURES,
    schedule: str | Schedule = "sigmoid",
    step: str | StepFactory | Sequence[StepFactory] | None = None,
    simulate: Simulate = "hyperparameters",
    hyperparameters: Sequence[str] | None = None,
    hyperparameters_at: Literal["draw", "mean"] = "draw",
    idata: xr.DataTree | None = None,
    datasets: int = 1,
    burn_in: int = 100,
    real_data: bool = True,
    random_seed: int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None = None,
    cores: int | None = None,
    progressbar: bool = True,
    backend: str | None = None,
    compile_kwargs: dict | None = None,
) -> xr.DataTree:
    r"""Sandwich the log marginal likelihood and bound a sampler's divergence from the posterior.

    Chains are annealed along f_β(θ) = p(θ) p(y|θ)^β: forward from the prior on simulated data
    y\*, in reverse from a sample θ\* of the posterior given y\*, and forward on the real data.
    Forward log weights bound log p(y) from below and reverse ones from above, in expectation;
    their gap bounds the Jeffreys divergence between the last states of the forward chains and
    the posterior (bidirectional Monte Carlo; BREAD).

    Parameters
    ----------
    model : pymc.Model, optional
        Any model with a proper prior and a likelihood. Default: the one of the ``with`` block.
    chains : int, default 64
        Chains per direction and data set, at least 2.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"sigmoid", "linear", "power", "cubic"} or Schedule, default "sigmoid"
        How the inverse temperatures are spaced. A `Schedule` brings its own temperatures.
    step : {"nuts", "hmc", "metropolis"}, step method class, sequence of them, or None
        PyMC step method for all variables, ``pm.NUTS`` or ``functools.partial(pm.NUTS,
        target_accept=0.95)`` say, or its name; several, assigned by competence; or None, as
        `pymc.sample` does.
    simulate : {"hyperparameters", "prior"}, (point, data) or None
        Where y\* comes from. ``"hyperparameters"``: fit the real data, hold the hyperparameters
        at what was found, simulate the rest; y\* resembles the data, θ\* is burned in.
        ``"prior"``: everything from the model; θ\* is an exact posterior sample.
        ``(point, data)``: yours, with constrained values by name. None: no simulated data, the
        lower bound on the real data alone.
    hyperparameters : sequence of str, optional
        Variables held at fitted values. Default: the free variables without random parents.
    hyperparameters_at : {"draw", "mean"}
        Hold them at a posterior draw, a different one for every data set, or at the mean.
    idata : DataTree, optional
        Your own fit to the real data. Default: a short `pymc.sample` is run.
    datasets : int, default 1
        Simulated data sets. Errors of the gap are clustered by data set, so with one data set
        they are conditional on it.
    burn_in : int, default 100
        Transitions at β = 1 before a reverse chain starts, with ``simulate="hyperparameters"``;
        with none of them the upper bound is heuristic.
    real_data : bool, default True
        Whether to anneal forward on the real data too.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result, for any ``cores``.
    cores : int, optional
        Processes. Default: as many as the machine has, at most 4.
    progressbar : bool, default True
        Whether to show progress and the current bounds.
    backend : {"numba", "c", "jax"}, optional
        PyTensor backend of the log density.
    compile_kwargs : dict, optional
        Passed to PyTensor when the log density and the step methods are compiled.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` (simulated data), ``real``, ``posterior`` (weighted
        last states on the real data), ``simulated`` and ``observed_data``. Read it with
        `summary` and the plots.

    Raises
    ------
    ValueError
        For a model or an argument that cannot give a right answer; names it and the remedy.
    FloatingPointError
        If a log density is NaN at a state of a chain; names β and the variables.

    References
    ----------
    Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using bidirectional
    Monte Carlo. Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
    bidirectional Monte Carlo.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=20, simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False)
    >>> dt["forward"]["log_weight"].sizes
    Frozen({'dataset': 1, 'chain': 4})
    """
    started = time.perf_counter()
    model = pm.modelcontext(model)
    check_model(model)
    check_counts(chains=chains, datasets=datasets, burn_in=burn_in)
    cores = min(pm.sampling.parallel._cpu_count(), 4) if cores is None else cores
    check_counts(cores=cores)
    if isinstance(schedule, Schedule) and not np.array_equal(temperatures, _TEMPERATURES):
        raise ValueError(
            f"temperatures: the Schedule has {schedule.n_temperatures} of its own; leave them out."
        )
    schedule = make_schedule(schedule, temperatures)
    _check_simulate(model, simulate, datasets, real_data)
    if hyperparameters is not None:
        hyperparameters = [hyperparameters] if isinstance(hyperparameters, str) else hyperparameters
        check_names(list(hyperparameters), model)
    if hyperparameters_at not in ("draw", "mean"):
        raise ValueError(f"hyperparameters_at: {hyperparameters_at!r} is not 'draw' or 'mean'.")
    compile_kwargs = resolve_backend_compile_kwargs(backend, compile_kwargs)
    entropy = _entropy(random_seed)

    _log.info("Compiling the tempered model, once for all temperatures and data sets")
    density = TemperedDensity(model, compile_kwargs)
    if hyperparameters is None:
        hyperparameters = default_hyperparameters(density.model)
    discrete = [name for name in hyperparameters if density.model[name].dtype in discrete_types]
    if discrete and hyperparameters_at == "mean":
        raise ValueError(f"hyperparameters_at: the mean of the discrete {discrete} is no value.")
    if isinstance(simulate, str):
        check_drawable(density)
    engine = StepEngine(density, schedule.betas, step, compile_kwargs)
    _log.info(f"Kernel: {engine.description}")
    simulated = _simulate(
        model, density, simulate, hyperparameters, hyperparameters_at, idata, datasets,
        burn_in, entropy, cores, progressbar,
    )  # fmt: skip
    runs = [_Run("real", 0, density.data)] if real_data else []
    for d, each in enumerate(simulated, start=1):
        runs += [_Run("forward", d, each.data), _Run("reverse", d, each.data, each)]
    compiled = time.perf_counter()
    with WorkerPool(engine, cores) as pool:
        _pilot(pool, runs, engine.steps, entropy)
        interrupted = _anneal(pool, runs, chains, burn_in, entropy, progressbar)
    finished = time.perf_counter()

    attrs = {
        "schedule": schedule.name,
        "step": engine.description,
        "simulate": simulate if isinstance(simulate, str) else "given" if simulate else "none",
        "upper_bound": simulated[0].status if simulated else "none",
        "hyperparameters": ", ".join(hyperparameters if simulate == "hyperparameters" else []),
        "burn_in": burn_in if simulate == "hyperparameters" else 0,
        "random_seed": " ".join(map(str, np.atleast_1d(entropy))),
        "interrupted": int(interrupted),
        "pymc_version": pm.__version__,
        "pymc_bdmc_version": version("pymc-bdmc"),
        "preparation_time": compiled - started,
        "sampling_time": finished - compiled,
    }
    dt = _to_datatree(model, density, schedule, runs, simulated, attrs)
    for message in diagnose(dt):
        _log.warning(message)
    return dt


def _check_simulate(model, simulate, datasets, real_data) -> None:
    if simulate is None:
        if not real_data:
            raise ValueError("real_data: with simulate=None there is nothing left to run.")
    elif isinstance(simulate, str):
        if simulate not in ("hyperparameters", "prior"):
            raise ValueError(
                f"simulate: {simulate!r} is none of 'hyperparameters', 'prior', "
                "(point, data) and None."
            )
        check_simulable(model)
    elif not (isinstance(simulate, tuple) and len(simulate) == 2):
        raise ValueError("simulate: a pair (point, data) of mappings by variable name is needed.")
    elif datasets != 1:
        raise ValueError("datasets: simulate=(point, data) gives one data set.")


def _entropy(random_seed) -> int | list[int]:
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**63))
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed.generate_state(4).tolist()
    return np.random.SeedSequence(random_seed).entropy


def _stream(entropy, *key: int) -> np.random.SeedSequence:
    """The random stream of (purpose, data set, direction, chain), whoever runs it."""
    return np.random.SeedSequence(entropy, spawn_key=key)


def _simulate(
    model, density, simulate, names, at, idata, datasets, burn_in, entropy, cores, progressbar
) -> list[Simulated]:
    if simulate is None:
        return []
    if not isinstance(simulate, str):
        return [as_simulated(density, *simulate)]
    seeds = [_stream(entropy, _Purpose.SIMULATE, d) for d in range(datasets)]
    if simulate == "prior":
        return simulate_from_prior(density, seeds)
    if idata is None:
        _log.info("Fitting the real data to find plausible hyperparameters")
        idata = pm.sample(
            draws=_FIT_DRAWS,
            tune=_FIT_DRAWS,
            chains=2,
            cores=min(cores, 2),
            model=model,
            random_seed=int(_stream(entropy, _Purpose.FIT, 0).generate_state(1)[0]),
            progressbar=progressbar,
        )
    if "posterior" not in getattr(idata, "children", ()):
        raise ValueError("idata: expected a DataTree with a group 'posterior'.")
    _log.info(f"Hyperparameters held at a posterior {at}: {', '.join(names)}")
    rng = np.random.default_rng(_stream(entropy, _Purpose.FIT, 1))
    values = hyperparameter_values(idata["posterior"], names, datasets, at, rng)
    status = "burned-in" if burn_in else "heuristic"
    return simulate_from_hyperparameters(density, values, seeds, status)


def _pilot(pool, runs, steps, entropy) -> None:
    """Tune the kernel on every data set, with streams that no weighted chain uses."""
    data = {run.dataset: run.data for run in runs}
    keys = [(dataset, chain) for dataset in data for chain in range(PILOT_CHAINS)]
    tasks = [PilotTask(data[d], _stream(entropy, _Purpose.PILOT, d, 0, c)) for d, c in keys]
    found = {keys[i]: tuning for i, tuning in pool.run(tasks)}
    for run in runs:
        run.tuning = combine([found[run.dataset, chain] for chain in range(PILOT_CHAINS)], steps)


def _anneal(pool, runs, chains, burn_in, entropy, progressbar) -> bool:
    """Fill in the runs, a chain of each in turn; on Ctrl-C keep what is finished, return True."""
    for run in runs:
        run.chains = [None] * chains
    keys = [(run, chain) for chain in range(chains) for run in runs]
    tasks = [run.task(chain, burn_in, entropy) for run, chain in keys]
    totals = Counter(run.group for run, _ in keys)
    with ChainProgress(totals, progressbar) as progress:
        try:
            for i, chain in pool.run(tasks):
                run, place = keys[i]
                run.chains[place] = chain
                progress.finished(run.group, chain.log_weight)
        except KeyboardInterrupt:
            done = sum(chain is not None for run in runs for chain in run.chains)
            if not done:
                raise
            warnings.warn(
                f"Interrupted: the result holds the {done} of {len(tasks)} chains that were "
                "finished; the others are NaN.",
                stacklevel=3,
            )
            return True
    return False


def _to_datatree(model, density, schedule, runs, simulated, attrs) -> xr.DataTree:
    betas = schedule.betas
    groups = {"observed_data": observed_dataset(density, model)}
    for group in ("forward", "reverse", "real"):
        mine = [run for run in runs if run.group == group]
        if mine:
            groups[group] = annealing_dataset(
                [run.chains for run in mine],
                betas,
                [_step_size(run.tuning, betas) for run in mine],
            )
    if "real" in groups:
        groups["real"] = groups["real"].isel(dataset=0, drop=True)
        groups["real"].attrs["sample_dims"] = []
        ends = [chain for chain in runs[0].chains if chain is not None]
        if ends:
            groups["posterior"] = posterior_dataset(density, model, ends)
    if simulated:
        groups["simulated"] = simulated_dataset(density, model, simulated)
    dt = xr.DataTree.from_dict(groups)
    dt.attrs.update(attrs)
    return dt


def _step_size(tuning: Tuning, betas: np.ndarray) -> np.ndarray:
    """Step size of the Hamiltonian steps by temperature; NaN at β = 0 and without any."""
    sizes = np.full(len(betas), np.nan)
    for t in range(1, len(betas)):
        for values in tuning.at(betas[t]):
            if "step_size" in values:
                sizes[t] = np.exp(values["step_size"])
    return sizes
