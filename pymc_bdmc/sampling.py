"""The front door, `sample_bdmc`: its options and the stages of a campaign, imported by the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Never

from pymc_bdmc.base.arguments import lower
from pymc_bdmc.base.habits import refuse_instances, refuse_unknown

if TYPE_CHECKING:
    import os
    from concurrent.futures import Executor

    import pymc as pm
    import xarray as xr
    from numpy.typing import ArrayLike

    from pymc_bdmc.base.schedules import Schedule
    from pymc_bdmc.base.streams import RandomSeed
    from pymc_bdmc.kernels import NamedKernel, StepFactory
    from pymc_bdmc.model.simulations import Simulation
    from pymc_bdmc.paths import Path


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
    progressbar: bool = True,
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
    from below and reverse ones from above, in expectation; their gap bounds the Jeffreys divergence
    between a particle at the end of a forward run and the posterior (bidirectional Monte Carlo;
    BREAD).

    Parameters
    ----------
    model : pymc.Model or object that has one, optional
        Any model with a proper prior and a likelihood, also of `pymc.dims`, or a built model of
        Bambi. Default: the one of the ``with`` block. Without free variables log ML is the log
        density, with error 0, and no other argument has an effect.
    chains : int, optional
        Independent runs per direction and data set, at least 2. Default: on the real data as many
        as ``target_error`` asks for, from 16 to 48, and 48 where moves at β = 1 mix slowly, so that
        the effective sample size of the draws is larger; on each of D simulated data sets 40/D,
        within 2 and 16, so 2 on each of 20.
    particles : int, optional
        States of a run that are annealed together and, where their weights grow uneven, resampled
        in proportion to them. The gap is about inversely proportional to their number, and prior
        draws far from the posterior are removed. A run of one particle is a chain of annealed
        importance sampling. Default: 32, and 1 with PyMC's step methods; 64 to 1024 if T is 1;
        with ``target_gap`` and no ``temperatures`` 4 to 32: as many as close the gap to that at the
        fewest temperatures, if the kernel mixes perfectly.
    temperatures : int, sequence of int or array_like of shape (T + 1,), optional
        T, the number of transitions of a particle; or several such numbers in increasing order,
        such as ``[30, 100, 300]``; or, if the first is 0, the inverse temperatures themselves.
        Each of several numbers is a round of annealing. All rounds share the pilots and the
        simulated data; the last is the result, and the log weights of each are in the group
        ``rounds``.
        Default: 1 where the posterior is so near a fit that importance sampling from it is enough,
        unless ``path``, ``step`` or ``schedule`` are given. Otherwise as many as would close the
        gap to 0.15 nats, or to ``target_gap``, with a kernel that mixes perfectly and the adaptive
        schedule, by the thermodynamic length that pilots measure; from 100, or 30 on a fitted
        path, to 2000.
    path : {"prior", "fitted", "data"} or Path, optional
        Where the path starts. ``"prior"``, `PriorPath`: at the prior. ``"fitted"``, `FittedPath`:
        at a distribution near the posterior that the pilot finds; the path is far shorter, but a
        mode that this distribution misses stays missed. `ReferencePath`: at a distribution of your
        own. ``"data"``, `DataPath`: at the prior, and one observation is added after the other. A
        `Path` of your own starts where it says.
        Default: the fitted path if importance sampling from the fit is enough, which may be one
        that is normal in latent variables given their scales, or if the path is
        far shorter and misses nothing that pilots and a few runs from the prior saw; otherwise the
        path from the prior. The attribute ``path_reason`` says why. PyMC's step methods have the
        path from the prior only, as in BREAD.
    schedule : {"adaptive", "sigmoid", "linear", "power", "cubic"} or Schedule, default "adaptive"
        How the inverse temperatures are spaced. ``"adaptive"``: in steps of equal thermodynamic
        length, as the pilot measures it; on the path ``"data"``, where it cannot, in equal steps.
        A `Schedule` has its own temperatures.
    step : str, NamedKernel, step method class, sequence of them, or None
        The kernel. ``"hmc"``, ``"autostep"``, ``"nuts"``, ``"metropolis"`` or a `NamedKernel` of
        your own: compiled moves of the continuous variables, with Metropolis moves of the discrete
        ones and, now and then, to a fresh draw from the prior. ``"autostep"`` is HMC that halves
        its step size where the density requires it, as in a funnel. None: ``"hmc"``, or
        ``"metropolis"`` if the density has no gradient.
        Or PyMC's step methods, such as ``pm.NUTS`` or ``functools.partial(pm.NUTS,
        target_accept=0.95)``; several are assigned by competence. They are also used if a model
        cannot be compiled or ``backend`` is not numba; ``pm.HamiltonianMC``, without local step
        sizes, then replaces ``"autostep"``.
    simulate : {"hyperparameters", "posterior", "prior"}, Simulation or None
        How data y\* are simulated: a name, or the object that has its options.
        ``"hyperparameters"``, `FromHyperparameters`: with the hyperparameters at a draw from
        a few runs on the real data, and all else from the model; y\* resembles the data, θ\* is
        burned in. Without such hyperparameters, and by the name also if the spread or the tails of
        the real data are the most extreme among these, it is the same as
        ``"posterior"``, or as ``"prior"`` with PyMC's step methods. If data cannot be simulated
        (the model has a Potential or a CustomDist without ``random``, or draws fail), a warning
        says so and there are runs on the real data only; the object `FromHyperparameters` raises
        an error.
        ``"posterior"``, `FromPosterior`: with posterior draws; runs are on the real data and y\*
        together, so every data set contains yours; θ\* is exact if the draws are.
        ``"prior"``, `FromPrior`: everything from the model; θ\* is an exact posterior sample.
        `Matched`: the same, with the one of many draws whose y\* is most like the data.
        `Given`: your own point and data. None: no simulated data, so no upper bound and no verdict.
    real_data : bool, default True
        Whether to anneal forward on the real data too.
    posterior : DataTree, Dataset or InferenceData, optional
        Draws of any sampler (PyMC, nutpie, Stan) from the posterior on the real data, in the group
        ``posterior`` unless they are a Dataset. Reverse runs on the real data start from them, each
        from another one, so at least ``chains`` are needed. If there is a group ``observed_data``,
        a fit to other data is refused.
        The bounds of these runs are heuristic. All draws are compared with the run's own at the
        end: the group ``agreement`` has what `agreement` finds, and `verdict` says it.
        ``"hyperparameters"`` takes its values from the same draws.
    target_error : float, optional
        Standard error of log ML on the real data, in nats, for which the number of runs there is
        chosen. Pilots fix the number beforehand, by the variance of log Ẑ that they expect, so that
        the estimate stays unbiased; the resulting error may differ. Default: 0.05, or what 48 runs
        give. With ``posterior`` there are ``chains`` runs in both directions, by default 16.
    target_gap : float, optional
        Repeat with twice as many temperatures until the Jeffreys bound and its error add up to
        no more than this many nats. A gap may meet the target by chance, so that round is repeated
        with new runs on new simulated data. The repetition is the result, even if its gap is above
        the target. All rounds are rows of the group ``rounds``, and certified bounds share their
        confidence between them.
    max_temperatures : int, optional
        Only with ``target_gap``. Largest T of a round, default 1000000. If a limit is reached
        before the target, the last round is the result.
    max_time : float, optional
        Only with ``target_gap``. Seconds; a round that would not fit, together with the one that
        confirms it, is not begun. The first round is, and so is one that confirms.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result for any ``cores`` on one machine. The first compilation of a model
        may differ by rounding, since PyTensor optimises a graph by what its cache holds.
    cores : int, optional
        Threads, or processes for PyMC's step methods; never more than there are chains. Default:
        as many as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        Its workers make the runs, in place of ``cores``: ``Client(...).get_executor()`` of Dask, an
        ``MPIPoolExecutor``, loky. Each of them compiles the model once, and the result is the same
        as here. ``pymc_bdmc`` must be installed where they are.
    progressbar : bool, default True
        Whether to show progress and the current bounds.
    backend : {"numba", "c", "jax"}, optional
        PyTensor backend of the log density; compiled kernels need numba.
    compile_kwargs : dict, optional
        Passed to PyTensor when the density and PyMC's step methods are compiled. It is an error
        with compiled kernels; with a mode, step methods are used in their place.
    store : path-like, optional
        Directory in which every pilot and run is saved when it is finished. After an interruption
        the same call continues from there: no run is repeated, and the result is the same. Larger
        ``chains`` add runs; ``max_temperatures`` and ``max_time`` may differ too. If another
        argument, the model, its data or a version differs, an error says so; so it does if another
        call is using the store. A damaged file is computed again, with a warning. The file
        ``result.nc`` in it is the result so far, for `xarray.open_datatree`. Without a
        ``random_seed`` the call takes that of the store.
    callback : callable, optional
        Called after every run with the result so far, a DataTree as Ctrl-C would return it. Making
        it takes some 60 ms, while other runs go on. A KeyboardInterrupt raised in the function ends
        the call as Ctrl-C does.
    **unknown
        Not taken. The error for an argument of `pymc.sample` names the one that is meant here.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` (simulated data), ``real``, ``real_reverse`` and
        ``real_starts`` (reverse runs from ``posterior``, and their θ_T), ``agreement`` (of all
        draws of ``posterior`` with the run's own), ``particles`` (weighted last states on the real
        data), ``posterior`` (four chains of draws of equal weight from them, as many as their
        effective sample size; absent if every weight is zero), ``sample_stats`` (log ML, as of
        `pymc.sample_smc`; see `log_ml`), ``simulated``,
        ``burn_in`` (reverse log weights after each of several burn-ins), ``scouts`` (log weights of
        the runs that decided on the path), ``rounds`` (T, gap, cost and log weights of every round)
        and ``observed_data``. Read it with `summary` and the plots.

    Raises
    ------
    ValueError
        For a model or an argument that is not supported; names it and the remedy.
    OSError
        If the store cannot be written to, or another call is using it. What is in it is kept.
    RuntimeError
        If a worker ends in the middle of its task, and the executor does not replace it.
    FloatingPointError
        If a log density is +∞ at a state of a run; names β and the variables.
    KeyboardInterrupt
        If Ctrl-C is pressed before any run is finished, or twice. Otherwise the finished runs, or
        the last whole round, are the result, with the attribute ``interrupted``.

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
    Frozen({'dataset': 20, 'chain': 4})

    Options of the simulation stand in its object:

    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=20, simulate=bdmc.FromPrior(datasets=3),
    ...                     real_data=False, random_seed=1, cores=1, progressbar=False)
    >>> dt["simulated"]["y"].dims
    ('dataset',)

    With a store a call can be interrupted, and runs can be added later:

    >>> from tempfile import mkdtemp
    >>> store = f"{mkdtemp()}/run"
    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=20, simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False, store=store)
    >>> dt = pm.sample_bdmc(model, chains=6, temperatures=20, simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False, store=store)
    >>> dt["forward"].sizes["chain"]
    6

    Several numbers of temperatures show how the gap falls as T grows:

    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=[10, 20], simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False)
    >>> dt["rounds"]["forward_log_weight"].sizes
    Frozen({'round': 2, 'dataset': 20, 'chain': 4})
    """
    refuse_unknown(unknown, signature(sample_bdmc).parameters)
    refuse_instances(step)
    checks = import_module("pymc_bdmc.model.checks")
    model = checks.checked_model(checks.model_of(model), may_be_null=True)
    path, schedule, step, simulate, backend = map(lower, (path, schedule, step, simulate, backend))
    campaign = import_module("pymc_bdmc.campaign")  # takes seconds, so errors come before it
    if not model.free_RVs:
        return campaign.null_result(model)
    request = campaign.Request.of(
        model,
        campaign.Size(chains, particles, target_error),
        campaign.Ladder(temperatures, schedule),
        campaign.Limits(target_gap, max_temperatures, max_time),
        campaign.Question(path, simulate, real_data, posterior),
        campaign.Compilation(step, backend, compile_kwargs),
        campaign.Resources(random_seed, cores, executor, progressbar, store, callback),
    )
    with campaign.open_campaign(request) as opened:
        return campaign.finish(opened, campaign.prepare(opened))
