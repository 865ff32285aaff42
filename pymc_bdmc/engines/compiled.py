"""Engine that anneals inside numba, without the GIL, in threads."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.types import Moves, Point, Run, Tuning
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.prior import draws_to_accept
from pymc_bdmc.density.refuse import no_reference_for
from pymc_bdmc.density.structure import heavy_tailed, latent_variables, with_necks
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.problem import Problem
from pymc_bdmc.engines.runs import annealed, at_the_end, weighted_draws
from pymc_bdmc.engines.systems import ModelSystem, TunedKernel, advance_compiled
from pymc_bdmc.fits.draws import DrawTuning
from pymc_bdmc.fits.fit import Fit, Fitting
from pymc_bdmc.fits.narrow import add_narrow_modes
from pymc_bdmc.fits.nested import Structure
from pymc_bdmc.kernels.moves import compiled_kernel
from pymc_bdmc.kernels.state import Parameters, Target
from pymc_bdmc.kernels.transition import NamedKernel, Setting
from pymc_bdmc.pilots.pilot import (
    MEMBERS,
    MOST_ITERATIONS,
    PRIOR_DRAWS,
    MoveStage,
    Trace,
    collect_starts,
    move_population,
    pilot,
    refit,
)
from pymc_bdmc.reference.nested import MOST_OTHERS
from pymc_bdmc.reference.student import Reference, no_reference
from pymc_bdmc.run.loop import Stopped
from pymc_bdmc.run.tasks import AnnealTask, FitTask, PilotTask, RefitTask
from pymc_bdmc.run.workers import Workers, open_workers


class CompiledEngine:
    """Jitted density with compiled kernels, shared by all threads.

    ``step`` is the kernel of the continuous elements; discrete ones move one by one by Metropolis.
    ``in_turn`` asks for a path of the data, or is the order of its observations.
    """

    pilots = 1
    default_particles = 32

    def __init__(
        self,
        density: TemperedDensity,
        step: str | NamedKernel | None = None,
        in_turn: bool | tuple[int, ...] = False,
    ):
        self.density = density
        self._order = in_turn
        jitted = self.jitted = JittedDensity(density, in_turn) if in_turn else density.jitted
        self.rows = jitted.rows
        self.moves_further = self.stacks_data = not self.rows
        self._kernel = compiled_kernel(step)
        self.moves = self._kernel.compiled  # in the form of the compiled loops
        self._stop = np.zeros(1, dtype=np.uint8)
        self.lock = density.lock
        self._step = step
        self.has_gradient = bool(jitted.n_continuous) and self.moves.needs_gradient
        first = jitted.with_gradient if self.has_gradient else jitted.without_gradient
        second = jitted.without_gradient if len(jitted.categories) else first
        self._functions = (first, second)
        self._undefined = np.zeros(1, dtype=np.int64)

    def __reduce__(self):
        """Pickle without compiled functions; another process compiles its own."""
        return CompiledEngine, (self.density, self._step, self._order)

    @property
    def meets_undefined(self) -> bool:
        """Whether log p or ℓ was NaN or +∞ at a state so far, or may have been on a worker."""
        return bool(self._undefined[0])

    @cached_property
    def no_reference(self) -> str:
        """Reason why paths can start at the prior only; empty if there is none."""
        _, discrete = self.jitted.names
        if discrete:
            return f"since nothing is fitted to the discrete {', '.join(discrete)}"
        return no_reference_for(self.density.model)

    @property
    def description(self) -> str:
        """Moves of every K_t and their variables, in the order of application."""
        continuous, discrete = self.jitted.names
        parts = [f"Metropolis({', '.join(discrete)})"] if discrete else []
        if continuous:
            parts.append(f"{self._kernel.title}({', '.join(continuous)})")
        return "compiled " + " > ".join(parts)

    @property
    def kernel_names(self) -> Moves:
        """Kernels of a transition, in the order of application."""
        continuous, discrete = self.jitted.names
        names = ["Metropolis"] * bool(discrete) + [self._kernel.title] * bool(continuous)
        return Moves(True, tuple(names))

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> AbstractContextManager[Workers]:
        """Return threads that share this engine, or the workers of an executor."""
        self._stop = stop
        self._undefined[0] += executor is not None  # which counts for itself
        return open_workers(self, cores, stop, executor)

    def combine(self, tunings: Sequence[Tuning]) -> Tuning:
        """Return the tuning of the only pilot on a data set."""
        (tuning,) = tunings
        return tuning

    def on(self, data: Mapping[str, np.ndarray], reference: Reference | None = None) -> Problem:
        """Return the path of densities on given data, by default from the prior."""
        flat, categories = self.jitted.ravel_data(data), self.jitted.categories
        start = reference or no_reference()
        interval = np.array([0.0, 1.0])
        target = Target(*self._functions, flat, interval, categories, start, self._undefined)
        return Problem(self.density, self.jitted, self.moves, target, data, self._stop)

    def pilot(self, task: PilotTask) -> Tuning | None:
        """Run one pilot population on the data of the task; None if it was stopped."""
        rng = np.random.default_rng(task.seed)
        problem = self.on(task.data, task.reference)
        batches = (
            (list(zip(draws[rows], ells, strict=True)), len(draws))
            for draws, rows, ells in problem.batches(PRIOR_DRAWS, rng)
        )
        starts, spent = collect_starts(batches, PRIOR_DRAWS, MEMBERS)
        if self._stop[0]:
            return None
        thetas, ells = map(np.array, zip(*starts[:PRIOR_DRAWS], strict=True))
        move = self._mover(problem.target, rng)
        n, longest = self.jitted.n_continuous, MOST_ITERATIONS if task.until_mixed else 0
        tuning = pilot(thetas, ells, move, n, rng, task.reference, longest)
        return (
            replace(tuning, accepted_draws=draws_to_accept(len(starts), spent)) if tuning else None
        )

    def fit(self, task: FitTask) -> Fit | None:
        """Search for a reference whose draws need no annealing; None if it was stopped."""
        rng, problem = np.random.default_rng(task.seed), self.on(task.data)
        # They show what a fit misses, and searches start at them.
        draws = problem.draw(self._draws_for(task.known), rng)
        prior = draws[np.isfinite(draws).all(axis=1)]
        try:
            reached = self.jitted.ravel_many(task.reached) if task.reached else None
            fitting = Fitting(problem, prior, self._structure, rng, reached)
            if task.known:
                return fitting.further(task.known, self._wider_structure)
            named = self._structure_with(task.latent) if task.latent else None
            return fitting.first(
                task.reference, task.degrees_of_freedom, named, self._wider_structure
            )
        except Stopped:
            return None

    def _draws_for(self, known: DrawTuning | None) -> int:
        """Return how many prior draws a fit gets: thousands if they may show a narrow mode."""
        if known:
            return 64 if known.is_conclusive else 256
        is_small = self.jitted.n_continuous <= MOST_OTHERS and not self._structure.may_nest
        return 4096 if self.has_gradient and is_small else 256

    @cached_property
    def _structure(self) -> Structure:
        return self._structure_with(
            latent_variables(self.density.model) if self.has_gradient else ()
        )

    @cached_property
    def _wider_structure(self) -> Structure:
        """The structure with latent variables of any family."""
        latent = latent_variables(self.density.model, True) if self.has_gradient else ()
        return self._structure_with(latent)._replace(must_split=True)

    def _structure_with(self, latent: Sequence[str]) -> Structure:
        model, is_latent = self.density.model, self.jitted.elements_of(latent)
        if is_latent.all() and self.jitted.size > MOST_OTHERS:
            is_latent[0] = False  # a nested reference has a parameter
        return Structure(
            is_latent, self.jitted.units, bool(with_necks(model)), bool(self.heavy_tails)
        )

    @cached_property
    def heavy_tails(self) -> list[str]:
        """Names of variables whose priors have tails that a fit lacks."""
        return heavy_tailed(self.density.model)

    def refit(self, task: RefitTask) -> Tuning | None:
        """Fit a reference to other data; None if it was stopped.

        Its R̂ is infinite if the model is impossible at all draws from the known reference.
        """
        rng, problem = np.random.default_rng(task.seed), self.on(task.data)
        draws = self.on(task.data, task.known.reference).draw(MEMBERS, rng)
        possible = draws[np.isfinite(problem.evaluated(draws).sum(axis=1))]
        if not len(possible):
            return replace(task.known, rhat=np.inf)
        population = np.resize(possible, draws.shape)
        move = self._mover(problem.target, rng)
        return refit(task.known, population, move, self.jitted.n_continuous)

    def kernel(self, tuning: Tuning, betas: np.ndarray) -> TunedKernel:
        """Return the kernels of a schedule, to be applied one at a time."""
        problem = self.on(self.density.present_data, tuning.reference)
        return TunedKernel(problem, tuning.kernels, betas)

    def system(self, rng: np.random.Generator) -> ModelSystem:
        """Return the model as a system for simulated tempering, tuned by a pilot."""
        data = self.density.data
        tuning = self.pilot(PilotTask(data, np.random.SeedSequence(rng.integers(2**63))))
        assert tuning is not None, "nothing stops this pilot"
        advance = partial(advance_compiled, self.on(data), tuning.kernels)
        return ModelSystem(self.density, self.description, self.jitted.ravel, advance)

    def adapted(self, known: Tuning, reference: Reference, rhat: float) -> Tuning:
        """Return the known tuning for a reference that is fitted to other, similar data."""
        kernels = known.kernels.adapted_to(reference)
        return replace(
            known, reference=reference, gradient_evaluations=0, kernels=kernels, rhat=rhat
        )

    def _mover(self, target: Target, rng: np.random.Generator) -> MoveStage:

        def move(beta: float, parameters: Parameters, population: np.ndarray, trace: Trace):
            kernel = self.moves
            if self.rows:
                target.interval[0] = beta if beta < 1 else 0.0  # the slope from here to β = 1
            setting = Setting(beta, parameters, np.empty(0), False)
            stage = move_population(
                target, kernel, setting, population, True, rng, self._stop, trace
            )
            if not kernel.needs_gradient:
                trace.gradients[:] = 0.0  # not known
            return None if self._stop[0] else stage

        return move

    def with_narrow_modes(
        self, reference: Reference, data: Mapping[str, np.ndarray], seed: np.random.SeedSequence
    ) -> Reference:
        """Return the reference with the narrow modes that it misses; see `add_narrow_modes`."""
        try:
            return add_narrow_modes(reference, self.on(data), np.random.default_rng(seed))
        except Stopped:
            raise KeyboardInterrupt(NOTHING_FINISHED) from None

    def surplus(
        self,
        states: Point,
        data: Mapping[str, np.ndarray],
        tuning: Tuning,
        margin: float,
        seed: np.random.SeedSequence,
    ) -> float:
        """Return by how much log p + ℓ − log r at states exceeds its values in the pilot, nats.

        The excess is large if r misses a mode. A state may also lie in the tail of a mode that r
        covers, to which the kernel returns it. So states that exceed the ``margin`` are moved
        first.
        """
        thetas, seen = self.jitted.ravel_many(states), np.max(tuning.last_log_likelihood)
        found = self.on(data, tuning.reference).log_likelihoods(thetas)
        beyond = found > seen + margin
        if beyond.any():
            found[beyond] = self.after_moves(thetas[beyond], data, tuning, seed)
        return float(np.max(found) - seen)

    def after_moves(
        self,
        thetas: np.ndarray,
        data: Mapping[str, np.ndarray],
        tuning: Tuning,
        seed: np.random.SeedSequence,
    ) -> np.ndarray:
        """Return ℓ (or g) of every row after moves at β = 1, nats; NaN if stopped."""
        problem, rng = self.on(data, tuning.reference), np.random.default_rng(seed)
        trace, _ = at_the_end(problem, tuning.kernels, thetas, MOST_ITERATIONS, rng, adapts=True)
        return trace.ells[-1]

    def run(self, task: AnnealTask) -> Run | None:
        """Anneal one run from its own starts; None if it was stopped."""
        rng = np.random.default_rng(task.seed)
        if isinstance(task.tuning, DrawTuning):
            return weighted_draws(self.on(task.data), task, rng)
        return annealed(self.on(task.data, task.tuning.reference), task, rng)
