"""Simulations of data y* with a sample θ* of their posterior, a file each."""

from pymc_bdmc.simulations.contract import DATASETS as DATASETS
from pymc_bdmc.simulations.contract import Simulated as Simulated
from pymc_bdmc.simulations.contract import Simulation as Simulation
from pymc_bdmc.simulations.given import Given as Given
from pymc_bdmc.simulations.hyperparameters import FromHyperparameters as FromHyperparameters
from pymc_bdmc.simulations.hyperparameters import (
    default_hyperparameters as default_hyperparameters,
)
from pymc_bdmc.simulations.matched import Matched as Matched
from pymc_bdmc.simulations.posterior import FromPosterior as FromPosterior
from pymc_bdmc.simulations.prior import FromPrior as FromPrior
from pymc_bdmc.simulations.registry import if_possible as if_possible
from pymc_bdmc.simulations.registry import make_simulation as make_simulation
