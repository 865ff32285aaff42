"""A call at work: its engine, its workers, its store, and the flag that Ctrl-C sets."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import xarray as xr
from pymc.pytensorf import resolve_backend_compile_kwargs

from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.base.streams import Entropy, entropy_of
from pymc_bdmc.call.options import CallOptions, Options
from pymc_bdmc.call.store import Origin, Store, open_store
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, make_engine
from pymc_bdmc.results.verdict import warn
from pymc_bdmc.run.workers import Workers


@dataclass(frozen=True, eq=False)
class Session[O: CallOptions, E]:
    """All that is open during a call on a model or another system."""

    options: O
    engine: E
    workers: Workers
    entropy: Entropy
    stop: np.ndarray
    """Flag that Ctrl-C sets, of uint8 and shape (1,)."""
    store: Store | None = None
    started: float = 0.0
    """Time (`time.perf_counter`) at which everything was compiled and the first task could run."""
    compile_time: float = 0.0
    """Seconds until then."""

    def run(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more."""
        if self.store:
            return self.store.run(tasks, self.workers, self.stop)
        return self.workers.run(tasks)

    def finish(self, dt: xr.DataTree) -> xr.DataTree:
        """Show the result to readers of the store, log its faults, and return it."""
        if self.store:
            self.store.show(lambda: dt)
        warn(dt)
        return dt


ModelSession = Session[Options, CompiledEngine]
"""Session of `sample_bdmc`."""


@contextmanager
def open_session[O: CallOptions, E: Any](
    options: O, origin: Callable[[], Origin], n_tasks: int, compiled: Callable[[], E]
) -> Iterator[Session[O, E]]:
    """Open the store, compile, turn Ctrl-C into a flag, and start no more workers than tasks."""
    begun, store = time.perf_counter(), None
    if options.store is not None:
        store = open_store(options.store, origin(), options.random_seed)
    seed = store.locked() if store else nullcontext(entropy_of(options.random_seed))
    with nothing_to_keep():
        engine = compiled()
    started = time.perf_counter()
    cores = min(options.cores or 1, n_tasks)
    with (
        seed as entropy,
        interruptible() as stop,
        engine.pool(cores, stop, options.executor) as workers,
    ):
        yield Session(options, engine, workers, entropy, stop, store, started, started - begun)


def open_model(options: Options) -> AbstractContextManager[ModelSession]:
    """Compile the model of a call of `sample_bdmc`, and open its session."""
    return open_session(options, options.origin, options.n_runs, partial(_engine, options))


def _engine(options: Options) -> CompiledEngine:
    """Return the engine for a model, once its simulation, path and size are checked."""
    backend, compile_kwargs = options.backend, options.compile_kwargs
    density = TemperedDensity(
        options.model, resolve_backend_compile_kwargs(backend, compile_kwargs)
    )
    density.check()
    if options.simulate and options.needs_simulated:
        options.simulate.check(density)
    path, betas = options.path, options.schedules[0].betas
    in_turn = path is not None and path.in_turn and (path.order or True)
    engine = make_engine(density, betas, options.step, backend, compile_kwargs, in_turn)
    if path:
        path.check(engine)
    particles = options.particles or engine.default_particles
    needed = partial(options.bytes_of_states, density.size)
    check_memory(needed, chains=options.n_real_chains, particles=particles)
    # Powers of a `CompiledEngine` are used only if nothing speaks against a reference.
    return cast(CompiledEngine, engine)
