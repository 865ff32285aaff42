"""Simulations of data y* with a sample θ* of their posterior, a file each."""

from pymc_bdmc.model.simulations.contract import DATASETS as DATASETS
from pymc_bdmc.model.simulations.contract import Simulated as Simulated
from pymc_bdmc.model.simulations.contract import Simulation as Simulation
from pymc_bdmc.model.simulations.given import Given as Given
from pymc_bdmc.model.simulations.hyperparameters import FromHyperparameters as FromHyperparameters
from pymc_bdmc.model.simulations.hyperparameters import (
    default_hyperparameters as default_hyperparameters,
)
from pymc_bdmc.model.simulations.matched import Matched as Matched
from pymc_bdmc.model.simulations.posterior import FromPosterior as FromPosterior
from pymc_bdmc.model.simulations.prior import FromPrior as FromPrior
from pymc_bdmc.model.simulations.registry import if_possible as if_possible
from pymc_bdmc.model.simulations.registry import make_simulation as make_simulation
