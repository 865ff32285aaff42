"""A call at work: its workers, its store, and the flag that Ctrl-C sets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.streams import Entropy, entropy_of
from pymc_bdmc.call.options import Resources
from pymc_bdmc.call.rounds import Round, Runs, anneal_in_rounds
from pymc_bdmc.call.store import Store, StoredPool, reporter
from pymc_bdmc.results.verdict import warn
from pymc_bdmc.run.workers import Pool


@dataclass(frozen=True, eq=False)
class Session:
    """Everything that a call has open while it anneals a model or another system.

    Attributes
    ----------
    pool : Pool
    entropy : int or sequence of int
    store : Store or None
    stop : ndarray of uint8, shape (1,)
        Set by Ctrl-C.
    callback : callable or None
    """

    pool: Pool
    entropy: Entropy
    store: Store | None
    stop: np.ndarray
    callback: Callable[[xr.DataTree], object] | None

    def anneal(self, ahead: Runs, result: Callable[[Sequence[Round]], xr.DataTree]) -> list[Round]:
        """Run all rounds; after Ctrl-C what is finished is there.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C comes before any run is finished.
        """
        report = reporter(result, self.store, self.callback, self.stop)
        return anneal_in_rounds(self.pool, ahead, report)

    def finish(self, dt: xr.DataTree) -> xr.DataTree:
        """Show the result to readers of the store, log what to doubt in it, and return it."""
        if self.store:
            self.store.show(lambda: dt)
        warn(dt)
        return dt


def open_store(
    resources: Resources, origin: Callable[[], Mapping[str, Mapping[str, str]]]
) -> tuple[Store | None, Entropy]:
    """Return the store of a call, if it has one, and what its seed comes to.

    Raises
    ------
    TypeError, ValueError, OSError
        See `Store` and `entropy_of`.
    """
    if resources.store is None:
        return None, entropy_of(resources.random_seed)
    store = Store(resources.store, origin(), resources.random_seed)
    return store, store.entropy


@contextmanager
def open_session(
    engine: Any, resources: Resources, store: Store | None, entropy: Entropy, n_tasks: int
) -> Iterator[Session]:
    """Lock the store, turn Ctrl-C into a flag, and start workers, no more than there are tasks."""
    with (
        store.locked() if store else nullcontext(),
        interruptible() as stop,
        engine.pool(min(resources.n_cores, n_tasks), stop, resources.executor) as workers,
    ):
        pool = StoredPool(workers, store, stop) if store else workers
        yield Session(pool, entropy, store, stop, resources.callback)
