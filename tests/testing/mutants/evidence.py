"""Log Bayes factors by annealed populations: weights, temperatures and resampling.

Model 0 holds the mean of normal data at zero; model 1 gives it a normal prior.
"""

import numpy as np

from tests.testing.mutants.catalogue import mutant_of
from tests.testing.mutants.trials import of_evidence


class AnnealedImportance:
    """Estimates p(y | model 1)/p(y | model 0) by annealed importance sampling (Neal 2001)."""

    prior_deviation = 0.2
    particles = 16
    betas = np.linspace(0, 1, 4) ** 2

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def log_prior(self, mean):
        z = mean / self.prior_deviation
        return -(z**2) / 2 - np.log(self.prior_deviation * np.sqrt(2 * np.pi))

    def log_likelihood(self, mean):
        """Log p(y | mean) − log p(y | 0)."""
        return mean * self.y.sum() - mean**2 * self.y.size / 2

    def move(self, mean, beta):
        """Five steps of Metropolis for every particle."""
        for _ in range(5):
            new = mean + self.prior_deviation * self.rng.standard_normal(mean.size)
            log_ratio = self.log_prior(new) - self.log_prior(mean)
            log_ratio += beta * (self.log_likelihood(new) - self.log_likelihood(mean))
            mean = np.where(np.log(self.rng.random(mean.size)) < log_ratio, new, mean)
        return mean

    def advance(self, mean, log_weight, before, beta):
        """Particles and their weights at the next temperature."""
        log_weight = log_weight + (beta - before) * self.log_likelihood(mean)
        return self.move(mean, beta), log_weight

    def estimate(self, log_weight):
        return np.logaddexp.reduce(log_weight) - np.log(self.particles)

    def __call__(self, data):
        self.y = data["y"]
        mean = self.prior_deviation * self.rng.standard_normal(self.particles)
        log_weight = np.zeros(self.particles)
        for before, beta in zip(self.betas, self.betas[1:], strict=False):
            mean, log_weight = self.advance(mean, log_weight, before, beta)
        return self.estimate(log_weight)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class WeightAfterMove(AnnealedImportance):
    """Wrong β: particles move to a temperature before they get the weight for it."""

    def advance(self, mean, log_weight, before, beta):
        mean = self.move(mean, beta)
        return mean, log_weight + (beta - before) * self.log_likelihood(mean)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class PosteriorAsLikelihood(AnnealedImportance):
    """The posterior is used as the likelihood, so the prior counts twice (cosmosis #80)."""

    def log_likelihood(self, mean):
        return super().log_likelihood(mean) + self.log_prior(mean)


@mutant_of(AnnealedImportance, of_evidence, seen_by="check_bayes_factor")
class SumOfWeights(AnnealedImportance):
    """The estimate is the sum of the weights instead of their mean."""

    def estimate(self, log_weight):
        return np.logaddexp.reduce(log_weight)


class SequentialMonteCarlo(AnnealedImportance):
    """Resamples the particles at every temperature, in proportion to their weights."""

    def resample(self, weights):
        """Return the indices of the particles that survive."""
        edges = np.cumsum(weights / weights.sum())
        return np.searchsorted(edges, self.rng.random(self.particles) * edges[-1])

    def reset(self, log_weight, chosen):
        """Weights after resampling: all the same, with the mean of those before."""
        return np.full(self.particles, self.estimate(log_weight))

    def advance(self, mean, log_weight, before, beta):
        mean, log_weight = super().advance(mean, log_weight, before, beta)
        chosen = self.resample(np.exp(log_weight - log_weight.max()))
        return mean[chosen], self.reset(log_weight, chosen)


@mutant_of(SequentialMonteCarlo, of_evidence, seen_by="check_bayes_factor")
class WeightsKept(SequentialMonteCarlo):
    """Resampling without resetting weights: resampled particles keep theirs."""

    def reset(self, log_weight, chosen):
        return log_weight[chosen]
