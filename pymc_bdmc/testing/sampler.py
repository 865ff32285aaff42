"""Check a sampler by the sandwich of simulated data sets, and stop as soon as it is refuted."""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler


def check_sampler(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 10_000,
    random_seed: RandomSeed = None,
    temperatures: int = 8,
) -> Report:
    """Check a sampler by the sandwich of simulated data sets, and stop as soon as it is refuted."""
    raise NotImplementedError
