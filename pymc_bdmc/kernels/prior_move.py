"""Move to an independent prior draw with probability min(1, exp(β (ℓ′ − ℓ))).

At low β the move forgets the past; at any β it leads out of regions where the data fit much worse.
"""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate, tempered


class Draw(NamedTuple):
    """Draw of θ from the prior, or none, in which case ``theta`` is not used."""

    exists: bool
    theta: np.ndarray


@njit(nogil=True, cache=True)
def no_draw():
    """Return the value for a transition without a move to the prior."""
    return Draw(False, np.empty(0))


@njit(nogil=True, cache=True, allocates=False)
def prior_move(target, beta, draw, state, work, rng):
    """Move to the ``draw`` of θ, or stay."""
    proposal = work.proposal
    copy_vector(draw, proposal.theta)
    evaluate(target, proposal)
    log_ratio = beta * (proposal.terms[1] - state.terms[1])
    accepted = log_ratio > np.log(1.0 - rng.random())
    if accepted and tempered(proposal, beta) > -np.inf:
        copy(proposal, state)
