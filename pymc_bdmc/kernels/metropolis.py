"""Metropolis random walk of all continuous elements together, scaled by the metric."""

import numpy as np
from pymc.step_methods import Metropolis

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.hamiltonian import drift
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate_terms, tempered
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.reference.metric import draw_momentum


@njit(nogil=True, cache=True, allocates=False)
def metropolis(target, beta, parameters, state, work, rng):
    """Propose one step of the walk; return a `Move`."""
    metric, proposal = parameters.metric, work.proposal
    copy_vector(state.theta, proposal.theta)
    draw_momentum(metric, work.momentum, rng)
    drift(proposal, work.momentum, work.velocity, metric, parameters.step_size)
    evaluate_terms(target, proposal)
    acceptance = min(1.0, np.exp(tempered(proposal, beta) - tempered(state, beta)))
    if rng.random() < acceptance:
        copy(proposal, state)
    return Move(acceptance, False, 0)


@njit(nogil=True, cache=True, allocates=False, title="Metropolis")
def metropolis_transitions(target, setting, states, first, work, rng):
    """Apply `transitions` with `metropolis`."""
    return transitions(metropolis, False, target, setting, states, first, work, rng)


METROPOLIS = NamedKernel("Metropolis", metropolis_transitions, Metropolis, False, 0.3)
