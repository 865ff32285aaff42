"""E_f[w] = Z, E_r[1/w] = 1/Z and Crooks' relation, with broken twins; at 10^5 chains if slow.

The kernels are moves in NumPy that are far from reversible, and PyMC's step methods if slow. Starts
are drawn here, exactly, by enumeration. A test passes within 3 standard errors (α = 2.7e-3 a
comparison, seeded); its twins must exceed them, and are 13 or more away with 8 other seeds.
"""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Direction, Move
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

    def __init__(self, n, make_kernel):
        self.n = n
        self.log_prior = np.log(np.outer(self.p_b, self.p_c))
        self.ells = stats.norm.logpdf(self.y, np.add.outer(range(2), range(3)), 1.0)
        log_joint = self.log_prior + self.ells
        self.log_z = logsumexp(log_joint)
        starts = softmax(self.log_prior), softmax(log_joint)
        self.starts = {d: p.ravel() for d, p in zip(Direction, starts, strict=True)}
        self.of_both, self.log_likelihood = make_kernel(self)

    def kernel(self, direction):
        """A kernel whose streams go on from chain to chain, in the order of the direction."""
        kernel = self.of_both if direction is FORWARD else self.of_both.reversal()
        kernel.reset(np.random.default_rng(2))
        return OfOneDirection(kernel)

    def paths(self, direction, kernel):
        """ℓ along n chains, shape (n, T + 1)."""
        places = np.random.default_rng(3).choice(6, size=self.n, p=self.starts[direction])
        points = [{"b": np.array(i), "c": np.array(j)} for i, j in self.states]
        rng, ell = np.random.default_rng(4), self.log_likelihood
        runs = (anneal(kernel, ell, self.betas, [points[k]], direction, rng) for k in places)
        return np.array([run.log_likelihood for run in runs])


class Rotation:
    """Moves that shift a uniform place within the share of a state, and are far from reversible."""

    def __init__(self, system, shift=0.2):
        self.system, self.shift = system, shift
        log_f = [(system.log_prior + beta * system.ells).ravel() for beta in system.betas]
        self.ends = np.cumsum([softmax(each) for each in log_f], axis=1)

    def reset(self, rng):
        self.rng = rng

    def reversal(self):
        return Rotation(self.system, -self.shift)

    def step(self, t, point):
        low, high = np.append(0, self.ends[t])[3 * point["b"] + point["c"] :][:2]
        place = (self.rng.uniform(low, high) + self.shift) % 1
        b, c = divmod(np.searchsorted(self.ends[t], place), 3)
        return point | {"b": b, "c": c}, Move(1.0, False, 0)


def in_numpy(system):
    return Rotation(system), lambda point: system.ells[point["b"], point["c"]]


def by_step_methods(system):
    """PyMC's on the tempered model."""
    with pm.Model() as model:
        b = pm.Bernoulli("b", system.p_b[1])
        c = pm.Categorical("c", system.p_c)
        pm.Normal("y", b + c, 1.0, observed=system.y)
    steps = [pm.BinaryGibbsMetropolis, pm.CategoricalGibbsMetropolis]
    engine = StepEngine(TemperedDensity(model), system.betas, steps)
    tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    return engine.kernel(tuning), engine.log_likelihood


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


@pytest.mark.parametrize(
    ("make_kernel", "n"),
    [(in_numpy, 2_000), pytest.param(by_step_methods, 100_000, marks=pytest.mark.slow)],
)
def test_identities(make_kernel, n):
    """Twins: weights on the other side of the moves; unreversed kernels, which unbiasedness does
    not notice, but Crooks' relation does.
    """
    system, increments = System(n, make_kernel), np.diff(System.betas)
    paths = [system.paths(direction, system.kernel(direction)) for direction in Direction]
    forward, reverse = (each[:, :-1] @ increments for each in paths)
    assert_identities(system, forward, reverse)
    for score, each in zip((forward_score, reverse_score), paths, strict=True):
        assert score(system, each[:, 1:] @ increments) > STANDARD_ERRORS
    twin = system.paths(REVERSE, system.kernel(FORWARD))[:, :-1] @ increments
    assert reverse_score(system, twin) < STANDARD_ERRORS
    assert crooks_scores(system, forward, twin).max() > STANDARD_ERRORS
