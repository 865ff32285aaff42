"""Check that a sampler leaves the joint distribution of parameters and data as it is."""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler


def check_invariance(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 10_000,
    random_seed: RandomSeed = None,
    steps: int = 5,
) -> Report:
    """Check that a sampler leaves the joint distribution of parameters and data as it is."""
    raise NotImplementedError
