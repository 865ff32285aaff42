"""Whether draws are of a posterior, by the score at them; α = 0.001 for a test of right draws."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.results import score
from pymc_bdmc.results.score import _extreme
from tests.models import black_box, discrete_mixture, hard_constraint, rates

D = 5
LABELS = np.array(list("abcde"))
ROOT = np.random.default_rng(3).normal(size=(D, D)) / 2 + 0.5 * np.eye(D)
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def normal(rng, n=1000):
    z = rng.normal(size=(n, D))
    return z @ ROOT.T


def autocorrelated(rng):
    z = rng.normal(size=(4000, D))
    for i in range(1, len(z)):
        z[i] = 0.7 * z[i - 1] + np.sqrt(1 - 0.7**2) * z[i]
    return z @ ROOT.T


def of_normal(x):
    return -x @ PRECISION


def funnel(rng):
    v = 1.5 * rng.normal(size=(1000, 1))
    return np.hstack([v, rng.normal(size=(1000, D - 1)) * np.exp(v / 2)])


def of_funnel(x):
    v, rest = x[:, :1], x[:, 1:]
    squares = (rest**2 * np.exp(-v)).sum(axis=1, keepdims=True)
    return np.hstack([-v / 1.5**2 - (D - 1) / 2 + squares / 2, -rest * np.exp(-v)])


def log_gamma(rng):
    return np.log(rng.gamma(1.1, size=(1000, D))) + np.log(rng.random((1000, D))) / 0.1


RIGHT = {
    "normal": (normal, of_normal),
    "few": (lambda rng: normal(rng, 400), of_normal),
    "autocorrelated": (autocorrelated, of_normal),
    "t3": (lambda rng: rng.standard_t(3, (1000, D)), lambda x: -4 * x / (3 + x**2)),
    "skewed": (log_gamma, lambda x: 0.1 - np.exp(x)),
    "funnel": (funnel, of_funnel),
}


def rejected(draw, gradient, times):
    found = [draw(np.random.default_rng(seed)) for seed in range(times)]
    return sum(bool(_extreme(x, gradient(x), LABELS)) for x in found)


@pytest.mark.parametrize("name", RIGHT)
def test_right_draws_pass(name):
    """More than one of 40 has a probability of 8e-4."""
    assert rejected(*RIGHT[name], 40) <= 1


def test_rare_draws_count(monkeypatch):
    """Without what chance may leave out, skewed draws are refuted too often: the broken twin."""
    monkeypatch.setattr(score, "most_missed", lambda *_: 0.0)

    def draw(rng):
        return np.log(rng.gamma(1.02, size=(400, D))) + np.log(rng.random((400, D))) / 0.02

    assert rejected(draw, lambda x: 0.02 - np.exp(x), 100) > stats.binom.isf(1e-4, 100, 1e-3)


WRONG = {
    "narrow": (lambda rng: 0.9 * normal(rng), of_normal),
    "narrower": (lambda rng: 0.8 * normal(rng), of_normal),
    "wide": (lambda rng: 1.3 * normal(rng), of_normal),
    "mean field": (
        lambda rng: rng.normal(size=(1000, D)) / np.sqrt(np.diag(PRECISION)), of_normal,
    ),
    "another prior": (normal, lambda x: of_normal(x) - 0.3 * x),
    "shifted": (
        lambda rng: normal(rng) + 0.25 * np.linalg.norm(ROOT[0]) * np.eye(D)[0], of_normal,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_draws_are_seen(name):
    assert rejected(*WRONG[name], 20) >= 19


def drawn(**values):
    return xr.Dataset({k: (("chain", "draw"), v.reshape(4, -1)) for k, v in values.items()})


def test_the_score_of_a_model():
    """Twins: draws of other data."""
    model, posterior, _ = rates()
    right = posterior.rvs(2000, random_state=1)
    assert bdmc.score_test(drawn(rate=right), model).status == "good"
    wrong = bdmc.score_test(drawn(rate=1.2 * right), model)
    assert wrong.status == "bad"
    assert "the score" in repr(wrong)
    assert "rate" in repr(wrong)
    assert "Were data or priors changed" in repr(wrong)


def test_it_is_open_where_the_score_tells_nothing(monkeypatch):
    """At a hard constraint right draws fail the moments; twin: without the search for jumps."""
    model, _ = hard_constraint()
    x = stats.truncnorm.rvs(0.75 / 0.5**0.5, 99, 0.25, 0.5**0.5, size=2000, random_state=1)
    assert "jumps" in repr(bdmc.score_test(drawn(x=x), model))
    monkeypatch.setattr(score, "_jumps", lambda *_: False)
    assert bdmc.score_test(drawn(x=x), model).status == "bad"
    model, _ = black_box()
    z = np.random.default_rng(1).normal(size=400)
    assert bdmc.score_test(drawn(mean=3 + z, log_sd=z), model).status == "open"
    model, _ = discrete_mixture()
    z = xr.Dataset({"z": (("chain", "draw", "row"), np.zeros((4, 100, 4), int))})
    assert bdmc.score_test(z, model).status == "open"
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=1.0)
    assert "too few" in repr(bdmc.score_test(drawn(x=np.zeros(8)), model))
