"""Draws of a model's variables: exact on the log scale, and as often as they are asked for."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

from pymc_bdmc.model import forward_sampling
from pymc_bdmc.model.tempered import TemperedDensity

QUICK = {"mode": Mode("py", "fast_run")}


def test_draws_survive_other_graphs_of_the_same_constants():
    """PyTensor writes to constants while it compiles the log density, which shares them."""
    with pm.Model() as model:
        scales = pm.HalfNormal.dist([5, 3], shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=1, sd_dist=scales)
        effects = pm.MvNormal("effects", np.zeros(2), chol=chol, shape=(4, 2))
        pm.Normal("y", effects.sum(axis=1), pm.HalfNormal("s"), observed=np.zeros(4))
    density = TemperedDensity(model, QUICK)
    density.check()
    for sampler in (density.prior, density.joint()):
        for _ in range(3):
            assert np.isfinite(sampler.draw()[0]["chol_cholesky-cov-packed__"]).all()
    density.prior.draw_many(5, np.random.default_rng(1))


def counts(rate):
    """A count whose log rate is normal, with a standard deviation of 40."""
    with pm.Model() as model:
        pm.Poisson("y", rate(pm.Normal("x", 0, 40)), observed=3)
    return TemperedDensity(model, QUICK)


def test_counts_that_no_integer_holds_are_drawn_again():
    """θ of the pairs that remain is normal up to the log of the largest count.

    Kolmogorov-Smirnov on 1000 draws, α = 1e-3; twin: the prior, which is not cut.
    """
    sampler = counts(pm.math.exp).joint()
    sampler.seed(np.random.default_rng(1))
    pairs = [sampler.draw_supported() for _ in range(1000)]
    logs = np.array([point["x"] for point, _, _ in pairs])
    assert max(trials for *_, trials in pairs) > 1
    assert all(0 <= data["y"] <= 2**53 for _, data, _ in pairs)
    assert stats.kstest(logs, stats.truncnorm(-np.inf, np.log(2.0**53) / 40, 0, 40).cdf)[1] > 1e-3
    assert stats.kstest(logs, stats.norm(0, 40).cdf).pvalue < 1e-3


def test_data_that_never_fit_are_named(monkeypatch):
    monkeypatch.setattr(forward_sampling, "MOST_TOO_LARGE", 20)
    sampler = counts(lambda x: pm.math.exp(300 + 0 * x)).joint()
    with pytest.raises(ValueError, match=r"20 draws of the model.*simulate=Given"):
        sampler.draw_supported()


def test_free_counts_that_no_integer_holds_are_an_error():
    """To draw them again would cut their prior."""
    with pm.Model() as model:
        z = pm.Poisson("z", pm.math.exp(pm.Normal("x", 0, 40)))
        pm.Normal("y", z, observed=3.0)
    sampler = TemperedDensity(model, QUICK).joint()
    with pytest.raises(ValueError, match="z: it cannot be drawn"):
        [sampler.draw_supported() for _ in range(100)]
