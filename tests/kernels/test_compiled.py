"""The compiled kernels leave f_β exactly invariant; textual mutations of each do not.

Continuous target: x = log of a gamma variable, and y = x + normal noise, so that f_β is skewed and
correlated and can be drawn exactly at every β. Discrete target: a few thousand states, enumerated.
Exact draws moved a few times must still be exact draws: α = 1e-3 over all comparisons of a test.
"""

import numba
import numpy as np
import pytest
from numba import types
from scipy import stats
from scipy.special import gammaln, softmax

from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.kernels import moves as continuous_moves
from pymc_bdmc.kernels.state import (
    Parameters,
    Target,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting, discrete_scan
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import no_reference
from tests.mutants import in_python

ALPHA = 1e-3
BETAS = (0.05, 0.4, 1.0)
N, N_PYTHON = 20_000, 2000
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

    Returns the mean acceptances of discrete and continuous elements, the share of the moves that
    diverged, and the gradients.
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


@np.errstate(all="ignore")
def move_in_python(kernels, name, target, beta, thetas, parameters, rng, moves=5):
    """Move every row some times by a kernel in Python; return how often it diverged."""

    def prior_move(target, beta, parameters, state, work, rng):
        x = np.log(rng.gamma(SHAPE, 1 / RATE))
        kernels.prior_move(target, beta, np.array([x, rng.normal(x, NOISE)]), state, work, rng)

    def scan(target, beta, parameters, state, work, rng):
        kernels.discrete_scan(target, beta, parameters, state, work, False, rng)

    move = {"prior_move": prior_move, "scan": scan}.get(name) or getattr(kernels, name)
    n = parameters.metric.scale.size
    state, work = kernels.make_state(thetas.shape[1], n), kernels.make_workspace(thetas.shape[1], n)
    diverged = 0
    for theta in thetas:
        state.theta[:] = theta
        kernels.evaluate(target, state)
        for _ in range(moves):
            report = move(target, beta, parameters, state, work, rng)
            diverged += report.diverging if report else 0
        theta[:] = state.theta
    return diverged


STEP_SIZES = {"hmc": 1.1, "autostep": 0.9, "nuts": 0.8, "metropolis": 1.0, "prior_move": 1.0}
METRIC = Metric(np.array([0.8, 1.2]), np.array([[0.6, 0.8]]), np.array([1.5]))
NO_METRIC = Metric(np.zeros(0), np.zeros((0, 0)), np.zeros(0))


def target_of(density, categories=()):
    nothing, undefined, kinds = np.zeros(0), np.zeros(1, int), np.array(categories, int)
    return Target(density, density, nothing, np.zeros(2), kinds, no_reference(), undefined)


@pytest.mark.parametrize("name", KERNELS)
def test_continuous_kernels_leave_the_tempered_density_invariant(name):
    transitions, target = KERNELS[name].compiled.transitions, target_of(gamma_poisson)
    parameters = Parameters(METRIC, STEP_SIZES[name], np.zeros(0))
    rng = np.random.default_rng(7)
    for beta in BETAS:
        draws = exact_draws(beta, rng)
        moved = move_all(transitions, target, beta, draws, parameters, False, rng)
        assert uniform_scores(draws, beta) > ALPHA / len(BETAS)
        assert 0.2 < moved[1] < 0.999  # it moves, and it refuses


@numba.cfunc(SIGNATURE)
def half_normal(theta, data, interval, log_prior_gradient, log_likelihood_gradient):
    """A normal variable with no density below 0."""
    log_prior_gradient[0], log_likelihood_gradient[0] = -theta[0], 0.0
    return (-0.5 * theta[0] ** 2 if theta[0] >= 0.0 else np.nan), 0.0


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_stay_where_the_density_is_a_number(name):
    """Exact draws stay exact. Twin: draws of another scale."""
    metric = Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0))
    parameters, rng = Parameters(metric, 1.0, np.zeros(0)), np.random.default_rng(5)
    draws, transitions = np.abs(rng.normal(size=(N, 1))), KERNELS[name].compiled.transitions
    move_all(transitions, target_of(half_normal), 1.0, draws, parameters, False, rng)
    p_values = [stats.kstest(scale * draws[:, 0], stats.halfnorm.cdf).pvalue for scale in (1, 1.05)]
    assert p_values[1] < ALPHA < p_values[0]


@pytest.mark.parametrize(
    ("name", "n", "faults"),
    [
        (
            "hmc",
            1500,
            [
                "wrong acceptance",
                "missing half step",
                "energy without the momentum",
                "adaptation leaking",
            ],
        ),
        ("autostep", 4500, ["error of the other sign"]),
        ("nuts", 500, ["inverse weight of a candidate", "subtree without a weight"]),
        ("metropolis", 1000, ["lenient walk"]),
        ("prior_move", 2000, ["draws accepted too often"]),
        pytest.param(
            "hmc",
            40_000,
            ["metric not inverted", "energy without the metric"],
            marks=pytest.mark.slow,
        ),
        pytest.param("nuts", 20_000, ["one direction alone"], marks=pytest.mark.slow),
        pytest.param("autostep", 6000, ["far end not asked"], marks=pytest.mark.slow),
    ],
)
def test_faults_of_continuous_kernels_are_exposed(name, n, faults):
    """At one β, by n draws that are moved five times in Python; without a fault none is."""
    target, beta = target_of(gamma_poisson), BETAS[1]
    parameters = Parameters(METRIC, STEP_SIZES[name], np.zeros(0))
    for fault in (None, *faults):
        rng = np.random.default_rng(7)
        draws = exact_draws(beta, rng, n)
        move_in_python(in_python(fault), name, target, beta, draws, parameters, rng)
        assert (uniform_scores(draws, beta) > ALPHA) == (fault is None), fault


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


DISCRETE = target_of(discrete_target, (2, 3, 0))
WIDTHS = Parameters(NO_METRIC, 1.0, np.array([1.0, 1.0, 1.5]))
STATES = np.array([(b, c, k) for b in range(2) for c in range(3) for k in range(41)], float)
TERMS = np.array([discrete_target(state, *[None] * 4) for state in STATES])


def discrete_p_value(beta, n, move):
    """χ² of the states with more than 10 expected draws, the others pooled."""
    rng, exact = np.random.default_rng(11), softmax(TERMS[:, 0] + beta * TERMS[:, 1])
    draws = STATES[rng.choice(len(STATES), size=n, p=exact)]
    move(draws, rng)
    index = ((draws[:, 0] * 3 + draws[:, 1]) * 41 + draws[:, 2]).astype(int)
    counts, expected = np.bincount(index, minlength=len(STATES)), n * exact
    common = expected > 10
    pooled = [np.append(x[common], x[~common].sum()) for x in (counts, expected)]
    return stats.chisquare(*pooled).pvalue


@pytest.mark.parametrize("backwards", [False, True])
def test_discrete_moves_leave_the_tempered_density_invariant(backwards):
    transitions = KERNELS["metropolis"].compiled.transitions
    for beta in BETAS:

        def move(draws, rng, beta=beta):
            move_all(transitions, DISCRETE, beta, draws, WIDTHS, backwards, rng)

        assert discrete_p_value(beta, N, move) > ALPHA / len(BETAS)


@pytest.mark.parametrize(
    "fault",
    [None, "preferred steps", "longer steps from larger states", "values that are not proposed"],
)
def test_faults_of_discrete_moves_are_exposed(fault):
    """At one β, by 2000 draws that are moved five times in Python."""
    kernels, beta = in_python(fault), BETAS[1]

    def move(draws, rng):
        move_in_python(kernels, "scan", DISCRETE, beta, draws, WIDTHS, rng)

    assert (discrete_p_value(beta, N_PYTHON, move) > ALPHA) == (fault is None)


def test_a_kernel_compiles_each_of_its_moves_once():
    """Numba would make another copy for every constant that is handed on."""
    KERNELS["metropolis"].compiled.transitions.__wrapper_address__()
    for move in (discrete_scan, *(getattr(continuous_moves, name) for name in KERNELS)):
        assert len(move.signatures) <= 1
