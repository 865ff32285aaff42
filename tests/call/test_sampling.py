"""The front door: reproducible and interruptible."""

import logging
import re
import signal
import time
from functools import cache, partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import softmax

import pymc_bdmc as bdmc
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask
from tests.models import missing_values, small_regression

SMALL = {"chains": 4, "temperatures": 10, "progressbar": False, "cores": 1}


@cache
def normal_model():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=0.5)
    return model


def same(a, b):
    groups = ("forward", "reverse", "real", "posterior", "simulated")
    return all(a[group].dataset.equals(b[group].dataset) for group in groups)


QUICK = SMALL | {"path": "prior", "particles": 2, "simulate": bdmc.FromPrior(1), "random_seed": 1}


@cache
def one_core():
    return pm.sample_bdmc(normal_model(), **QUICK)


def test_one_seed_gives_one_result_for_any_cores():
    """By threads, and by processes for PyMC's step methods; schedule and kernel are recorded."""
    assert same(one_core(), pm.sample_bdmc(normal_model(), **QUICK | {"cores": 2}))
    assert not same(one_core(), pm.sample_bdmc(normal_model(), **QUICK | {"random_seed": 2}))
    schedule = bdmc.schedules.power(5, exponent=2)
    options = QUICK | {"step": partial(pm.Metropolis, scaling=2.0), "chains": 2}
    options |= {"schedule": schedule, "particles": 1, "temperatures": None}
    one, two = (pm.sample_bdmc(normal_model(), **options | {"cores": n}) for n in (1, 2))
    assert same(one, two)
    np.testing.assert_array_equal(one["forward"]["beta"], schedule.betas)
    recorded = [one.attrs[name] for name in ("schedule", "step", "upper_bound", "random_seed")]
    assert recorded == ["power(exponent=2)", "Metropolis(x)", "exact", "1"]


def test_particles_have_the_weights_of_their_runs():
    shares = one_core()["particles"]["bdmc_weight"].sum("particle").values
    np.testing.assert_allclose(shares, softmax(one_core()["real"]["log_weight"].values))
    assert np.ptp(shares) > 0.01


def test_many_data_sets_have_few_runs_each_and_more_chains_begin_with_the_same_ones():
    """The caller's ``chains`` count everywhere."""
    dt, four, six = (
        pm.sample_bdmc(
            normal_model(), **QUICK | {"particles": 32, "chains": n, "simulate": simulate}
        )
        for n, simulate in ((None, "prior"), (4, bdmc.FromPrior(1)), (6, bdmc.FromPrior(1)))
    )
    assert dt["real"].sizes["chain"] == 16
    for group in ("forward", "reverse"):
        assert dt[group]["log_weight"].sizes == {"dataset": 20, "chain": 2}
    assert dt["rounds"]["real_log_weight"].sizes == {"round": 1, "real_chain": 16}
    assert bdmc.consistency(dt).loc["shortfall", "valid"].all()
    for group in ("forward", "reverse", "real"):
        few, many = four[group]["log_weight"], six[group]["log_weight"]
        assert few.sizes["chain"] == 4
        np.testing.assert_array_equal(few, many.isel(chain=slice(4)))


def test_the_model_comes_from_the_context():
    with normal_model():
        dt = pm.sample_bdmc(**QUICK | {"simulate": None})
    assert "reverse" not in dt.children
    with pytest.raises(TypeError, match="No model on context stack"):
        pm.sample_bdmc(**SMALL)


def interrupted_after(n, monkeypatch):
    """Press Ctrl-C in the chain after so many: it runs in this process, so that the rest do not."""
    begun, run = [], AnnealTask.run

    def interrupted_run(self, engine):
        begun.append(True)
        if len(begun) == n + 1:
            signal.raise_signal(signal.SIGINT)
            while not engine._stop[0]:  # the signal is for another thread
                time.sleep(0.001)
        return run(self, engine)

    monkeypatch.setattr(AnnealTask, "run", interrupted_run)
    return pm.sample_bdmc(normal_model(), **QUICK)


def test_ctrl_c_keeps_what_is_finished(monkeypatch):
    dt = interrupted_after(7, monkeypatch)
    assert dt.attrs["interrupted"] == 1
    said = "Interrupted: 2 of 4 forward, 1 of 4 reverse, 4 of 4 real chains were finished."
    assert said in " ".join(bdmc.diagnose(dt))
    kinds = bdmc.certified(dt)["kind"]
    assert kinds["simulated", 0] == "none: interrupted"
    assert kinds["real", 0] == "order statistics"  # of all runs that were asked for
    counts = [int(dt[g]["log_weight"].notnull().sum()) for g in ("real", "forward", "reverse")]
    assert counts == [4, 2, 1]
    assert dt["particles"].sizes["chain"] == 4
    assert np.isfinite(bdmc.summary(dt)["value"]).all()
    np.testing.assert_array_equal(
        dt["forward"]["log_weight"].values[0, :2], one_core()["forward"]["log_weight"].values[0, :2]
    )


def test_an_interruption_after_the_first_chain_keeps_it(monkeypatch):
    dt = interrupted_after(1, monkeypatch)
    assert np.isfinite(bdmc.summary(dt).loc[("real", "evidence"), "value"])
    assert any("reverse: no chain was finished" in text for text in bdmc.diagnose(dt))


def test_hyperparameters_are_logged_and_recorded(caplog):
    caplog.set_level(logging.DEBUG, logger="pymc.bdmc")
    fit = xr.Dataset({"x": (("chain", "draw"), [[0.0, 2.0, 4.0]])})
    simulate = bdmc.FromHyperparameters(at="mean", idata=fit, datasets=1)
    dt = pm.sample_bdmc(normal_model(), **QUICK | {"simulate": simulate})
    assert "Hyperparameters held at a posterior mean: x" in caplog.text
    assert "Fitting" not in caplog.text
    assert (dt.attrs["hyperparameters"], dt.attrs["upper_bound"]) == ("x", "burned-in")
    assert dt["simulated"]["x"].item() == 2


def test_a_quiet_call_says_nothing(caplog, capsys):
    """Twin: the same call, by another name and with a progress bar, logs by module."""
    pm.sample_bdmc(normal_model(), **QUICK | {"quiet": True})
    assert not caplog.records
    dt = bdmc.sample(normal_model(), **QUICK | {"progressbar": "combined"})
    assert {each.name for each in caplog.records} >= {"pymc.bdmc.call.prepare"}
    assert not capsys.readouterr().out  # no terminal
    assert dt["posterior"].attrs["inference_library"] == "pymc_bdmc"
    assert dt["posterior"].attrs["inference_library_version"] == bdmc.__version__


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_the_posterior_belongs_to_the_real_data():
    """Imputed values stand between the real ones, although simulated data came last."""
    model, _ = missing_values()
    dt = pm.sample_bdmc(model, **QUICK)
    assert (dt["posterior"]["y"][..., [0, 1, 3]] == [0.2, 1.1, 0.7]).all()


def test_whole_numbers_as_data_of_a_normal():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=pm.Data("counts", [1, 2]))
    _, data = TemperedDensity(model).joint().draw()
    assert data["y"].dtype == float


def test_tied_weights_lose_no_result():
    with pm.Model() as model:
        pm.Normal("y", pm.Bernoulli("b", 0.5), observed=0.5)
    options = SMALL | {"chains": 64, "temperatures": [0, 1], "simulate": None, "random_seed": 1}
    assert np.isnan(pm.sample_bdmc(model, **options)["particles"].attrs["pareto_k"])


def test_the_remedy_of_a_wide_gap_works():
    """As many temperatures as `diagnose` asks for; errors of a few runs are a part of the gap."""
    model, options = small_regression()[0], {"path": "prior", "particles": 1, "progressbar": False}
    options |= {"simulate": bdmc.FromPrior(1), "random_seed": 1, "cores": 1}
    wide = pm.sample_bdmc(model, temperatures=10, **options)
    found = re.search("use temperatures=([0-9]+)", " ".join(bdmc.diagnose(wide)))
    assert found
    closed = pm.sample_bdmc(model, temperatures=int(found[1]), **options)
    gaps = [bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"] for dt in (wide, closed)]
    assert gaps[1] < 2 < gaps[0]
