"""From a request to the runs ahead: a compiled model, its data sets, tunings and path."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import cast

import numpy as np
import xarray as xr

from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.interrupts import nothing_to_keep
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.campaign.annealing import Annealing
from pymc_bdmc.campaign.options import Ladder
from pymc_bdmc.campaign.preparation import Preparation, Tunings
from pymc_bdmc.campaign.request import NUMBERS, Request
from pymc_bdmc.campaign.rounds import Plan, Runs, Side
from pymc_bdmc.campaign.session import Session, open_session, open_store
from pymc_bdmc.campaign.tree import last_states
from pymc_bdmc.campaign.weighing import NoFit, NotNear, Weighing
from pymc_bdmc.engines import ModelEngine, TunedEngine, make_engine
from pymc_bdmc.engines.compiled.draws import DrawTuning
from pymc_bdmc.model.hard_variables import hard_variables, sum_out
from pymc_bdmc.model.lending import Loan
from pymc_bdmc.model.posterior import posterior_states
from pymc_bdmc.model.simulations import Simulated
from pymc_bdmc.paths import Path, PriorPath

__all__ = ["Campaign", "Prepared", "open_campaign", "prepare"]

_log = logging.getLogger("pymc.bdmc")


MOST_FINITE = 30
"""Elements with few values from which the log says how to sum them out: runs with 13 are fast, and
those with 100 may end without an estimate."""


@dataclass(frozen=True, eq=False)
class Campaign:
    """A request whose model is compiled, and the session in which it is run.

    Attributes
    ----------
    request : Request
    loan : Loan
        With the density.
    engine : TunedEngine
    starts : sequence of Point
        States from which reverse runs on the real data start.
    session : Session
    started, compiled : float
        Seconds of `time.perf_counter`.
    """

    request: Request
    loan: Loan
    engine: TunedEngine
    starts: Sequence
    session: Session
    started: float
    compiled: float

    @property
    def density(self):
        """The tempered density of the model."""
        return self.loan.density


@contextmanager
def open_campaign(request: Request) -> Iterator[Campaign]:
    """Compile the model, lock the store, start workers, and turn Ctrl-C into a flag."""
    started, resources = time.perf_counter(), request.resources
    store, entropy = open_store(resources, request.origin)
    with nothing_to_keep():
        loan = Loan(request.model, request.compilation.backend, request.compilation.compile_kwargs)
        engine = _engine(request, loan)
        request = request.suited(engine.stacks_data)
        starts = _starts(request, loan)
    compiled = time.perf_counter()
    with open_session(engine, resources, store, entropy, request.n_runs) as session:
        yield Campaign(request, loan, engine, starts, session, started, compiled)
    loan.give_back()


def _engine(request: Request, loan: Loan) -> TunedEngine:
    """Return the engine of a request, which fits its simulation, its path and the machine."""
    given = request.compilation
    if request.simulation:
        request.simulation.check(loan.density)
    betas = request.ladder.schedules[0].betas
    path = request.path
    in_turn = path is not None and path.in_turn and (path.order or True)
    engine = make_engine(
        loan.density, betas, given.step, given.backend, given.compile_kwargs, in_turn
    )
    if path:
        path.check(engine)
    particles = request.size.particles or engine.default_particles
    states = partial(request.states, loan.density.size)
    check_memory(states, chains=request.size.real, particles=particles)
    return engine


def _starts(request: Request, loan: Loan) -> list:
    """Return the states where reverse runs on the real data start."""
    if request.posterior is None:
        return []
    source = "posterior" if request.judged is request.posterior else "path"
    return posterior_states(source, request.posterior, request.size.real, loan.density)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The runs ahead of a campaign, and why they are these.

    Attributes
    ----------
    preparation : Preparation
        With the pilots, fits and scouts.
    path : Path
    reason : str
        Why it was taken.
    runs : Runs
    """

    preparation: Preparation
    path: Path
    reason: str
    runs: Runs[Tuning]


def prepare(campaign: Campaign) -> Prepared:
    """Simulate data, choose the path, tune the kernels, and say what is ahead.

    Draws from a fit are weighed (`Weighing`) if they are so near the posterior that they need no
    annealing; if not, pilots tune kernels along a path (`Annealing`).

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before it is done.
    """
    request = campaign.request
    _tell_what_to_sum_out(campaign)
    # Its further powers are used only if nothing speaks against a reference.
    engine = cast(ModelEngine, campaign.engine)
    common = campaign.session.pool, engine, campaign.session.entropy
    simulated: dict[int, list[Simulated]] = {}
    annealing, refused, told = Annealing(*common, request.resources.progressbar), 0, ""
    if request.may_weigh and not engine.no_reference:
        weighing = Weighing(*common)
        try:
            return _prepare(campaign, weighing, simulated)
        except NotNear as reason:
            _log.info(f"Annealing is needed: {reason}")
            annealing.gradients += weighing.gradients
            refused = reason.dataset
            annealing.doubt = str(reason) if reason.misses else ""
            if isinstance(reason, NoFit):
                _log.warning(f"path: {reason}. The path is chosen as if none were given.")
                told = f"{reason}; "
            if isinstance(reason, NoFit) or (request.path and request.path.latent):
                campaign = _without_path(campaign)
    prepared = _prepare(campaign, annealing, simulated, refused)
    return replace(prepared, reason=told + prepared.reason)


def _tell_what_to_sum_out(campaign: Campaign) -> None:
    """Log how to be rid of many variables with few values, which move one by one."""
    density = campaign.density
    finite = hard_variables(campaign.request.model)["finite_variables"]
    titles, names = density.titles, finite.split(", ")
    sizes = [prod(shape) for name, shape in density.shapes.items() if titles[name] in names]
    if sum(sizes) > MOST_FINITE:
        _log.info(f"{sum(sizes)} discrete elements mix slowly. For short runs {sum_out(finite)}")


def _without_path(campaign: Campaign) -> Campaign:
    """Return a campaign without the path that was asked for, and without starts from its draws."""
    request = campaign.request
    if request.judged is request.posterior:
        return replace(campaign, request=replace(request, path=None))
    return replace(campaign, request=replace(request, path=None, posterior=None), starts=[])


def _prepare(
    campaign: Campaign,
    preparation: Preparation,
    known: dict[int, list[Simulated]],
    refused: int = 0,
) -> Prepared:
    """Prepare runs on one path; on data set ``refused`` draws from a fit could not be weighed."""
    request, sets = campaign.request, _Sets(campaign, preparation, known)
    with nothing_to_keep():
        # One data set decides on the path, so that all go the same way.
        simulated = [] if request.real_data else sets.simulate(request.path or PriorPath(), 0)
        decides = {0: campaign.density.data} if request.real_data else {1: simulated[0].all_data}
        if refused:
            decides[refused] = known[0][refused - 1].all_data
        path, reason = preparation.choose(decides, request.path)
        chosen = time.perf_counter()
        if request.real_data:
            simulated = sets.simulate(path, 0)
        tunings = sets.tunings(path, simulated, first=1)
    seconds = time.perf_counter() - chosen
    schedules, particles = _size(campaign, preparation, tunings, path)
    variance = preparation.variance(tunings, path, schedules[0].n_temperatures, particles)
    further = _further_moves(campaign, particles, *preparation.further(schedules[0].n_temperatures))
    fewest = preparation.fewest_chains(tunings, particles, further)
    chains = len(campaign.starts) or request.size.enough(variance, fewest)
    check_memory(partial(request.states, campaign.density.size), chains=chains, particles=particles)
    sides = sets.sides(tunings, simulated, first=1, chains=chains)
    plan = Plan(
        particles, campaign.session.entropy, request.limits, request.resources.progressbar,
        preparation=seconds, further_moves=further,
    )  # fmt: skip
    _log.info(f"Path: {path.name}, {reason}")
    _log.debug(f"Kernel: {preparation.kernel}")
    renews = request.simulation and request.simulation.renews
    renew = partial(sets.renewed, path, chains) if renews else None
    pilots = {side.dataset: side.tuning for side in sides}.values()
    paths = [(pilot.path_betas, pilot.mean_log_likelihood) for pilot in pilots]
    runs = Runs(sides, schedules, plan, paths if request.ladder.is_adaptive else (), renew)
    _tell(campaign, preparation, runs)
    return Prepared(preparation, path, reason, runs)


class _Sets:
    """Simulates the data sets of a campaign, and makes the sides of their sandwiches.

    Parameters
    ----------
    campaign : Campaign
    preparation : Preparation
    simulated : dict of int to list of Simulated
        What was simulated already, by the number of the first; it is filled.
    """

    def __init__(
        self, campaign: Campaign, preparation: Preparation, simulated: dict[int, list[Simulated]]
    ):
        self._campaign, self._preparation, self._simulated = campaign, preparation, simulated

    def simulate(self, path: Path, first: int) -> list[Simulated]:
        """Return the simulated data sets whose streams are numbered from ``first``."""
        simulation, session = self._campaign.request.simulation, self._campaign.session
        if simulation is None:
            return []
        if first not in self._simulated:
            make = partial(
                simulation.simulate, self._campaign.density, session.entropy,
                partial(fit, self._campaign, self._preparation, path), first,
            )  # fmt: skip
            name, store = "renewed" if first else "simulated", session.store
            self._simulated[first] = store.remember(name, make) if store else make()
        return self._simulated[first]

    def tunings(self, path: Path, simulated: Sequence[Simulated], first: int) -> Tunings:
        """Return the tunings on all data sets; the simulated sets are numbered from ``first``."""
        known = {0: self._campaign.density.data} if self._campaign.request.real_data else {}
        data = {d: source.all_data for d, source in enumerate(simulated, start=first)}
        return self._preparation.tunings(known | data, path, fits=False)

    def sides(
        self, tunings: Tunings, simulated: Sequence[Simulated], first: int, chains: int
    ) -> list[Side]:
        """Return the sides of all sandwiches, with so many runs on the real data."""
        request, observed = self._campaign.request, self._campaign.density.data
        few = request.size.simulated(request.datasets)
        sides = [Side("real", 0, observed, tunings[0], chains)] if request.real_data else []
        if self._campaign.starts:
            starts = [Simulated(point, observed, "heuristic") for point in self._campaign.starts]
            sides.append(Side("real_reverse", 0, observed, tunings[0], len(starts), starts))
        for d, source in enumerate(simulated, start=first):
            sides.append(Side("forward", d, source.all_data, tunings[d], few))
            shortest = _shortest(source, tunings[d])
            sides.append(Side("reverse", d, source.all_data, tunings[d], few, [shortest]))
            for i, burn_in in enumerate(source.shorter, start=1):
                less = [replace(source, burn_in=burn_in)]
                sides.append(Side("burn_in", d, source.all_data, tunings[d], few, less, i))
        return sides

    def renewed(self, path: Path, chains: int) -> list[Side]:
        """Return the sides of a round on new simulated data."""
        first = self._campaign.request.datasets
        simulated = self.simulate(path, first)
        tunings = self.tunings(path, simulated, first + 1)
        return self.sides(tunings, simulated, first + 1, chains)


def fit(campaign: Campaign, preparation: Preparation, path: Path) -> xr.DataTree:
    """Return the caller's posterior draws; without them, draws from last particles of scouts."""
    if campaign.request.posterior is not None:
        return campaign.request.posterior
    density = campaign.density
    scouts = preparation.scouts({0: density.data}, path)
    states = last_states(
        density, [(run.ends, run.weights) for run in scouts],
        np.array([run.log_weight for run in scouts]), [run.population.ancestors for run in scouts],
        stream(campaign.session.entropy, Purpose.FIT), len(scouts[0].weights),
    )  # fmt: skip
    if "posterior" not in states:
        raise ValueError(
            "simulate: no run on the real data came to a state where they are possible, so there "
            "are no hyperparameters to hold; use 'prior'."
        )
    return xr.DataTree.from_dict(states)


def _size(
    campaign: Campaign, preparation: Preparation, tunings: Tunings, path: Path
) -> tuple[list[Schedule], int]:
    """Return the schedules of the rounds, and the number of particles."""
    request, ladder = campaign.request, campaign.request.ladder
    particles, limits = request.size.particles, request.limits
    if not ladder.is_open:
        return ladder.schedules, particles or campaign.engine.default_particles
    n, particles = preparation.enough(tunings, path, particles, limits.target_gap)
    n = min(n, limits.max_temperatures or n)
    return Ladder(n, ladder.schedule).schedules, particles


def _shortest(source: Simulated, tuning: Tuning) -> Simulated:
    """Return a start with a shorter burn-in if its moves are independent; not one of several."""
    if source.shorter or not isinstance(tuning, DrawTuning):
        return source
    return replace(source, burn_in=tuning.shortened(source.burn_in))


def _further_moves(campaign: Campaign, particles: int, states: int, most: int) -> int:
    """Return how often the particles of runs on the real data move on at β = 1."""
    request, engine = campaign.request, campaign.engine
    if not (request.real_data and engine.moves_further):
        return 0
    wanted = max(min(states, NUMBERS // max(campaign.density.size, 1)), 1)
    needed = -(-wanted // (request.size.real * particles)) - 1
    return min(needed, most)


def _tell(campaign: Campaign, preparation: Preparation, ahead: Runs[Tuning]) -> None:
    """Log how many runs are ahead, and what they will take."""
    request, sides, plan = campaign.request, ahead.sides, ahead.plan
    lengths = [each.n_temperatures for each in ahead.schedules]
    seconds = sum(side.seconds(plan, n) for side in sides for n in lengths)
    gradients = sum(side.gradients(plan, n) for side in sides for n in lengths)
    runs = sum(side.chains for side in sides)
    states = request.states(campaign.density.size, sides[0].chains, plan.particles)
    spent = ", ".join(f"{n} ({stage})" for stage, n in preparation.gradients.items())
    _log.debug(f"Gradient evaluations: {spent or 'none'} so far, about {gradients:.2g} ahead")
    _log.info(
        f"Ahead: {runs} runs (temperatures: {', '.join(map(str, lengths))}; "
        f"particles: {plan.particles}), "
        f"about {seconds:.2g} s of one core"
    )
    needed = (request.tables(sum(lengths)) + states) / 2**20
    _log.debug(f"Memory: at least {needed:.2g} MiB")
