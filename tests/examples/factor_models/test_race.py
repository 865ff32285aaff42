"""Every estimator on problems small enough to be solved exactly, and the race between them."""

from functools import cache
from itertools import product

import factor_models
import numpy as np
import pytest
import xarray as xr
from factor_models import ESTIMATORS, BinaryAttributes, Clustering, Estimator, LowRank, plot_race
from factor_models.estimators import bic, variational
from scipy.special import logsumexp

from tests.examples.factor_models.test_annealing import exact

Z = 4.5  # two-sided α = 7e-6 a comparison, 26 comparisons


def enumerated(model):
    """Few observations, with log ML by a sum over all states."""
    problem = model.simulate(random_seed=3)
    return problem, exact(problem)


def integrated():
    """Return a problem with one loading and one observation, and its log ML by quadrature."""
    problem = LowRank(1, n=1, size=1).simulate(random_seed=1)
    grid = np.linspace(-12, 12, 4001)
    values = [problem.model.log_joint(np.array([[x]]), problem.y) for x in grid]
    return problem, logsumexp(values) + np.log(grid[1] - grid[0])


PROBLEMS = {
    "clustering": lambda: enumerated(Clustering(2, n=4, size=2)),
    "binary": lambda: enumerated(BinaryAttributes(2, n=3, size=2)),
    "low rank": integrated,
}


@cache
def solution(kind):
    """A problem and its log ML."""
    return PROBLEMS[kind]()


def estimates(estimate, problem, budget, trials):
    rngs = np.random.default_rng(1).spawn(trials)
    return np.array([estimate(problem, budget, rng)[0] for rng in rngs])


UNBIASED = {
    "likelihood weighting": 1, "AIS": 1, "SMC": 1, "SMC, one particle": 1, "population": 1,
    "Chib-Murray-Salakhutdinov": 1,
    "reverse AIS": -1, "reverse population": -1, "sequential harmonic mean": -1,
}  # fmt: skip


# Of normal rows a transition has a density given features alone, which are drawn anew.
ESTIMATED = [("low rank", "Chib-Murray-Salakhutdinov")]


@pytest.mark.parametrize(
    ("kind", "name"), [pair for pair in product(PROBLEMS, UNBIASED) if pair not in ESTIMATED]
)
def test_estimators_of_z_or_of_its_reciprocal_are_unbiased(kind, name):
    problem, log_z = solution(kind)
    sign = UNBIASED[name]
    found = sign * estimates(ESTIMATORS[name].estimate, problem, 8, 400)

    def z(answer):
        x = np.exp(found - sign * answer)
        return (x.mean() - 1) / (x.std(ddof=1) / np.sqrt(x.size))

    assert abs(z(log_z)) < Z
    # Broken twin: a fifth of a nat beside
    assert abs(z(log_z + 0.2)) > Z


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("clustering", "nested sampling"),
        ("binary", "nested sampling"),
        ("low rank", "nested sampling, 30 particles"),
    ],
)
def test_nested_sampling(kind, name):
    problem, log_z = solution(kind)
    found = estimates(ESTIMATORS[name].estimate, problem, 4 * 2000, 30)
    assert abs(found.mean() - log_z) < Z * found.std(ddof=1) / np.sqrt(30) + 0.02


def test_variational_bayes_is_exact_where_features_are_known():
    """Features of no width leave independent rows, which the mean field describes exactly."""
    model = Clustering(3, n=5, size=2, feature_scale=1e-6)
    problem = model.simulate(random_seed=1)
    found = estimates(variational, problem, 50, 1)[0]
    assert found == pytest.approx(exact(problem), abs=1e-6)


def test_bic():
    """With one cluster, the D features are the mean of the posterior."""
    problem = Clustering(1, n=6, size=2).simulate(random_seed=1)
    mean = problem.y.sum(axis=0) / 7
    ells = -np.log(2 * np.pi) * 6 - np.sum((problem.y - mean) ** 2) / 2
    (found,) = estimates(bic, problem, 4, 1)
    assert found == pytest.approx(ells - np.log(6), rel=1e-10)


def test_a_race():
    problem = Clustering(2, n=6, size=2).simulate(random_seed=1)
    entrants = ESTIMATORS | {"none": Estimator(lambda problem, budget, rng: (0.0, 1), np.mean)}
    truth = factor_models.anneal(problem, random_seed=1, progressbar=False)
    options = {"truth": truth, "budgets": [10, 40], "trials": 3, "random_seed": 1}
    result = factor_models.race(problem, entrants, **options)
    table = factor_models.standings(result)
    assert len(table) == 2 * len(entrants)
    assert abs(result.attrs["log_ml"] - exact(problem)) < 0.1
    row = table.loc["none", 40]
    assert row["rmse"] == row["combined"] == row["bias"] == -result.attrs["log_ml"]
    assert table["transitions"].loc["population"].tolist() == [10, 40]
    np.testing.assert_array_equal(
        result["log_ml"], factor_models.race(problem, entrants, **options)["log_ml"]
    )
    with pytest.raises(ValueError, match="trials: must be a whole number"):
        factor_models.race(problem, trials=0)


def test_a_truth_that_cannot_be_trusted_is_told(caplog):
    problem = Clustering(2, n=6, size=2).simulate(random_seed=1)
    options = {"estimators": {"AIS": ESTIMATORS["AIS"]}, "budgets": [2], "trials": 1}
    rough = factor_models.anneal(
        problem, chains=2, particles=1, temperatures=1, random_seed=1, progressbar=False
    )
    for truth, told in [(None, False), (rough, True)]:
        caplog.clear()
        factor_models.race(problem, truth=truth, random_seed=1, **options)
        assert ("truth of this race cannot be trusted" in caplog.text) == told


def test_observations_of_another_shape_are_refused():
    model = factor_models.Clustering(2, n=6, size=2)
    problem = model.simulate(random_seed=1)
    with pytest.raises(ValueError, match=r"^y: must have the model's shape \(6, 2\), got \(5, 2\)"):
        factor_models.Problem(model, problem.y[1:])
    with pytest.raises(ValueError, match=r"^rows: must have the model's shape"):
        factor_models.Problem(model, problem.y, problem.rows[1:])


def test_a_plot_has_the_errors_and_the_width_of_the_truth():
    """Two estimators of a log ML of 5, whose errors are known."""
    errors = np.array([[8.0, 2.0], [1.0, 0.01]])[..., None] * np.array([1.0, -1.0])
    seconds = np.broadcast_to(np.array([0.1, 1.0])[:, None], errors.shape)
    dims = ("estimator", "budget", "trial")
    values = {"log_ml": 5 + errors, "seconds": seconds, "transitions": 1000 * seconds}
    raced = xr.Dataset(
        {name: (dims, each) for name, each in values.items()},
        {"estimator": ["slow", "fast"], "budget": [100, 1000]},
        {"log_ml": 5.0, "error": 0.01, "lower": 4.9, "upper": 5.1},
    ).assign(combined=(dims[:2], 5 + errors[..., 0]))
    (ax,) = plot_race(raced).axes
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    np.testing.assert_allclose(lines["fast"], [1.0, 0.05])  # the smallest one shown
    np.testing.assert_allclose(lines["slow"], [8.0, 2.0])
    shaded = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    np.testing.assert_allclose(shaded.intervaly, [0.05, 0.2])
    assert len(plot_race({"a": raced, "b": raced}).axes) == 2
