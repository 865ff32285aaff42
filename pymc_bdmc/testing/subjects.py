"""Convert names, step methods, kernels and plain functions to one form for the checks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from pymc.step_methods import CompoundStep
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.base.arguments import check_choice, lower
from pymc_bdmc.base.types import Direction, Kernel, Move, Point
from pymc_bdmc.density.compiled import NotJittable
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask, StepEngine, anneal
from pymc_bdmc.kernels import KERNELS, NamedKernel, Step

ALPHA = 1e-5
"""Default of the largest probability that a correct subject fails a check."""
BUDGET = 100_000
"""Default number of transitions of `check_invariance` and `check_sampler`."""


class Target:
    """Target of a `Transition`: log f_β on the current data.

    Parameters
    ----------
    density : TemperedDensity

    Attributes
    ----------
    density : TemperedDensity
    beta : float
        Inverse temperature; 1 in all checks except `check_sampler`.
    """

    def __init__(self, density: TemperedDensity):
        self.density = density
        self.beta = 1.0
        self._dtypes = {value.name: value.dtype for value in density.model.value_vars}

    @property
    def data(self) -> dict[str, np.ndarray]:
        """Return the observed variables."""
        return self.density.present_data

    def __call__(self, point: Point) -> float:
        """Return log f_β with the Jacobian of transforms, nats, and −∞ in place of NaN and +∞."""
        point = self._typed(point)
        log_prior, ell = map(float, self.density.terms(point, self.data))
        value = log_prior + self.beta * ell if self.beta > 0 else log_prior
        return value if value < np.inf else -np.inf

    def gradient(self, point: Point) -> dict[str, np.ndarray]:
        """Return the gradient of log f_β with respect to the continuous variables."""
        self.density.set_beta(self.beta)
        return self.density.gradient(self._typed(point), self.data)

    def _typed(self, point: Point) -> Point:
        """Convert NumPy scalars back to arrays."""
        return {name: np.asarray(point[name], dtype) for name, dtype in self._dtypes.items()}


Transition = Callable[[Point, Target, np.random.Generator], Point]
"""One step of any sampler, ``transition(point, target, rng) -> point``.

It must leave exp(target) invariant. A point maps the names of the model's value variables (``mu``,
``sigma_log__``) to arrays on the unconstrained scale. An attribute ``reversal`` may hold its time
reversal, often the transition itself.
"""

Sampler = Step | Callable[..., Kernel] | Transition
"""Sampler to check, in one of these forms.

- The name of a compiled kernel, "hmc", "nuts", "autostep" or "metropolis", or a `NamedKernel`.
- A class of PyMC step methods, a `functools.partial` of one with options, or several of these. A
  pilot tunes them on separate data and then freezes them. None stands for PyMC's own choice.
- Any other class, which is called as ``kernel(density, betas)`` and has the methods ``reset``,
  ``step`` and ``reversal`` of `pymc_bdmc.base.types.Kernel`.
- A plain function ``transition(point, target, rng)``, for any other sampler.
"""


@dataclass(frozen=True, eq=False)
class Subject:
    """Frozen kernel K_1 … K_T to check, on a schedule of shape (T + 1,) with β_T = 1."""

    title: str
    kernel: Kernel
    betas: np.ndarray
    says_reversal: bool
    """Whether the reversal is known or stated, not just assumed to be the kernel itself."""
    run: Callable[[Direction, Point | None, np.random.Generator], Any]
    """Function of the direction, the start of a reverse run, and a generator."""

    def chain(
        self, point: Point, rng: np.random.Generator, t: int = -1, *, reverse: bool = False
    ) -> Iterator[Point]:
        """Yield the states after 1, 2, … transitions by K_t (default: β = 1) or its reversal."""
        kernel = self.kernel.reversal() if reverse else self.kernel
        kernel.reset(rng)
        t = range(len(self.betas))[t]
        while True:
            point, _ = kernel.step(t, point)
            yield point

    def log_weight(self, start: Point | None, rng: np.random.Generator) -> float:
        """Return log w of a forward chain, or of the reverse chain from ``start``, nats."""
        direction = Direction.REVERSE if start else Direction.FORWARD
        return float(self.run(direction, start, rng).log_weight)


class _TransitionKernel:
    def __init__(self, transition: Transition, target: Target, betas: np.ndarray):
        self._transition, self._target, self._betas = transition, target, betas

    def reset(self, rng):
        self._rng = rng

    def step(self, t, point):
        self._target.beta = float(self._betas[t])
        moved = self._transition(point, self._target, self._rng)
        shapes = self._target.density.shapes
        if not isinstance(moved, Mapping) or {n: np.shape(v) for n, v in moved.items()} != shapes:
            raise ValueError(
                f"step: {name_of(self._transition)} must return a point with the shapes {shapes}, "
                f"got {moved!r}."
            )
        moved = {name: np.asarray(moved[name], dtype=point[name].dtype) for name in point}
        return moved, Move(np.nan, False, 0)

    def reversal(self):
        backwards = getattr(self._transition, "reversal", self._transition)
        return _TransitionKernel(backwards, self._target, self._betas)


def make_subject(
    step: Sampler, density: TemperedDensity, betas: np.ndarray, task: PilotTask
) -> Subject:
    """Convert a sampler in any form to a `Subject`, tuned on the data of the task.

    An instance of a step method or of a kernel raises an error, since it has its own density.
    """
    whole = _unwrapped(step)
    is_class = isinstance(whole, type)
    is_method = issubclass(whole if is_class else type(whole), BlockedStep | CompoundStep)
    if isinstance(step, str):
        check_choice("step", step := lower(step), KERNELS)
    if isinstance(step, str | NamedKernel):
        try:
            compiled = CompiledEngine(density, step)
        except NotJittable as reason:
            raise ValueError(
                f"step: {step!r} cannot be compiled for this model ({reason}); pass a step method."
            ) from reason
        tuning = compiled.pilot(task)
        assert tuning is not None, "nothing stops it"
        kernel: Kernel = compiled.kernel(tuning, betas)

        def run_compiled(direction, start, rng):
            fresh = np.random.SeedSequence(rng.integers(2**63, size=4).tolist())
            shown = density.present_data
            return compiled.run(AnnealTask(direction, shown, betas, tuning, fresh, start))

        return Subject(compiled.description, kernel, betas, True, run_compiled)
    title, says_reversal = name_of(step), True
    if whole is None or is_method or isinstance(whole, Sequence):
        engine = StepEngine(density, betas, step)
        kernel = engine.kernel(engine.combine([engine.pilot(task)]))
        title, says_reversal = engine.description, all(map(_has_reversal, kernel.steps))
    elif is_class:
        kernel = cast(Callable[..., Kernel], step)(density, betas)
        lacking = [name for name in ("reset", "step", "reversal") if not hasattr(kernel, name)]
        if lacking:
            raise TypeError(f"step: a kernel needs the methods {lacking}; see types.Kernel.")
    elif hasattr(step, "step") or not callable(step):
        raise TypeError(
            "step: a name, a class (not an instance) of a step method or kernel, or a function "
            f"transition(point, target, rng) is needed, got {step!r}."
        )
    else:
        kernel = _TransitionKernel(cast(Transition, step), Target(density), betas)
        says_reversal = hasattr(step, "reversal")

    def run(direction, start, rng):
        starts = [start or density.draw_prior(rng)[0]]
        return anneal(kernel, lambda point: density(point)[1], betas, starts, direction, rng)

    return Subject(title, kernel, betas, says_reversal, run)


def _unwrapped(step: Sampler):
    return _unwrapped(step.func) if isinstance(step, partial) else step


def _has_reversal(step: Any) -> bool:
    return type(step).__module__.startswith("pymc.") or hasattr(step, "reversal")


def name_of(step: Sampler) -> str:
    """Return the name of a sampler."""
    whole = _unwrapped(step)
    return whole if isinstance(whole, str) else getattr(whole, "__name__", type(whole).__name__)
