"""Chains that run inside numba, without the GIL: what one thread holds and runs."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pymc_bdmc.annealing.compiled.loops import (
    NOT_A_NUMBER,
    STOPPED,
    anneal_chain,
    move_chains,
    pilot_stage,
)
from pymc_bdmc.annealing.compiled.pilot import MEMBERS, PRIOR_DRAWS, PathTuning, run_pilot
from pymc_bdmc.annealing.pools import ThreadPool
from pymc_bdmc.annealing.tasks import AnnealTask, PilotTask
from pymc_bdmc.kernels.compiled import HMC, METROPOLIS, NUTS
from pymc_bdmc.kernels.state import MAX_TREE_DEPTH
from pymc_bdmc.model.forward_sampling import MAX_PRIOR_DRAWS, MOST_TRIALS, starts_to_count
from pymc_bdmc.model.jitted import JittedDensity
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.types import Chain, Direction

__all__ = ["CompiledEngine"]

HMC_STEPS = 16
"""Most steps of a trajectory: several short ones at rising β beat a long one."""

FRESH_STRIDE = 4
FRESH, FRESH_ONE_BY_ONE = 512, 32
"""Every so many transitions a chain may move to a fresh prior draw; at most so many times, and less
often where draws cannot be had at once."""

MAX_SPENT = 10 * PRIOR_DRAWS
"""Draws after which a pilot makes do with fewer starts, where the data rule out most of them."""

_KINDS = {"hmc": HMC, "nuts": NUTS, "metropolis": METROPOLIS}
_TITLES = {HMC: "HMC", NUTS: "NUTS", METROPOLIS: "Metropolis"}
_LENGTHS = {HMC: HMC_STEPS, NUTS: MAX_TREE_DEPTH, METROPOLIS: 0}
_TARGET_ACCEPTANCE = {HMC: 0.9, NUTS: 0.8, METROPOLIS: 0.3}


class CompiledEngine:
    """The jitted density with compiled kernels, shared by all threads.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities; it takes its values from the jitted function from now on.
    step : {"hmc", "nuts", "metropolis"}, optional
        How the continuous elements move. Discrete ones move one by one by Metropolis.

    Raises
    ------
    NotJittable
        If the density cannot be had as a numba function.
    """

    pilots = 1
    """Independent pilots on a data set."""

    def __init__(self, density: TemperedDensity, step: str | None = None):
        self.density = density
        jitted = self.jitted = JittedDensity(density)
        self._kind = _KINDS["hmc" if step is None else step]
        self._stop = np.zeros(1, dtype=np.uint8)
        self._lock = threading.Lock()
        gradient = bool(jitted.n_continuous) and self._kind != METROPOLIS
        first = jitted.with_gradient if gradient else jitted.without_gradient
        second = jitted.without_gradient if len(jitted.categories) else first
        self._functions = (first, second)
        density.terms = jitted.terms(second)

    @property
    def description(self) -> str:
        """The moves of every temperature and their variables, in the order of application."""
        continuous, discrete = self.jitted.names
        parts = [f"Metropolis({', '.join(discrete)})"] if discrete else []
        if continuous:
            parts.append(f"{_TITLES[self._kind]}({', '.join(continuous)})")
        return "compiled " + " > ".join(parts)

    def pool(self, cores: int, stop: np.ndarray) -> ThreadPool:
        """Threads that share this engine, until ``stop`` is set."""
        self._stop = stop
        return ThreadPool(self, cores, stop)

    def combine(self, tunings: Sequence[PathTuning]) -> PathTuning:
        """The findings of the only pilot on a data set."""
        (tuning,) = tunings
        return tuning

    def run_pilot(self, task: PilotTask) -> PathTuning:
        """One pilot population on the data of the task."""
        rng = np.random.default_rng(task.seed)
        data = self.jitted.ravel_data(task.data)
        with self._lock:  # draws are PyTensor's and share its state
            self.density.set_data(task.data)
            thetas, ells, spent = [], [], 0
            while len(thetas) < MEMBERS or (len(thetas) < PRIOR_DRAWS and spent < MAX_SPENT):
                draws = self._draw_prior(PRIOR_DRAWS, rng)
                spent += len(draws)
                for place, ell in self._supported(draws):
                    thetas.append(draws[place])
                    ells.append(ell)
                if not thetas and spent > MAX_PRIOR_DRAWS:
                    raise self._impossible(draws, spent)
        starts = starts_to_count(len(thetas), spent)
        thetas, ells = np.array(thetas[:PRIOR_DRAWS]), np.array(ells[:PRIOR_DRAWS])
        n = self.jitted.n_continuous

        def move(beta, population, metric, widths, step_size, ells, trace, gradients):
            return pilot_stage(
                self._kind, *self._functions, data, beta, population, _LENGTHS[self._kind],
                step_size, metric, widths, self.jitted.categories,
                _TARGET_ACCEPTANCE[self._kind], rng, self._stop, ells, trace, gradients,
            )  # fmt: skip

        return replace(run_pilot(thetas, ells, move, n, rng), starts=starts)

    def _draw_prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws of θ, one a row."""
        return self.jitted.ravel_many(self.density.prior.draw_many(n, rng))

    def _supported(self, thetas: np.ndarray) -> Iterator[tuple[int, float]]:
        """Rows of prior draws in S, with their ℓ."""
        self.density.set_beta(0.0)
        for place, theta in enumerate(thetas):
            point = self.jitted.unravel(theta)
            if self.density.prior.supports(point):
                ell = self.density(point)[1]
                if ell > -np.inf:
                    yield place, ell

    def _impossible(self, thetas: np.ndarray, n_draws: int) -> ValueError:
        return self.density.impossible([self.jitted.unravel(row) for row in thetas[:20]], n_draws)

    def _start(
        self, task: AnnealTask, n_fresh: int, rng
    ) -> tuple[np.ndarray, np.ndarray, int | np.ndarray]:
        """θ where a chain starts, so many other prior draws, and the draws that starts took."""
        prior_draws = 0
        with self._lock:
            self.density.set_data(task.data)
            draws = self._draw_prior(n_fresh + 1, rng)
            if task.start is not None:
                return self.jitted.ravel(task.start), draws[1:], prior_draws
            while (found := next(self._supported(draws), None)) is None:
                prior_draws += len(draws)
                if prior_draws > MAX_PRIOR_DRAWS:
                    raise self._impossible(draws, prior_draws)
                draws = self._draw_prior(n_fresh + 1, rng)
            place, _ = found
            fresh = draws[place + 1 :]
            if place:
                fresh = np.concatenate([fresh, self._draw_prior(place, rng)])
            prior_draws += place + 1
            if task.tuning.starts > 1:
                prior_draws = np.array([prior_draws, *self._trials(task.tuning.starts - 1, rng)])
            return draws[place], fresh, prior_draws

    def _trials(self, n: int, rng: np.random.Generator) -> list[int]:
        """Numbers of prior draws until one lies in S, n times in a row."""
        trials, waited = [], 0
        while len(trials) < n:
            draws = self._draw_prior(MOST_TRIALS, rng)
            places = [place for place, _ in self._supported(draws)]
            trials += np.diff([-1 - waited, *places]).tolist()
            waited = len(draws) - 1 - places[-1] if places else waited + len(draws)
        return trials[:n]

    def run_chain(self, task: AnnealTask) -> Chain | None:
        """One annealing chain from its own start; None if it was stopped.

        Raises
        ------
        FloatingPointError
            If a log density is NaN; names β and the variables.
        """
        rng = np.random.default_rng(task.seed)
        jitted, betas, tuning = self.jitted, task.betas, task.tuning
        reverse = task.direction is Direction.REVERSE
        fresh = FRESH if self.density.prior.batches else FRESH_ONE_BY_ONE
        stride = max(FRESH_STRIDE, -(-len(betas) // fresh))
        start, draws, prior_draws = self._start(task, (len(betas) - 1) // stride, rng)
        path = np.empty(len(betas))
        acceptance = np.full(len(betas), np.nan)
        diverging = np.zeros(len(betas), dtype=bool)
        end, gradients, status, arrival = anneal_chain(
            self._kind, *self._functions, jitted.ravel_data(task.data), betas,
            *tuning.places(betas), _LENGTHS[self._kind], tuning.step_sizes, tuning.scales,
            tuning.directions, tuning.excesses, tuning.widths, jitted.categories, start,
            reverse, reverse, task.burn_in, draws, stride, rng, self._stop, path, acceptance,
            diverging,
        )  # fmt: skip
        if status == STOPPED:
            return None
        if status == NOT_A_NUMBER:
            with self._lock:
                self.density.set_data(task.data)
                self._raise_at(betas[arrival], end)
        log_weight = float(np.diff(betas) @ path[:-1])
        return Chain(
            log_weight, path, acceptance, diverging, gradients, jitted.unravel(end), prior_draws
        )

    def move(
        self, tuning: PathTuning, betas: np.ndarray, thetas: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Apply to every row of ``thetas`` the kernel of its own β, in place; return ℓ, nats.

        Rows at β = 0 stay where they are. The data are those that the density holds.

        Raises
        ------
        FloatingPointError
            If a log density is NaN; names the variables.
        """
        rows, fractions = tuning.places(betas)
        nearest = rows + (fractions >= 0.5)
        terms = np.empty((len(betas), 2))
        move_chains(
            self._kind, *self._functions, self.jitted.ravel_data(self.density.data), betas, thetas,
            _LENGTHS[self._kind], tuning.between(tuning.step_sizes, betas),
            tuning.between(tuning.scales, betas), tuning.directions[nearest],
            tuning.excesses[nearest], tuning.between(tuning.widths, betas),
            self.jitted.categories, rng, terms,
        )  # fmt: skip
        for j in np.flatnonzero(~(terms.sum(axis=1) < np.inf)):
            self._raise_at(betas[j], thetas[j])
        return terms[:, 1].copy()

    def _raise_at(self, beta: float, theta: np.ndarray) -> None:
        """Report a state at which the chains found no number."""
        self.density.set_beta(beta)
        self.density(self.jitted.unravel(theta))
        raise FloatingPointError(
            f"The compiled log p fails at beta={beta:g}, theta={theta}, where log p is a number."
        )
