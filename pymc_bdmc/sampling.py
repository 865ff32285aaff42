"""The front door, `sample_bdmc`: its options and the stages of a call."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from inspect import signature
from typing import Any, Literal, Never

import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base import logger, silenced
from pymc_bdmc.base.arguments import check_flags, lower, refuse_unknown
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.call.options import Options
from pymc_bdmc.call.prepare import prepare
from pymc_bdmc.call.session import ModelSession, open_model
from pymc_bdmc.call.tree import finish, null_result
from pymc_bdmc.density.draws import as_idata
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.kernels import NamedKernel, StepFactory
from pymc_bdmc.kernels.steps import refuse_instances
from pymc_bdmc.paths import Path, make_path
from pymc_bdmc.results.consistency import misfit
from pymc_bdmc.results.reading import GROUPS, Reading
from pymc_bdmc.simulations import Simulation, make_simulation

_log = logger(__name__)


def sample_bdmc(
    model: pm.Model | Any = None,
    *,
    chains: int | None = None,
    particles: int | None = None,
    temperatures: int | ArrayLike | None = None,
    path: Literal["prior", "fitted", "data"] | Path | None = None,
    schedule: str | Schedule = "adaptive",
    step: str | NamedKernel | StepFactory | Sequence[StepFactory] | None = None,
    simulate: Literal["hyperparameters", "posterior", "prior"]
    | Simulation
    | None = "hyperparameters",
    real_data: bool = True,
    posterior: xr.DataTree | None = None,
    target_error: float | None = None,
    target_gap: float | None = None,
    max_temperatures: int | None = None,
    max_time: float | None = None,
    random_seed: RandomSeed = None,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool | str = True,
    quiet: bool = False,
    backend: str | None = None,
    compile_kwargs: dict | None = None,
    store: str | os.PathLike | None = None,
    callback: Callable[[xr.DataTree], object] | None = None,
    **unknown: Never,
) -> xr.DataTree:
    r"""Sandwich the log marginal likelihood and bound a sampler's divergence from the posterior.

    Runs of several particles are annealed along a path of densities, f_β(θ) = p(θ) p(y|θ)^β or one
    from a fitted reference: forward from its start on simulated data y\*, in reverse from a sample
    θ\* of the posterior given y\*, and forward on the real data. Forward log weights bound log p(y)
    from below and reverse ones from above, in expectation [1]_; their gap bounds the Jeffreys
    divergence between a particle at the end of a forward run and the posterior [2]_. Page
    *Arguments* of the documentation has the defaults in full.

    Parameters
    ----------
    model : pymc.Model or object that has one, optional
        Any model with a proper prior and a likelihood, also of `pymc.dims`, or a built model of
        Bambi. Default: the one of the ``with`` block.
    chains : int, optional
        Independent runs per direction and data set, at least 2. Default: 16 to 48 on the real data,
        by ``target_error``, and 2 to 16 on each simulated data set.
    particles : int, optional
        N, the states of a run that are annealed together and resampled where their weights grow
        uneven. Default: 32; 1 with PyMC's step methods; 64 to 1024 if T is 1.
    temperatures : int, sequence of int or array_like of shape (T + 1,), optional
        T, the number of transitions of a particle; several such numbers in increasing order, one
        for each round of annealing; or, if the first is 0, the inverse temperatures themselves.
        Default: 1 if importance sampling from a fit is enough; else 30 to 2000, set by the
        thermodynamic length that pilots measure.
    path : {"prior", "fitted", "data"} or Path, optional
        Start of the path: the prior, a fit to the posterior, or the prior with one observation
        added after the other. `ReferencePath` starts at a distribution of your own.
        Default: the fit, if nothing shows that it misses part of the posterior and the path is far
        shorter; else the prior. The attribute ``path_reason`` says why.
    schedule : {"adaptive", "sigmoid", "linear", "power", "cubic"} or Schedule, default "adaptive"
        How the inverse temperatures are spaced. ``"adaptive"``: by equal thermodynamic length.
    step : str, NamedKernel, step method class, sequence of them, or None
        The kernel: ``"hmc"``, ``"autostep"``, ``"nuts"``, ``"metropolis"`` or a `NamedKernel` of
        your own, all compiled; or PyMC's step methods, such as ``pm.NUTS`` or
        ``functools.partial(pm.NUTS, target_accept=0.95)``. None: ``"hmc"``, or ``"metropolis"`` if
        the density has no gradient.
    simulate : {"hyperparameters", "posterior", "prior"}, Simulation or None
        How data y\* are simulated. ``"hyperparameters"``: with these at a draw from a few runs on
        the real data, and all else from the model; ``"posterior"`` follows if the real data stand
        out. ``"posterior"``: with posterior draws, beside the real data. ``"prior"``: all from the
        model, so that θ\* is an exact posterior sample. `FromHyperparameters`, `FromPosterior`,
        `FromPrior` and `Given` have options. None: no simulated data, so no upper bound
        and no verdict.
    real_data : bool, default True
        Whether to anneal forward on the real data too.
    posterior : DataTree, Dataset or InferenceData, optional
        Draws of any sampler from the posterior on the real data, which are compared with the run's
        own (group ``agreement``). Reverse runs on the real data start from at least ``chains`` of
        them.
    target_error : float, optional
        Standard error of log ML on the real data, in nats, by which pilots choose the number of
        runs there. Default: 0.05, or what 48 runs give.
    target_gap : float, optional
        Repeat with twice as many temperatures until the Jeffreys bound and its error add up to
        no more than this many nats, and once more with new data, which is the result.
    max_temperatures : int, optional
        Only with ``target_gap``. Largest T of a round, default 1000000.
    max_time : float, optional
        Only with ``target_gap``. Seconds, beyond which no round is begun.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result for any ``cores`` on one machine.
    cores : int, optional
        Threads, or processes for PyMC's step methods. Default: as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        Makes the runs in place of ``cores``: Dask's ``Client(...).get_executor()``, an
        ``MPIPoolExecutor``, loky.
    progressbar : bool or str, default True
        Whether to show progress and the current bounds, in one line: also for ``"split"`` and the
        other texts that `pymc.sample` takes.
    quiet : bool, default False
        Whether to show no progress and log nothing, warnings included; `diagnose` has them.
    backend : {"numba", "c", "jax"}, optional
        PyTensor backend of the log density; compiled kernels need numba.
    compile_kwargs : dict, optional
        Passed to PyTensor when the density and PyMC's step methods are compiled; an error with
        compiled kernels.
    store : path-like, optional
        Keeps every finished pilot and run, so that the same call can go on, or add ``chains``.
    callback : callable, optional
        Called after every run with the result so far. A KeyboardInterrupt raised in it ends the
        call as Ctrl-C does.
    **unknown
        Not taken. The error for an argument of `pymc.sample` names the one that is meant here.

    Returns
    -------
    DataTree
        Read it with `log_ml`, `verdict`, `summary` and the plots. Log weights are in the groups
        ``forward``, ``reverse`` (simulated data), ``real`` and ``real_reverse``; draws in
        ``posterior`` and, with weights, in ``particles``.

    Raises
    ------
    ValueError
        For a model or an argument that is not supported; names it and the remedy.
    OSError
        If the store cannot be written to, or another call is using it.
    RuntimeError
        If a worker ends in the middle of its task, and the executor does not replace it.
    FloatingPointError
        If a log density is +∞ at a state of a step method of PyMC; names β and the variables.
    KeyboardInterrupt
        If Ctrl-C is pressed before any run is finished, or twice. Otherwise the finished runs are
        the result, with the attribute ``interrupted``.

    References
    ----------
    .. [1] Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using
       bidirectional Monte Carlo. https://doi.org/10.48550/arXiv.1511.02543
    .. [2] Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
       bidirectional Monte Carlo. https://doi.org/10.48550/arXiv.1606.02275

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
    Frozen({'dataset': 20, 'chain': 4})
    """
    refuse_unknown(unknown, signature(sample_bdmc).parameters)
    refuse_instances(step)
    check_flags(quiet=quiet)
    if posterior is not None:
        posterior = as_idata("posterior", posterior, model)
    model = checked_model(model, may_be_null=True)
    path, schedule, step, simulate, backend = map(lower, (path, schedule, step, simulate, backend))
    if not model.free_RVs:
        return null_result(model)
    options = Options(
        model=model,
        chains=chains,
        particles=particles,
        temperatures=temperatures,
        path=make_path(path),
        schedule=schedule,
        step=step,
        simulate=make_simulation(simulate),
        real_data=real_data,
        posterior=posterior,
        target_error=target_error,
        target_gap=target_gap,
        max_temperatures=max_temperatures,
        max_time=max_time,
        random_seed=random_seed,
        cores=cores,
        executor=executor,
        progressbar=False if quiet else progressbar,
        backend=backend,
        compile_kwargs=compile_kwargs,
        store=store,
        callback=callback,
    )
    with silenced(quiet), open_model(options.checked()) as session:
        dt = finish(session, prepare(session))
        return session.finish(_with_real_data(session, dt) or dt)


def _with_real_data(session: ModelSession, dt: xr.DataTree) -> xr.DataTree | None:
    """Return a result on data that contain the real ones, if no simulated ones are like these.

    None if the caller chose the simulation or limited the time, or if the data do not stand out.
    """
    options, simulation = session.options, session.options.simulate
    other = simulation.if_unlike if simulation and session.engine.stacks_data else None
    if other is None or options.max_time or dt.attrs["interrupted"] or not (found := misfit(dt)):
        return None
    _log.info("The model does not fit: data that contain the real ones are simulated in addition")
    session = replace(session, options=replace(options, simulate=other))
    try:
        # With the streams after those of the data sets so far, and of others that would confirm.
        with_real = finish(session, prepare(session, 2 * options.datasets))
    except (KeyboardInterrupt, FloatingPointError, ValueError) as error:
        _log.info(f"The result on other data is kept ({error})")
        return None
    if with_real.attrs["interrupted"]:
        return None
    runs = sum(dt[name].attrs["gradient_evaluations"] for name in GROUPS if name in dt.children)
    spent = Reading.of(dt).pilot_gradients + runs
    with_real.attrs |= found | {"gradients_first_round": spent}
    return with_real
