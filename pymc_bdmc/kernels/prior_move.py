"""A move to an independent draw from the prior, with probability min(1, exp(β (ℓ′ − ℓ))).

At low β it forgets the past; at any β it frees a chain from where the data fit far worse. A draw at
which the density is no number is moved to, so that the caller finds it.
"""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate, is_legal, tempered

__all__ = ["Draw", "no_draw", "prior_move"]


class Draw(NamedTuple):
    """A draw of θ from the prior, or none: then ``theta`` means nothing."""

    exists: bool
    theta: np.ndarray


@njit(nogil=True, cache=True)
def no_draw():
    """For a transition without a move to the prior."""
    return Draw(False, np.empty(0))


@njit(nogil=True, cache=True, allocates=False)
def is_finite(vector):
    """Whether all elements are."""
    finite = True
    for i in range(vector.size):
        finite &= np.isfinite(vector[i])
    return finite


@njit(nogil=True, cache=True, allocates=False)
def prior_move(target, beta, draw, state, work, rng):
    """Move to the ``draw`` of θ, or stay."""
    proposal = work.proposal
    copy_vector(draw, proposal.theta)
    evaluate(target, proposal)
    log_ratio = beta * (proposal.terms[1] - state.terms[1])
    accepted = log_ratio > np.log(1.0 - rng.random())
    # Where a draw is not finite it is beyond the transforms.
    broken = not is_legal(proposal) and is_finite(draw)
    if broken or (accepted and tempered(proposal, beta) > -np.inf):
        copy(proposal, state)
