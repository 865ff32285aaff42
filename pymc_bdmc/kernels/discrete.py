"""Metropolis moves of the discrete elements, one after the other.

For an element with finitely many values another value is proposed uniformly (a flip if there are
two). Any other element takes a symmetric step of random length, of the order of its ``widths``. The
reversal of the scan runs backwards.
"""

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.state import copy_vector, evaluate_terms, tempered
from pymc_bdmc.reference.normal import standard_normal


@njit(nogil=True, cache=True, allocates=False)
def discrete_scan(target, beta, parameters, state, work, backwards, rng):
    """Update every element in turn, or ``backwards``; return a `Move` with the mean acceptance."""
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
