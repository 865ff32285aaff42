"""The front door, `sample_bdmc`: its options and the stages of a campaign, imported by the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import os
    from concurrent.futures import Executor

    import pymc as pm
    import xarray as xr
    from numpy.typing import ArrayLike

    from pymc_bdmc.base.schedules import Schedule
    from pymc_bdmc.base.streams import RandomSeed
    from pymc_bdmc.kernels import NamedKernel, StepFactory
    from pymc_bdmc.model.simulation import Simulation
    from pymc_bdmc.paths import Path

__all__ = ["sample_bdmc"]


def sample_bdmc(
    model: pm.Model | Any = None,
    *,
    chains: int | None = None,
    particles: int | None = None,
    temperatures: int | ArrayLike | None = None,
    path: Literal["prior", "fitted", "data"] | Path | None = None,
    schedule: str | Schedule = "adaptive",
    step: str | NamedKernel | StepFactory | Sequence[StepFactory] | None = None,
    simulate: Literal["hyperparameters", "prior"] | Simulation | None = "hyperparameters",
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
) -> xr.DataTree:
    r"""Sandwich the log marginal likelihood and bound a sampler's divergence from the posterior.

    Runs of several particles are annealed along a path of densities, f_β(θ) = p(θ) p(y|θ)^β or one
    from a fitted reference: forward from its start on simulated data y\*, in reverse from a sample
    θ\* of the posterior given y\*, and forward on the real data. Forward log weights bound log p(y)
    from below and reverse ones from above, in expectation; their gap bounds the Jeffreys divergence
    between a last particle of the forward runs and the posterior (bidirectional Monte Carlo;
    BREAD).

    Parameters
    ----------
    model : pymc.Model or object that has one, optional
        Any model with a proper prior and a likelihood, or a built model of Bambi. Default: the one
        of the ``with`` block.
    chains : int, optional
        Independent runs per direction and data set, at least 2. Default: on the real data as many
        as ``target_error`` asks for, at least 16, or 48 where moves at β = 1 mix slowly, so that
        the draws are worth more; on each of D simulated data sets 40/D, but 2 to 16, so 2 on each
        of 20.
    particles : int, optional
        States of a run that are annealed together and, where their weights grow uneven, resampled
        in proportion to them. The gap falls about as their number, and a far prior draw is left
        behind. A run of one particle is a chain of annealed importance sampling. Default: 32, and
        1 with PyMC's step methods; 64 to 256 where T is 1; with ``target_gap`` and no
        ``temperatures``, 4 to 32, as many as the fewest temperatures need to close the gap to it if
        the kernel mixes as well as can be.
    temperatures : int, sequence of int or array_like of shape (T + 1,), optional
        T, the number of transitions of a particle; a ladder of several, ``[30, 100, 300]`` say,
        increasing, one round of annealing for each; or, where it begins with 0, the inverse
        temperatures themselves. All rungs of a ladder share the pilots and the simulated data; the
        last is the result, and the log weights of each are in the group ``rounds``.
        Default: 1 where draws from a fit are so near the posterior that they need only weights
        (``path``, ``step`` and ``schedule`` have to be open too); else as many as close the gap to
        0.15 nats, or to ``target_gap``, if the kernel mixes as well as can be and the schedule is
        adaptive, by the thermodynamic length that pilots measure; within 100 (from a reference 30)
        and 2000.
    path : {"prior", "fitted", "data"} or Path, optional
        Where the path starts. ``"prior"``, `PriorPath`: at the prior. ``"fitted"``, `FittedPath`:
        at a distribution near the posterior that the pilot finds; the way is far shorter, but a
        mode that this misses stays missed. `ReferencePath`: at one of your own. ``"data"``,
        `DataPath`: at the prior, and one observation comes after the other. Default: the fitted
        one, with T = 1, where draws from a fit need no annealing; or where it is shorter and misses
        nothing that pilots and a few runs from the prior saw; else from the prior. The attribute
        ``path_reason`` says why. A `Path` of your own starts
        where you say. To judge PyMC's samplers as BREAD does, pass ``"prior"``; their step methods
        have no other.
    schedule : {"adaptive", "sigmoid", "linear", "power", "cubic"} or Schedule, default "adaptive"
        How the inverse temperatures are spaced. ``"adaptive"``: in steps of equal thermodynamic
        length, from the pilot, which knows none on the path of the data: there they are even. A
        `Schedule` brings its own temperatures.
    step : str, NamedKernel, step method class, sequence of them, or None
        The kernel. ``"hmc"``, ``"autostep"``, ``"nuts"``, ``"metropolis"`` or a `NamedKernel` of
        your own: compiled moves of the continuous variables, with Metropolis moves of the discrete
        ones and, now and then, to a fresh draw from the prior. ``"autostep"`` is HMC that halves
        its step size where the density asks for it, as in a funnel. None: ``"hmc"``.
        Or PyMC's step methods: ``pm.NUTS`` or ``functools.partial(pm.NUTS, target_accept=0.95)``
        say; several are assigned by competence. They also run where a model cannot be compiled,
        or ``backend`` is not numba; then ``pm.HamiltonianMC``, without local step sizes, stands in
        for ``"autostep"``.
    simulate : {"hyperparameters", "prior"}, Simulation or None
        Where y\* comes from: a name, or the object that carries its options.
        ``"hyperparameters"``, `FromHyperparameters`: hold the scalar hyperparameters at a draw from
        a few runs on the real data, simulate the rest; y\* resembles the data, θ\* is burned in.
        Without such hyperparameters it is the same as ``"prior"``. Where the model cannot be
        simulated (it has a Potential, or a CustomDist without draws), a warning says so and the
        real data are annealed alone; the object `FromHyperparameters` raises there.
        ``"prior"``, `FromPrior`: everything from the model; θ\* is an exact posterior sample.
        `Matched`: the same, of many draws the one whose y\* is most like the data.
        `Given`: your own point and data. None: no simulated data, the lower bound on the real
        data alone.
    real_data : bool, default True
        Whether to anneal forward on the real data too.
    posterior : DataTree, Dataset or InferenceData, optional
        Draws of any sampler (PyMC, nutpie, Stan) from the posterior on the real data, in the group
        ``posterior`` unless they are a Dataset. Reverse runs on the real data start from them, a
        different one for each run, so that at least ``chains`` are needed. With a group
        ``observed_data``, a fit to other data is refused.
        Their bounds are heuristic. All draws are held against the run's own at the end: the group
        ``agreement`` has what `agreement` finds, and `verdict` says it. ``"hyperparameters"`` takes
        its values from the same draws.
    target_error : float, optional
        Standard error of log ML on the real data, in nats, for which the number of runs there is
        chosen. Pilots fix it beforehand, by the variance of log Ẑ that they expect, so that the
        estimate stays unbiased; the error that comes out may be another. Default: 0.05, or what 48
        runs give. With ``posterior`` there are ``chains`` runs in both directions, by default 16.
    target_gap : float, optional
        Repeat with twice as many temperatures until the Jeffreys bound and its error add up to
        no more than this many nats. That may be due to noise, so the round that meets the target
        is repeated with new runs on new simulated data, and these are the result, whatever their
        gap. All rounds are rows of the group ``rounds``, and certified bounds spend their
        confidence over them.
    max_temperatures : int, optional
        Only with ``target_gap``. Largest T of a round, default 1000000. Where a limit comes before
        the target, the last round is the result.
    max_time : float, optional
        Only with ``target_gap``. Seconds; a round that would not fit, together with the one that
        confirms it, is not begun. The first round is, and so is one that confirms.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result for any ``cores`` on one machine; to rounding, where the model
        is compiled for the first time: PyTensor's arithmetic is optimised anew around what its
        cache holds.
    cores : int, optional
        Threads, or processes for PyMC's step methods; never more than there are chains. Default:
        as many as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        Whose workers run, in place of ``cores``: ``Client(...).get_executor()`` of Dask, an
        ``MPIPoolExecutor``, loky. Each of them compiles the model once, and the result is the same
        as here. ``pymc_bdmc`` must be installed where they are.
    progressbar : bool, default True
        Whether to show progress and the current bounds.
    backend : {"numba", "c", "jax"}, optional
        PyTensor backend of the log density; the compiled chains need numba.
    compile_kwargs : dict, optional
        Passed to PyTensor when the density and PyMC's step methods are compiled. The compiled
        chains refuse it, unless it names a mode, which rules them out.
    store : path-like, optional
        Directory in which every pilot and run is committed when it is finished, so that the same
        call goes on from there, whatever ended it: no run is repeated, and the result is the same.
        More ``chains`` add theirs to those that are there; ``max_temperatures`` and ``max_time``
        (of this call) may differ too. Where another argument, the model, its data or a version
        differ, it is refused; so is a second call at the same time. A damaged file is computed
        again, with a warning. It is a zarr group: `xarray.open_datatree` reads the result so far at
        any moment. Without a ``random_seed`` it takes that of the store.
    callback : callable, optional
        Called with the result so far, a DataTree as Ctrl-C would return it, at every finished run.
        That takes some 60 ms each, while other runs go on. A KeyboardInterrupt raised in it ends
        the call as Ctrl-C does.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` (simulated data), ``real``, ``real_reverse`` and
        ``real_starts`` (reverse runs from ``posterior``, and their θ_T), ``agreement`` (what all
        draws of ``posterior`` amount to), ``particles`` (weighted last states on the real data),
        ``posterior`` (four chains of draws of equal weight from them, as many as they are worth;
        not there where every weight is zero), ``sample_stats`` (log ML, as of `pymc.sample_smc`;
        see `log_ml`), ``simulated``,
        ``burn_in`` (reverse log weights after each of several burn-ins), ``scouts`` (log weights of
        the runs that decided on the path), ``rounds`` (T, gap, cost and log weights of every round)
        and ``observed_data``. Read it with `summary` and the plots.

    Raises
    ------
    ValueError
        For a model or an argument that cannot give a right answer; names it and the remedy.
    OSError
        If the store cannot be written to, or another call is using it. What is in it is kept.
    RuntimeError
        If a worker ends in the middle of its task, and the executor does not replace it.
    FloatingPointError
        If a log density is NaN at a state of a chain; names β and the variables.
    KeyboardInterrupt
        If Ctrl-C comes before any chain is finished, or is pressed a second time. Else what is
        finished is the result, with the attribute ``interrupted``: some chains, or the last whole
        round.

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

    A store makes it safe to be interrupted, and lets chains be added later:

    >>> from tempfile import mkdtemp
    >>> store = f"{mkdtemp()}/run.zarr"
    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=20, simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False, store=store)
    >>> dt = pm.sample_bdmc(model, chains=6, temperatures=20, simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False, store=store)
    >>> dt["forward"].sizes["chain"]
    6

    On a ladder one sees the gap fall as T grows:

    >>> dt = pm.sample_bdmc(model, chains=4, temperatures=[10, 20], simulate="prior", random_seed=1,
    ...                     cores=1, progressbar=False)
    >>> dt["rounds"]["forward_log_weight"].sizes
    Frozen({'round': 2, 'dataset': 20, 'chain': 4})
    """
    campaign = import_module("pymc_bdmc.campaign")
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
        prepared = campaign.prepare(opened)
        rounds = campaign.anneal(opened, prepared)
        return campaign.finish(opened, prepared, rounds)
