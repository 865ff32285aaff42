"""Contract of a compiled kernel: K_t combines prior, discrete and continuous moves.

Every part leaves f_β invariant for fixed parameters and is its own reversal, except for the scan
over the discrete elements. So the reversal applies the parts in opposite order, with that scan
backwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numba
import numpy as np
from numba import types
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.base.compiling import DENSITY, CalledByAddress, njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.discrete import discrete_scan
from pymc_bdmc.kernels.prior_move import Draw, prior_move
from pymc_bdmc.kernels.state import (
    Parameters,
    State,
    Target,
    Workspace,
    evaluate,
    state_at,
)
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import Reference


class Setting(NamedTuple):
    """Everything that makes K_t, or its reversal, of a kernel at one temperature of a run."""

    beta: float
    """β_t."""
    parameters: Parameters
    draw: Draw
    """The prior draw that K_t proposes, if any."""
    reverse: bool
    """Whether it is the reversal."""


@njit(nogil=True, inline="always")
def transition(move, gradient, target, setting, state, work, rng):
    """Apply K_t, or its reversal, to ``state`` in place; ``move`` the continuous elements.

    Returns
    -------
    Move
        Acceptances of the discrete and of the continuous elements; NaN if there are none.
    """
    beta, parameters, draw, reverse = setting
    discrete = continuous = np.nan
    diverging, gradients = False, 0
    has_discrete = target.categories.size > 0
    has_continuous = parameters.metric.scale.size > 0
    differentiates = has_continuous and gradient
    if draw.exists and differentiates:
        gradients += 1
    if draw.exists and not reverse:
        prior_move(target, beta, draw.theta, state, work, rng)
    if has_discrete and not reverse:
        discrete = discrete_scan(target, beta, parameters, state, work, reverse, rng).acceptance
    if has_continuous:
        if has_discrete and differentiates:
            evaluate(target, state)
            gradients += 1
        found = move(target, beta, parameters, state, work, rng)
        continuous, diverging = found.acceptance, found.diverging
        gradients += found.gradient_evaluations
    if has_discrete and reverse:
        discrete = discrete_scan(target, beta, parameters, state, work, reverse, rng).acceptance
    if draw.exists and reverse:
        prior_move(target, beta, draw.theta, state, work, rng)
    return Move((discrete, continuous), diverging, gradients)


@njit(nogil=True, inline="always")
def transitions(move, gradient, target, setting, states, first, work, rng):
    """Apply `transition` to the ``states``, starting at row ``first``.

    All states are moved in one call, since passing the arguments takes as long as evaluating a
    small model.

    Returns
    -------
    Move
        Sums over the states.
    """
    discrete = continuous = 0.0
    divergences = gradients = 0
    for i in range(first, len(states.theta)):
        found = transition(move, gradient, target, setting, state_at(states, i), work, rng)
        discrete += found.acceptance[0]
        continuous += found.acceptance[1]
        divergences += found.diverging
        gradients += found.gradient_evaluations
    return Move((discrete, continuous), divergences, gradients)


def _signature():
    """Return the numba signature of the transitions, which all kernels share."""

    def tuple_of(names, *kinds):
        return types.BaseTuple.from_types(kinds, names)

    vector, matrix, cube = (types.Array(types.float64, n, "C") for n in (1, 2, 3))
    density = types.FunctionType(DENSITY)
    state = tuple_of(State, vector, vector, vector, vector)
    states = tuple_of(State, matrix, matrix, matrix, matrix)
    work = tuple_of(
        Workspace, state, vector, vector, types.UniTuple(state, 2), matrix, matrix, state, matrix,
        cube,
    )  # fmt: skip
    metric = tuple_of(Metric, vector, matrix, vector)
    parameters = tuple_of(Parameters, metric, types.float64, vector)
    draw = tuple_of(Draw, types.boolean, vector)
    reference = tuple_of(Reference, matrix, matrix, cube, matrix, types.float64, vector)
    move = tuple_of(Move, types.UniTuple(types.float64, 2), types.int64, types.int64)
    return move(
        tuple_of(
            Target, density, density, vector, vector, types.int64[::1], reference, types.int64[::1]
        ),
        tuple_of(Setting, types.float64, parameters, draw, types.boolean),
        states,
        types.int64,
        work,
        numba.typeof(np.random.default_rng(0)),
    )


SIGNATURE = _signature()


class CompiledKernel(NamedTuple):
    """The part of a kernel that the compiled loops see."""

    transitions: CalledByAddress
    """``(target, setting, states, first, work, rng) -> Move``."""
    needs_gradient: bool
    target_acceptance: float
    largest_step_size: float


@dataclass(frozen=True)
class NamedKernel:
    """A compiled kernel: how K_t moves the continuous elements, and how a pilot tunes it.

    It must leave f_β invariant for fixed parameters and be its own reversal, as Metropolis and
    Hamiltonian Monte Carlo are. The moves of discrete elements, and to prior draws, are added by
    `transitions`.

    Attributes
    ----------
    title : str
        The kernel's name in results.
    transitions : function of `njit`
        ``(target, setting, states, first, work, rng) -> Move``: calls
        `transitions` with its move, and is compiled once for all models.
    step_method : step method class
        PyMC's step method, used if chains cannot be compiled.
    needs_gradient : bool
        Whether the move reads the gradients of a state.
    target_acceptance : float
        The acceptance to which a pilot adapts the step size.
    largest_step_size : float
        Largest step size of a pilot, beyond which a longer step changes nothing.

    Examples
    --------
    docs/extending.md writes one.

    >>> from pymc_bdmc.kernels import KERNELS
    >>> KERNELS["hmc"].title, KERNELS["hmc"].target_acceptance
    ('HMC', 0.9)
    """

    title: str
    transitions: Callable
    step_method: type[BlockedStep]
    needs_gradient: bool
    target_acceptance: float
    largest_step_size: float = np.inf

    @classmethod
    def of_move(cls, title: str, move: Callable, *, needs_gradient: bool, **options) -> Self:
        """Return the kernel of a move, which every process compiles anew.

        Parameters
        ----------
        title : str
            The kernel's name in results.
        move : function of `njit`
            ``(target, beta, parameters, state, work, rng) -> Move``: moves the continuous elements
            of a state in place.
        needs_gradient : bool
            Whether the move reads the gradients of a state.
        **options
            The other attributes.
        """

        @njit(nogil=True, allocates=False)
        def of_all(target, setting, states, first, work, rng):
            return transitions(move, needs_gradient, target, setting, states, first, work, rng)

        return cls(title, of_all, needs_gradient=needs_gradient, **options)

    @cached_property
    def compiled(self) -> CompiledKernel:
        """The part that the compiled loops see."""
        return CompiledKernel(
            CalledByAddress(self.transitions, SIGNATURE),
            self.needs_gradient,
            self.target_acceptance,
            self.largest_step_size,
        )

    def __getstate__(self) -> dict:
        """Return the state without compiled functions; another process compiles its own."""
        return {name: each for name, each in vars(self).items() if name != "compiled"}
