"""From an open campaign to the runs ahead: its data sets, tunings and path."""

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import cast

from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.corrected import fault
from pymc_bdmc.base.interrupts import nothing_to_keep
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.call.annealing import Annealing
from pymc_bdmc.call.opened import Campaign
from pymc_bdmc.call.options import Ladder
from pymc_bdmc.call.preparation import Preparation, Tunings
from pymc_bdmc.call.request import NUMBERS
from pymc_bdmc.call.rounds import Plan, Runs
from pymc_bdmc.call.sets import Sets
from pymc_bdmc.call.weighing import Weighing
from pymc_bdmc.density.structure import hard_variables, sum_out
from pymc_bdmc.engines import ModelEngine
from pymc_bdmc.paths import Path, PriorPath
from pymc_bdmc.simulations import Simulated

_log = logging.getLogger("pymc.bdmc")

MOST_FINITE = 30
"""Elements with few values from which the log says how to sum them out: runs with 13 are fast, and
those with 100 may end without an estimate."""


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
    _tell_what_is_corrected(campaign)
    _tell_what_to_sum_out(campaign)
    # Its further powers are used only if nothing speaks against a reference.
    engine = cast(ModelEngine, campaign.engine)
    common = campaign.session.pool, engine, campaign.session.entropy
    simulated: dict[int, list[Simulated]] = {}
    annealing, told, refused = Annealing(*common, request.resources.progressbar), "", 0
    if request.may_weigh and not engine.no_reference:
        weighing = Weighing(*common, annealing.states_from_prior)
        sets = Sets(campaign, weighing, simulated)
        with nothing_to_keep():
            refusal = weighing.refusal(sets, request.path, request.size.particles)
        if refusal is None:
            weighing.gradients += annealing.gradients
            return _prepare(campaign, weighing, sets)
        _log.info(f"Annealing is needed: {refusal.reason}")
        annealing.gradients += weighing.gradients
        annealing.doubt = refusal.reason if refusal.misses else ""
        annealing.doubted = refusal.log_weights
        refused = refusal.dataset
        annealing.weighs_real = bool(sets.real and refused) and weighing.would_do(sets.real)
        if refusal.of_given:
            _log.warning(f"path: {refusal.reason}. The path is chosen as if none were given.")
            told = f"{refusal.reason}; "
        if refusal.of_given or (request.path and request.path.latent):
            campaign = _without_path(campaign)
    prepared = _prepare(campaign, annealing, Sets(campaign, annealing, simulated), refused)
    return replace(prepared, reason=told + prepared.reason)


def _tell_what_is_corrected(campaign: Campaign) -> None:
    """Log of which variables the log density is not that of PyMC."""
    for rv in campaign.request.model.basic_RVs:
        if said := fault(rv.owner.op):
            _log.info(f"{rv.name}: PyMC's log density {said}")


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
    campaign: Campaign, preparation: Preparation, sets: Sets, refused: int = 0
) -> Prepared:
    """Prepare runs on one path; on data set ``refused`` draws from a fit could not be weighed."""
    request = campaign.request
    with nothing_to_keep():
        # One data set decides on the path, so that all go the same way.
        simulated = [] if sets.real else sets.simulate(request.path or PriorPath())
        decides = sets.real or {1: simulated[0].all_data}
        if refused:  # a data set that was simulated before
            decides = {**decides, refused: sets.all(sets.simulate(PriorPath()))[refused]}
        path, reason = preparation.choose(decides, request.path)
        chosen = time.perf_counter()
        simulated = simulated or sets.simulate(path)
        tunings = preparation.tunings(sets.all(simulated), path, fits=False)
    seconds = time.perf_counter() - chosen
    schedules, particles = _size(campaign, preparation, tunings, path)
    variance = preparation.variance(tunings, path, schedules[0].n_temperatures, particles)
    further = _further_moves(campaign, particles, *preparation.further(schedules[0].n_temperatures))
    fewest = preparation.fewest_chains(tunings, particles, further)
    chains = len(campaign.starts) or request.size.enough(variance, fewest)
    check_memory(partial(request.states, campaign.density.size), chains=chains, particles=particles)
    sides = sets.sides(tunings, simulated, chains)
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
