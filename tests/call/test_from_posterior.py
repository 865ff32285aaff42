"""Calls whose simulated data contain the real ones: without hyperparameters, or after a misfit."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc import FromHyperparameters, FromPosterior, FromPrior, sampling
from pymc_bdmc.simulations import HyperparametersIfAlike
from tests.call.test_sampling import normal_model
from tests.models import rates

OPTIONS = {"random_seed": 1, "cores": 1, "progressbar": False}


COUNTS = rates((0, 200, 0, 200))[0]
"""Counts more spread than a Poisson distribution allows."""


@cache
def result():
    return pm.sample_bdmc(COUNTS, **OPTIONS)


def test_a_misfit_does_not_leave_good_draws_open():
    """By default only: a verdict on data from the prior is open."""
    dt = result()
    assert (dt.attrs["simulate"], dt.attrs["upper_bound"]) == ("posterior", "posterior draw")
    assert dt.attrs["hyperparameters"] == ""
    found = bdmc.verdict(dt)
    assert found.status == "good"
    assert "Model: it does not fit your data, whose spread of y is " in found.brief
    assert "if those draws are right" in found.brief
    assert len(found.brief.splitlines()) <= 8
    assert found.table.loc["model", "status"] == ""
    table = bdmc.consistency(dt)
    assert not {"log ML", "path length"} & set(table.index.get_level_values("quantity"))
    assert np.isnan(table.loc["log weights", "p_value"]).all()
    from_prior = bdmc.verdict(pm.sample_bdmc(COUNTS, simulate="prior", **OPTIONS))
    assert from_prior.table.loc["model", "status"] == "open"
    assert 'pass simulate="posterior"' in from_prior.brief


def test_draws_that_were_given_are_judged():
    """These are six standard deviations off."""
    draws = result()["posterior"].dataset[["rate"]]
    moved = draws + 6 * draws.std(("chain", "draw"))
    dt = pm.sample_bdmc(COUNTS, simulate=FromPosterior(moved, datasets=2), **OPTIONS)
    assert bdmc.verdict(dt).status == dt["agreement"].attrs["status"] == "bad"


def test_annealed_runs_are_on_both_data_sets():
    """Their log ML is that of both, within errors at α = 1e-4; that of one is the broken twin."""
    simulate = FromPosterior(datasets=10)
    options = {"path": "prior", "temperatures": 60, "chains": 4, "simulate": simulate}
    dt = pm.sample_bdmc(normal_model(), **options, **OPTIONS)
    new = dt["simulated"]["y"].values
    both = np.column_stack([np.full_like(new, 0.5), new])
    right = stats.multivariate_normal([0, 0], np.eye(2) + 1).logpdf(both)
    wrong = stats.norm(0, np.sqrt(2)).logpdf(new)
    for group in ("forward", "reverse"):
        for known, is_right in ((right, True), (wrong, False)):
            apart = dt[group]["log_weight"].values.mean(axis=1) - known
            z = apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)))
            assert (abs(z) < stats.norm.isf(5e-5)) == is_right


def test_hyperparameters_are_held_if_there_are_any():
    with pm.Model() as vector:
        pm.Normal("y", pm.Normal("x", shape=2), 1, observed=[0.5, 0.5])
    default = HyperparametersIfAlike()
    for model, stacks_data, kind in [
        (COUNTS, True, HyperparametersIfAlike),
        (COUNTS, False, FromHyperparameters),
        (vector, True, FromPosterior),
        (vector, False, FromPrior),
    ]:
        assert type(default.suited(model, stacks_data)) is kind
    with pytest.raises(ValueError, match=r"simulate: .* compiled kernels.*simulate='prior'"):
        FromPosterior(datasets=2).suited(vector, stacks_data=False)


def test_data_that_stand_out_by_log_ml_are_contained_in_a_second_round(
    tmp_path, caplog, monkeypatch
):
    """Slopes make spread and tails vary, by which these data do not stand out.

    Data sets of both are numbered one after the other, so that another call finds all tasks of the
    first in the store. If its second is interrupted, the first is the result, and open.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    means = np.exp(0.5 + x @ [0.4, -0.3]) * rng.gamma(0.5, 2, 300)
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        rate = pm.math.exp(pm.Normal("a") + b[0] * x[:, 0] + b[1] * x[:, 1])
        pm.Poisson("y", rate, observed=rng.poisson(means))
    options = OPTIONS | {"store": tmp_path / "runs"}
    dt = pm.sample_bdmc(model, **options)
    assert (dt.attrs["simulate"], dt.attrs["misfit"]) == ("posterior", "log ML")
    found = bdmc.verdict(dt)
    assert found.status == "good"
    assert "Model: it does not fit your data, whose log ML is 4" in found.brief
    assert dt.attrs["gradients_first_round"] > 1000
    assert "with the draw that the data are from on 20 of 20 data sets" in found.text
    assert bdmc.consistency(dt).loc["log ML", "value"].item() == dt.attrs["misfit_value"]

    prepare = sampling.prepare

    def interrupted(session, first=0):
        if first:
            raise KeyboardInterrupt
        return prepare(session)

    monkeypatch.setattr(sampling, "prepare", interrupted)
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        first = pm.sample_bdmc(model, **options)
    assert caplog.messages.count("In the store: 104 of 104 tasks") == 1
    assert (first.attrs["simulate"], first.attrs["interrupted"]) == ("hyperparameters", 0)
    assert bdmc.verdict(first).table.loc["model", "status"] == "open"
