"""Sweeps and weights of the factor models to rounding: enumeration, closed forms and PyMC."""

from itertools import product

import numpy as np
import pytest
from factor_models import BinaryAttributes, Clustering, LowRank
from factor_models.features import features_of
from factor_models.kernels import constrained_sweep, sweep, weigh
from factor_models.loops import observation_weights
from factor_models.rows import loadings_of, log_row_marginals, normal_row
from scipy.special import logsumexp
from scipy.stats import chisquare, multivariate_normal, norm

from pymc_bdmc import testing
from tests.models import interpreted

OPTIONS = {"feature_scale": 1.3, "noise": 0.8}
DISCRETE = [
    Clustering(3, n=3, size=2, **OPTIONS),
    BinaryAttributes(2, n=3, size=2, probability=0.3, **OPTIONS),
]
LOADINGS = LowRank(2, n=3, size=4, row_scale=1.4, **OPTIONS)
MODELS = [*DISCRETE, LOADINGS]
WEIGHTS = [observation_weights("prior", np.array([0.4, 1.0]), 3).weights[i] for i in (0, 1)] + [
    observation_weights("data", np.array([0.5]), 3).weights[0]
]
"""β = 0.4 and 1 of the prior path, and one and a half observations of the data path."""


@pytest.fixture(params=MODELS, ids=lambda model: type(model).__name__)
def problem(request):
    return request.param.simulate(random_seed=1)


def enumerated(model):
    """Return all L of a discrete model."""
    return [np.array(rows) for rows in product(model.factors.values, repeat=model.n)]


def uncollapsed(model, rows, features, y, weights):
    """Log p(R) Π N(y_n | l_n R, σ²)^w_n."""
    ells = norm(rows @ features, model.noise).logpdf(y).sum(axis=1)
    return norm(0, model.feature_scale).logpdf(features).sum() + weights @ ells


@pytest.mark.parametrize("weights", WEIGHTS)
def test_features_are_integrated_out(problem, weights):
    """Log f_w(L) is the joint density over the conditional one of R, whatever R."""
    model, rng = problem.model, np.random.default_rng(2)
    features, log_likelihood = features_of(model.factors, problem.rows, problem.y, weights)
    drawn = rng.normal(size=features.mean.shape)
    conditional = sum(
        multivariate_normal.logpdf(x, mean, features.covariance)
        for x, mean in zip(drawn.T, features.mean.T, strict=True)
    )
    joint = uncollapsed(model, problem.rows, drawn, problem.y, weights)
    assert log_likelihood == pytest.approx(joint - conditional, rel=1e-10)


def test_the_joint_density_is_that_of_the_pymc_model(problem):
    model, rng = problem.model, np.random.default_rng(3)
    pymc_model = model.pymc_model(problem.y)
    point = pymc_model.initial_point(1)
    (name,) = set(point) - {"features"}
    point["features"] = rng.normal(size=point["features"].shape)
    point[name] = problem.rows.argmax(axis=1) if name == "labels" else problem.rows
    with interpreted():
        theirs = pymc_model.compile_logp()(point)
    ours = uncollapsed(model, problem.rows, point["features"], problem.y, np.ones(model.n))
    ours += model.log_joint(problem.rows, problem.y) - model.log_likelihood(problem.rows, problem.y)
    assert ours == pytest.approx(float(theirs), rel=1e-12)


def transitions(model, y, weights, backwards):
    """Log T(L′ | L) of all pairs, shape (states, states)."""
    rng, states = np.random.default_rng(1), enumerated(model)
    return np.array(
        [
            [sweep(model.factors, a.copy(), y, weights, backwards, b, rng) for b in states]
            for a in states
        ]
    )


@pytest.mark.parametrize("weights", [np.ones(3), np.array([1, 0.4, 0.5])])
@pytest.mark.parametrize("model", DISCRETE, ids=lambda model: type(model).__name__)
def test_sweeps_leave_f_invariant_and_have_their_reversal(model, weights):
    problem = model.simulate(random_seed=1)
    log_f = [
        model.log_joint(rows, problem.y)
        - model.log_likelihood(rows, problem.y)
        + features_of(model.factors, rows, problem.y, weights)[1]
        for rows in enumerated(model)
    ]
    log_f = np.array(log_f) - logsumexp(log_f)
    there, back = (transitions(model, problem.y, weights, way) for way in (False, True))
    np.testing.assert_allclose(logsumexp(there, axis=1), 0, atol=1e-10)
    np.testing.assert_allclose(logsumexp(log_f[:, None] + there, axis=0), log_f, atol=1e-10)
    np.testing.assert_allclose(log_f[:, None] + there, log_f + back.T, atol=1e-9)
    # Broken twins: a sweep at other weights, and one that is taken for its own reversal
    wrong = transitions(model, problem.y, weights**2 + 0.1, False)
    assert np.abs(logsumexp(log_f[:, None] + wrong, axis=0) - log_f).max() > 1e-3
    assert np.abs(log_f[:, None] + there - log_f - there.T).max() > 1e-3


@pytest.mark.parametrize("weight", [0.4, 1.0])
def test_conditional_of_normal_rows(weight):
    """The density of what a sweep draws given the features, by ratios of the joint density."""
    problem, rng = LOADINGS.simulate(random_seed=1), np.random.default_rng(4)
    weights = np.full(3, weight)
    points = [
        {"rows": rng.normal(size=(3, 2)), "features": rng.normal(size=(2, 4))} for _ in range(20)
    ]

    def joint(point, prior=1.4):
        both = uncollapsed(LOADINGS, point["rows"], point["features"], problem.y, weights)
        return both + norm(0, prior).logpdf(point["rows"]).sum()

    def conditional(point):
        loadings = loadings_of(LOADINGS.factors, point["features"], weight)
        return sum(
            normal_row(LOADINGS.factors, loadings, y, np.empty(2), row[None], rng)[0]
            for y, row in zip(problem.y, point["rows"], strict=True)
        )

    check = testing.check_conditionals(conditional, joint, "rows", points=points)
    assert check.passed, check
    wrong = testing.check_conditionals(
        conditional, lambda point: joint(point, prior=1.5), "rows", points=points
    )
    assert not wrong.passed


def test_marginals_of_rows(problem):
    """Log p(Y | R): sums over all rows, or the normal law with covariance s² R'R + σ² I."""
    model, rng = problem.model, np.random.default_rng(5)
    features = rng.normal(size=(model.n_features, model.size))
    if isinstance(model, LowRank):
        covariance = model.row_scale**2 * features.T @ features + model.noise**2 * np.eye(
            model.size
        )
        exact = multivariate_normal.logpdf(problem.y, np.zeros(model.size), covariance).sum()
    else:
        fitted = model.factors.values @ features
        ells = norm(fitted, model.noise).logpdf(problem.y[:, None]).sum(axis=2)
        exact = logsumexp(model.factors.log_probabilities + ells, axis=1).sum()
    found = log_row_marginals(model.factors, features, problem.y, rng)
    assert found == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("model", DISCRETE, ids=lambda model: type(model).__name__)
def test_weights_of_rows_that_enter(model):
    """Log p(y_2 | L_1, y_1) by enumeration, the same on the way up and down."""
    problem, rng = model.simulate(random_seed=1), np.random.default_rng(6)
    path, rows = observation_weights("data", np.array([0, 1 / 3, 2 / 3, 1]), 3), problem.rows.copy()
    old, new = path.weights[1:3]
    ells = []
    for value, log_p in zip(model.factors.values, model.factors.log_probabilities, strict=True):
        rows[1] = value
        ells.append(log_p + features_of(model.factors, rows, problem.y, new)[1])
    exact = logsumexp(ells) - features_of(model.factors, rows, problem.y, old)[1]
    for backwards in (False, True):
        found = weigh(model.factors, rows, problem.y, path._replace(backwards=backwards), 2, rng)
        assert found == pytest.approx(exact, rel=1e-10)


def test_constrained_sweeps_leave_the_prior_above_their_floor_invariant():
    """χ² at α = 1e-4 over the sets above it, of two attributes; every tenth state is counted.

    The floor is half way between two states: rounding decides whether one at the floor is above it.
    """
    model = BinaryAttributes(2, n=1, size=2, probability=0.3, feature_scale=3.0)
    problem, rng = model.simulate(random_seed=2), np.random.default_rng(9)
    values, log_p = model.factors.values, model.factors.log_probabilities
    ells = [model.log_likelihood(value[None], problem.y) for value in values]
    floor = np.sort(ells)[:2].mean()
    above = np.array(ells) > floor
    rows, counts = values[np.argmax(ells)][None].copy(), np.zeros(4)
    for i, candidates in enumerate(model.draw_rows(rng, 20_000)):
        found = constrained_sweep(model.factors, rows, problem.y, candidates, floor, rng)
        assert found > floor
        counts[int(rows[0] @ [1, 2])] += i % 10 == 0
    assert counts.sum() == counts[above].sum()
    p = np.exp(log_p[above])
    assert chisquare(counts[above], p / p.sum() * counts.sum()).pvalue > 1e-4
    # Broken twin: all sets above the floor alike
    assert chisquare(counts[above]).pvalue < 1e-4
