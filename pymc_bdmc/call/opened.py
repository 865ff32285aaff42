"""Open a campaign: compile its model, lock its store, start its workers."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pymc.pytensorf import resolve_backend_compile_kwargs

from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.interrupts import nothing_to_keep
from pymc_bdmc.call.request import Request
from pymc_bdmc.call.session import Session, open_session, open_store
from pymc_bdmc.density.draws import posterior_states
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import TunedEngine, make_engine


@dataclass(frozen=True, eq=False)
class Campaign:
    """A request whose model is compiled, and the session in which it is run.

    Attributes
    ----------
    request : Request
    density : TemperedDensity
    engine : TunedEngine
    starts : sequence of Point
        States from which reverse runs on the real data start.
    session : Session
    started, compiled : float
        Seconds of `time.perf_counter`.
    """

    request: Request
    density: TemperedDensity
    engine: TunedEngine
    starts: Sequence
    session: Session
    started: float
    compiled: float


@contextmanager
def open_campaign(request: Request) -> Iterator[Campaign]:
    """Compile the model, lock the store, start workers, and turn Ctrl-C into a flag."""
    started, resources = time.perf_counter(), request.resources
    store, entropy = open_store(resources, request.origin)
    with nothing_to_keep():
        given = request.compilation
        compile_kwargs = resolve_backend_compile_kwargs(given.backend, given.compile_kwargs)
        density = TemperedDensity(request.model, compile_kwargs).check()
        engine = _engine(request, density)
        request = request.suited(engine.stacks_data)
        starts = _starts(request, density)
    compiled = time.perf_counter()
    with open_session(engine, resources, store, entropy, request.n_runs) as session:
        yield Campaign(request, density, engine, starts, session, started, compiled)


def _engine(request: Request, density: TemperedDensity) -> TunedEngine:
    """Return the engine of a request, which fits its simulation, its path and the machine."""
    given = request.compilation
    if request.simulation and request.needs_simulated:
        request.simulation.check(density)
    betas = request.ladder.schedules[0].betas
    path = request.path
    in_turn = path is not None and path.in_turn and (path.order or True)
    engine = make_engine(density, betas, given.step, given.backend, given.compile_kwargs, in_turn)
    if path:
        path.check(engine)
    particles = request.size.particles or engine.default_particles
    states = partial(request.states, density.size)
    check_memory(states, chains=request.size.real, particles=particles)
    return engine


def _starts(request: Request, density: TemperedDensity) -> list:
    """Return the states where reverse runs on the real data start."""
    if request.posterior is None:
        return []
    source = "posterior" if request.judged is request.posterior else "path"
    return posterior_states(source, request.posterior, request.size.real, density)
