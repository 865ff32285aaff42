"""Engine that anneals with PyMC's step methods, in worker processes."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from typing import cast

import numpy as np

from pymc_bdmc.base.types import Moves, Point, Run, Tuning
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.prior import draws_to_accept
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.systems import ModelSystem, States
from pymc_bdmc.kernels.steps import Step, StepKernel, build_steps, check_frozen
from pymc_bdmc.pilots.pilot import PRIOR_DRAWS, collect_starts
from pymc_bdmc.pilots.step_pilot import combine, pilot, pilot_betas
from pymc_bdmc.run.loop import anneal
from pymc_bdmc.run.tasks import AnnealTask, PilotTask
from pymc_bdmc.run.workers import Workers, open_workers


class StepEngine:
    """Density and step methods of a process; ``betas`` is the schedule of tasks without one."""

    no_reference = "since PyMC's step methods move along the path from the prior"
    pilots = 2
    moves_further = has_gradient = stacks_data = False
    meets_undefined = True
    """Nothing counts how often log p is NaN."""
    rows = 0
    default_particles = 1

    @alone
    def __init__(
        self,
        density: TemperedDensity,
        betas: np.ndarray,
        step: Step = None,
        compile_kwargs: Mapping | None = None,
    ):
        self.density = density
        self.betas = betas
        self.steps = build_steps(density, step, compile_kwargs)
        self._untuned = [step.sampling_state for step in self.steps]
        self.lock = threading.Lock()
        self._check()

    def __getstate__(self) -> dict:
        return vars(self) | {"lock": None}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, lock=threading.Lock())

    def _check(self) -> None:
        """Compile everything once, and check that frozen step methods stay frozen."""
        rng = np.random.default_rng(0)
        point, _ = self.density.draw_prior(rng)
        self.density.set_beta(self.betas[1])
        for step in self.steps:
            step.stop_tuning()
        check_frozen(self.steps, point, rng)

    @property
    def description(self) -> str:
        """Step methods and their variables, in the order of application."""
        return " > ".join(
            f"{type(step).__name__}({', '.join(var.name for var in step.vars)})"
            for step in self.steps
        )

    @property
    def kernel_names(self) -> Moves:
        """Names of the step methods, in the order of application."""
        return Moves(False, tuple(type(step).__name__ for step in self.steps))

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> AbstractContextManager[Workers]:
        """Return processes with a copy of this engine each, or the workers of an executor."""
        return open_workers(self, cores, stop, executor, in_processes=True)

    def combine(self, tunings: Sequence[Tuning]) -> Tuning:
        """Combine the tunings of the pilots on one data set."""
        return combine(tunings, self.steps)

    def pilot(self, task: PilotTask) -> Tuning:
        """Run one pilot chain on the data of the task, from the prior."""
        with self.lock:
            self.density.set_data(task.data)
            rng = np.random.default_rng(task.seed)
            drawn = (self.density.draw_prior(rng) for _ in count())
            singly = (([start], trials) for start, trials in drawn)
            starts, spent = collect_starts(singly, PRIOR_DRAWS // self.pilots)
            for step, state in zip(self.steps, self._untuned, strict=True):
                step.sampling_state = state
            tuning = pilot(self.density, self.steps, pilot_betas(self.betas), starts, rng)
            return replace(tuning, accepted_draws=draws_to_accept(len(starts), spent))

    def kernel(self, tuning: Tuning, betas: np.ndarray | None = None) -> StepKernel:
        """Return the frozen kernel of a schedule."""
        for step, state in zip(self.steps, self._untuned, strict=True):
            step.sampling_state = state
        betas = self.betas if betas is None else betas
        return StepKernel(self.density, self.steps, betas, tuning.kernels)

    def system(self, rng: np.random.Generator) -> ModelSystem:
        """Return the model as a system for simulated tempering, tuned for the engine's schedule."""
        seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)  # of `default_rng`
        tasks = [PilotTask(self.density.data, each) for each in seed.spawn(self.pilots)]
        kernel = self.kernel(self.combine([self.pilot(task) for task in tasks]))
        kernel.reset(rng.spawn(1)[0])
        places = {beta: t for t, beta in enumerate(self.betas.tolist())}

        def advance(points: list, betas: np.ndarray, rng: np.random.Generator) -> States:
            moved = [
                kernel.step(places[beta], point)[0] if beta > 0 else point
                for point, beta in zip(points, betas.tolist(), strict=True)
            ]
            return moved, np.array([self.log_likelihood(point) for point in moved])

        return ModelSystem(self.density, self.description, dict, advance)

    def log_likelihood(self, point: Point) -> float:
        """ℓ of a point on the current data, nats."""
        return self.density(point)[1]

    def run(self, task: AnnealTask) -> Run:
        """Anneal one run from its own starts."""
        with self.lock:
            self.density.set_data(task.data)
            rng = np.random.default_rng(task.seed)
            kernel = self.kernel(task.tuning, task.betas)
            kept = [] if task.start is None else [task.start]
            n_drawn = task.particles - len(kept)
            n_counted = 0 if kept else task.tuning.accepted_draws
            drawn = [self.density.draw_prior(rng) for _ in range(max(n_drawn, n_counted))]
            starts = kept + [point for point, _ in drawn[:n_drawn]]
            ell = self.log_likelihood
            run = anneal(kernel, ell, task.betas, starts, task.direction, rng, task.burn_in)
            prior_draws = 0 if kept else np.array([trials for _, trials in drawn])
            return replace(run, prior_draws=prior_draws)
