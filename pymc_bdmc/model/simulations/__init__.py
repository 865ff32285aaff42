"""Simulations of data y* with a sample θ* of their posterior, a file each."""

from pymc_bdmc.model.simulations.contract import DATASETS, Simulated, Simulation
from pymc_bdmc.model.simulations.given import Given
from pymc_bdmc.model.simulations.hyperparameters import (
    FromHyperparameters,
    default_hyperparameters,
)
from pymc_bdmc.model.simulations.matched import Matched
from pymc_bdmc.model.simulations.posterior import FromPosterior
from pymc_bdmc.model.simulations.prior import FromPrior
from pymc_bdmc.model.simulations.registry import make_simulation, possible_simulation

__all__ = [
    "DATASETS",
    "FromHyperparameters",
    "FromPosterior",
    "FromPrior",
    "Given",
    "Matched",
    "Simulated",
    "Simulation",
    "default_hyperparameters",
    "make_simulation",
    "possible_simulation",
]
