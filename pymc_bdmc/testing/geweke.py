"""Check a sampler together with the simulator of the data, by turns."""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler


def check_geweke(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 10_000,
    random_seed: RandomSeed = None,
    rounds: int = 5,
) -> Report:
    """Check a sampler together with the simulator of the data, by turns."""
    raise NotImplementedError
