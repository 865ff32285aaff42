"""E_f[w] = Z, E_r[1/w] = 1/Z and Crooks' relation, with broken twins; at 10^5 chains if slow.

The kernels are PyMC's step methods on the tempered model. Starts are drawn here, exactly, by
enumeration. A test passes within 3 standard errors (α = 2.7e-3 a comparison, seeded); its twins
must exceed them, and are expected 4 or more away at 5,000 chains (power 84 %).
"""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask, StepEngine, anneal

STANDARD_ERRORS = 3.0
FORWARD, REVERSE = Direction


class OfOneDirection:
    """A kernel that is its own reversal, as it stands."""

    def __init__(self, kernel):
        self.kernel = kernel

    def reset(self, rng):
        pass

    def reversal(self):
        return self

    def step(self, t, point):
        return self.kernel.step(t, point)


class System:
    """Binary b and ternary c, strongly coupled by the data; b moves first, then c.

    Starts for both directions are exact, and the evidence is known.
    """

    betas, p_b, p_c, y = np.array([0.0, 0.3, 1.0]), [0.4, 0.6], [0.1, 0.3, 0.6], -0.1
    states = [(i, j) for i in range(2) for j in range(3)]

    def __init__(self, n):
        self.n = n
        with pm.Model() as model:
            b = pm.Bernoulli("b", self.p_b[1])
            c = pm.Categorical("c", self.p_c)
            pm.Normal("y", b + c, 1.0, observed=self.y)
        log_prior = np.log([self.p_b[i] * self.p_c[j] for i, j in self.states])
        log_joint = log_prior + [stats.norm.logpdf(self.y, i + j, 1.0) for i, j in self.states]
        self.log_z = logsumexp(log_joint)
        self.starts = {FORWARD: softmax(log_prior), REVERSE: softmax(log_joint)}
        steps = [pm.BinaryGibbsMetropolis, pm.CategoricalGibbsMetropolis]
        self.engine = StepEngine(TemperedDensity(model), self.betas, steps)
        data = self.engine.density.data
        self.tuning = self.engine.pilot(PilotTask(data, np.random.SeedSequence(1)))

    def kernel(self, direction):
        """A kernel whose streams go on from chain to chain, in the order of the direction."""
        kernel = self.engine.kernel(self.tuning)
        kernel = kernel if direction is FORWARD else kernel.reversal()
        kernel.reset(np.random.default_rng(2))
        return OfOneDirection(kernel)

    def paths(self, direction, kernel):
        """ℓ along n chains, shape (n, T + 1)."""
        places = np.random.default_rng(3).choice(6, size=self.n, p=self.starts[direction])
        points = [{"b": np.array(i), "c": np.array(j)} for i, j in self.states]
        rng, ell = np.random.default_rng(4), self.engine.log_likelihood
        runs = (anneal(kernel, ell, self.betas, [points[k]], direction, rng) for k in places)
        return np.array([run.log_likelihood for run in runs])


def z_score(values, expected=1.0):
    """Distance of the mean from its expectation in standard errors."""
    return abs(values.mean() - expected) / (values.std() / np.sqrt(len(values)))


def forward_score(system, log_weights):
    return z_score(np.exp(log_weights - system.log_z))


def reverse_score(system, log_weights):
    return z_score(np.exp(system.log_z - log_weights))


BOUNDED = {
    "cosine": np.cos,
    "sine": np.sin,
    "logistic": lambda x: 1 / (1 + np.exp(-(x + 3))),
}


def crooks_scores(system, forward, reverse):
    """E_f[w h(log w)] = Z E_r[h(log w)] for bounded h, in standard errors of the difference."""
    scores = []
    for h in BOUNDED.values():
        left, right = np.exp(forward - system.log_z) * h(forward), h(reverse)
        error = np.sqrt(left.var() / len(left) + right.var() / len(right))
        scores.append(abs(left.mean() - right.mean()) / error)
    return np.array(scores)


def assert_identities(system, forward, reverse):
    """What log weights of runs in both directions obey: E_f[Ẑ] = Z, E_r[1/Ẑ] = 1/Z, Crooks."""
    assert forward_score(system, forward) < STANDARD_ERRORS
    assert reverse_score(system, reverse) < STANDARD_ERRORS
    assert crooks_scores(system, forward, reverse).max() < STANDARD_ERRORS


@pytest.mark.parametrize("n", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_identities(n):
    """Twins: weights on the other side of the moves; unreversed kernels, which unbiasedness does
    not notice, but Crooks' relation does.
    """
    system, increments = System(n), np.diff(System.betas)
    paths = [system.paths(direction, system.kernel(direction)) for direction in Direction]
    forward, reverse = (each[:, :-1] @ increments for each in paths)
    assert_identities(system, forward, reverse)
    for score, each in zip((forward_score, reverse_score), paths, strict=True):
        assert score(system, each[:, 1:] @ increments) > STANDARD_ERRORS
    twin = system.paths(REVERSE, system.kernel(FORWARD))[:, :-1] @ increments
    assert reverse_score(system, twin) < STANDARD_ERRORS
    assert crooks_scores(system, forward, twin).max() > STANDARD_ERRORS
