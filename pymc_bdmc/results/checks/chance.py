"""Limits and levels that say what chance explains, for several checks."""

import numpy as np
from scipy.special import stdtrit

MAX_CHANCE = 1e-3
"""Largest p-value at which a difference is said to be evidence of an error; chosen."""


def half_interval(error: float, n: int, confidence: float = 0.95) -> float:
    """Return half of the t interval of a mean of n values; infinite if n < 2."""
    return float(error * stdtrit(n - 1, (1 + confidence) / 2)) if n > 1 else np.inf
