"""The result is an ArviZ DataTree: named, labelled, and whole after a round trip."""

from dataclasses import replace

import arviz_plots
import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import softmax

import pymc_bdmc as bdmc
from pymc_bdmc.results import write
from pymc_bdmc.run.recorder import Recorder
from tests.models import Y_SCHOOLS, interpreted
from tests.results.trees import particles


def test_groups_and_dimensions(schools_result):
    dt = schools_result
    assert set(dt.children) == {
        "forward", "reverse", "real", "particles", "posterior", "sample_stats", "simulated",
        "observed_data", "rounds",
    }  # fmt: skip
    for group, more in (("forward", ["dataset"]), ("reverse", ["dataset"]), ("real", [])):
        run = dt[group]
        assert run["log_weight"].dims == (*more, "chain")
        for name in ("log_likelihood_path", "log_likelihood_sd", "acceptance", "step_size"):
            assert run[name].dims == (*more, "beta")
        assert np.isnan(run["acceptance"][..., 0]).all()
        assert run["acceptance"][..., 1:].min() >= 0
        assert run.attrs["gradient_evaluations"] > 0
        assert run.attrs["infinite_weights"] == 0
        # Log weights are the weighted path.
        from_path = run["log_likelihood_path"].values[..., :-1] @ np.diff(run["beta"])
        np.testing.assert_allclose(from_path, run["log_weight"].mean("chain"), rtol=1e-12)
    np.testing.assert_array_equal(dt["observed_data"]["y"], Y_SCHOOLS)
    assert dt["simulated"]["y"].dims == ("dataset", "school")
    assert set(dt["simulated"].data_vars) == {"mu", "tau", "z", "y"}


def test_posterior_is_named_and_shaped_as_the_model(schools_result):
    posterior, own = schools_result["posterior"], schools_result["particles"]
    assert list(posterior.data_vars) == ["mu", "tau", "z", "theta"]
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert posterior["school"].values.tolist() == list("ABCDEFGH")
    theta = posterior["mu"] + posterior["tau"] * posterior["z"]
    np.testing.assert_allclose(posterior["theta"], theta)
    weights = softmax(schools_result["real"]["log_weight"].values)
    assert own["theta"].dims == ("chain", "particle", "school")
    np.testing.assert_allclose(own["bdmc_weight"].sum("particle"), weights)
    assert "weight" not in " ".join(arviz_stats.summary(schools_result, kind="stats").index)


@pytest.fixture(scope="module")
def small_result():
    """A scale and a labelled vector under names as Bambi gives them, on the real data."""
    with pm.Model(coords={"g,factor": ["u", "v"]}) as model:
        scale = pm.HalfNormal("1|g_sigma")
        effect = pm.Normal("1|g,i4", 0, scale, dims="g,factor")
        pm.Normal("y:1 [log]", effect, 1, observed=[0.5, 1.0], dims="g,factor")
    return pm.sample_bdmc(
        model, chains=8, temperatures=20, path="prior", simulate=None, random_seed=1, cores=1,
        progressbar=False,
    )  # fmt: skip


def test_arviz_plots_and_reduces_the_posterior(small_result, tmp_path):
    small_result.to_netcdf(tmp_path / "result.nc")
    arviz_plots.plot_trace(small_result)
    arviz_plots.plot_pair(xr.load_datatree(tmp_path / "result.nc"))
    plt.close("all")
    posterior, scale = small_result["posterior"], "1|g_sigma"
    assert posterior.sizes["chain"] == 4
    assert small_result["particles"].attrs["sample_dims"] == ["chain", "particle"]
    table = arviz_stats.summary(small_result)
    assert list(table.index) == [scale, "1|g,i4[u]", "1|g,i4[v]"]
    assert (table["r_hat"].astype(float) < 1.1).all()
    assert arviz_stats.ess(small_result)[scale] > posterior[scale].size / 2


class InOrder:
    """A generator that deals draws to the chains in the order of the runs."""

    def random(self):
        return 0.5

    def permutation(self, places):
        return places


def test_the_four_chains_are_parts_of_one_sample():
    """Half of the runs are in each of two modes, and every particle has the same weight.

    Split R̂ of independent draws is sqrt(1 + (F − 1) / 50), F with 7 and 392 degrees of freedom:
    α = 1e-6 at 1.05. ESS has a standard error of about 10 %. Twin: draws dealt in the order of the
    runs.
    """
    rng = np.random.default_rng(3)
    states = np.repeat([-5.0, 5.0], 50)[:, None] + rng.normal(size=(100, 4))
    group = particles(x=states)
    for generator, is_mixed in ((rng, True), (InOrder(), False)):
        posterior = write.posterior_dataset(group, np.full(100, 4.0), generator)
        assert posterior.sizes == {"chain": 4, "draw": 100}
        x = posterior["x"].values
        assert np.unique(x).size == 400
        assert (arviz_stats.rhat(x, method="split") < 1.05) == is_mixed
        assert (arviz_stats.ess(x) > 200) == is_mixed


@pytest.mark.parametrize(("worth", "draws"), [(1, 1), (3, 1), (7, 1), (8, 2), (30, 7)])
def test_draws_are_the_effective_number_rounded_down_to_fours(worth, draws):
    weights = np.where(np.arange(40) < worth, 1 / worth, 0.0)[:, None]
    group = particles(weights, x=np.arange(40.0)[:, None])
    posterior = write.posterior_dataset(group, np.ones(40), np.random.default_rng(1))
    assert posterior.sizes == {"chain": 4, "draw": draws}
    assert posterior["x"].max() < worth


def plain(ds):
    return ds.drop_attrs()


@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
def test_round_trip(schools_result, tmp_path):
    path, table = tmp_path / "result", bdmc.summary(schools_result)
    schools_result.to_netcdf(path.with_suffix(".nc"))
    schools_result.to_zarr(path.with_suffix(".zarr"))
    with xr.open_datatree(path.with_suffix(".zarr"), engine="zarr") as opened:
        for back in (xr.load_datatree(path.with_suffix(".nc")), opened.load()):
            assert back.attrs["schedule"] == "sigmoid(delta=4)"
            assert back.map_over_datasets(plain).identical(schools_result.map_over_datasets(plain))
            assert bdmc.summary(back).equals(table)


def test_models_with_masked_discrete_and_matrix_variables():
    with pm.Model(coords={"k": ["u", "v"]}) as model:
        z = pm.Bernoulli("z", 0.5, dims="k")
        w = pm.Normal("w", shape=(2, 2))
        y = np.ma.masked_invalid([0.5, np.nan])
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Normal("y", (w * z).sum(axis=1), 1.0, observed=y, dims="k")
    with interpreted():
        dt = pm.sample_bdmc(
            model, chains=3, particles=1, temperatures=3, path="prior", simulate=bdmc.FromPrior(1),
            random_seed=1, cores=1, progressbar=False,
        )  # fmt: skip
    assert dt["posterior"]["z"].dtype.kind == "i"
    assert dt["particles"]["w"].shape == (3, 2, 2, 2)  # one more move of the only particle
    assert dt["posterior"]["y"].dims == ("chain", "draw", "k")
    assert set(dt["simulated"].data_vars) == {"z", "w", "y_unobserved", "y_observed"}


def test_counts_of_different_lengths_end_in_nan():
    stacked = write._stacked([np.ones(2), np.ones((2, 3))])
    np.testing.assert_array_equal(stacked[0], [[1, np.nan, np.nan]] * 2)
    np.testing.assert_array_equal(stacked[1], np.ones((2, 3)))


def test_moves_to_the_other_side_of_the_mean_add_no_draws():
    """Their squares stay. The twin has sixteen sweeps of independent states."""
    rng, shares = np.random.default_rng(7), np.full((16, 16 * 32), 1 / (16 * 16 * 32))
    size, sign = abs(rng.normal(size=(16, 1, 32))), rng.choice([-1, 1], size=(16, 16, 32))
    mirrored = {"x": (size * sign).reshape(-1, 1)}
    assert write._autocorrelation_time(mirrored, shares, 16) > 15
    independent = {"x": rng.normal(size=(16 * 16 * 32, 1))}
    assert write._autocorrelation_time(independent, shares, 16) < 2


def test_a_data_set_without_a_finished_run_stands_beside_others():
    """As Ctrl-C leaves it, in whatever order they are."""
    betas = np.linspace(0, 1, 3)
    none = Recorder(2, betas).collected(np.ones(3))
    sizes, rows = {"effective_size": np.ones(3)}, {"row_log_weight": np.ones((2, 5))}
    some = replace(none, by_chain=none.by_chain | rows, by_beta=none.by_beta | sizes)
    for runs in ([some, none], [none, some]):
        found = write.annealing_dataset(runs, betas)
        sizes = found["effective_size"].isel(dataset=runs.index(none))
        assert sizes.isnull().all()
        assert found["effective_size"].notnull().any()
        rows = found["row_log_weight"].isel(dataset=runs.index(none))
        assert rows.isnull().all()
