"""Rounds double T until the gap is small, keep their streams apart, and end at a limit."""

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.annealing import AnnealTask
from tests.models import conjugate_regression

OPTIONS = dict(chains=16, temperatures=20, simulate="prior", random_seed=5, progressbar=False)


@pytest.fixture(scope="module")
def model():
    return conjugate_regression(d=10, n=60)[0]


@pytest.fixture(scope="module")
def result(model):
    return pm.sample_bdmc(model, target_gap=2.0, schedule="adaptive", **OPTIONS)


def test_rounds_double_until_the_gap_and_its_error_fit(result):
    rounds = result["rounds"]
    temperatures = rounds["temperatures"].values
    np.testing.assert_array_equal(temperatures, 20 * 2 ** np.arange(len(temperatures)))
    assert len(temperatures) > 2
    high = (rounds["jeffreys_bound"] + rounds["error"]).values
    assert (high[:-1] > 2.0).all()
    assert high[-1] <= 2.0
    assert result["forward"].sizes["beta"] == temperatures[-1] + 1
    assert result.attrs["rounds"] == len(temperatures)
    gap = bdmc.summary(result).loc[("simulated", "jeffreys bound"), "value"]
    assert gap == rounds["jeffreys_bound"].values[-1]


def test_only_the_last_round_is_the_result_and_its_streams_are_new(model, result):
    """The first round equals a run without a target; later ones do not repeat its chains."""
    single = pm.sample_bdmc(model, schedule="adaptive", **OPTIONS)
    assert single["rounds"]["jeffreys_bound"].values[0] == result["rounds"]["jeffreys_bound"][0]
    n_rounds = len(result["rounds"]["temperatures"])
    longer = pm.sample_bdmc(
        model, schedule="adaptive", **OPTIONS | {"temperatures": 20 * 2 ** (n_rounds - 1)}
    )
    first, last = (dt["forward"]["log_weight"].values for dt in (longer, result))
    assert not np.intersect1d(first, last).size


def test_confidence_is_spent_over_the_rounds(result):
    """Round r may use 2^-r of the failure probability."""
    spent = bdmc.certified(result, 0.95)
    alone = result.copy()
    alone.attrs["rounds"] = 0
    share = 1 - 0.05 / 2 ** result.attrs["rounds"]
    np.testing.assert_allclose(spent["lower"], bdmc.certified(alone, share)["lower"])
    assert (spent["lower"] < bdmc.certified(alone, 0.95)["lower"]).all()


def test_schedules_are_adapted_to_forward_chains_only(model, monkeypatch):
    """Other reverse chains, the same schedule: what depends on θ* may not shape the kernel."""
    seen = []
    run = AnnealTask.run

    def shifted(self, engine):
        chain = run(self, engine)
        if self.start is not None:
            chain.log_likelihood[:] -= 50.0
        else:
            seen.append(self.betas)
        return chain

    plain = pm.sample_bdmc(model, target_gap=1e-3, max_temperatures=40, schedule="adaptive",
                           **OPTIONS)  # fmt: skip
    monkeypatch.setattr(AnnealTask, "run", shifted)
    pm.sample_bdmc(model, target_gap=1e-3, max_temperatures=40, schedule="adaptive", **OPTIONS)
    np.testing.assert_array_equal(seen[-1], plain["forward"]["beta"])


def test_limits_end_the_rounds(model, caplog):
    dt = pm.sample_bdmc(model, target_gap=1e-3, max_temperatures=50, **OPTIONS)
    assert dt["rounds"]["temperatures"].values.tolist() == [20, 40]
    assert "target_gap=0.001 not reached within max_temperatures=50" in caplog.text
    np.testing.assert_array_equal(dt["forward"]["beta"][::2], bdmc.schedules.sigmoid(20).betas)
    dt = pm.sample_bdmc(model, target_gap=1e-3, max_time=1e-6, **OPTIONS)
    assert dt["rounds"]["temperatures"].values.tolist() == [20]


def test_a_gap_below_zero_does_not_make_up_for_its_error():
    """With this seed the second round has −0.27 ± 0.33, whose sum is below the target."""
    with pm.Model() as model:
        pm.Binomial("y", 10, pm.Beta("p", 2, 3, shape=3), observed=[3, 9, 0])
    options = OPTIONS | {"chains": 4, "temperatures": 8, "random_seed": 6}
    rounds = pm.sample_bdmc(model, target_gap=0.25, **options)["rounds"]
    gaps, errors = rounds["jeffreys_bound"].values, rounds["error"].values
    assert errors[-1] <= 0.25
    assert any(gaps[:-1] + errors[:-1] <= 0.25)  # twin: their sum alone would have stopped earlier


def test_ctrl_c_in_a_later_round_returns_the_round_before(model, monkeypatch):
    run = AnnealTask.run

    def interrupted(self, engine):
        if len(self.betas) > 21:
            raise KeyboardInterrupt
        return run(self, engine)

    monkeypatch.setattr(AnnealTask, "run", interrupted)
    dt = pm.sample_bdmc(model, target_gap=1e-3, **OPTIONS)
    assert "interrupted: the result is that of the last round" in " ".join(bdmc.diagnose(dt))
    assert dt.attrs["interrupted"] == 1
    assert dt["forward"].sizes["beta"] == 21
    assert dt["forward"]["log_weight"].notnull().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(target_gap=0.0), "target_gap: must be a positive number"),
        (dict(target_gap=1.0, max_time=-1.0), "max_time: must be a positive number"),
        (dict(target_gap="small"), "target_gap: must be a positive number, got 'small'"),
        (dict(target_gap=1.0, max_temperatures=5), "the first round has 20 temperatures already"),
        (dict(target_gap=1.0, max_temperatures=0), "max_temperatures: must be"),
        (dict(target_gap=1.0, simulate=None), "target_gap: a gap needs simulated data"),
    ],
)
def test_bad_targets_are_refused(model, options, message):
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(model, **OPTIONS | options)


def test_step_methods_take_an_adaptive_schedule_and_a_target(model):
    dt = pm.sample_bdmc(
        model, target_gap=1e-3, max_temperatures=40, schedule="adaptive", step=pm.HamiltonianMC,
        **OPTIONS | {"chains": 4},
    )  # fmt: skip
    assert dt.attrs["schedule"] == "adaptive"
    assert dt["rounds"]["temperatures"].values.tolist() == [20, 40]
    assert dt["forward"]["thermodynamic_length"].values[0] > 1
