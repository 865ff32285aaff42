"""The three models on which Grosse, Ghahramani and Adams (2015) compared evidence estimators."""

from pymc_bdmc.testbed.annealing import anneal
from pymc_bdmc.testbed.estimators import ESTIMATORS, Estimator, harmonic, posterior_chain
from pymc_bdmc.testbed.factor_models import (
    BinaryAttributes,
    Clustering,
    FactorModel,
    LowRank,
    Problem,
)
from pymc_bdmc.testbed.race import race, standings

__all__ = [
    "ESTIMATORS",
    "BinaryAttributes",
    "Clustering",
    "Estimator",
    "FactorModel",
    "LowRank",
    "Problem",
    "anneal",
    "harmonic",
    "posterior_chain",
    "race",
    "standings",
]
