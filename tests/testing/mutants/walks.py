"""Metropolis-Hastings in its simplest forms, and what people get wrong in it."""

import numpy as np

from tests.testing.mutants import trials
from tests.testing.mutants.catalogue import mutant_of
from tests.testing.mutants.trials import VectorSampler, of_sampler


class RandomWalk(VectorSampler):
    """Metropolis with normal proposals."""

    scale = 1.0

    def propose(self, q):
        return q + self.scale * self.rng.standard_normal(q.size)

    def log_ratio(self, new, q):
        return self.log_p(new) - self.log_p(q)

    def accepts(self, log_ratio):
        return np.log(self.rng.random()) < log_ratio

    def move(self, q):
        new = self.propose(q)
        return new if self.accepts(self.log_ratio(new, q)) else q


@mutant_of(RandomWalk, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class HalvedRatio(RandomWalk):
    """Wrong acceptance ratio: half of log p(q′)/p(q), as if the target were √p."""

    def log_ratio(self, new, q):
        return super().log_ratio(new, q) / 2


class SmallSteps(RandomWalk):
    """Metropolis with proposals of the posterior's size where data are many."""

    scale = 0.3


@mutant_of(SmallSteps, of_sampler(trials.mean_and_scale), seen_by="check_invariance")
class BetterOfTwo(SmallSteps):
    """Missing Hastings correction: the better of two proposals is accepted or rejected."""

    def propose(self, q):
        return max(super().propose(q), super().propose(q), key=self.log_p)


class LongWalk(RandomWalk):
    """Metropolis with proposals of which most are rejected."""

    scale = 3.0


@mutant_of(LongWalk, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class UntilAccepted(LongWalk):
    """A rejected proposal is replaced by a new one, so the state never stays."""

    def move(self, q):
        while True:
            new = self.propose(q)
            if self.accepts(self.log_ratio(new, q)):
                return new


class UniformWalk(RandomWalk):
    """Metropolis with uniform proposals."""

    def streams(self):
        """Return a generator for the proposal and one for the acceptance."""
        return self.rng.spawn(2)

    def move(self, q):
        proposals, acceptances = self.streams()
        new = q + proposals.uniform(-self.scale, self.scale, q.size)
        return new if np.log(acceptances.random()) < self.log_ratio(new, q) else q


@mutant_of(UniformWalk, of_sampler(trials.known_mean), seen_by="check_invariance")
class SharedStream(UniformWalk):
    """Random stream reused: proposal and acceptance draw from generators of the same seed."""

    def streams(self):
        seed = self.rng.integers(2**32)
        return np.random.default_rng(seed), np.random.default_rng(seed)


class Seconds(RandomWalk):
    """Steps of a minute, for times in seconds since 1970."""

    scale = 60.0


@mutant_of(Seconds, of_sampler(trials.event_time), seen_by="check_invariance")
class SinglePrecision(Seconds):
    """Accumulates in float32, which resolves times of today only to 128 s."""

    def propose(self, q):
        return super().propose(q).astype("float32").astype("float64")


class Multiplicative(RandomWalk):
    """Multiplies a positive x by a log-normal factor, and corrects for it by x′/x."""

    def propose(self, q):
        return q * np.exp(self.scale * self.rng.standard_normal(q.size))

    def log_proposals(self, new, q):
        """Log of the density of the way back over that of the way there."""
        return np.log(new / q).sum()

    def log_ratio(self, new, q):
        return super().log_ratio(new, q) + self.log_proposals(new, q)


@mutant_of(Multiplicative, of_sampler(trials.positive_mean), seen_by="check_invariance")
class NoHastings(Multiplicative):
    """Missing Hastings correction: large values are proposed from small ones too seldom."""

    def log_proposals(self, new, q):
        return 0.0


class SmallFactors(Multiplicative):
    """Multiplies a positive x by a factor near one, and corrects for it."""

    scale = 0.2


@mutant_of(SmallFactors, of_sampler(trials.scale_of_twenty), seen_by="check_sampler")
class JacobianTwice(SmallFactors):
    """Wrong Jacobian: the Jacobian of the logarithm is counted twice."""

    def log_proposals(self, new, q):
        return 2 * super().log_proposals(new, q)


class Langevin(RandomWalk):
    """Proposes along the gradient, and corrects for it (MALA)."""

    def drifted(self, q):
        return q + self.scale**2 / 2 * self.gradient(q)

    def propose(self, q):
        return super().propose(self.drifted(q))

    def log_proposal(self, new, q):
        return -np.sum((new - self.drifted(q)) ** 2) / 2 / self.scale**2

    def log_ratio(self, new, q):
        there, back = self.log_proposal(new, q), self.log_proposal(q, new)
        return super().log_ratio(new, q) + back - there


@mutant_of(Langevin, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class NoDrift(Langevin):
    """Missing Hastings correction: a proposal with a drift, accepted as if it had none."""

    def log_ratio(self, new, q):
        return RandomWalk.log_ratio(self, new, q)


@mutant_of(Langevin, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class Unadjusted(Langevin):
    """Accepts every proposal, as if the step size were infinitesimal."""

    def accepts(self, log_ratio):
        return True


class Inversion(RandomWalk):
    """Proposes 1/q nine times in ten, else a step; the ratio has the volume factor of the map."""

    def log_volume(self, q):
        return -2 * np.log(abs(q)).sum()

    def move(self, q):
        if self.rng.random() < 0.1:
            return super().move(q)
        return 1 / q if self.accepts(self.log_ratio(1 / q, q) + self.log_volume(q)) else q


@mutant_of(Inversion, of_sampler(trials.known_mean), seen_by="check_geweke")
class NoVolume(Inversion):
    """Wrong Jacobian: a deterministic proposal without the volume factor of its map."""

    def log_volume(self, q):
        return 0.0


class TemperedTransition(RandomWalk):
    """Walks on p^b up a ladder of flatter densities and down again, as one proposal (Neal 1996)."""

    ladder = (1.0, 0.5, 0.2)

    def walk(self, q, b):
        new = self.propose(q)
        return new if self.accepts(b * self.log_ratio(new, q)) else q

    def move(self, q):
        new, log_ratio = q, 0.0
        for cold, hot in zip(self.ladder, self.ladder[1:], strict=False):
            log_ratio += (hot - cold) * self.log_p(new)
            new = self.walk(new, hot)
        for cold, hot in zip(self.ladder[-2::-1], self.ladder[:0:-1], strict=True):
            new = self.walk(new, hot)
            log_ratio += (cold - hot) * self.log_p(new)
        return new if self.accepts(log_ratio) else q


@mutant_of(TemperedTransition, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class NotTempered(TemperedTransition):
    """Wrong β: the weights are those of the temperatures, but all moves are on p itself."""

    def walk(self, q, b):
        return super().walk(q, 1.0)
