"""Check the rank of an exact draw in a chain that runs through it."""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler


def check_exact_rank(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 10_000,
    random_seed: RandomSeed = None,
    steps: int = 9,
) -> Report:
    """Check the rank of an exact draw in a chain that runs through it."""
    raise NotImplementedError
