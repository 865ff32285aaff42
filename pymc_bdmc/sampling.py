"""The front door: `sample_bdmc` checks, wires, runs and converts."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.pytensorf import resolve_backend_compile_kwargs
from pymc.vartypes import discrete_types

from pymc_bdmc.annealing import available_cores, make_engine
from pymc_bdmc.annealing.rounds import Plan, Round, Run, anneal_in_rounds, run_pilots
from pymc_bdmc.arguments import check_choice, check_counts, check_positive
from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.model.checks import check_model, check_names, check_simulable
from pymc_bdmc.model.simulation import (
    Simulated,
    as_simulated,
    check_drawable,
    default_hyperparameters,
    hyperparameter_values,
    simulate_from_hyperparameters,
    simulate_from_prior,
)
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.results.convert import (
    annealing_dataset,
    observed_dataset,
    posterior_dataset,
    simulated_dataset,
)
from pymc_bdmc.results.diagnose import diagnose
from pymc_bdmc.schedules import (
    SCHEDULES,
    Schedule,
    make_schedule,
    mean_between,
    thermodynamic_length,
)
from pymc_bdmc.streams import Purpose, RandomSeed, entropy_of, recorded, stream
from pymc_bdmc.version import VERSION

__all__ = ["sample_bdmc"]

_log = logging.getLogger("pymc.bdmc")

_FIT_DRAWS = 500

Simulate = Literal["hyperparameters", "prior"] | tuple[Mapping, Mapping] | None


def sample_bdmc(
    model: pm.Model | None = None,
    *,
    chains: int = 64,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "sigmoid",
    step: str | StepFactory | Sequence[StepFactory] | None = None,
    simulate: Simulate = "hyperparameters",
    hyperparameters: Sequence[str] | None = None,
    hyperparameters_at: Literal["draw", "mean"] = "draw",
    idata: xr.DataTree | None = None,
    datasets: int = 1,
    burn_in: int = 100,
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
    check_counts(chains=chains, datasets=datasets, burn_in=burn_in)
    cores = min(available_cores(), 4) if cores is None else cores
    check_counts(cores=cores)
    if isinstance(schedule, str):
        check_choice("schedule", schedule, [*SCHEDULES, "adaptive"])
    is_adaptive = isinstance(schedule, str) and schedule == "adaptive"
    if is_adaptive and np.ndim(temperatures):
        raise ValueError("temperatures: schedule='adaptive' chooses them; pass how many.")
    schedule = make_schedule("power" if is_adaptive else schedule, temperatures, default=1000)
    _check_target(target_gap, max_temperatures, max_time, simulate, schedule.n_temperatures)
    if backend is not None:
        check_choice("backend", backend, ["numba", "c", "jax"])
    if not isinstance(compile_kwargs, Mapping | None):
        raise TypeError(f"compile_kwargs: a dict is needed, got {compile_kwargs!r}.")
    _check_simulate(model, simulate, datasets, real_data)
    if hyperparameters is not None:
        hyperparameters = [hyperparameters] if isinstance(hyperparameters, str) else hyperparameters
        check_names(list(hyperparameters), model)
    check_choice("hyperparameters_at", hyperparameters_at, ["draw", "mean"])
    entropy = entropy_of(random_seed)
    plan = Plan(chains, burn_in, entropy, target_gap, max_temperatures, max_time, progressbar)

    _log.info("Compiling, once per model structure; the first time it takes a while")
    density = TemperedDensity(model, resolve_backend_compile_kwargs(backend, compile_kwargs))
    if hyperparameters is None:
        hyperparameters = default_hyperparameters(density.model)
    discrete = [name for name in hyperparameters if density.model[name].dtype in discrete_types]
    if discrete and hyperparameters_at == "mean":
        raise ValueError(f"hyperparameters_at: the mean of the discrete {discrete} is no value.")
    if isinstance(simulate, str):
        check_drawable(density)
    engine = make_engine(density, schedule.betas, step, backend, compile_kwargs)
    _log.info(f"Kernel: {engine.description}")
    simulated = _simulate(
        model, density, simulate, hyperparameters, hyperparameters_at, idata, datasets,
        burn_in, entropy, cores, progressbar,
    )  # fmt: skip
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
        "simulate": simulate if isinstance(simulate, str) else "given" if simulate else "none",
        "upper_bound": simulated[0].status if simulated else "none",
        "hyperparameters": ", ".join(hyperparameters if simulate == "hyperparameters" else []),
        "burn_in": burn_in if simulate == "hyperparameters" else 0,
        "random_seed": recorded(entropy),
        "interrupted": int(rounds[-1].interrupted),
        "rounds": 0 if target_gap is None else len(rounds),
        "pymc_version": pm.__version__,
        "pymc_bdmc_version": VERSION,
        "preparation_time": compiled - started,
        "sampling_time": finished - compiled,
    }
    dt = _to_datatree(model, density, runs, rounds, simulated, attrs)
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


def _simulate(
    model, density, simulate, names, at, idata, datasets, burn_in, entropy, cores, progressbar
) -> list[Simulated]:
    if simulate is None:
        return []
    if not isinstance(simulate, str):
        return [as_simulated(density, *simulate)]
    seeds = [stream(entropy, Purpose.SIMULATE, d) for d in range(datasets)]
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
            random_seed=int(stream(entropy, Purpose.FIT, 0).generate_state(1)[0]),
            progressbar=progressbar,
        )
    if "posterior" not in getattr(idata, "children", ()):
        raise ValueError("idata: expected a DataTree with a group 'posterior'.")
    _log.info(f"Hyperparameters held at a posterior {at}: {', '.join(names)}")
    rng = np.random.default_rng(stream(entropy, Purpose.FIT, 1))
    values = hyperparameter_values(idata["posterior"], names, datasets, at, rng)
    status = "burned-in" if burn_in else "heuristic"
    return simulate_from_hyperparameters(density, values, seeds, status)


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
