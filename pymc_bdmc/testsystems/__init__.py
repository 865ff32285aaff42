"""Systems with exactly known results, for tests."""

from pymc_bdmc.base.names import public_names as _public_names
from pymc_bdmc.testsystems.bimodal import BimodalCauchy as BimodalCauchy
from pymc_bdmc.testsystems.bimodal import BimodalGaussian as BimodalGaussian
from pymc_bdmc.testsystems.conjugate import ConjugateRegression as ConjugateRegression
from pymc_bdmc.testsystems.conjugate import UnidentifiedBinomial as UnidentifiedBinomial
from pymc_bdmc.testsystems.continuous import ContinuousSystem as ContinuousSystem
from pymc_bdmc.testsystems.finite import ExactSandwich as ExactSandwich
from pymc_bdmc.testsystems.finite import FiniteSystem as FiniteSystem
from pymc_bdmc.testsystems.finite import exact_sandwich as exact_sandwich
from pymc_bdmc.testsystems.finite import metropolis_transitions as metropolis_transitions
from pymc_bdmc.testsystems.gaussian_bridge import GaussianBridge as GaussianBridge
from pymc_bdmc.testsystems.grids import Grid as Grid
from pymc_bdmc.testsystems.spike_and_slab import SpikeAndSlab as SpikeAndSlab
from pymc_bdmc.testsystems.work import GammaWork as GammaWork
from pymc_bdmc.testsystems.work import GaussianWork as GaussianWork

__all__ = _public_names(globals())
