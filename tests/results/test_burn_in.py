"""Reverse runs after several burn-ins show whether the longest is long enough."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc

with pm.Model() as MODEL:
    MU = pm.Normal("mu", 0, 0.5)
    pm.Normal("y", pm.Normal("x", MU, shape=5), 1.0, observed=[1.0, 2.0, 0.5, -0.3, 1.4])


def sampled(burn_in, held=6.0, datasets=20):
    """With μ held far from its posterior given the simulated data, and a slow kernel."""
    draws = xr.Dataset({"mu": (("chain", "draw"), np.full((1, 9), held))})
    idata = xr.DataTree.from_dict({"posterior": draws})
    return pm.sample_bdmc(
        MODEL, simulate=bdmc.FromHyperparameters(idata=idata, burn_in=burn_in, datasets=datasets),
        chains=4, temperatures=5, particles=1, path="prior", step="metropolis", real_data=False,
        random_seed=1, cores=1, progressbar=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def result():
    return sampled([0, 200, 400])


def test_the_last_burn_in_is_that_of_the_result():
    """All on the same data; the others leave its chains as they are, and have their own."""
    several, alone = (sampled(steps, datasets=3) for steps in ([0, 200, 400], 400))
    weights = several["burn_in"]["log_weight"]
    assert weights.sizes == {"burn_in": 3, "dataset": 3, "chain": 4}
    assert weights["burn_in"].values.tolist() == [0, 200, 400]
    np.testing.assert_array_equal(weights[-1], several["reverse"]["log_weight"])
    assert (weights[0].values != weights[2].values).mean() > 0.9
    assert several.attrs["burn_in"] == alone.attrs["burn_in"] == 400
    assert "burn_in" not in alone.children
    for group in ("forward", "reverse"):
        np.testing.assert_array_equal(several[group]["log_weight"], alone[group]["log_weight"])


def test_a_burn_in_that_is_too_short_is_seen(result):
    """And no effect where the start is plausible, α = 1e-3; several data sets are the clusters.

    In 50 seeds p of a start that is not was 7e-8 or less.
    """
    for dt, sees in ((result, True), (sampled([0, 200, 400], 0.2), False)):
        table = bdmc.burn_in_effect(dt)
        assert bool(table.attrs["pvalue"] < 1e-3) is sees
        assert bool(table.loc[0, "pvalue"] < 1e-3) is sees
        assert table.loc[200, "pvalue"] > 1e-3
        assert np.isnan(table.loc[400, "pvalue"])


def test_the_effect_is_clustered_by_data_set(result):
    weights = result["burn_in"]["log_weight"].values
    differences = (weights[0] - weights[-1]).mean(axis=1)
    row = bdmc.burn_in_effect(result).loc[0]
    assert row["difference"] == pytest.approx(differences.mean())
    assert row["error"] == pytest.approx(differences.std(ddof=1) / np.sqrt(20))
    assert row["upper_bound"] == pytest.approx(weights[0].mean())


def test_a_doubt_tells_that_the_longest_may_be_too_short(result):
    """If it differs from the one before it."""
    without = result.copy()
    without["burn_in"] = xr.DataTree(result["burn_in"].dataset.isel(burn_in=[0, 2]))
    for dt, told in ((without, True), (result, False)):
        assert ("depends on the burn-in: after 0 steps" in " ".join(bdmc.diagnose(dt))) is told


def test_one_burn_in_has_no_effect_to_show(result):
    with pytest.raises(ValueError, match="reverse runs after one burn-in only"):
        bdmc.burn_in_effect(xr.DataTree.from_dict({"reverse": result["reverse"].dataset}))
    with pytest.raises(ValueError, match=r"burn_in: several of them must increase, got \[5, 5\]"):
        bdmc.FromHyperparameters(burn_in=[5, 5])
    for wrong in ([], [10, 5], [-1, 5], [1.5, 2]):
        with pytest.raises(ValueError, match=r"^burn_in: "):
            bdmc.FromHyperparameters(burn_in=wrong)


@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly"])
def test_the_plot_has_the_differences_from_the_last_for_each_data_set(result, backend):
    pc = bdmc.plot_burn_in({"a": result, "b": result}, backend=backend)
    lines = pc.viz["line"]["log_weight"]
    assert lines.sizes == {"model": 2, "dataset": 20}
    if backend == "matplotlib":
        weights, line = result["burn_in"]["log_weight"].values.mean(axis=2), lines[0, 2].item()
        np.testing.assert_allclose(line.get_ydata(), weights[:, 2] - weights[-1, 2])
        np.testing.assert_allclose(line.get_xdata(), np.log10([1, 201, 401]))
