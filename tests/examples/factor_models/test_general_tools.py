"""The questions of benchmarks/general_tools.py to general tools, and its use of their answers."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from factor_models import LowRank
from factor_models.rows import log_row_marginals
from scipy.stats import multivariate_normal

from tests.models import interpreted

Z = 4.5  # two-sided α = 7e-6


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    return importlib.import_module("general_tools")


def test_the_loadings_are_integrated_out(tools):
    low_rank = LowRank(2, n=3, size=4, row_scale=1.4, feature_scale=1.3, noise=0.8)
    problem, rng = low_rank.simulate(random_seed=1), np.random.default_rng(2)
    model, features = tools.integrated(problem), rng.normal(size=(2, 4))
    with interpreted():
        likelihood = model.compile_fn(model.datalogp, inputs=model.value_vars)
    exact = log_row_marginals(low_rank.factors, features, problem.y, rng)
    assert float(likelihood({"features": features})) == pytest.approx(exact, rel=1e-10)


def test_lower_bound(tools, monkeypatch):
    """The bound is below a known log ML by exactly the Kullback-Leibler divergence."""
    monkeypatch.setattr(tools, "DRAWS", 2000)
    mean, covariance = np.array([1.0, -2.0]), np.array([[1.0, 0.6], [0.6, 0.5]])

    def log_joint(x):
        return 3.0 + multivariate_normal.logpdf(x, mean, covariance)

    assert tools.lower_bound(log_joint, mean, covariance, 1) == pytest.approx(3, rel=1e-10)
    diagonal = np.diag(1 / np.linalg.inv(covariance).diagonal())
    divergence = -np.log(np.linalg.det(diagonal) / np.linalg.det(covariance)) / 2
    # z'(D^½ C⁻¹ D^½ - I)z / 2 has the variance of half the squares of the off-diagonal elements
    sd = np.abs(np.sqrt(diagonal) @ np.linalg.inv(covariance) @ np.sqrt(diagonal))[0, 1]
    found = tools.lower_bound(log_joint, mean, diagonal, 1)
    assert abs(found - (3 - divergence)) < Z * sd / np.sqrt(tools.DRAWS)
    # Broken twin: the correlated normal's entropy
    assert abs(found - 3) > Z * sd / np.sqrt(tools.DRAWS)
