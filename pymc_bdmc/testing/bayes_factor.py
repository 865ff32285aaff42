"""bayes_factor"""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler


def check_bayes_factor(
    log_bayes_factor: Callable[[Mapping[str, np.ndarray]], float] | str,
    model_0: pm.Model,
    model_1: pm.Model | None = None,
    *,
    alpha: float = ALPHA,
    budget: int = 10_000,
    random_seed: RandomSeed = None,
) -> Report:
    """"""
    raise NotImplementedError
