"""Reverse runs on the real data start from posterior draws of any sampler; what they find."""

import re
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.call.annealing import Annealing
from pymc_bdmc.results.checks.draws import both_sides
from tests.models import SIGMAS, Y_COUNTS, rates

SMALL = {"simulate": None, "path": "prior", "temperatures": 100}
SMALL |= {"random_seed": 2, "cores": 1, "progressbar": False}


def drawn(**draws):
    """A fit of two chains with these draws."""
    data = {}
    for name, values in draws.items():
        dims = ("chain", "draw", *(f"{name}_{i}" for i in range(np.ndim(values) - 1)))
        data[name] = (dims, np.reshape(values, (2, -1, *np.shape(values)[1:])))
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data)})


RATES = rates()
OPTIONS = {"chains": 32, "particles": 8, "temperatures": [10, 30], "simulate": bdmc.FromPrior(1)}


@cache
def right():
    """Draws of the posterior, and a result that is judged by them, beside exact simulated data."""
    model, posterior, _ = RATES
    draws = drawn(rate=posterior.rvs(800, random_state=1))
    return draws, pm.sample_bdmc(model, posterior=draws, **SMALL | OPTIONS)


def scores(dt):
    """Distances of two estimates from log ML, in their errors."""
    table = bdmc.evidence(dt).sort_index().loc[("real", 0)]
    return (abs(table["value"] - RATES[2]) / table["error"])[["forward average", "bar"]]


def assert_judged(dt, status):
    """By the call itself."""
    assert dt["agreement"].attrs["status"] == status
    assert set(dt["agreement"]["quantity"].values) == {"rate", "log p(θ, y)"}
    assert bdmc.verdict(dt).table.loc["draws", "status"] == status


def test_both_sides_find_the_known_answer():
    """By averages and by BAR, α = 6e-5 a comparison. All draws are judged too."""
    draws, dt = right()
    assert bdmc.evidence(dt).loc[("real", 0, "bar"), "valid"]
    assert (scores(dt) < SIGMAS).all()
    assert bdmc.diagnose(dt) == []
    assert_judged(dt, "good")
    assert bdmc.agreement(dt, draws, model=RATES[0]).text == dt["agreement"].attrs["text"]


@pytest.mark.parametrize("particles", [1, 8])
def test_draws_from_another_posterior_are_told(particles):
    """A population finds its way whatever it starts from; then the starts themselves tell."""
    wrong = drawn(rate=RATES[1].rvs(800, random_state=1) + 20)
    options = {"chains": 32, "temperatures": 30, "particles": particles}
    dt = pm.sample_bdmc(RATES[0], posterior=wrong, **SMALL | options)
    assert particles == 8 or scores(dt)["bar"] > SIGMAS
    assert "miss part of the posterior" in " ".join(bdmc.diagnose(dt))
    assert_judged(dt, "bad")


def test_runs_start_from_draws_spread_over_all_of_them():
    """All other runs are as without the draws."""
    draws, dt = right()
    alone = pm.sample_bdmc(RATES[0], **SMALL | OPTIONS)
    everything = draws["posterior"]["rate"].values.ravel()
    np.testing.assert_allclose(dt["real_starts"]["rate"], everything[12::25])
    assert dt["real_reverse"]["log_weight"].sizes == {"chain": 32}
    assert dt["rounds"]["real_reverse_log_weight"].sizes == {"round": 2, "real_chain": 32}
    for group in ("forward", "reverse", "real"):
        np.testing.assert_array_equal(dt[group]["log_weight"], alone[group]["log_weight"])


def test_nothing_that_rests_on_the_draws_is_certified(tmp_path):
    """Nor without the word heuristic, also after a file was read."""
    _, dt = right()
    table = bdmc.summary(dt).loc["real"]
    both = ["upper bound", "jeffreys bound", "evidence, reverse", "evidence, both"]
    assert table.loc[both, "kind"].str.contains("heuristic start").all()
    assert not table.loc[both[:2], "valid"].any()
    gap = dt["real_reverse"]["log_weight"].mean() - dt["real"]["log_weight"].mean()
    assert table.loc["jeffreys bound", "value"] == pytest.approx(float(gap))
    assert np.isfinite(bdmc.certified(dt)["upper"]).tolist() == [True, False]
    assert "from a heuristic start" in bdmc.evidence(dt).loc[("real", 0, "bar"), "reason"]
    dt.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as stored:
        assert bdmc.summary(stored).equals(bdmc.summary(dt))
    bdmc.plot_estimators(dt)
    bdmc.plot_work(dt)


def test_few_draws_are_not_judged_and_variables_of_no_use_are_named(caplog):
    """A fit to the same data is taken, in whatever type these are."""
    model, posterior, _ = RATES
    draws = posterior.rvs(8, random_state=1)
    fit = drawn(rate=draws, doubled=2 * draws)
    fit["observed_data"] = xr.Dataset({"y": ("unit", np.array(Y_COUNTS, float))})
    dt = pm.sample_bdmc(model, posterior=fit, **SMALL | {"chains": 4, "temperatures": 5})
    np.testing.assert_allclose(dt["real_starts"]["rate"], draws[1::2])
    assert "posterior: the model lacks its variables ['doubled']" in caplog.text
    assert "agreement" not in dt.children
    assert "8 draws are too few to judge" in caplog.text


def test_hyperparameters_come_from_the_same_draws(monkeypatch):
    monkeypatch.setattr(Annealing, "scouts", lambda *_: pytest.fail("scouts were sent"))
    model, posterior, _ = RATES
    draws = posterior.rvs(100, random_state=1)
    simulate = bdmc.FromHyperparameters("rate", datasets=2, burn_in=5)
    options = SMALL | {"simulate": simulate, "chains": 2, "particles": 1, "temperatures": 5}
    dt = pm.sample_bdmc(model, posterior=drawn(rate=draws), **options)
    assert np.isclose(draws, dt["simulated"]["rate"].values[:, None]).any(axis=1).all()


@cache
def two_modes():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10)
        modes = [pm.logp(pm.Normal.dist(mean, 0.5), x) for mean in (-5, 5)]
        pm.Potential("modes", pm.math.logaddexp(*modes))
    return model


RNG = np.random.default_rng(5)
MODE = RNG.normal(5, 0.5, 400)
BOTH_MODES = MODE * RNG.choice([-1, 1], 400)


@pytest.mark.parametrize(
    ("draws", "missed"),
    [(MODE, "are not from the posterior"), (BOTH_MODES, "")],
    ids=["one mode", "both modes"],
)
def test_what_draws_or_forward_runs_miss_is_told(draws, missed):
    """A mode that the draws lack; one that runs lack is in tests/results/test_which_side.py."""
    options = SMALL | {"particles": 8, "temperatures": 30, "chains": 16}
    dt = pm.sample_bdmc(two_modes(), posterior=drawn(x=draws), **options)
    told = [text for text in bdmc.diagnose(dt) if re.search("miss(es)? part of the post", text)]
    assert len(told) == bool(missed)
    assert not missed or missed in told[0]


def test_sound_runs_seldom_disagree():
    """Normal weights that obey Crooks' relation, 16 chains, α = 1e-3; twin: a gap twice as wide.

    The prediction's error is itself an estimate, so a few more are doubted than α says.
    """

    def pvalue(variance, gap, rng):
        groups = {}
        for group, mean in (("real", -gap / 2), ("real_reverse", gap / 2)):
            weights = ("chain", rng.normal(mean, np.sqrt(variance), 16))
            groups[group] = xr.Dataset(
                {"log_weight": weights, "prior_draws": ("chain", np.ones(16))}
            )
        return both_sides(xr.DataTree.from_dict(groups))[2]

    rng = np.random.default_rng(7)
    for variance in (0.05, 0.5, 4.0):
        assert sum(pvalue(variance, variance, rng) < 1e-3 for _ in range(150)) < 6
    assert np.median([pvalue(0.5, 3.0, rng) for _ in range(50)]) < 1e-3
