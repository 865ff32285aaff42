"""Check that conditional densities written by hand belong to a joint density."""

from collections.abc import Callable, Sequence

import pymc as pm

from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA
from pymc_bdmc.types import Point


def check_conditionals(
    conditional_logp: Callable[[Point], float],
    joint: pm.Model | Callable[[Point], float],
    name: str,
    *,
    points: Sequence[Point] | None = None,
    tolerance: float = 1e-8,
    alpha: float = ALPHA,
    budget: int = 100,
    random_seed: RandomSeed = None,
) -> Report:
    """Check log p(x|u), of the variable `name`, against log p(x, u) at pairs of points.

    Points map names of all variables, observed ones too, to values on the model's own scale; they
    are drawn from the model, or given with a joint that is a plain function.
    """
    raise NotImplementedError
