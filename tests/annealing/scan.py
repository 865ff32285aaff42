"""The compiled transition of models without continuous variables, which compiles in no time."""

import numpy as np

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.discrete import discrete_scan
from pymc_bdmc.types import Move


@njit(nogil=True)
def transition(target, kernel, parameters, beta, draw, state, work, reverse, rng):
    """As `pymc_bdmc.kernels.transition.transition`."""
    move = discrete_scan(target, beta, parameters, state, work, reverse, rng)
    return Move((move.acceptance, np.nan), False, 0)
