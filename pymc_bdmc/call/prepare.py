"""From an open session to the plan of its runs: its data sets, its path, and their tunings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

import numpy as np
import xarray as xr

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_memory
from pymc_bdmc.base.interrupts import nothing_to_keep
from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.base.types import Point, Tuning
from pymc_bdmc.base.upstream import fault
from pymc_bdmc.call.annealing import Annealing
from pymc_bdmc.call.importance import ImportanceSampling
from pymc_bdmc.call.options import make_schedules
from pymc_bdmc.call.preparation import DataSets, ModelPlan, Preparation, Tunings
from pymc_bdmc.call.rounds import Side
from pymc_bdmc.call.session import ModelSession
from pymc_bdmc.call.tree import last_states
from pymc_bdmc.density.draws import posterior_states
from pymc_bdmc.density.structure import hard_variables, sum_out
from pymc_bdmc.fits.draws import DrawTuning
from pymc_bdmc.paths import Path, PriorPath
from pymc_bdmc.results.score import score_of
from pymc_bdmc.simulations import Simulated, Simulation, if_possible

_log = logger(__name__)


@dataclass(frozen=True, eq=False)
class Sets:
    """The data sets of a call: the real one, and those that are simulated."""

    session: ModelSession
    preparation: Preparation
    simulation: Simulation | None
    starts: Sequence[Point]
    """States from which reverse runs on the real data start."""
    first: int = 0
    """Number of data sets that the call has simulated before these."""
    _simulated: dict[int, list[Simulated]] = field(default_factory=dict)
    """Data sets that were simulated already, by the number of the first."""

    @property
    def real(self) -> DataSets:
        """The real data, if there are runs on them."""
        return {0: self.session.engine.density.data} if self.session.options.real_data else {}

    @property
    def fitted(self) -> DataSets:
        """The real data, if there are runs on them or data are simulated with a fit to them."""
        needs_fit = self.simulation is not None and self.simulation.needs_fit
        return {0: self.session.engine.density.data} if needs_fit else self.real

    def simulate(self, path: Path, further: int = 0) -> list[Simulated]:
        """Return simulated data sets, whose streams come after those of ``further`` other ones.

        There are none if data cannot be simulated and the call does not need them.
        """
        session, simulation, first = self.session, self.simulation, self.first + further
        if simulation is None:
            return []
        if first not in self._simulated:
            density, fit = session.engine.density, partial(self._fit, path)
            make = partial(simulation.simulate, density, session.entropy, fit, first)
            if session.store:
                name = "renewed" if further else "simulated"
                if self.first:
                    name += f"_{self.first}"
                make = partial(session.store.remember, name, make)
            found = if_possible(make, needed=session.options.needs_simulated)
            self._simulated[first] = found or []
        return self._simulated[first]

    def _fit(self, path: Path) -> xr.DataTree:
        """Return the caller's posterior draws, or draws from the last particles of scouts."""
        if self.session.options.posterior is not None:
            return self.session.options.posterior
        density = self.session.engine.density
        scouts = self.preparation.scouts({0: density.data}, path)
        states = last_states(
            density,
            [(run.ends, run.weights) for run in scouts],
            np.array([run.log_weight for run in scouts]),
            np.array([run.ancestors for run in scouts]),
            stream(self.session.entropy, Purpose.FIT),
            len(scouts[0].weights),
        )
        if "posterior" not in states:
            raise ValueError(
                "simulate: no run on the real data came to a state where they are possible, so "
                "there are no hyperparameters to hold; use 'prior'."
            )
        return xr.DataTree.from_dict(states)

    def all_data(self, path: Path, further: int = 0) -> DataSets:
        """Return real and simulated data sets by number; see `simulate`."""
        simulated = enumerate(self.simulate(path, further), start=self.first + further + 1)
        return {**self.real, **{d: source.all_data for d, source in simulated}}

    def sides(
        self,
        tunings: Tunings,
        path: Path,
        chains: tuple[int, int],
        particles: int,
        further_moves: int,
        further: int = 0,
    ) -> list[Side]:
        """Return the sides of all sandwiches.

        They have so many chains on the real data and on each simulated set, and the moves on the
        real data.
        """
        sides = []
        for d, y in self.real.items():
            runs = d, y, tunings[d], chains[0], particles
            sides.append(Side("real", *runs, further_moves=further_moves))
            if starts := [Simulated(point, y, "heuristic") for point in self.starts]:
                sides.append(Side("real_reverse", *runs, starts))
        start = self.first + further + 1
        for d, source in enumerate(self.simulate(path, further), start=start):
            runs = d, source.all_data, tunings[d], chains[1], particles
            sides.append(Side("forward", *runs))
            sides.append(Side("reverse", *runs, [_shortest(source, tunings[d])]))
            for i, burn_in in enumerate(source.shorter, start=1):
                sides.append(Side("burn_in", *runs, [replace(source, burn_in=burn_in)], i))
        return sides

    def renewed(
        self, path: Path, chains: tuple[int, int], particles: int, further_moves: int
    ) -> list[Side]:
        """Return the sides of a round on new simulated data."""
        further = self.session.options.datasets
        tunings = self.preparation.tunings(self.all_data(path, further), path, fits=False)
        return self.sides(tunings, path, chains, particles, further_moves, further)


def _shortest(source: Simulated, tuning: Tuning) -> Simulated:
    """Return a start with a shorter burn-in if its moves are independent; not one of several."""
    if source.shorter or not isinstance(tuning, DrawTuning):
        return source
    return replace(source, burn_in=tuning.shortened(source.burn_in))


def prepare(session: ModelSession, first: int = 0) -> ModelPlan:
    """Simulate data, choose the path, tune the kernels, and plan the runs.

    ``first`` is the number of data sets that the call has simulated before.

    Runs are importance sampling from a fit if that is so near the posterior that they need no
    annealing; if not, pilots tune kernels along a path. Ctrl-C ends it without a result.
    """
    options, engine = session.options, session.engine
    _log_corrections(session)
    _log_what_to_sum_out(session)
    annealing, reason = Annealing(session), ""
    with nothing_to_keep():
        sets = _sets(session, annealing, first)
    if options.may_skip_annealing and not engine.no_reference:
        importance = ImportanceSampling(session, annealing.states_from_prior)
        direct = replace(sets, preparation=importance)
        with nothing_to_keep():
            refusal = importance.refusal(direct.fitted, direct.all_data, options.path)
        if refusal is None:
            importance.gradients += annealing.gradients
            return _plan(direct)
        _log.info(f"Annealing is needed: {refusal.reason}")
        annealing.gradients += importance.gradients
        annealing.doubt = refusal.reason if refusal.misses else ""
        annealing.doubted = refusal.log_weights
        if refusal.of_given:
            _log.warning(f"path: {refusal.reason}. The path is chosen as if none were given.")
            reason = f"{refusal.reason}; "
        if refusal.of_given or (options.path and options.path.latent):
            without = options.without_path()
            starts = sets.starts if without.posterior is not None else []
            sets = replace(sets, session=replace(session, options=without), starts=starts)
    plan = _plan(sets)
    return replace(plan, reason=reason + plan.reason)


def _log_corrections(session: ModelSession) -> None:
    """Log of which variables the log density is not that of PyMC."""
    for rv in session.options.model.basic_RVs:
        if said := fault(rv.owner.op):
            _log.info(f"{rv.name}: PyMC's log density {said}")


def _log_what_to_sum_out(session: ModelSession) -> None:
    """Log how to be rid of many variables with few values, which move one by one."""
    density = session.engine.density
    finite = hard_variables(session.options.model)["finite_variables"]
    titles, names = density.titles, finite.split(", ")
    sizes = [prod(shape) for name, shape in density.shapes.items() if titles[name] in names]
    if sum(sizes) > 30:  # runs with 13 are fast, and those with 100 may end without an estimate
        _log.info(f"{sum(sizes)} discrete elements mix slowly. For short runs {sum_out(finite)}")


def _sets(session: ModelSession, preparation: Preparation, first: int) -> Sets:
    """Return the data sets of a call, with the states where its reverse runs start."""
    options, simulation, starts = session.options, session.options.simulate, list[Point]()
    if simulation:
        simulation = simulation.suited(options.model, session.engine.stacks_data)
    if options.posterior is not None:
        source, density = options.source_of_draws, session.engine.density
        starts = posterior_states(source, options.posterior, options.n_real_chains, density)
        if options.judged is options.posterior:
            score = score_of(density, options.posterior, source)
            if score.status == "bad":
                _log.warning(f"{source}: {score.text}")
    return Sets(session, preparation, simulation, starts, first)


def _plan(sets: Sets) -> ModelPlan:
    """Plan runs on one path."""
    session, preparation = sets.session, sets.preparation
    options, engine = session.options, session.engine
    with nothing_to_keep():
        # One data set decides on the path, so that all go the same way.
        decides = sets.real or {1: sets.all_data(options.path or PriorPath())[1]}
        path, reason = preparation.choose(decides, options.path)
        chosen = time.perf_counter()
        tunings = preparation.tunings(sets.all_data(path), path, fits=False)
    seconds = time.perf_counter() - chosen
    schedules, particles = options.schedules, options.particles or engine.default_particles
    if options.pilots_choose_temperatures:
        n, particles = preparation.size(tunings, path)
        schedules = make_schedules(min(n, options.max_temperatures or n), options.schedule)
    n = schedules[0].n_temperatures
    variance, fewest, further = preparation.real_runs(tunings, path, n, particles)
    real = len(sets.starts) or options.enough_chains(variance, fewest)
    chains = real, options.enough_simulated_chains(variance)
    needed = partial(options.bytes_of_states, engine.density.size)
    check_memory(needed, chains=real, particles=particles)
    _log.info(f"Path: {path.name}, {reason}")
    _log.debug(f"Kernel: {preparation.kernel}")
    may_renew = sets.simulation is not None and sets.simulation.renews
    pilots = tunings.values() if options.is_adaptive else ()
    plan = ModelPlan(
        sides=sets.sides(tunings, path, chains, particles, further),
        schedules=schedules,
        curves=[(pilot.path_betas, pilot.mean_log_likelihood) for pilot in pilots],
        renew=partial(sets.renewed, path, chains, particles, further) if may_renew else None,
        renewal_time=seconds,
        preparation=preparation,
        simulation=sets.simulation,
        path=path,
        reason=reason,
    )
    _log_plan(session, plan)
    return plan


def _log_plan(session: ModelSession, plan: ModelPlan) -> None:
    options, sides, first = session.options, plan.sides, plan.sides[0]
    lengths = [each.n_temperatures for each in plan.schedules]
    moves = [(side.tuning, side.moves(n)) for side in sides for n in lengths]
    seconds = sum(n * tuning.seconds_a_move for tuning, n in moves)
    gradients = sum(n * tuning.gradients_a_move for tuning, n in moves)
    runs = sum(side.chains for side in sides)
    spent = ", ".join(f"{n} ({stage})" for stage, n in plan.preparation.gradients.items())
    _log.debug(f"Gradient evaluations: {spent or 'none'} so far, about {gradients:.2g} ahead")
    _log.info(
        f"Ahead: {runs} runs (temperatures: {', '.join(map(str, lengths))}; "
        f"particles: {first.particles}), "
        f"about {seconds:.2g} s of one core"
    )
    records = options.bytes_of_records(options.n_real_chains, sum(lengths), options.datasets)
    size = session.engine.density.size
    needed = (records + options.bytes_of_states(size, first.chains, first.particles)) / 2**20
    _log.debug(f"Memory: at least {needed:.2g} MiB")
