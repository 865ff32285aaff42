"""One coordinate at a time: slices, conditionals, and walks on whole numbers."""

import numpy as np

from tests.testing.mutants import trials
from tests.testing.mutants.catalogue import mutant_of
from tests.testing.mutants.trials import VectorSampler, of_sampler


class Slice(VectorSampler):
    """Steps out and shrinks (Neal 2003), along one coordinate at random."""

    width = 1.0

    def log_uniform(self):
        return np.log(self.rng.random())

    def move(self, q):
        axis = np.eye(q.size)[self.rng.integers(q.size)]
        level = self.log_p(q) + self.log_uniform()
        left = -self.width * self.rng.random()
        right = left + self.width
        while self.log_p(q + left * axis) > level:
            left -= self.width
        while self.log_p(q + right * axis) > level:
            right += self.width
        while True:
            shift = self.rng.uniform(left, right)
            if self.log_p(q + shift * axis) > level:
                return q + shift * axis
            left, right = (shift, right) if shift < 0 else (left, shift)


@mutant_of(Slice, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class Decadic(Slice):
    """The level of the slice uses log₁₀ u instead of the natural logarithm of u."""

    def log_uniform(self):
        return super().log_uniform() / np.log(10)


class NormalGibbs(VectorSampler):
    """Draws one coordinate from its conditional, for targets that are jointly normal."""

    def deviation(self, precision):
        return 1 / np.sqrt(precision)

    def move(self, q):
        i = self.rng.integers(q.size)
        slope = self.gradient(q)[i]
        precision = slope - self.gradient(q + np.eye(q.size)[i])[i]
        mean = q[i] + slope / precision
        return with_value(q, i, self.rng.normal(mean, self.deviation(precision)))


@mutant_of(NormalGibbs, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class VarianceForDeviation(NormalGibbs):
    """Gibbs with a wrong conditional: it uses the variance as the standard deviation."""

    def deviation(self, precision):
        return 1 / precision


class Conjugate(VectorSampler):
    """Draws from the posterior of normal means in one go, at any β."""

    prior_precision, data_precision, width = 1.0, 4.0, 1.0

    def y(self):
        return self.target.data["y"]

    def beta(self):
        return self.target.beta

    def move(self, q):
        information = self.beta() * self.data_precision
        precision = self.prior_precision + information
        return self.rng.normal(information * self.y() / precision, self.width / np.sqrt(precision))


@mutant_of(Conjugate, of_sampler(trials.known_mean), seen_by="check_invariance")
class OldData(Conjugate):
    """Observed data not replaced: the sampler keeps the first data that it saw."""

    first = None

    def y(self):
        self.first = super().y() if self.first is None else self.first
        return self.first


@mutant_of(Conjugate, of_sampler(trials.known_mean), seen_by="check_sampler")
class Untempered(Conjugate):
    """Wrong β: it draws from the posterior at every temperature."""

    def beta(self):
        return 1.0


@mutant_of(Conjugate, of_sampler(trials.known_mean), seen_by="check_invariance")
class NoShrinkage(Conjugate):
    """Gibbs with a wrong conditional: the precision of the prior is missing."""

    prior_precision = 0.0


@mutant_of(Conjugate, of_sampler(trials.eight_means), seen_by="check_invariance")
class TooWide(Conjugate):
    """Gibbs with a wrong conditional: its standard deviation is too large by 2 %."""

    width = 1.02


def with_value(q, i, value):
    """A copy of q with another value of coordinate i."""
    new = q.copy()
    new[i] = value
    return new


class DiscreteSampler(VectorSampler):
    """A sampler of whole numbers."""

    def accepts(self, log_ratio):
        return np.log(self.rng.random()) < log_ratio


class HeatBath(DiscreteSampler):
    """Draws variables of three categories in turn from their conditionals."""

    def conditional(self, q, i):
        log_probability = np.array([self.log_p(with_value(q, i, value)) for value in range(3)])
        probability = np.exp(log_probability - log_probability.max())
        return probability / probability.sum()

    def move(self, q):
        for i in self.rng.permutation(q.size):
            q = with_value(q, i, self.rng.choice(3, p=self.conditional(q, i)))
        return q


@mutant_of(HeatBath, of_sampler(trials.three_categories), seen_by="check_invariance")
class Simultaneous(HeatBath):
    """Gibbs with a wrong conditional: all at once, each given the old values of the others."""

    def move(self, q):
        return np.array([self.rng.choice(3, p=self.conditional(q, i)) for i in range(q.size)])


class MetropolizedGibbs(HeatBath):
    """Proposes another category in proportion to its probability (Liu 1996)."""

    def log_ratio(self, probability, new, old):
        return np.log1p(-probability[old]) - np.log1p(-probability[new])

    def move(self, q):
        for i in self.rng.permutation(q.size):
            probability = self.conditional(q, i)
            others = with_value(probability, q[i], 0.0)
            new = self.rng.choice(3, p=others / others.sum())
            if self.accepts(self.log_ratio(probability, new, q[i])):
                q = with_value(q, i, new)
        return q


@mutant_of(MetropolizedGibbs, of_sampler(trials.three_categories), seen_by="check_invariance")
class Renormalised(MetropolizedGibbs):
    """The ratio takes p(new) without the old category, as PyMC 6.4's proportional Gibbs does."""

    def log_ratio(self, probability, new, old):
        others = with_value(probability, old, 0.0)
        return np.log1p(-probability[old]) - np.log1p(-others[new] / others.sum())


class BinaryFlips(DiscreteSampler):
    """Metropolis that proposes to flip a bit with probability 0.8, each in turn."""

    flip = 0.8

    def move(self, q):
        for i in self.rng.permutation(q.size):
            new = with_value(q, i, 1 - q[i])
            if self.rng.random() < self.flip and self.accepts(self.log_p(new) - self.log_p(q)):
                q = new
        return q


@mutant_of(BinaryFlips, of_sampler(trials.tossed), seen_by=None)
class Alternating(BinaryFlips):
    """Every bit is flipped in every step, so two fair coins always flip together (PyMC #2866).

    It leads from an exact draw to an exact draw, so no check of invariance can see it; its chains
    never get from equal coins to unequal ones, which is a matter of mixing, and of R̂.
    """

    flip = 1.0


class IntegerWalk(DiscreteSampler):
    """Metropolis with a rounded normal proposal; log p is −∞ below zero."""

    def propose(self, q):
        return q + np.rint(2 * self.rng.standard_normal(q.size)).astype(int)

    def move(self, q):
        new = self.propose(q)
        return new if self.accepts(self.log_p(new) - self.log_p(q)) else q


@mutant_of(IntegerWalk, of_sampler(trials.counted), seen_by="check_invariance")
class CutOff(IntegerWalk):
    """Rounding in a discrete proposal: decimals are cut off, so most steps go down."""

    def propose(self, q):
        return (q + 2 * self.rng.standard_normal(q.size)).astype(int)


@mutant_of(IntegerWalk, of_sampler(trials.counted), seen_by="check_invariance")
class FoldedAtZero(IntegerWalk):
    """Proposals below zero are reflected, so zero is proposed too seldom."""

    def propose(self, q):
        return abs(super().propose(q))


class ShortWalk(DiscreteSampler):
    """Metropolis on whole numbers with uniform proposals that reach a fixed number of places."""

    reach = 1

    def move(self, q):
        new = q + self.rng.integers(-self.reach, self.reach + 1, q.size)
        return new if self.accepts(self.log_p(new) - self.log_p(q)) else q


@mutant_of(ShortWalk, of_sampler(trials.barrier), seen_by="check_geweke")
class Adapting(ShortWalk):
    """Adapts while it samples: proposals are wide after a move and narrow after a rejection.

    It comes over the barrier by far proposals and cannot go back by short ones (Atchadé and
    Rosenthal 2005, Section 2).
    """

    def move(self, q):
        new = super().move(q)
        self.reach = 1 if np.array_equal(new, q) else 3
        return new
