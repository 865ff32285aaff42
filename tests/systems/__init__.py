"""Systems with exactly known results, beside those of `pymc_bdmc.testsystems`."""

from tests.systems.finite import ExactSandwich as ExactSandwich
from tests.systems.finite import FiniteSystem as FiniteSystem
from tests.systems.finite import Grid as Grid
from tests.systems.finite import exact_sandwich as exact_sandwich
from tests.systems.finite import metropolis_transitions as metropolis_transitions
from tests.systems.gaussian_bridge import GaussianBridge as GaussianBridge
from tests.systems.spike_and_slab import SpikeAndSlab as SpikeAndSlab
from tests.systems.work import GammaWork as GammaWork
from tests.systems.work import GaussianWork as GaussianWork
