"""A call on a system that needs no pilot: forward and reverse runs, and their result."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import System
from pymc_bdmc.call.options import CallOptions, make_schedules
from pymc_bdmc.call.rounds import Plan, Round, Side, anneal_in_rounds
from pymc_bdmc.call.session import open_session
from pymc_bdmc.call.tree import annealed_groups, tree_of_rounds
from pymc_bdmc.run.loop import BlockEngine, BlockSystem, SideBySide


def anneal(
    system: System | BlockSystem,
    *,
    chains: int = 100,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    target_gap: float | None = None,
    max_temperatures: int | None = None,
    max_time: float | None = None,
    random_seed: RandomSeed = None,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool | str = True,
    store: str | os.PathLike | None = None,
    callback: Callable[[xr.DataTree], object] | None = None,
) -> xr.DataTree:
    """Sandwich log(Z/Z_0) of a system of your own between forward and reverse chains.

    The method is bidirectional Monte Carlo [1]_.

    Parameters
    ----------
    system : System
        With ``draw_posterior`` as well. If its states at β = 1 are not exact, its attribute
        ``start_status`` must say so.
    chains : int, default 100
        Chains per direction, at least 2. They are run 100 at a time.
    temperatures : int or array_like, default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves, of shape
        (T + 1,). A sequence of whole numbers is a ladder of rounds.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        How the inverse temperatures are spaced.
    target_gap : float, optional
        Nats. T is doubled until the Jeffreys bound and its error add up to no more; a last round of
        new runs confirms it. ``temperatures`` is then T of the first round.
    max_temperatures : int, optional
        Largest T with a ``target_gap``.
    max_time : float, optional
        Seconds; no round that would end later is begun, with a ``target_gap``.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Fixes the result, whatever ``cores``.
    cores : int, optional
        Threads. Default: as many as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        The workers of a cluster run in place of threads: see `sample_bdmc`.
    progressbar : bool or str, default True
    store : path-like, optional
        Directory that keeps finished runs; the same call goes on from there.
    callback : callable, optional
        Called with the result so far whenever runs finish. KeyboardInterrupt from it ends the call.

    Returns
    -------
    DataTree
        ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the plots.
        After Ctrl-C, chains that were not finished are NaN.

    Raises
    ------
    TypeError, ValueError
        Names the argument and the remedy.
    FloatingPointError
        If a log weight is not finite.
    KeyboardInterrupt
        If Ctrl-C comes before any chain is finished, or is pressed a second time.

    References
    ----------
    .. [1] Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using
       bidirectional Monte Carlo. https://doi.org/10.48550/arXiv.1511.02543

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> system = bdmc.testsystems.BimodalGaussian(2, 3.0)
    >>> dt = bdmc.anneal(system, chains=50, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - system.log_z) < 4 * error)
    True
    """
    blocks = system if isinstance(system, BlockSystem) else SideBySide(system)
    options = CallOptions(
        chains=chains,
        temperatures=temperatures,
        schedule=schedule,
        target_gap=target_gap,
        max_temperatures=max_temperatures,
        max_time=max_time,
        random_seed=random_seed,
        cores=cores,
        executor=executor,
        progressbar=progressbar,
        store=store,
        callback=callback,
    ).resolved(make_schedules(temperatures, schedule, *blocks.defaults), has_gap=True)
    # The log weights, prior draws and acceptance of both directions take 100 bytes a chain.
    check_memory(lambda chains: 100 * chains, chains=chains)
    up = Side("forward", 0, {}, None, chains, block_size=blocks.block_size)
    down = replace(up, group="reverse")
    plan = Plan(sides=[up, down], schedules=options.schedules)
    origin, compiled = partial(options.origin, system=blocks), partial(BlockEngine, blocks)
    with open_session(options, origin, up.n_tasks + down.n_tasks, compiled) as session:

        def result(rounds: Sequence[Round]) -> xr.DataTree:
            attributes = {"step": blocks.description, **blocks.attributes}
            return tree_of_rounds(session, rounds, annealed_groups(rounds[-1]), attributes)

        return session.finish(result(anneal_in_rounds(session, plan, result)))
