"""Contract of a compiled kernel: K_t combines prior, discrete and continuous moves.

Every part leaves f_β invariant and is its own reversal, except for the scan over the discrete
elements. So the reversal applies the parts in opposite order, with that scan backwards.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numba
import numpy as np
from numba import types
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.base.compiling import DENSITY, CalledByAddress, declare, njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.state import (
    Parameters,
    State,
    Target,
    Workspace,
    copy,
    copy_vector,
    evaluate,
    evaluate_terms,
    state_at,
    tempered,
)
from pymc_bdmc.reference.metric import Metric, standard_normal
from pymc_bdmc.reference.student import Reference


@njit(nogil=True, cache=True, allocates=False)
def prior_move(target, beta, draw, state, work, rng):
    """Move to an independent prior draw of θ with probability min(1, exp(β (ℓ′ − ℓ))).

    At low β this forgets the past; at any β it leaves regions where the data fit much worse.
    """
    proposal = work.proposal
    copy_vector(draw, proposal.theta)
    evaluate(target, proposal)
    log_ratio = beta * (proposal.terms[1] - state.terms[1])
    accepted = log_ratio > np.log(1.0 - rng.random())
    if accepted and tempered(proposal, beta) > -np.inf:
        copy(proposal, state)


@njit(nogil=True, cache=True, allocates=False)
def discrete_scan(target, beta, parameters, state, work, backwards, rng):
    """Update the discrete elements in turn, or ``backwards``; return a `Move`.

    If an element has finitely many values, another value is proposed uniformly. Any other takes a
    symmetric step of random length, of the order of its ``widths``.
    """
    categories, widths = target.categories, parameters.widths
    proposal = work.proposal
    copy_vector(state.theta, proposal.theta)
    total, first = 0.0, state.log_prior_gradient.size  # after the continuous elements
    n = categories.size
    for k in range(n):
        j = n - 1 - k if backwards else k
        old = state.theta[first + j]
        if categories[j] > 0:
            new = float(int(rng.random() * (categories[j] - 1)))
            if new >= old:
                new += 1.0
        else:
            length = 1.0 + np.floor(2.4 * widths[j] * abs(standard_normal(rng)) * rng.random())
            new = old + length if rng.random() < 0.5 else old - length
        proposal.theta[first + j] = new
        evaluate_terms(target, proposal)
        acceptance = min(1.0, np.exp(tempered(proposal, beta) - tempered(state, beta)))
        total += acceptance
        if rng.random() < acceptance:
            state.theta[first + j] = new
            copy_vector(proposal.terms, state.terms)
        else:
            proposal.theta[first + j] = old
    return Move(total / n, False, 0)


class Setting(NamedTuple):
    """Everything that makes K_t, or its reversal, of a kernel at one temperature of a run."""

    beta: float
    parameters: Parameters
    draw: np.ndarray
    """The prior draw of θ that K_t proposes; empty if there is none."""
    reverse: bool


@njit(nogil=True, inline="always")
def transition(move, gradient, target, setting, state, work, rng):
    """Apply K_t, or its reversal, to ``state`` in place; ``move`` the continuous elements.

    The acceptances are those of the discrete and the continuous elements, NaN if there are none.
    """
    beta, parameters, draw, reverse = setting
    discrete = continuous = np.nan
    diverging, gradients = False, 0
    has_draw, has_discrete = draw.size > 0, target.categories.size > 0
    has_continuous = parameters.metric.scale.size > 0
    differentiates = has_continuous and gradient
    if has_draw and differentiates:
        gradients += 1
    if has_draw and not reverse:
        prior_move(target, beta, draw, state, work, rng)
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
    if has_draw and reverse:
        prior_move(target, beta, draw, state, work, rng)
    return Move((discrete, continuous), diverging, gradients)


@njit(nogil=True, inline="always")
def transitions(move, gradient, target, setting, states, first, work, rng):
    """Apply `transition` to the ``states`` from row ``first`` on; return the sums of the reports.

    One call moves all, since passing the arguments takes as long as evaluating a small model.
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
    reference = tuple_of(Reference, matrix, matrix, cube, matrix, types.float64, vector)
    move = tuple_of(Move, types.UniTuple(types.float64, 2), types.int64, types.int64)
    return move(
        tuple_of(
            Target, density, density, vector, vector, types.int64[::1], reference, types.int64[::1]
        ),
        tuple_of(Setting, types.float64, parameters, vector, types.boolean),
        states,
        types.int64,
        work,
        numba.typeof(np.random.default_rng(0)),
    )


SIGNATURE = _signature()
declare(Target, SIGNATURE.args[0])


class CompiledKernel(NamedTuple):
    """The part of a kernel that the compiled loops see."""

    transitions: CalledByAddress
    """``(target, setting, states, first, work, rng) -> Move``."""
    needs_gradient: bool
    target_acceptance: float
    largest_step_size: float


declare(
    CompiledKernel,
    types.BaseTuple.from_types(
        (types.FunctionType(SIGNATURE), types.boolean, types.float64, types.float64), CompiledKernel
    ),
)


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
