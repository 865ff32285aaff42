"""The three models on which Grosse, Ghahramani and Adams (2015) compared evidence estimators."""

from pymc_bdmc.testbeds.factors.annealing import anneal
from pymc_bdmc.testbeds.factors.estimators import ESTIMATORS, Estimator, harmonic, posterior_chain
from pymc_bdmc.testbeds.factors.models import (
    BinaryAttributes,
    Clustering,
    FactorModel,
    LowRank,
    Problem,
)
from pymc_bdmc.testbeds.factors.race import race, standings

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
