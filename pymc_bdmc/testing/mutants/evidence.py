"""Log Bayes factors by annealed populations, on data whose exact one is known.

Model 0 holds the mean of normal data at zero, model 1 gives it a normal prior.
"""

import numpy as np

from pymc_bdmc.testing.mutants.catalogue import mutant_of
from pymc_bdmc.testing.mutants.trials import PRIOR_DEVIATION, of_evidence

__all__ = ["AnnealedImportance", "SequentialMonteCarlo"]


class AnnealedImportance:
    """Estimates p(y | model 1) by annealed importance sampling (Neal 2001)."""

    particles = 32
    betas = np.linspace(0, 1, 9) ** 2

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def log_prior(self, mean):
        return -np.log(PRIOR_DEVIATION * np.sqrt(2 * np.pi)) - (mean / PRIOR_DEVIATION) ** 2 / 2

    def log_likelihood(self, mean, y):
        """Log p(y | mean) − log p(y | 0)."""
        return mean * y.sum() - mean**2 * y.size / 2

    def walk(self, mean, beta, y):
        """One step of Metropolis for every particle."""
        new = mean + PRIOR_DEVIATION * self.rng.standard_normal(mean.size)
        log_ratio = self.log_prior(new) - self.log_prior(mean)
        log_ratio += beta * (self.log_likelihood(new, y) - self.log_likelihood(mean, y))
        return np.where(np.log(self.rng.random(mean.size)) < log_ratio, new, mean)

    def __call__(self, y):
        """Log Bayes factor of model 1 against model 0."""
        mean = PRIOR_DEVIATION * self.rng.standard_normal(self.particles)
        log_weight = np.zeros(self.particles)
        for before, beta in zip(self.betas, self.betas[1:], strict=False):
            log_weight += (beta - before) * self.log_likelihood(mean, y)
            mean = self.walk(mean, beta, y)
        return np.logaddexp.reduce(log_weight) - np.log(self.particles)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class WeightAfterMove(AnnealedImportance):
    """Wrong β: particles move to a temperature before the weight for it is taken."""

    def __call__(self, y):
        mean = PRIOR_DEVIATION * self.rng.standard_normal(self.particles)
        log_weight = np.zeros(self.particles)
        for before, beta in zip(self.betas, self.betas[1:], strict=False):
            mean = self.walk(mean, beta, y)
            log_weight += (beta - before) * self.log_likelihood(mean, y)
        return np.logaddexp.reduce(log_weight) - np.log(self.particles)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class PosteriorAsLikelihood(AnnealedImportance):
    """The posterior is passed where the likelihood belongs: the prior counts twice (cosmosis #80)."""

    def log_likelihood(self, mean, y):
        return super().log_likelihood(mean, y) + self.log_prior(mean)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class MeanOfLogs(AnnealedImportance):
    """Averages the logs of the weights: a lower bound where an estimate is promised."""
