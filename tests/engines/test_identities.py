"""E_f[w] = Z, E_r[1/w] = 1/Z and Crooks' relation, with broken twins; at 10^5 chains if slow.

The kernels are PyMC's step methods on the tempered model. Starts are drawn here, exactly: by
enumeration for the discrete model, from the conjugate posterior for the continuous one. A test
passes within 3 standard errors (α = 2.7e-3 a comparison, seeded); its twins must exceed them, and
are expected 5 or more away at 8,000 chains (power 98 %).
"""

from functools import cached_property

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import betaln, logit, logsumexp, softmax

from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask, StepEngine, anneal

STANDARD_ERRORS = 3.0
FORWARD, REVERSE = Direction
pytestmark = pytest.mark.usefixtures("n")


@pytest.fixture(scope="module", params=[8_000, pytest.param(100_000, marks=pytest.mark.slow)])
def n(request):
    """Chains of every sample."""
    return request.param


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
    """A model with exact starts for both directions and a known evidence."""

    def __init__(self, model, betas, step, log_z, prior, posterior, n):
        self.n = n
        self.density = TemperedDensity(model)
        self.betas = np.array(betas)
        self.log_z = log_z
        self.starts = {FORWARD: prior, REVERSE: posterior}
        self.engine = StepEngine(self.density, self.betas, step)
        self.tuning = self.engine.pilot(PilotTask(self.density.data, np.random.SeedSequence(1)))

    def kernel(self, direction):
        """Whose streams go on from chain to chain, in the order of the direction."""
        kernel = self.engine.kernel(self.tuning)
        kernel = kernel if direction is FORWARD else kernel.reversal()
        kernel.reset(np.random.default_rng(2))
        return OfOneDirection(kernel)

    def paths(self, direction, kernel=None):
        """ℓ along n chains, shape (n, T + 1)."""
        kernel = self.kernel(direction) if kernel is None else kernel
        starts = self.starts[direction](np.random.default_rng(3), self.n)
        rng = np.random.default_rng(4)
        ell = self.engine.log_likelihood
        runs = (anneal(kernel, ell, self.betas, [start], direction, rng) for start in starts)
        return np.array([run.log_likelihood for run in runs])

    @cached_property
    def correct_paths(self):
        """Paths of the right kernels in both directions, computed once."""
        return {direction: self.paths(direction) for direction in Direction}

    def log_weights(self, direction, kernel=None):
        paths = self.correct_paths[direction] if kernel is None else self.paths(direction, kernel)
        return paths[:, :-1] @ np.diff(self.betas)


@pytest.fixture(scope="module")
def compound(n):
    """Binary b and ternary c, strongly coupled by the data; b moves first, then c."""
    p_b, p_c, y = np.array([0.4, 0.6]), np.array([0.1, 0.3, 0.6]), -0.1
    with pm.Model() as model:
        b = pm.Bernoulli("b", p_b[1])
        c = pm.Categorical("c", p_c)
        pm.Normal("y", b + c, 1.0, observed=y)
    states = [(i, j) for i in range(2) for j in range(3)]
    log_prior = np.log([p_b[i] * p_c[j] for i, j in states])
    log_joint = log_prior + [stats.norm.logpdf(y, i + j, 1.0) for i, j in states]

    def draw(log_p):
        def starts(rng, n):
            points = [{"b": np.array(i), "c": np.array(j)} for i, j in states]
            return [points[k] for k in rng.choice(6, size=n, p=softmax(log_p))]

        return starts

    step = [pm.BinaryGibbsMetropolis, pm.CategoricalGibbsMetropolis]
    betas = [0.0, 0.3, 1.0]
    return System(model, betas, step, logsumexp(log_joint), draw(log_prior), draw(log_joint), n)


@pytest.fixture(scope="module")
def transformed(n):
    """A Beta probability on the scale of log odds; the weights of both directions have light tails.

    That is what so large a prior sample size is for: 1/w grows as a power of p near 0.
    """
    a, heads = 20.0, 6
    with pm.Model() as model:
        p = pm.Beta("p", a, a)
        pm.Binomial("y", heads, p, observed=heads)

    def draw(heads):
        def starts(rng, n):
            return [{"p_logodds__": np.array(x)} for x in logit(rng.beta(a + heads, a, size=n))]

        return starts

    log_z, betas = betaln(a + heads, a) - betaln(a, a), [0.0, 0.3, 0.6, 1.0]
    return System(model, betas, pm.Metropolis, log_z, draw(0), draw(heads), n)


def z_score(values, expected=1.0):
    """Distance of the mean from its expectation in standard errors."""
    return abs(values.mean() - expected) / (values.std() / np.sqrt(len(values)))


def forward_score(system, log_weights):
    return z_score(np.exp(log_weights - system.log_z))


def reverse_score(system, log_weights):
    return z_score(np.exp(system.log_z - log_weights))


class OneTooEarly(OfOneDirection):
    """Applies the kernel of β_{t−1} in the place of K_t."""

    def step(self, t, point):
        return self.kernel.step(t - 1, point)


@pytest.mark.parametrize("name", ["compound", "transformed"])
@pytest.mark.parametrize(
    ("direction", "score"), [(FORWARD, forward_score), (REVERSE, reverse_score)]
)
def test_weights_average_to_z(name, direction, score, request):
    """Twins: weights on the other side of the moves; kernels of the temperature before."""
    system = request.getfixturevalue(name)
    paths, increments = system.correct_paths[direction], np.diff(system.betas)
    assert score(system, paths[:, :-1] @ increments) < STANDARD_ERRORS
    assert score(system, paths[:, 1:] @ increments) > STANDARD_ERRORS
    if name == "compound":
        twin = system.log_weights(direction, OneTooEarly(system.kernel(direction)))
        assert score(system, twin) > STANDARD_ERRORS


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


@pytest.mark.parametrize("name", ["compound", "transformed"])
def test_crooks_relation(name, request):
    """Unbiasedness does not notice an unreversed composition, the twin; Crooks' relation does."""
    system = request.getfixturevalue(name)
    forward = system.log_weights(FORWARD)
    assert crooks_scores(system, forward, system.log_weights(REVERSE)).max() < STANDARD_ERRORS
    if name == "compound":
        twin = system.log_weights(REVERSE, system.kernel(FORWARD))
        assert reverse_score(system, twin) < STANDARD_ERRORS
        assert crooks_scores(system, forward, twin).max() > STANDARD_ERRORS
