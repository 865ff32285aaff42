"""Use PyMC's step methods as kernels: build on the tempered model, freeze, and reverse."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from pymc.blocking import RaveledVars
from pymc.sampling.mcmc import assign_step_methods
from pymc.step_methods import (
    BinaryGibbsMetropolis,
    CategoricalGibbsMetropolis,
    CompoundStep,
    DEMetropolis,
    Metropolis,
    Slice,
)
from pymc.step_methods.compound import BlockedStep, Competence, flatten_steps
from pymc.step_methods.metropolis import PoissonProposal
from pymc.vartypes import continuous_types

from pymc_bdmc.base.types import Move, Point
from pymc_bdmc.base.upstream import competence
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.kernels.adaptations import StepParameters, adaptation
from pymc_bdmc.kernels.moves import compiled_kernel
from pymc_bdmc.kernels.transition import NamedKernel

StepFactory = Callable[..., BlockedStep | CompoundStep]
"""Step method class, or a `functools.partial` of one with some of its options set."""

Step = str | NamedKernel | StepFactory | Sequence[StepFactory] | None
"""Types of the argument ``step``: a name, a kernel object, or PyMC's step methods."""


def build_steps(
    density: TemperedDensity,
    step: Step = None,
    compile_kwargs: Mapping | None = None,
) -> list[BlockedStep]:
    """Build step methods that together update all free variables, in the order of application.

    They target the tempered model. ``step`` may be one class for all variables, a named kernel for
    which PyMC's own stands in, or several classes among which PyMC assigns by competence.
    """
    model = density.model
    check_step(step)
    factories = _factories(step)
    by_class = {_step_class(factory): factory for factory in factories}
    if len(factories) == 1:
        selected = dict.fromkeys(by_class, model.value_vars)
    else:
        _, selected = assign_step_methods(model, methods=list(by_class))
    steps = []
    for cls, variables in selected.items():
        _refuse_incompetent(cls, model, variables)
        factory = by_class.get(cls, cls)
        options = _accepted(
            cls,
            vars=variables,
            model=model,
            initial_point=model.initial_point(),
            compile_kwargs=compile_kwargs,
        )
        with model:  # for constructors that take the model from the context
            steps.extend(flatten_steps(factory(**options)))
    for part in steps:
        _refuse_invalid(part)
    return steps


def refuse_instances(step: object) -> None:
    """Raise a TypeError for instances of PyMC's step methods, which target the untempered model."""
    for each in step if isinstance(step, list | tuple) else [step]:
        if isinstance(each, BlockedStep | CompoundStep):
            name = type(each).__name__
            raise TypeError(
                f"step: pass the class pm.{name}, or functools.partial(pm.{name}, ...) with its "
                "options, not an instance: the step method is built on the tempered model."
            )


def check_step(step: Any) -> None:
    """Refuse what names no kernel and is no step method class, before anything is built."""
    refuse_instances(step)
    for factory in _factories(step):
        cls = _step_class(factory)
        if not (isinstance(cls, type) and issubclass(cls, BlockedStep | CompoundStep)):
            raise TypeError(
                "step: expected a name, a PyMC step method class, a sequence of classes or None, "
                f'such as step="nuts" or step=pm.NUTS, got {factory!r}.'
            )


def _factories(step: Step) -> Sequence[StepFactory]:
    """Return the requested step method classes; an empty sequence for PyMC's own choice."""
    if step is None:
        return ()
    if isinstance(step, NamedKernel):
        return (step.step_method,)
    if not isinstance(step, Sequence):
        return (step,)
    if isinstance(step, str):
        return (compiled_kernel(step).step_method,)
    if not step:
        raise ValueError("step: the sequence is empty; pass None for the default.")
    return step


def _step_class(factory) -> type[BlockedStep]:
    return _step_class(factory.func) if isinstance(factory, partial) else factory


def _accepted(cls: type[BlockedStep], **options) -> dict:
    """Return the options that the constructor of a step method accepts."""
    parameters = inspect.signature(cls.__init__).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


def _refuse_incompetent(cls: type[BlockedStep], model, value_vars) -> None:
    if getattr(cls, "competence", BlockedStep.competence) is BlockedStep.competence:
        return  # a user-written step method that declares no competence
    for value in value_vars:
        rv = model.values_to_rvs[value]
        if competence(cls, rv, value.dtype in continuous_types) == [Competence.INCOMPATIBLE]:
            raise ValueError(
                f"step: {cls.__name__} cannot sample {rv.name} ({value.dtype}). Pass several "
                "classes, for example step=[pm.NUTS, pm.CategoricalGibbsMetropolis], or leave "
                "step=None."
            )


def _refuse_invalid(step: BlockedStep) -> None:
    if isinstance(step, DEMetropolis):
        raise ValueError(
            "step: DEMetropolis proposes from the states of other chains and cannot be frozen; "
            "use pm.DEMetropolisZ."
        )
    if isinstance(step, Metropolis) and isinstance(step.proposal_dist, PoissonProposal):
        raise ValueError(
            "step: PoissonProposal is not symmetric, and pm.Metropolis does not correct for it; "
            "leave proposal_dist out."
        )
    if isinstance(step, CategoricalGibbsMetropolis) and step.astep == step.astep_prop:
        raise ValueError(
            'step: CategoricalGibbsMetropolis(proposal="proportional") does not leave its target '
            "invariant: PyMC's acceptance ratio uses the probability of the proposed category "
            'after it was renormalised. Use proposal="uniform".'
        )


class StepKernel:
    """Kernel K_t of frozen PyMC step methods, applied in turn; entry 0 of ``betas`` is not used."""

    def __init__(
        self,
        density: TemperedDensity,
        steps: Sequence[BlockedStep],
        betas: np.ndarray,
        parameters: StepParameters,
    ):
        self._density = density
        self._betas = betas.tolist()
        self._parameters = parameters
        for step in steps:
            step.stop_tuning()
        self._take(steps, range(len(steps)))

    def _take(self, steps: Sequence[BlockedStep], places: Sequence[int]) -> None:
        """Store the steps in the order of application, with their indices in the tuning."""
        self.steps = list(steps)
        self._places = list(places)
        self._accesses = [adaptation(step) for step in self.steps]
        self._pristine = [step.sampling_state for step in self.steps]

    def reset(self, rng: np.random.Generator) -> None:
        """Remove the state of earlier chains, and draw from ``rng`` from now on."""
        streams = rng.spawn(len(self.steps))
        for step, state, stream in zip(self.steps, self._pristine, streams, strict=True):
            step.sampling_state = state
            step.setup_chain(stream, tune=0, draws=len(self._betas) - 1)

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""
        self.tune(self._betas[t])
        present, moves = point, []
        for step in self.steps:
            present, stats = step.step(present)
            moves.append(summarize(stats))
        acceptance, diverging, gradients = zip(*moves, strict=True)
        return present, Move(acceptance, any(diverging), sum(gradients))

    def tune(self, beta: float) -> None:
        """Set the target of the step methods to f_β, with the parameters from the pilot."""
        self._density.set_beta(beta)
        values = self._parameters.at(beta)
        for step, access, place in zip(self.steps, self._accesses, self._places, strict=True):
            if values[place]:
                access.write(step, values[place])

    def reversal(self) -> "StepKernel":
        """Return the kernel whose K_t applies the reversed step methods in opposite order.

        Metropolis, Gibbs with a random scan, HMC, multinomial NUTS and univariate slice steps are
        self-adjoint. So is a user-written one, unless its method ``reversal()`` returns another.
        """
        reversed_kernel = copy.copy(self)
        reversed_kernel._take([_reverse(step) for step in self.steps[::-1]], self._places[::-1])
        return reversed_kernel


def _reverse(step: BlockedStep) -> BlockedStep:
    if hasattr(step, "reversal"):
        return step.reversal()
    if isinstance(step, Slice):
        return _reversed_scan(step)
    for kind, scan in (BinaryGibbsMetropolis, "order"), (CategoricalGibbsMetropolis, "dimcats"):
        if isinstance(step, kind) and not step.shuffle_dims:
            reversed_step = copy.copy(step)
            setattr(reversed_step, scan, getattr(step, scan)[::-1])
            return reversed_step
    return step


def _reversed_scan(step: Slice) -> Slice:
    """Return slice sampling that visits the coordinates from the last to the first."""
    reversed_step = copy.copy(step)

    def logp(q):
        return step.logp(np.ascontiguousarray(q[::-1]))

    def astep(apoint):
        flipped = RaveledVars(apoint.data[::-1], apoint.point_map_info)
        reversed_step.w = np.resize(reversed_step.w, len(apoint.data))[::-1]
        moved, stats = Slice.astep(reversed_step, flipped)
        reversed_step.w = reversed_step.w[::-1]
        return RaveledVars(np.ascontiguousarray(moved.data[::-1]), moved.point_map_info), stats

    reversed_step.logp = logp
    reversed_step.astep = astep
    return reversed_step


def summarize(stats: Sequence[Mapping]) -> Move:
    """Summarise the statistics of one step method."""
    rates, diverging, gradients = [], False, 0
    for stat in stats:
        for key in ("mean_tree_accept", "accepted", "accept"):
            if key in stat:
                rates.append(min(1.0, float(stat[key])))
                break
        diverging = diverging or stat.get("diverging", False)
        gradients += stat.get("tree_size") or stat.get("n_steps", 0)
    return Move(sum(rates) / len(rates) if rates else np.nan, diverging, gradients)


def check_frozen(steps: Sequence[BlockedStep], point: Point, rng: np.random.Generator) -> None:
    """Raise a ValueError for a step method that still adapts after ``stop_tuning()``."""
    present, absent = point, np.empty(0)
    for step in steps:
        # PyMC's own are known; others may adapt rarely, often once in 100 steps.
        n_steps = 5 if type(step).__module__.startswith("pymc.") else 120
        step.setup_chain(rng.spawn(1)[0], tune=0, draws=n_steps)
        present, _ = step.step(present)  # the first step may set the shapes of attributes
        before = _numbers(step)
        for _ in range(n_steps):
            present, _ = step.step(present)
        after = _numbers(step)
        ignored = adaptation(step).bookkeeping | set(getattr(step, "bookkeeping", ()))
        for name in sorted((before.keys() | after.keys()) - ignored):
            if not np.array_equal(
                before.get(name, absent), after.get(name, absent), equal_nan=True
            ):
                raise ValueError(
                    f"step: {type(step).__name__} changes its attribute {name!r} while it samples "
                    "with tuning stopped; a kernel that adapts biases the weights. Adapt only "
                    "while `tune` is true, or list attributes that no transition reads in a "
                    "class attribute `bookkeeping`."
                )


def _numbers(thing, prefix: str = "", depth: int = 2) -> dict[str, np.ndarray]:
    """Copy the attributes that may hold adapted parameters, also of nested objects."""
    numbers = {}
    libraries = ("builtins", "numpy", "pymc.", "pytensor", "collections")
    for name, value in vars(thing).items():
        if isinstance(value, int | float | np.number | np.ndarray | list):
            with suppress(TypeError, ValueError):  # a list of other objects
                numbers[prefix + name] = np.array(value, dtype=float)
        elif (
            depth
            and hasattr(value, "__dict__")
            and not type(value).__module__.startswith(libraries)
        ):
            numbers |= _numbers(value, f"{prefix}{name}.", depth - 1)
    return numbers
