"""Systems with exactly known results, for tests."""

from pymc_bdmc.testsystems.bimodal import BimodalCauchy, BimodalGaussian
from pymc_bdmc.testsystems.conjugate import ConjugateRegression, UnidentifiedBinomial
from pymc_bdmc.testsystems.continuous import ContinuousSystem
from pymc_bdmc.testsystems.finite import (
    ExactSandwich,
    FiniteSystem,
    exact_sandwich,
    metropolis_transitions,
)
from pymc_bdmc.testsystems.gaussian_bridge import GaussianBridge
from pymc_bdmc.testsystems.grids import Grid
from pymc_bdmc.testsystems.spike_and_slab import SpikeAndSlab
from pymc_bdmc.testsystems.work import GammaWork, GaussianWork

__all__ = [
    "BimodalCauchy",
    "BimodalGaussian",
    "ConjugateRegression",
    "ContinuousSystem",
    "ExactSandwich",
    "FiniteSystem",
    "GammaWork",
    "GaussianBridge",
    "GaussianWork",
    "Grid",
    "SpikeAndSlab",
    "UnidentifiedBinomial",
    "exact_sandwich",
    "metropolis_transitions",
]
