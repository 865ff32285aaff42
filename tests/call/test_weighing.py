"""Calls that need no annealing: when they are made, what they find, and what they cost."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.call import prepare
from pymc_bdmc.call.importance import ImportanceSampling
from pymc_bdmc.call.options import Options
from pymc_bdmc.estimators import total_variation
from pymc_bdmc.fits.draws import DrawTuning
from pymc_bdmc.fits.fit import Fit
from pymc_bdmc.paths import FittedPath, PriorPath
from tests.models import SD_SCHOOLS, SIGMAS, Y_SCHOOLS, centred_schools, small_regression

QUICK = {"random_seed": 3, "progressbar": False}


MODEL, LOG_ML = small_regression()


@pytest.fixture(scope="module")
def default():
    return pm.sample_bdmc(MODEL, cores=2, **QUICK)


def test_a_normal_posterior_is_not_annealed(default):
    """And log ML is right; two-sided α = 6e-5. Bits are the same for any number of cores."""
    assert default["real"].sizes["beta"] == 2
    assert default.attrs["path_reason"].startswith("16 optimisations found 1 mode")
    row = bdmc.evidence(default).query("data == 'real' and recommended").iloc[0]
    assert abs(row["value"] - LOG_ML) < SIGMAS * row["error"]
    assert row["error"] < 0.05
    assert bdmc.verdict(default).status == "good"
    again = pm.sample_bdmc(MODEL, cores=1, **QUICK)
    for group in ("real", "forward", "reverse"):
        assert np.array_equal(again[group]["log_weight"], default[group]["log_weight"])


def test_cost_by_stage(default):
    """A weighed draw is one evaluation, and so is a further move on the real data.

    A fit takes up to 650 evaluations on each of 21 data sets, and 4096 prior draws on the first.
    The draws are worth 1000.
    """
    n, sizes = default.attrs["particles"], {}
    sweeps = {"real": default["particles"].attrs["sweeps"], "forward": 1, "reverse": 1}
    for group, times in sweeps.items():
        sizes[group] = default[group].attrs["gradient_evaluations"]
        assert sizes[group] == n * default[group]["log_weight"].size * times
    assert default["posterior"]["draw"].size * default["posterior"]["chain"].size > 1000
    assert default.attrs["gradients_fit"] > 0
    assert "gradients_pilot" not in default.attrs
    assert default.attrs["gradients_fit"] < 4096 + 21 * 650
    assert sum(sizes.values()) < 7000


@pytest.mark.parametrize(
    "asked", [{"path": PriorPath()}, {"temperatures": 20}, {"step": "nuts"}, {"target_gap": 1.0}]
)
def test_whoever_asks_for_annealing_gets_it(asked):
    assert Options(model=None).may_skip_annealing
    assert not Options(model=None, **asked).may_skip_annealing


def test_simulated_data_alone_from_fitted_hyperparameters():
    """The fit to the real data gives hyperparameters, though no run is on these data."""
    options = {"simulate": bdmc.FromHyperparameters(datasets=2), "real_data": False, "chains": 2}
    dt = pm.sample_bdmc(centred_schools(), **options, **QUICK)
    assert "real" not in dt.children
    assert dt["forward"].sizes["dataset"] == 2
    assert dt.attrs["gradients_scouts"] > 0
    distances = dt["reverse"]["start_distance"]
    assert distances.dims == ("dataset", "chain")
    assert ((distances >= 0) & (distances < 0.1)).all()


def test_memory_for_many_runs_is_looked_for(monkeypatch):
    """Their number is known after the fit only; nothing is sampled."""

    def refuse_many(n_bytes, **sizes):
        if sizes["chains"] > 64:
            raise ValueError(f"{sizes['chains']} runs")

    monkeypatch.setattr(prepare, "check_memory", refuse_many)
    with pytest.raises(ValueError, match="4096 runs"):
        pm.sample_bdmc(MODEL, simulate=None, target_error=1e-6, **QUICK)


def funnel():
    """Centred effects whose prior has a kink at its mode, so no reference is normal in them."""
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 5), pm.HalfCauchy("scale", 5)
        effect = pm.Laplace("effect", mean, scale, shape=8)
        pm.Normal("y", effect, SD_SCHOOLS, observed=Y_SCHOOLS)
    return model


def test_draws_that_are_no_fit_are_annealed(monkeypatch):
    """So uneven are their weights, on average over the data sets; more particles make up for it."""
    options = SimpleNamespace(particles=None)
    weighing = ImportanceSampling(SimpleNamespace(options=options, engine=None, entropy=1), None)
    first = Fit(DrawTuning(None, np.zeros(2), np.zeros(1), 0, 1.0), "", 1.0, 0)
    for variances, is_near in (((2.0, 300.0), False), ((3.0, 10.0), True)):
        fits = {d: first._replace(variance=v) for d, v in enumerate(variances, start=1)}
        monkeypatch.setattr(weighing, "_run", lambda tasks, stage, fits=fits: fits)
        weighing._fits = {0: first}
        refusal = weighing._fit_others({d: {} for d in range(3)})
        assert (refusal is None) == is_near
        assert is_near or "relative variances up to 3e+02" in refusal.reason
    assert weighing.size({}, FittedPath()) == (1, 234)


def test_draws_that_are_a_fit_are_weighed_in_both_directions(default):
    """As many runs either way, and log ML from both is right; two-sided α = 6e-5."""
    path = FittedPath(xr.DataTree.from_dict({"posterior": default["posterior"].dataset}))
    dt = pm.sample_bdmc(MODEL, path=path, simulate=None, **QUICK)
    assert dt["real"].sizes["beta"] == 2
    assert dt["real"].sizes["chain"] == dt["real_reverse"].sizes["chain"] == 16
    assert "gradients_pilot" not in dt.attrs
    row = bdmc.evidence(dt).query("recommended").iloc[0]
    assert abs(row["value"] - LOG_ML) < SIGMAS * row["error"]
    with pytest.raises(ValueError, match="target_error: with posterior draws"):
        pm.sample_bdmc(MODEL, path=path, simulate=None, target_error=0.1)


def test_draws_that_are_no_fit_are_left_out_of_the_path(default):
    """400 deviations off: climbs make the fit, log ML is right, and the draws are called bad."""
    draws = default["posterior"].dataset
    far = draws + 400 * draws.std(("chain", "draw"))
    dt = pm.sample_bdmc(MODEL, path=FittedPath(far), simulate=None, **QUICK)
    assert dt.attrs["path_reason"].startswith("a fit to the draws that were given is far")
    assert "gradients_pilot" not in dt.attrs
    row = bdmc.evidence(dt).loc[("real", 0, "forward average")]
    assert abs(row["value"] - LOG_ML) < SIGMAS * row["error"]
    assert dt["agreement"].attrs["status"] == "bad"


def test_a_funnel_is_annealed_with_or_without_draws(caplog):
    """No t distribution is near it; reverse runs from the draws would cost as much again."""
    caplog.set_level("INFO", logger="pymc.bdmc")
    options = dict(simulate=None, chains=16, **QUICK)
    default = pm.sample_bdmc(funnel(), **options)
    assert "Annealing is needed: no mode" in caplog.text
    assert default["real"].sizes["beta"] > 30
    assert default.attrs["unreached"] == "effect"
    assert default.attrs["gradients_fit"] > 0
    path = FittedPath(default["posterior"].dataset)
    dt = pm.sample_bdmc(funnel(), path=path, **options)
    assert "The path is chosen as if none were given." in caplog.text
    assert not {"real_reverse", "real_starts"} & set(dt.children)
    xr.testing.assert_identical(dt["real"]["log_weight"], default["real"]["log_weight"])
    assert dt["agreement"].attrs["status"] != "bad"


def test_the_number_of_runs_follows_the_target_and_is_limited_without(caplog):
    for target, chains in ((None, 40), (0.1, 16), (0.01, 1000)):
        assert Options(model=None, target_error=target).enough_chains(0.1, 16) == chains
    assert Options(model=None, chains=5).enough_chains(1.0, 16) == 5
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        assert Options(model=None).enough_chains(1.0, 16) == 48
    assert "an error of about 0.14 nats with 48 runs; pass target_error" in caplog.text


def test_runs_that_no_number_averages_are_no_more_than_usual(caplog):
    """Twin: 4096 of a lower variance."""
    caplog.set_level("INFO", logger="pymc.bdmc")
    options = Options(model=None, target_error=0.01)
    assert [options.enough_chains(v, 16) for v in (9.0, 11.0)] == [4096, 48]
    assert "an error of about 0.48 nats with 48 runs; more are no remedy" in caplog.text


def test_noisy_runs_on_simulated_data_are_as_many_as_certify():
    """100 calls at a variance, α = 1e-4; of these two runs certify 0.25 in few."""
    options = Options(model=None, simulate=bdmc.FromPrior())
    assert [options.enough_simulated_chains(v) for v in (0.0, 0.01, 0.09, 1.0)] == [2, 2, 6, 2]
    assert replace(options, chains=5).enough_simulated_chains(0.09) == 5
    assert replace(options, target_gap=0.1).enough_simulated_chains(0.09) == 2
    rng = np.random.default_rng(1)

    def certified(variance, chains):
        means = np.array([-variance / 2, variance / 2])[:, None, None]
        calls = means + np.sqrt(variance) * rng.normal(size=(100, 2, 20, chains))
        return np.mean([total_variation(*call).upper <= 0.25 for call in calls])

    for variance, chains in ((0.033, 2), (0.09, 6), (0.26, 16)):
        assert options.enough_simulated_chains(variance) == chains
        assert certified(variance, chains) > 0.8
        assert chains == 2 or certified(variance, 2) < 0.5


def test_errors_by_target_are_honest():
    """Over 9 seeds z² of log ML has the mean of a chi-square; α = 1e-3, two-sided.

    The twin states a sixth of each error, so it is seen wherever the errors pass. The target itself
    is met up to chance.
    """
    options = QUICK | {"simulate": None, "target_error": 0.02}
    found = [bdmc.log_ml(pm.sample_bdmc(MODEL, **options | {"random_seed": k})) for k in range(9)]
    errors = np.array([each.error for each in found])
    z = (np.array([each.value for each in found]) - LOG_ML) / errors
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], 9) / 9
    assert low < np.mean(z**2) < high < np.mean((6 * z) ** 2)
    assert np.median(errors) < 1.2 * 0.02
