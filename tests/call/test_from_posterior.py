"""Calls whose simulated data contain the real ones: the default without hyperparameters."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc

OPTIONS = dict(random_seed=1, cores=1, progressbar=False)


@pytest.fixture(scope="module")
def counts():
    """Counts more spread than a Poisson distribution allows."""
    x = np.linspace(-1, 1, 30)
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.Poisson("y", pm.math.exp(b[0] + b[1] * x), observed=np.where(np.arange(30) % 2, 1, 30))
    return model


@pytest.fixture(scope="module")
def result(counts):
    return pm.sample_bdmc(counts, **OPTIONS)


def test_a_misfit_does_not_leave_good_draws_open(counts, result):
    """The same misfit leaves a verdict on data from the prior open."""
    assert (result.attrs["simulate"], result.attrs["upper_bound"]) == (
        "posterior",
        "posterior draw",
    )
    found = bdmc.verdict(result)
    assert found.status == "good"
    assert "Model: it does not fit your data, whose spread of y is " in found.brief
    assert "if those draws are right" in found.brief
    assert len(found.brief.splitlines()) <= 8
    assert found.table.loc["model", "status"] == ""
    table = bdmc.consistency(result)
    assert not {"log ML", "path length"} & set(table.index.get_level_values("quantity"))
    assert np.isnan(table.loc["log weights", "p_value"]).all()
    from_prior = bdmc.verdict(pm.sample_bdmc(counts, simulate="prior", **OPTIONS))
    assert from_prior.table.loc["model", "status"] == "open"
    assert 'pass simulate="posterior"' in from_prior.brief


def test_details_are_printed_on_demand(result):
    found = bdmc.verdict(result)
    assert repr(found) == found.brief != found.text == repr(bdmc.verdict(result, details=True))
    with pytest.raises(TypeError, match="details"):
        bdmc.verdict(result, details="all")


@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_draws_that_were_given_are_judged(counts, result, shift):
    """α = 5e-3 for `agreement`; draws that are six standard deviations off are the broken twin."""
    draws = result["posterior"].dataset[["b"]]
    moved = draws + shift * draws.std(("chain", "draw"))
    dt = pm.sample_bdmc(counts, simulate=bdmc.FromPosterior(moved), **OPTIONS)
    assert (bdmc.verdict(dt).status == "bad") == (shift > 0)
    assert (dt["agreement"].attrs["status"] == "bad") == (shift > 0)


def test_a_store_keeps_the_data_sets(counts, result, tmp_path):
    options = OPTIONS | dict(store=tmp_path / "run")
    first = pm.sample_bdmc(counts, **options)
    again = pm.sample_bdmc(counts, **options)
    for dt in (first, again):
        np.testing.assert_array_equal(dt["reverse"]["log_weight"], result["reverse"]["log_weight"])


def test_annealed_runs_are_on_both_data_sets():
    """Their log ML is that of both, within errors at α = 1e-4; that of one is the broken twin."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", shape=1), 1, observed=[0.5])
    dt = pm.sample_bdmc(
        model, path="prior", temperatures=60, chains=4, simulate="posterior", **OPTIONS
    )
    new = dt["simulated"]["y"].values
    both = np.concatenate([np.full_like(new, 0.5), new], axis=1)
    exact = stats.multivariate_normal([0, 0], np.eye(2) + 1).logpdf(both)
    for group in ("forward", "reverse"):
        found = dt[group]["log_weight"].values.mean(axis=1)
        for known, is_right in (
            (exact, True),
            (stats.norm(0, np.sqrt(2)).logpdf(new[:, 0]), False),
        ):
            apart = found - known
            z = apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)))
            assert (abs(z) < stats.norm.isf(5e-5)) == is_right


def test_step_methods_simulate_from_the_prior(counts):
    options = OPTIONS | dict(step=pm.Metropolis, temperatures=5, chains=2)
    dt = pm.sample_bdmc(counts, **options)
    assert (dt.attrs["simulate"], dt.attrs["upper_bound"]) == ("prior", "exact")
    for more in (dict(simulate="posterior"), dict(simulate=bdmc.FromPosterior(datasets=2))):
        with pytest.raises(ValueError, match=r"simulate: .* compiled kernels.*simulate='prior'"):
            pm.sample_bdmc(counts, **options | more)


def test_hyperparameters_are_held_if_there_are_any():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1, observed=[0.5])
    dt = pm.sample_bdmc(model, chains=2, temperatures=3, path="prior", **OPTIONS)
    assert dt.attrs["simulate"] == "hyperparameters"


def test_fits_of_arviz_are_taken(counts):
    draws = {"b": (("chain", "draw", "i"), np.full((2, 20, 2), [2.7, 0.0]))}
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})
    dt = pm.sample_bdmc(
        counts, simulate=bdmc.FromPosterior(tree, datasets=2), chains=2, temperatures=5, **OPTIONS
    )
    assert dt["simulated"].sizes["dataset"] == 2
    np.testing.assert_allclose(dt["simulated"]["b"], [[2.7, 0.0]] * 2)


def test_real_data_that_stand_out_are_contained():
    """By default only: the same call with the object leaves the verdict open."""
    x = np.linspace(-1, 1, 30)
    with pm.Model() as model:
        mean = pm.math.exp(pm.Normal("a") + pm.Normal("b") * x)
        pm.Poisson("y", mean, observed=np.where(np.arange(30) % 2, 1, 30))
    dt = pm.sample_bdmc(model, **OPTIONS)
    assert (dt.attrs["simulate"], dt.attrs["hyperparameters"]) == ("posterior", "")
    found = bdmc.verdict(dt)
    assert found.status == "good"
    assert "Model: it does not fit your data" in found.brief
    held = pm.sample_bdmc(model, simulate=bdmc.FromHyperparameters(), **OPTIONS)
    assert (held.attrs["simulate"], held.attrs["hyperparameters"]) == ("hyperparameters", "a, b")
    assert bdmc.verdict(held).table.loc["model", "status"] == "open"


@pytest.fixture(scope="module")
def overdispersed():
    """Counts that stand out by log ML, and not by spread or tails, which slopes make vary."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    rates = np.exp(0.5 + x @ [0.4, -0.3]) * rng.gamma(0.5, 2, 300)
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a") + pm.math.dot(x, pm.Normal("b", shape=2)))
        pm.Poisson("y", rate, observed=rng.poisson(rates))
    return model


def test_data_that_stand_out_by_log_ml_are_contained_in_a_second_round(overdispersed):
    """By default only: the same call with the object leaves the verdict open."""
    dt = pm.sample_bdmc(overdispersed, **OPTIONS)
    assert (dt.attrs["simulate"], dt.attrs["misfit"]) == ("posterior", "log ML")
    found = bdmc.verdict(dt)
    assert found.status == "good"
    assert "Model: it does not fit your data, whose log ML is 4" in found.brief
    assert dt.attrs["gradients_first_round"] > 1000
    assert "with the draw that the data are from on 20 of 20 data sets" in found.text
    assert bdmc.consistency(dt).loc["log ML", "value"].item() == dt.attrs["misfit_value"]
    held = pm.sample_bdmc(overdispersed, simulate=bdmc.FromHyperparameters(), **OPTIONS)
    assert held.attrs["simulate"] == "hyperparameters"
    assert bdmc.verdict(held).table.loc["model", "status"] == "open"


def test_a_store_keeps_both_rounds(overdispersed, tmp_path, caplog):
    """Called again, no task of either is run: their data sets are numbered one after the other."""
    first = pm.sample_bdmc(overdispersed, store=tmp_path / "runs", **OPTIONS)
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        again = pm.sample_bdmc(overdispersed, store=tmp_path / "runs", **OPTIONS)
    np.testing.assert_array_equal(again["forward"]["log_weight"], first["forward"]["log_weight"])
    stored = [line for line in caplog.messages if line.startswith("In the store: ")]
    assert stored.count("In the store: 104 of 104 tasks") == 2


def test_the_first_round_is_kept_if_the_second_is_interrupted(overdispersed):
    def stop_second(dt):
        if dt.attrs["simulate"] == "posterior":
            raise KeyboardInterrupt

    dt = pm.sample_bdmc(overdispersed, callback=stop_second, **OPTIONS)
    assert (dt.attrs["simulate"], dt.attrs["interrupted"]) == ("hyperparameters", 0)
