"""Hamiltonian Monte Carlo with a fixed length, with a wall, and with a tree (NUTS)."""

from typing import NamedTuple

import numpy as np

from tests.testing.mutants import trials
from tests.testing.mutants.catalogue import mutant_of
from tests.testing.mutants.trials import VectorSampler, of_sampler


class HMC(VectorSampler):
    """Five leapfrog steps with masses 1/2 … 2, accepted by the change of the energy."""

    step_size = 0.3
    n_steps = 5

    def masses(self, n):
        return np.geomspace(0.5, 2.0, n)

    def draw_momentum(self, n):
        return np.sqrt(self.masses(n)) * self.rng.standard_normal(n)

    def energy(self, q, p):
        return -self.log_p(q) + np.sum(p**2 / self.masses(p.size)) / 2

    def drift(self, q, p, time):
        return q + time * p / self.masses(p.size), p

    def kick(self, q, p, time):
        return q, p + time * self.gradient(q)

    def leapfrog(self, q, p, time):
        q, p = self.kick(q, p, time / 2)
        q, p = self.drift(q, p, time)
        return self.kick(q, p, time / 2)

    def trajectory(self, q, p):
        for _ in range(self.n_steps):
            q, p = self.leapfrog(q, p, self.step_size)
        return q, p

    def move(self, q):
        p = self.draw_momentum(q.size)
        new, new_p = self.trajectory(q, p)
        log_ratio = self.energy(q, p) - self.energy(new, new_p)
        return new if np.log(self.rng.random()) < log_ratio else q


@mutant_of(HMC, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class NoHalfStep(HMC):
    """Leapfrog without half steps: position and momentum are half a step apart at the end."""

    def leapfrog(self, q, p, time):
        q, p = self.kick(q, p, time)
        return self.drift(q, p, time)


@mutant_of(HMC, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class StaleGradient(HMC):
    """The second half step of the momentum uses the gradient at the previous position."""

    def leapfrog(self, q, p, time):
        q0, (q, p) = q, self.kick(q, p, time / 2)
        q, p = self.drift(q, p, time)
        return q, self.kick(q0, p, time / 2)[1]


@mutant_of(HMC, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class InvertedMetric(HMC):
    """Momenta are drawn with the inverse of the masses in the energy."""

    def draw_momentum(self, n):
        return self.rng.standard_normal(n) / np.sqrt(self.masses(n))


@mutant_of(HMC, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class PotentialOnly(HMC):
    """Wrong acceptance ratio: the kinetic energy is left out."""

    def energy(self, q, p):
        return -self.log_p(q)


class Walled(HMC):
    """HMC where every coordinate is positive: a trajectory bounces off zero (Neal 2011, 5.1)."""

    def drift(self, q, p, time):
        q, p = super().drift(q, p, time)
        return abs(q), np.where(q < 0, -p, p)


@mutant_of(Walled, of_sampler(trials.positive_mean), seen_by="check_invariance")
class Folded(Walled):
    """Wrong reflection at a boundary: the position is reflected, but the momentum is not."""

    def drift(self, q, p, time):
        q, p = HMC.drift(self, q, p, time)
        return abs(q), p


class State(NamedTuple):
    """Position and momentum."""

    q: np.ndarray
    p: np.ndarray


class Tree(NamedTuple):
    """A stretch of a trajectory, and a state drawn from it by weight."""

    first: State
    last: State
    sample: State
    log_weight: float
    turned: bool


class NUTS(HMC):
    """Doubles a trajectory until it turns; states are drawn by weight (Betancourt 2017, A.3)."""

    step_size = 0.4
    max_depth = 6

    def move(self, q):
        start = State(q, self.draw_momentum(q.size))
        tree = Tree(start, start, start, -self.energy(*start), turned=False)
        for depth in range(self.max_depth):
            forward = self.rng.random() < 0.5
            new = self.grow(tree.last if forward else tree.first, forward, depth)
            if new.turned:
                break
            tree = self.join(tree, new, forward, new.log_weight - tree.log_weight)
            if tree.turned:
                break
        return tree.sample.q

    def grow(self, edge, forward, depth):
        if depth == 0:
            time = self.step_size if forward else -self.step_size
            state = State(*self.leapfrog(edge.q, edge.p, time))
            return Tree(state, state, state, -self.energy(*state), turned=False)
        inner = self.grow(edge, forward, depth - 1)
        if inner.turned:
            return inner
        outer = self.grow(inner.last if forward else inner.first, forward, depth - 1)
        return self.join(inner, outer, forward, self.log_odds(inner, outer))

    def log_odds(self, inner, outer):
        return outer.log_weight - np.logaddexp(inner.log_weight, outer.log_weight)

    def join(self, old, new, forward, log_probability):
        """Two neighbouring stretches as one, with the new one's sample at this probability."""
        first, last = (old.first, new.last) if forward else (new.first, old.last)
        sample = new.sample if np.log(self.rng.random()) < log_probability else old.sample
        along = (last.q - first.q) @ first.p < 0 or (last.q - first.q) @ last.p < 0
        log_weight = np.logaddexp(old.log_weight, new.log_weight)
        return Tree(first, last, sample, log_weight, bool(old.turned or new.turned or along))


@mutant_of(NUTS, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class TruncatedDoubling(NUTS):
    """A subtree that turns within itself is kept in part instead of discarded."""

    def grow(self, edge, forward, depth):
        return super().grow(edge, forward, depth)._replace(turned=False)


@mutant_of(NUTS, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class BiasedTree(NUTS):
    """Biased tree sampling: the new subtree always wins, whatever the weights are."""

    def join(self, old, new, forward, log_probability):
        return super().join(old, new, forward, 0.0)


@mutant_of(NUTS, of_sampler(trials.sum_of_two), seen_by="check_invariance")
class NotNormalised(NUTS):
    """Multinomial weights not normalised: the outer states win with probability w′."""

    def log_odds(self, inner, outer):
        return outer.log_weight
