"""The front door: `sample_bdmc` checks, wires, runs and converts."""

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.pytensorf import resolve_backend_compile_kwargs

from pymc_bdmc.annealing import available_cores, make_engine
from pymc_bdmc.annealing.rounds import Plan, Round, Run, anneal_in_rounds, run_pilots
from pymc_bdmc.arguments import check_choice, check_counts, check_positive
from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.model.checks import check_model
from pymc_bdmc.model.simulation import Simulation, make_simulation
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.results.convert import (
    annealing_dataset,
    observed_dataset,
    package_version,
    posterior_dataset,
    simulated_dataset,
)
from pymc_bdmc.results.diagnose import warn
from pymc_bdmc.schedules import (
    SCHEDULES,
    Schedule,
    make_schedule,
    mean_between,
    thermodynamic_length,
)
from pymc_bdmc.streams import Entropy, Purpose, RandomSeed, entropy_of, recorded, stream

__all__ = ["sample_bdmc"]

_log = logging.getLogger("pymc.bdmc")

_FIT_DRAWS = 500


def sample_bdmc(
    model: pm.Model | None = None,
    *,
    chains: int = 64,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "sigmoid",
    step: str | StepFactory | Sequence[StepFactory] | None = None,
    simulate: Literal["hyperparameters", "prior"] | Simulation | None = "hyperparameters",
    real_data: bool = True,
    target_gap: float | None = None,
    max_temperatures: int = 1_000_000,
    max_time: float | None = None,
    random_seed: RandomSeed = None,
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
    schedule : {"sigmoid", "linear", "power", "cubic", "adaptive"} or Schedule, default "sigmoid"
        How the inverse temperatures are spaced. ``"adaptive"``: in steps of equal thermodynamic
        length, from the pilot. A `Schedule` brings its own temperatures.
    step : {"hmc", "nuts", "metropolis"}, step method class, sequence of them, or None
        The kernel. A name: compiled moves of the continuous variables, with Metropolis moves of
        the discrete ones and, now and then, to a fresh draw from the prior. None: ``"hmc"``. Or
        PyMC's step methods: ``pm.NUTS`` or ``functools.partial(pm.NUTS, target_accept=0.95)``
        say; several are assigned by competence. They also run where a model cannot be compiled,
        or ``backend`` is not numba.
    simulate : {"hyperparameters", "prior"}, Simulation or None
        Where y\* comes from: a name, or the object that carries its options.
        ``"hyperparameters"``, `FromHyperparameters`: fit the real data, hold the hyperparameters
        at what was found, simulate the rest; y\* resembles the data, θ\* is burned in.
        ``"prior"``, `FromPrior`: everything from the model; θ\* is an exact posterior sample.
        `Given`: your own point and data. None: no simulated data, the lower bound on the real
        data alone.
    real_data : bool, default True
        Whether to anneal forward on the real data too.
    target_gap : float, optional
        Repeat with twice as many temperatures until the Jeffreys bound and its error add up to
        no more than this many nats. The last round alone is the result; the others are rows of
        its group ``rounds``, and certified bounds spend their confidence over all of them.
    max_temperatures : int, default 1000000
        Largest T of a round.
    max_time : float, optional
        Seconds; a round that would not fit is not begun.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result, for any ``cores``.
    cores : int, optional
        Threads, or processes for PyMC's step methods. Default: as many as the machine has, at
        most 4.
    progressbar : bool, default True
        Whether to show progress and the current bounds.
    backend : {"numba", "c", "jax"}, optional
        PyTensor backend of the log density; the compiled chains need numba.
    compile_kwargs : dict, optional
        Passed to PyTensor when the density and PyMC's step methods are compiled; the compiled
        chains have no use for it, unless it names another mode, which rules them out.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` (simulated data), ``real``, ``posterior`` (weighted
        last states on the real data), ``simulated``, ``rounds`` and ``observed_data``. Read it
        with `summary` and the plots.

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
    check_counts(chains=chains)
    cores = min(available_cores(), 4) if cores is None else cores
    check_counts(cores=cores)
    if isinstance(schedule, str):
        check_choice("schedule", schedule, [*SCHEDULES, "adaptive"])
    is_adaptive = isinstance(schedule, str) and schedule == "adaptive"
    if is_adaptive and np.ndim(temperatures):
        raise ValueError("temperatures: schedule='adaptive' chooses them; pass how many.")
    schedule = make_schedule("power" if is_adaptive else schedule, temperatures, default=1000)
    simulation = make_simulation(simulate)
    if simulation is None and not real_data:
        raise ValueError("real_data: with simulate=None there is nothing left to run.")
    _check_target(target_gap, max_temperatures, max_time, simulate, schedule.n_temperatures)
    if backend is not None:
        check_choice("backend", backend, ["numba", "c", "jax"])
    if not isinstance(compile_kwargs, Mapping | None):
        raise TypeError(f"compile_kwargs: a dict is needed, got {compile_kwargs!r}.")
    entropy = entropy_of(random_seed)
    plan = Plan(chains, entropy, target_gap, max_temperatures, max_time, progressbar)

    _log.info("Compiling, once per model structure; the first time it takes a while")
    density = TemperedDensity(model, resolve_backend_compile_kwargs(backend, compile_kwargs))
    if simulation:
        simulation.check(density)
    engine = make_engine(density, schedule.betas, step, backend, compile_kwargs)
    _log.info(f"Kernel: {engine.description}")
    fit = partial(_fit, model, entropy, cores, progressbar)
    simulated = simulation.simulate(density, entropy, fit) if simulation else []
    runs = [Run("real", 0, density.data)] if real_data else []
    for d, each in enumerate(simulated, start=1):
        runs += [Run("forward", d, each.data), Run("reverse", d, each.data, each)]
    compiled = time.perf_counter()
    with engine.pool(cores) as pool:
        run_pilots(pool, engine, runs, plan)
        rounds = anneal_in_rounds(pool, runs, schedule, is_adaptive, plan)
    finished = time.perf_counter()
    schedule = rounds[-1].schedule

    attrs = {
        "schedule": schedule.name,
        "step": engine.description,
        "simulate": simulation.name if simulation else "none",
        "upper_bound": simulated[0].status if simulated else "none",
        "hyperparameters": ", ".join(simulated[0].hyperparameters if simulated else []),
        "burn_in": simulated[0].burn_in if simulated else 0,
        "random_seed": recorded(entropy),
        "interrupted": int(rounds[-1].interrupted),
        "rounds": 0 if target_gap is None else len(rounds),
        "pymc_version": pm.__version__,
        "pymc_bdmc_version": package_version(),
        "preparation_time": compiled - started,
        "sampling_time": finished - compiled,
    }
    dt = _to_datatree(model, density, runs, rounds, simulated, attrs)
    warn(dt)
    return dt


def _check_target(target_gap, max_temperatures, max_time, simulate, n_temperatures) -> None:
    check_counts(max_temperatures=max_temperatures)
    check_positive(target_gap=target_gap, max_time=max_time)
    if target_gap is None:
        return
    if simulate is None:
        raise ValueError("target_gap: a gap needs simulated data; simulate=None gives none.")
    if n_temperatures > max_temperatures:
        raise ValueError(
            f"max_temperatures: the first round has {n_temperatures} temperatures already, more "
            f"than {max_temperatures}."
        )


def _fit(model: pm.Model, entropy: Entropy, cores: int, progressbar: bool) -> xr.DataTree:
    """A short run of PyMC's sampler on the real data."""
    _log.info("Fitting the real data to find plausible hyperparameters")
    return pm.sample(
        draws=_FIT_DRAWS,
        tune=_FIT_DRAWS,
        chains=2,
        cores=min(cores, 2),
        model=model,
        random_seed=int(stream(entropy, Purpose.FIT, 0).generate_state(1)[0]),
        progressbar=progressbar,
    )


def _to_datatree(model, density, runs, rounds, simulated, attrs) -> xr.DataTree:
    last = rounds[-1]
    betas = last.schedule.betas
    groups = {"observed_data": observed_dataset(density, model)}
    for group, found in last.runs.items():
        tunings = [run.tuning for run in runs if run.group == group]
        pilots = [(tuning.path_betas, tuning.mean_log_likelihood) for tuning in tunings]
        groups[group] = annealing_dataset(found, betas).assign(
            pilot_log_likelihood=(
                ("dataset", "beta"), np.array([mean_between(betas, *pilot) for pilot in pilots])
            ),
            thermodynamic_length=(
                "dataset", np.array([thermodynamic_length(*pilot) for pilot in pilots])
            ),
        )  # fmt: skip
    if "real" in groups:
        groups["real"] = groups["real"].isel(dataset=0, drop=True)
        groups["real"].attrs["sample_dims"] = []
        if last.ends:
            places = sorted(last.ends)
            groups["posterior"] = posterior_dataset(
                density,
                model,
                [last.ends[place] for place in places],
                groups["real"]["log_weight"].values[places],
            )
    if simulated:
        groups["simulated"] = simulated_dataset(density, model, simulated)
        groups["rounds"] = _rounds_dataset(rounds)
    dt = xr.DataTree.from_dict(groups)
    dt.attrs.update(attrs)
    return dt


def _rounds_dataset(rounds: Sequence[Round]) -> xr.Dataset:
    """T, Jeffreys bound with its error (nats), gradients and seconds of every round."""
    gaps = np.array([each.gap for each in rounds])
    gradients = [
        sum(run.gradient_evaluations for runs in each.runs.values() for run in runs)
        for each in rounds
    ]
    columns = {
        "temperatures": [each.schedule.n_temperatures for each in rounds],
        "jeffreys_bound": gaps[:, 0],
        "error": gaps[:, 1],
        "gradient_evaluations": gradients,
        "seconds": [each.seconds for each in rounds],
    }
    return xr.Dataset({name: ("round", np.array(values)) for name, values in columns.items()})
