"""Engine that anneals inside numba, without the GIL, in threads."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property

import numpy as np

from pymc_bdmc.base.compiling import declare
from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.types import Direction, Moves, Point, Population, Run
from pymc_bdmc.engines.compiled import ahead
from pymc_bdmc.engines.compiled.counted import Counted, Stopped
from pymc_bdmc.engines.compiled.draws import (
    FEW_PRIOR_STATES,
    PRIOR_STATES,
    Fitting,
    Structure,
    settled,
    weigh,
)
from pymc_bdmc.engines.compiled.improving import log_weights_at
from pymc_bdmc.engines.compiled.kernel import TunedKernel
from pymc_bdmc.engines.compiled.loops import (
    NOT_A_NUMBER,
    STOPPED,
    RunPlan,
    RunRecord,
    Trace,
    anneal_run,
    empty_record,
    move_chains,
    move_population,
    terms_of,
)
from pymc_bdmc.engines.compiled.nested import Split
from pymc_bdmc.engines.compiled.peaks import add_peaks
from pymc_bdmc.engines.compiled.pilot import (
    MEMBERS,
    MOST_ITERATIONS,
    MoveStage,
    PathTuning,
    pilot,
    refit,
)
from pymc_bdmc.engines.compiled.system import CompiledSystem
from pymc_bdmc.engines.compiled.tops import BY_GRADIENTS
from pymc_bdmc.engines.compiled.values import BY_VALUES
from pymc_bdmc.engines.mean_curve import PRIOR_DRAWS, collect_starts
from pymc_bdmc.engines.pools import ExecutorPool, ThreadPool
from pymc_bdmc.engines.tasks import AnnealTask, Fit, FitTask, PilotTask, RefitTask
from pymc_bdmc.kernels.prior_move import no_draw
from pymc_bdmc.kernels.reference import (
    Reference,
    draw_reference,
    no_reference,
)
from pymc_bdmc.kernels.registry import compiled_kernel
from pymc_bdmc.kernels.resampling import places
from pymc_bdmc.kernels.state import Parameters, Target
from pymc_bdmc.kernels.transition import SIGNATURE, CompiledKernel, NamedKernel, Setting
from pymc_bdmc.model.checks import no_reference_for
from pymc_bdmc.model.forward_sampling import MAX_PRIOR_DRAWS, MOST_TRIALS, draws_to_accept
from pymc_bdmc.model.hard_variables import heavy_tailed, with_necks
from pymc_bdmc.model.jitted import JittedDensity
from pymc_bdmc.model.latent import latent_variables
from pymc_bdmc.model.rows import row_ends
from pymc_bdmc.model.tempered import TemperedDensity

__all__ = ["CompiledEngine"]

FRESH_STRIDE = 4
FRESH, FRESH_ONE_BY_ONE = 512, 32
"""Most moves of a chain to a fresh prior draw; fewer if prior draws cannot be made in batches."""

declare(Target, SIGNATURE.args[0])


class CompiledEngine:
    """Jitted density with compiled kernels, shared by all threads.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities; from now on it is evaluated by the jitted function.
    step : {"hmc", "autostep", "nuts", "metropolis"} or NamedKernel, optional
        Kernel of the continuous elements. Discrete elements move one by one by Metropolis.
    in_turn : bool or tuple of int, default False
        Whether runs use a path of the data, or the order of its observations.

    Raises
    ------
    ValueError
        If a variable has no rows that could come in turn, or ``step`` is an unknown name.
    NotJittable
        If the density cannot be compiled as a numba function.
    """

    block_size = 1
    judges_acceptance = True
    pilots = 1
    """Number of independent pilots per data set."""
    default_particles = 32
    """Default number of particles of a run."""

    def __init__(
        self,
        density: TemperedDensity,
        step: str | NamedKernel | None = None,
        in_turn: bool | tuple[int, ...] = False,
    ):
        ahead.begin()
        self.density = density
        self.in_turn, self._order = bool(in_turn), in_turn
        self.moves_further = not in_turn
        jitted = self.jitted = JittedDensity(density, in_turn) if in_turn else density.jitted
        self.rows = jitted.rows
        self._kernel = compiled_kernel(step)
        self._stop = np.zeros(1, dtype=np.uint8)
        self.lock = threading.Lock()
        self._step = step
        gradient = bool(jitted.n_continuous) and self.moves.needs_gradient
        self.has_gradient = gradient
        first = jitted.with_gradient if gradient else jitted.without_gradient
        second = jitted.without_gradient if len(jitted.categories) else first
        self._functions = (first, second)
        density.terms = jitted.terms(second)

    def __reduce__(self):
        """Pickle without compiled functions; another process compiles its own."""
        return CompiledEngine, (self.density, self._step, self._order)

    @cached_property
    def no_reference(self) -> str:
        """Return the reason why paths can start at the prior only; empty if not restricted."""
        _, discrete = self.jitted.names
        if discrete:
            return f"since nothing is fitted to the discrete {', '.join(discrete)}"
        return no_reference_for(self.density.model)

    @property
    def description(self) -> str:
        """Return the moves of every K_t and their variables, in the order of application."""
        continuous, discrete = self.jitted.names
        parts = [f"Metropolis({', '.join(discrete)})"] if discrete else []
        if continuous:
            parts.append(f"{self._kernel.title}({', '.join(continuous)})")
        return "compiled " + " > ".join(parts)

    @property
    def kernel_names(self) -> Moves:
        """Return the kernels of a transition, in the order of application."""
        continuous, discrete = self.jitted.names
        names = ["Metropolis"] * bool(discrete) + [self._kernel.title] * bool(continuous)
        return Moves(True, tuple(names))

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> ThreadPool | ExecutorPool:
        """Return a pool of threads that share this engine, or of workers with copies."""
        self._stop = stop
        return ExecutorPool(self, executor, stop) if executor else ThreadPool(self, cores, stop)

    def combine(self, tunings: Sequence[PathTuning]) -> PathTuning:
        """Return the tuning of the only pilot on a data set."""
        (tuning,) = tunings
        return tuning

    def target(self, data: Mapping[str, np.ndarray], reference: Reference | None = None) -> Target:
        """Return the path of densities on given data, by default from the prior."""
        flat, categories = self.jitted.ravel_data(data), self.jitted.categories
        return Target(*self._functions, flat, categories, reference or no_reference())

    def pilot(self, task: PilotTask) -> PathTuning | None:
        """Run one pilot population on the data of the task; None if it was stopped."""
        rng = np.random.default_rng(task.seed)
        target = self.target(task.data, task.reference)
        with self.lock:  # PyTensor's draws share state
            self.density.set_data(task.data)
            batches = (
                (list(zip(draws[rows], ells, strict=True)), len(draws))
                for draws, rows, ells in self._batches(PRIOR_DRAWS, rng, target)
            )
            starts, spent = collect_starts(batches, PRIOR_DRAWS, MEMBERS)
        if self._stop[0]:
            return None
        thetas, ells = map(np.array, zip(*starts[:PRIOR_DRAWS], strict=True))

        move = self._mover(target, rng)
        n, longest = self.jitted.n_continuous, MOST_ITERATIONS if task.until_mixed else 0
        tuning = pilot(thetas, ells, move, n, rng, task.reference, longest)
        return (
            replace(tuning, accepted_draws=draws_to_accept(len(starts), spent)) if tuning else None
        )

    def fit(self, task: FitTask) -> Fit | None:
        """Find a reference from which draws need no annealing; None if it was stopped."""
        rng, target = np.random.default_rng(task.seed), self.target(task.data)
        with self.lock:  # PyTensor's draws share state
            self.density.set_data(task.data)
            draws = self._draw(FEW_PRIOR_STATES if task.known else PRIOR_STATES, rng, target)
        prior = draws[np.isfinite(draws).all(axis=1)]
        try:
            fitting = Fitting(self._counted(task.data), prior, self._structure, rng)
            if task.known:
                return fitting.further(task.known)
            named = self._split(task.latent) if task.latent else None
            return fitting.first(task.reference, task.degrees_of_freedom, named)
        except Stopped:
            return None

    def _counted(self, data: Mapping[str, np.ndarray]) -> Counted:
        """Return log p + ℓ on given data, with its prior draws."""
        target = self.target(data)

        def draw_prior(n: int, rng: np.random.Generator) -> np.ndarray:
            with self.lock:  # PyTensor's draws share state
                self.density.set_data(data)
                return self._draw(n, rng, target)

        climbing = BY_GRADIENTS if self.has_gradient else BY_VALUES
        return Counted(target, self._stop, draw_prior, climbing)

    @cached_property
    def _structure(self) -> Structure:
        model = self.density.model
        latent = latent_variables(model) if self.has_gradient else ()
        return Structure(self._split(latent), bool(with_necks(model)), bool(self.heavy_tails))

    def _split(self, latent: Sequence[str]) -> Split:
        return Split(self.jitted.elements_of(latent), self.jitted.units)

    @cached_property
    def heavy_tails(self) -> list[str]:
        """Return the names of variables whose priors have tails that a fit lacks."""
        return heavy_tailed(self.density.model)

    def refit(self, task: RefitTask[PathTuning]) -> PathTuning | None:
        """Fit a reference to other data; None if it was stopped.

        Its R̂ is infinite if the model is impossible at all draws from the known reference.
        """
        rng, target = np.random.default_rng(task.seed), self.target(task.data)
        draws = self._draw(MEMBERS, rng, self.target(task.data, task.known.reference))
        terms = np.empty((MEMBERS, 2))
        terms_of(target, draws, terms)
        possible = draws[np.isfinite(terms.sum(axis=1))]
        if not len(possible):
            return replace(task.known, rhat=np.inf)
        population = np.resize(possible, draws.shape)
        return refit(task.known, population, self._mover(target, rng), self.jitted.n_continuous)

    @property
    def moves(self) -> CompiledKernel:
        """Return the kernel in the form of the compiled loops."""
        return self._kernel.compiled

    def kernel(self, tuning: PathTuning, betas: np.ndarray) -> TunedKernel:
        """Return the kernels of a schedule, to be applied one at a time."""
        return TunedKernel(self, tuning, betas)

    def system(self, rng: np.random.Generator) -> CompiledSystem:
        """Return the model as a system for simulated tempering, tuned by a pilot."""
        return CompiledSystem(self, rng)

    def adapted(self, known: PathTuning, reference: Reference, rhat: float) -> PathTuning:
        """Return the known tuning for a reference that is fitted to other, similar data."""
        return replace(known.adapted_to(reference), rhat=rhat)

    def _mover(self, target: Target, rng: np.random.Generator) -> MoveStage:
        """Return the function by which a pilot moves its population."""

        def move(beta: float, parameters: Parameters, population: np.ndarray, trace: Trace):
            kernel = self.moves
            if self.in_turn:
                target.data[-2] = beta % 1  # the slope up to β = 1; at β = 1, the slope from β = 0
            setting = Setting(beta, parameters, no_draw(), False)
            stage = move_population(
                target, kernel, setting, population, True, rng, self._stop, trace
            )
            if not kernel.needs_gradient:
                trace.gradients[:] = 0.0  # not known
            return None if self._stop[0] else stage

        return move

    def _draw(self, n: int, rng: np.random.Generator, target: Target) -> np.ndarray:
        """Draw θ from the reference or the prior, one a row."""
        if len(target.reference.locations):
            return draw_reference(target.reference, n, rng)
        return self.jitted.ravel_many(self.density.prior.draw_many(n, rng))

    def _batches(
        self, n: int, rng: np.random.Generator, target: Target
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield batches of n draws with their `_supported` rows, until the engine is stopped.

        Raises
        ------
        ValueError
            If the next start takes more than `MAX_PRIOR_DRAWS`.
        """
        in_vain = 0
        while not self._stop[0]:
            draws = self._draw(n, rng, target)
            rows, ells = self._supported(draws, target)
            in_vain = 0 if len(rows) else in_vain + n
            if in_vain > MAX_PRIOR_DRAWS:
                raise self._impossible(draws, in_vain, target)
            yield draws, rows, ells

    def _supported(self, thetas: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of draws that lie in S, and their ℓ."""
        for theta in thetas[np.isinf(thetas).any(axis=1)]:
            self.density.prior.supports(self.jitted.unravel(theta))  # the error names the variable
        rows = np.flatnonzero(np.isfinite(thetas).all(axis=1))
        ells = self._log_likelihoods(thetas[rows], target)
        possible = ells > -np.inf
        return rows[possible], ells[possible]

    def log_likelihoods(
        self, thetas: np.ndarray, data: Mapping[str, np.ndarray], reference: Reference | None
    ) -> np.ndarray:
        """Return ℓ of every row, or g on the path from a reference, nats.

        Raises
        ------
        FloatingPointError
            If a log density is NaN; names the variables.
        """
        with self.lock:
            self.density.set_data(data)
            return self._log_likelihoods(thetas, self.target(data, reference))

    def with_peaks(
        self, reference: Reference, data: Mapping[str, np.ndarray], seed: np.random.SeedSequence
    ) -> Reference:
        """Apply `add_peaks` for given data.

        Raises
        ------
        KeyboardInterrupt
            If the engine was stopped.
        """
        target = self.target(data)

        def log_density(thetas: np.ndarray) -> np.ndarray:
            if self._stop[0]:
                raise KeyboardInterrupt(NOTHING_FINISHED)
            terms = np.empty((len(thetas), 2))
            terms_of(target, thetas, terms)
            values = terms.sum(axis=1)
            return np.where(values < np.inf, values, -np.inf)  # also for NaN

        return add_peaks(reference, log_density, np.random.default_rng(seed))

    def _log_likelihoods(self, thetas: np.ndarray, target: Target) -> np.ndarray:
        terms = np.empty((len(thetas), 2))
        terms_of(target, thetas, terms)
        for theta in thetas[~(terms.sum(axis=1) < np.inf)]:
            self.raise_at(0.0, theta)
        return terms[:, 1].copy()

    def surplus(
        self,
        states: Point,
        data: Mapping[str, np.ndarray],
        tuning: PathTuning,
        margin: float,
        seed: np.random.SeedSequence,
    ) -> float:
        """Return how far log p + ℓ − log r exceeds, at states, all that a pilot saw; nats.

        The excess stays large if the posterior has a mode that r does not cover, or a peak within.
        A state in the tail of a mode that r does cover is led back by the kernel.

        Parameters
        ----------
        states : mapping of str to ndarray
            A row for each state.
        data : mapping of str to ndarray
            Observed data.
        tuning : PathTuning
            The tuning of the path from r on these data.
        margin : float
            Nats; a state that exceeds it is moved first.
        seed : SeedSequence
            The seed of these moves.
        """
        thetas, seen = self.jitted.ravel_many(states), np.max(tuning.last_log_likelihood)
        found = self.log_likelihoods(thetas, data, tuning.reference)
        beyond = found > seen + margin
        if beyond.any():
            found[beyond] = self.settled(thetas[beyond], data, tuning, seed)
        return float(np.max(found) - seen)

    def settled(
        self,
        thetas: np.ndarray,
        data: Mapping[str, np.ndarray],
        tuning: PathTuning,
        seed: np.random.SeedSequence,
    ) -> np.ndarray:
        """Return ℓ (or g) of every row after `MOST_ITERATIONS` moves at β = 1, nats.

        NaN if the engine was stopped.
        """
        rng, target = np.random.default_rng(seed), self.target(data, tuning.reference)
        return self._at_the_end(thetas, MOST_ITERATIONS, True, target, tuning, rng)[0].ells[-1]

    def _at_the_end(
        self,
        thetas: np.ndarray,
        n: int,
        adapts: bool,
        target: Target,
        tuning: PathTuning,
        rng: np.random.Generator,
    ) -> tuple[Trace, int]:
        """Return the states of every row after each of n moves at β = 1, and gradient counts."""
        rows, size = thetas.shape
        trace = Trace(
            np.full((n, rows), np.nan),
            np.empty((n, rows, size)),
            np.empty((2, n, rows, self.jitted.n_continuous)),
        )
        last = Setting(1.0, tuning.last_parameters, no_draw(), False)
        *_, gradients = move_population(
            target, self.moves, last, thetas.copy(), adapts, rng, self._stop, trace
        )
        return trace, gradients

    def _impossible(self, thetas: np.ndarray, n_draws: int, target: Target) -> ValueError:
        if len(target.reference.locations):
            return ValueError(
                f"path: the model is impossible at all of {n_draws} draws from the reference. "
                "Shift or widen it, or use 'prior'."
            )
        return self.density.impossible([self.jitted.unravel(row) for row in thetas[:20]], n_draws)

    def _start(
        self, task: AnnealTask, target: Target, n_fresh: int, rng
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray] | None:
        """Return the start of a chain, further prior draws, and the draws per accepted one.

        None if it was stopped.
        """
        spent = 0
        draws = self._draw(n_fresh + 1, rng, target)
        if task.start is not None:
            return self.jitted.ravel(task.start)[None], draws[1:], 0
        while (place := self._first_supported(draws, target)) is None:
            spent += len(draws)
            if self._stop[0]:
                return None
            if spent > MAX_PRIOR_DRAWS:
                raise self._impossible(draws, spent, target)
            draws = self._draw(n_fresh + 1, rng, target)
        fresh = draws[place + 1 :]
        if place:
            fresh = np.concatenate([fresh, self._draw(place, rng, target)])
        trials = [spent + place + 1]
        if task.tuning.accepted_draws > 1:
            trials += self._accepted(task.tuning.accepted_draws - 1, MOST_TRIALS, rng, target)[1]
        return draws[[place]], fresh, np.array(trials)

    def _first_supported(self, thetas: np.ndarray, target: Target) -> int | None:
        """Return the index of the first row in S."""
        rows = range(len(thetas))
        return next((i for i in rows if len(self._supported(thetas[[i]], target)[0])), None)

    def _starts(
        self, task: AnnealTask, target: Target, rng
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray] | None:
        """Return the starts of particles, no further prior draws, and the draws per accepted one.

        None if it was stopped.
        """
        n = task.particles
        kept = [] if task.start is None else [self.jitted.ravel(task.start)]
        needed = n - 1 if kept else max(n, task.tuning.accepted_draws)
        thetas, trials = self._accepted(needed, n, rng, target)
        starts = np.array([*kept, *thetas[: n - len(kept)]])
        if len(starts) < n:
            return None
        return starts, np.empty((0, starts.shape[1])), 0 if kept else np.array(trials)

    def _accepted(
        self, n: int, batch: int, rng: np.random.Generator, target: Target
    ) -> tuple[list[np.ndarray], list[int]]:
        """Return n draws in S, and how many draws each took; fewer than n if stopped."""
        thetas: list[np.ndarray] = []
        trials: list[int] = []
        waited = 0
        for draws, rows, _ in self._batches(batch, rng, target):
            thetas += list(draws[rows])
            trials += np.diff([-1 - waited, *rows]).tolist()
            waited = len(draws) - 1 - rows[-1] if len(rows) else waited + len(draws)
            if len(trials) >= n:
                break
        return thetas[:n], trials[:n]

    def run(self, task: AnnealTask[PathTuning]) -> Run | None:
        """Anneal one run from its own starts; None if it was stopped.

        A chain may move to prior draws along the path; populations do not need this.

        Raises
        ------
        FloatingPointError
            If a log density is NaN; the message names β and the variables.
        """
        rng = np.random.default_rng(task.seed)
        if task.tuning.weighs_draws:
            return self._weigh(task, rng)
        betas, reverse = task.betas, task.direction is Direction.REVERSE
        stride = self._stride(len(betas))
        target = self.target(task.data, task.tuning.reference)
        with self.lock:  # PyTensor's draws share state
            self.density.set_data(task.data)
            started = (
                self._start(task, target, 0 if self.in_turn else (len(betas) - 1) // stride, rng)
                if task.particles == 1
                else self._starts(task, target, rng)
            )
        if started is None:
            return None
        starts, draws, prior_draws = started
        plan = RunPlan(
            betas, task.tuning.along(betas), starts, reverse, task.burn_in, reverse,
            places(len(betas) - 1), draws, stride, self.in_turn,
        )  # fmt: skip
        record = empty_record(len(betas), len(starts))
        ahead.wait()
        ends, weights, ancestors, gradients, status, arrival = anneal_run(
            target, self.moves, plan, rng, self._stop, record
        )
        if status == STOPPED:
            return None
        if status == NOT_A_NUMBER:
            self._raise_on(task.data, betas[arrival], ends[0])
        if task.further_moves:
            states, cost = self._further(task, target, ends, rng)
            if self._stop[0]:
                return None
            ends = np.concatenate([ends, *states])
            weights = np.tile(weights, 1 + task.further_moves) / (1 + task.further_moves)
            gradients += cost
        return Run(
            float(np.diff(betas) @ record.highest[:-1] + record.rests.sum()),
            record.path,
            record.acceptance,
            record.divergences,
            gradients,
            self.jitted.unravel(ends),
            weights,
            Population(record.effective_size, record.resampled, ancestors),
            prior_draws,
            row_log_weight=self._by_row(betas, record),
        )

    def _by_row(self, betas: np.ndarray, record: RunRecord) -> np.ndarray | None:
        """Return the parts of log Ẑ that came with each row, if the temperatures end with each."""
        ends = row_ends(betas, self.rows) if self.in_turn else None
        if ends is None:
            return None
        gains = np.diff(betas) * record.highest[:-1] + record.rests[1:]
        return np.add.reduceat(gains, [0, *ends[:-1]])

    def _weigh(self, task: AnnealTask, rng: np.random.Generator) -> Run | None:
        """Weigh draws from the reference, with θ* among them in a reverse run."""
        reference, n = task.tuning.reference, task.particles
        density = self._counted(task.data)
        try:
            thetas, log_r = reference.sample(n, rng, density)
            if task.start is not None:
                thetas[0] = self.jitted.ravel(task.start)
                if task.burn_in:
                    thetas[0] = settled(thetas[0], reference, density, task.burn_in, rng)
                log_r[0] = reference.log_density(thetas[:1], density, rng)[0]
            g = log_weights_at(thetas, log_r, density)
        except Stopped:
            return None
        for theta in thetas[~(g < np.inf)]:
            self._raise_on(task.data, 1.0, theta)
        is_reverse = task.start is not None
        return weigh(g, self.jitted.unravel(thetas), density.evaluations, is_reverse)

    def _stride(self, n_betas: int) -> int:
        """Return every how many transitions a chain may move to a fresh prior draw."""
        fresh = FRESH if self.density.prior.batches else FRESH_ONE_BY_ONE
        return max(FRESH_STRIDE, -(-n_betas // fresh))

    def _further(
        self, task: AnnealTask[PathTuning], target: Target, ends: np.ndarray, rng
    ) -> tuple[np.ndarray, int]:
        """Return the states of all particles after each further move at β = 1, and gradients."""
        n = task.further_moves
        trace, gradients = self._at_the_end(ends, n, False, target, task.tuning, rng)
        broken = np.isnan(trace.ells)
        if broken.any() and not self._stop[0]:
            self._raise_on(task.data, 1.0, trace.thetas[broken][0])
        return trace.thetas, gradients

    def _raise_on(self, data: Mapping[str, np.ndarray], beta: float, theta: np.ndarray) -> None:
        """Raise a FloatingPointError that names the variables whose log density is NaN."""
        with self.lock:
            self.density.set_data(data)
            self.raise_at(beta, theta)

    def move(
        self, tuning: PathTuning, betas: np.ndarray, thetas: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Apply the kernel of its own β to every row of ``thetas``, in place; return ℓ, nats.

        Rows at β = 0 do not move. The data are those that the density holds.

        Raises
        ------
        FloatingPointError
            If a log density is NaN; names the variables.
        """
        terms = np.empty((len(betas), 2))
        target = self.target(self.density.present_data)
        move_chains(target, self.moves, tuning.at(betas), betas, thetas, rng, terms)
        for j in np.flatnonzero(~(terms.sum(axis=1) < np.inf)):
            self.raise_at(betas[j], thetas[j])
        return terms[:, 1].copy()

    def raise_at(self, beta: float, theta: np.ndarray) -> None:
        """Raise FloatingPointError for a state at which a log density is NaN."""
        self.density.set_beta(beta)
        self.density(self.jitted.unravel(theta))
        raise FloatingPointError(
            f"The compiled log p is NaN at beta={beta:g}, theta={theta}, but PyTensor's is not."
        )
