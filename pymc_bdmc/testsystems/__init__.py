"""Systems whose answers are known exactly, for users' tests as for this project's own."""

from pymc_bdmc.testsystems.work import GammaWork, GaussianWork

__all__ = ["GammaWork", "GaussianWork"]
