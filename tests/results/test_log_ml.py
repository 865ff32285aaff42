"""The first verbs: one number with an error that is the recommended one, or none."""

import re
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.models import repeated_normal
from tests.results.trees import Y, result


def test_log_ml_is_the_recommended_estimate_with_its_error():
    dt = result(-3.0)
    found = bdmc.log_ml(dt)
    row = bdmc.evidence(dt).loc[("real", 0, found.method)]
    assert row["recommended"]
    assert (found.value, found.error, found.valid) == (row["value"], row["error"], row["valid"])
    assert found.certified_lower == bdmc.certified(dt).loc[("real", 0), "lower"]
    assert found.certified_upper == np.inf
    assert float(found) == found.value
    assert f"{found.value:.3f} ± {found.error:.3f}" in repr(found)
    assert repr(found) in bdmc.verdict(dt).text
    with pytest.raises(ValueError, match="no finished runs on the real data"):
        bdmc.log_ml(dt.drop_nodes("real"))


def test_no_number_is_told_that_its_check_contradicts():
    wild = result(-3.0, n=8, sd=6.0)
    found = bdmc.log_ml(wild)
    assert not found.valid
    assert np.isnan([found.value, found.error]).all()
    assert "an average of 8 weights, at least 10 are needed" in found.reason
    assert np.isfinite(found.certified_lower)
    assert repr(found).startswith("No estimate of log ML can be trusted; it is certified")
    factor = bdmc.bayes_factor(result(-4.0), wild)
    assert not factor.valid
    assert np.isnan([factor.value, factor.error, factor.probability]).all()
    assert repr(factor).startswith("The Bayes factor is not known: the log ML of b cannot be")


def test_bayes_factor_is_what_compare_says():
    a, b = result(-3.0), result(-4.5)
    found, table = bdmc.bayes_factor(a, b), bdmc.compare({"a": a, "b": b})
    assert found.value == pytest.approx(-table.loc["b", "log_bayes_factor"])
    assert found.error == pytest.approx(table.loc["b", "bayes_factor_error"])
    assert found.probability == pytest.approx(table.loc["a", "probability"])
    assert abs(found.value - 1.5) < 4 * found.error
    assert f"{found.value:.3f} ± {found.error:.3f}" in repr(found)
    assert "odds" in repr(found)
    assert "odds" not in repr(bdmc.bayes_factor(a, result(-500.0)))
    assert bdmc.bayes_factor(b, a).value == -found.value
    with pytest.raises(ValueError, match="b: its data are not those of a"):
        bdmc.bayes_factor(a, result(y=Y[:5]))


def test_a_tree_carries_its_log_ml(schools_result):
    """Its mean over chains is what PyMC's own example of Bayes factors takes of this group."""
    found, attrs = bdmc.log_ml(schools_result), schools_result.attrs
    if found.valid:
        assert (attrs["log_ml"], attrs["log_ml_error"]) == (found.value, found.error)
    assert attrs["log_ml_certified_lower"] == found.certified_lower
    assert attrs["log_ml_units"] == "nats"
    stats = schools_result["sample_stats"]["log_marginal_likelihood"]
    assert stats.dims == ("chain",)
    np.testing.assert_array_equal(stats, np.full(4, found.value))


def test_arviz_asks_what_the_prior_and_an_observation_do():
    """After PyMC has added the groups that it needs, by the line in docs/using.md."""
    page = (Path(__file__).parents[2] / "docs" / "using.md").read_text()
    model = repeated_normal()
    dt = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    for call in re.findall(r"`(pm\.stats\.compute_\w+\(dt, model=model)\)`", page):
        eval(f"{call}, progressbar=False)", {"pm": pm, "dt": dt, "model": model})
    assert az.psense_summary(dt).loc["x", "likelihood"] > 0
    assert az.loo(dt).n_data_points == 4
