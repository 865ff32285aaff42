"""The compiled kernels leave f_β exactly invariant; textual mutations of each do not.

Continuous target: x = log of a gamma variable, and y = x + normal noise, so that f_β is skewed and
correlated and can be drawn exactly at every β. Discrete target: a few thousand states, enumerated.
Exact draws moved a few times must still be exact draws: α = 1e-3 over all comparisons of a test.
"""

from functools import cache

import numba
import numpy as np
import pytest
from numba import types
from scipy import stats
from scipy.special import gammaln, softmax

from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.kernels.state import (
    Parameters,
    Target,
    copy_vector,
    evaluate,
    make_state,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting, prior_move
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import no_reference
from tests.mutants import MOVES, broken_kernels, compile_kernels

ALPHA = 1e-3
BETAS = (0.05, 0.4, 1.0)
N = 20_000
VECTOR = types.float64[::1]
SIGNATURE = types.UniTuple(types.float64, 2)(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR)

SHAPE, RATE, COUNT, NOISE = 2.0, 1.0, 4.0, 0.7


@numba.cfunc(SIGNATURE)
def gamma_poisson(theta, data, interval, log_prior_gradient, log_likelihood_gradient):
    """Log of a Gamma(2, 1) variable with a Poisson count of 4; y | x ~ N(x, 0.7²)."""
    x, y = theta
    rate = np.exp(x)
    log_prior_gradient[0] = SHAPE - RATE * rate + (y - x) / NOISE**2
    log_prior_gradient[1] = -(y - x) / NOISE**2
    log_likelihood_gradient[0] = COUNT - rate
    log_likelihood_gradient[1] = 0.0
    log_prior = SHAPE * x - RATE * rate - 0.5 * ((y - x) / NOISE) ** 2
    return log_prior, COUNT * x - rate


def exact_draws(beta, rng, n=N):
    x = np.log(rng.gamma(SHAPE + beta * COUNT, 1 / (RATE + beta), size=n))
    return np.stack([x, x + NOISE * rng.normal(size=n)], axis=1)


def uniform_scores(draws, beta):
    """p-values that the two exactly uniform, independent functions of exact draws are so."""
    x, y = draws.T
    u = stats.gamma.cdf(np.exp(x), SHAPE + beta * COUNT, scale=1 / (RATE + beta))
    v = stats.norm.cdf((y - x) / NOISE)
    cells = np.histogram2d(u, v, bins=6, range=[[0, 1], [0, 1]])[0]
    return stats.chisquare(cells.ravel()).pvalue


@numba.njit
def move_all(transitions, target, beta, thetas, parameters, reverse, rng):
    """Move every row three times by a kernel of the package, which is called by its address.

    Returns
    -------
    discrete, continuous : float
        Mean acceptances.
    divergent : float
        Share of the moves that diverged.
    gradients : int
    """
    n, size = thetas.shape
    states = make_states(n, size, parameters.metric.scale.size)
    work = make_workspace(size, parameters.metric.scale.size)
    setting = Setting(beta, parameters, np.empty(0), reverse)
    for i in range(n):
        copy_vector(thetas[i], states.theta[i])
        evaluate(target, state_at(states, i))
    discrete, continuous, divergent, gradients = 0.0, 0.0, 0, 0
    for _ in range(3):
        move = transitions(target, setting, states, 0, work, rng)
        discrete += move.acceptance[0]
        continuous += move.acceptance[1]
        divergent += move.diverging
        gradients += move.gradient_evaluations
    for i in range(n):
        copy_vector(states.theta[i], thetas[i])
    return discrete / (3 * n), continuous / (3 * n), divergent / (3 * n), gradients


def drive(move):
    """A function that does the same by a move that is compiled into it.

    It returns the mean acceptance, the share of the moves that diverged, and the gradients.
    """

    @numba.njit
    def run(target, beta, thetas, parameters, rng):
        total, divergent, gradients, n = 0.0, 0, 0, parameters.metric.scale.size
        for theta in thetas:
            state = make_state(theta.size, n)
            work = make_workspace(theta.size, n)
            copy_vector(theta, state.theta)
            evaluate(target, state)
            for _ in range(3):
                found = move(target, beta, parameters, state, work, rng)
                total += found.acceptance
                divergent += found.diverging
                gradients += found.gradient_evaluations
            copy_vector(state.theta, theta)
        return total / (3 * len(thetas)), divergent / (3 * len(thetas)), gradients

    return run


@cache
def mover(name, broken=False):
    """A function that moves every row three times by a continuous kernel, or by its twin.

    It returns what those of `drive` return.
    """
    if name == "prior_move":
        kernel = broken_kernels().prior_move if broken else prior_move

        @numba.njit
        def move(target, beta, parameters, state, work, rng):
            x = np.log(rng.gamma(SHAPE, 1 / RATE))
            before = state.theta[0]
            draw = np.array([x, rng.normal(x, NOISE)])
            kernel(target, beta, draw, state, work, rng)
            return Move(1.0 if state.theta[0] != before else 0.0, False, 0)

    elif broken:
        kernel = getattr(broken_kernels(), name)

        @numba.njit
        def move(target, beta, parameters, state, work, rng):
            return kernel(target, beta, parameters, state, work, rng)

    else:
        transitions = KERNELS[name].compiled.transitions
        return lambda *args: move_all(transitions, *args[:-1], False, args[-1])[1:]
    return drive(move)


@cache
def scanner(backwards, broken):
    """The same of the discrete elements."""
    if not broken:
        transitions = KERNELS["metropolis"].compiled.transitions
        return lambda *args: move_all(transitions, *args[:-1], backwards, args[-1])
    scan = broken_kernels().discrete_scan

    @numba.njit
    def move(target, beta, parameters, state, work, rng):
        return scan(target, beta, parameters, state, work, backwards, rng)

    return drive(move)


STEP_SIZES = {"hmc": 1.1, "autostep": 0.9, "nuts": 0.4, "metropolis": 1.0, "prior_move": 1.0}
METRIC = Metric(np.array([0.8, 1.2]), np.array([[0.6, 0.8]]), np.array([1.5]))
NO_METRIC = Metric(np.zeros(0), np.zeros((0, 0)), np.zeros(0))


def target_of(density, categories=()):
    nothing, stop, kinds = np.zeros(0), np.zeros(1, int), np.array(categories, int)
    return Target(density, density, nothing, np.zeros(2), kinds, no_reference(), stop)


def continuous_p_values(name, broken=False):
    """p-value and acceptance at every β."""
    run = mover(name, broken)
    target = target_of(gamma_poisson)
    parameters = Parameters(METRIC, STEP_SIZES[name], np.zeros(0))
    rng = np.random.default_rng(7)
    rows = []
    for beta in BETAS:
        draws = exact_draws(beta, rng)
        acceptance, *_ = run(target, beta, draws, parameters, rng)
        rows.append((uniform_scores(draws, beta), acceptance))
    return np.array(rows).T


@pytest.mark.parametrize("broken", [False, True], ids=["kernel", "twin without a fault"])
@pytest.mark.parametrize("name", STEP_SIZES)
def test_continuous_kernels_leave_the_tempered_density_invariant(name, broken):
    p_values, acceptance = continuous_p_values(name, broken)
    assert p_values.min() > ALPHA / len(BETAS)
    assert 0.2 < acceptance.min() < acceptance.max() < 0.999  # it moves, and it refuses


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("hmc", "wrong acceptance"),
        ("hmc", "missing half step"),
        ("hmc", "metric not inverted"),
        ("hmc", "energy without the metric"),
        ("hmc", "adaptation leaking"),
        ("autostep", "far end not asked"),
        ("autostep", "wrong acceptance with local steps"),
        ("nuts", "unweighted candidate"),
        ("nuts", "preferred direction"),
        ("nuts", "subtree without a weight"),
        ("metropolis", "wrong walk acceptance"),
        ("prior_move", "draws accepted too often"),
    ],
)
def test_broken_continuous_kernels_are_exposed(name, fault):
    with broken_kernels().having(fault):
        p_values, _ = continuous_p_values(name, broken=True)
    assert p_values.min() < ALPHA / len(BETAS)


MEANS = np.array([-0.5, 0.4, 1.6])
log_factorial = gammaln(np.arange(1.0, 42.0))


@numba.cfunc(SIGNATURE)
def discrete_target(theta, data, interval, log_prior_gradient, log_likelihood_gradient):
    """Binary b, ternary c and a count k ~ Poisson(exp(m_c + b/2)), with a normal observation."""
    b, c, k = int(theta[0]), int(theta[1]), theta[2]
    if k < 0 or k > 40:
        return -np.inf, 0.0
    log_rate = MEANS[c] + 0.5 * b
    log_prior = 0.3 * b + k * log_rate - np.exp(log_rate) - log_factorial[int(k)]
    return log_prior, -0.5 * (k - 2.0 - b) ** 2


CATEGORIES = np.array([2, 3, 0])


def discrete_p_values(backwards, broken=False):
    """χ² of the states with more than 10 expected draws, the others pooled."""
    states = np.array([(b, c, k) for b in range(2) for c in range(3) for k in range(41)], float)
    terms = np.array([discrete_terms(state) for state in states])
    run = scanner(backwards, broken)
    target = target_of(discrete_target, CATEGORIES)
    parameters = Parameters(NO_METRIC, 1.0, np.array([1.0, 1.0, 1.5]))
    rng = np.random.default_rng(11)
    p_values = []
    for beta in BETAS:
        exact = softmax(terms[:, 0] + beta * terms[:, 1])
        draws = states[rng.choice(len(states), size=N, p=exact)]
        run(target, beta, draws, parameters, rng)
        index = ((draws[:, 0] * 3 + draws[:, 1]) * 41 + draws[:, 2]).astype(int)
        counts, expected = np.bincount(index, minlength=len(states)), N * exact
        common = expected > 10
        pooled = [np.append(x[common], x[~common].sum()) for x in (counts, expected)]
        p_values.append(stats.chisquare(*pooled).pvalue)
    return np.array(p_values)


@numba.njit
def call(density, theta):
    return density(theta, theta, theta, theta, theta)


def discrete_terms(state):
    return call(discrete_target, state.copy())


@pytest.mark.parametrize(("backwards", "broken"), [(False, False), (True, False), (False, True)])
def test_discrete_moves_leave_the_tempered_density_invariant(backwards, broken):
    assert discrete_p_values(backwards, broken).min() > ALPHA / len(BETAS)


@pytest.mark.parametrize(
    "fault", ["preferred steps", "steps as long as the state", "values that are not proposed"]
)
def test_broken_discrete_moves_are_exposed(fault):
    with broken_kernels().having(fault):
        assert discrete_p_values(False, broken=True).min() < ALPHA / len(BETAS)


def test_a_kernel_compiles_its_own_moves_only():
    """And each of them once: numba would make another copy for every constant that is handed on."""
    twin = compile_kernels(modules=MOVES)
    assert twin.KERNELS["metropolis"].compiled.transitions.__wrapper_address__()
    found = {name: len(getattr(twin, name).signatures) for name in ("discrete_scan", *KERNELS)}
    assert found == dict.fromkeys(KERNELS, 0) | {"discrete_scan": 1, "metropolis": 1}
