"""What the weights of runs on the real data show."""

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.results.checks.missed import short_on_simulated
from tests.results.test_consistency import runs
from tests.results.test_verdict import SETS


def test_real_weights_estimate_the_total_variation():
    """Weights 1/2 and 3/2 in equal numbers lack a quarter; even ones lack nothing."""
    dt = runs(**SETS)
    weights = np.tile(np.log([0.5, 1.5]), dt["real"].sizes["chain"] // 2)
    dt["real"]["log_weight"][:] = weights
    row = bdmc.verdict(dt).table.loc["real weights"]
    assert row["value"] == pytest.approx(0.25)
    assert 0 < row["error"] < 0.1
    assert row["status"] == ""
    dt["real"]["log_weight"][:] = 0.0
    assert bdmc.verdict(dt).table.loc["real weights", ["value", "error"]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("simulate", ["posterior", "hyperparameters"])
def test_runs_on_more_data_show_what_the_real_data_hide(simulate):
    """Also if other data may just be harder. The twin has runs that differ alike."""
    dt = runs(sd=0.7, real_sd=0.01, datasets=20, n=8)
    dt.attrs |= {"simulate": simulate, "upper_bound": "posterior draw"}
    sets = bdmc.verdict(dt).table.loc["total variation", "value"]
    own = bdmc.verdict(dt).table.loc["real weights", "value"]
    assert sets > own + 0.1
    of_five = np.sqrt(1 / 5 + 1 / 4) * own  # of 8 runs, means of 5 are compared with those of 4
    assert short_on_simulated(dt) == pytest.approx(-np.log1p(of_five - sets))
    dt = runs(**SETS)
    dt.attrs |= {"simulate": simulate, "upper_bound": "posterior draw"}
    assert short_on_simulated(dt) < 0.05
