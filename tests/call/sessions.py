"""Sessions for preparations that are tested alone, and a model for them."""

from functools import cache

import numpy as np
import pymc as pm

from pymc_bdmc.call.options import Options
from pymc_bdmc.call.session import Session

FAR = np.linspace(7, 9, 4)
"""Data whose posterior lies far from the prior, and near to a fit."""


def session_of(engine, pool=None):
    """A session with an engine and perhaps workers, with the seed 1 and options by default."""
    return Session(Options(model=None, progressbar=False), engine, pool, 1, stop=None)


@cache
def far_from_the_prior():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 2), 1.0, observed=FAR)
    return model
