"""Simulations of data y* with a sample θ* of their posterior."""

from pymc_bdmc.simulations.contract import DATASETS as DATASETS
from pymc_bdmc.simulations.contract import Simulated as Simulated
from pymc_bdmc.simulations.contract import Simulation as Simulation
from pymc_bdmc.simulations.contract import if_possible as if_possible
from pymc_bdmc.simulations.sources import FromHyperparameters as FromHyperparameters
from pymc_bdmc.simulations.sources import FromPosterior as FromPosterior
from pymc_bdmc.simulations.sources import FromPrior as FromPrior
from pymc_bdmc.simulations.sources import Given as Given
from pymc_bdmc.simulations.sources import HyperparametersIfAlike as HyperparametersIfAlike
from pymc_bdmc.simulations.sources import Matched as Matched
from pymc_bdmc.simulations.sources import default_hyperparameters as default_hyperparameters
from pymc_bdmc.simulations.sources import make_simulation as make_simulation
