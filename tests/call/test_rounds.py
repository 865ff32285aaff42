"""Rounds double T until the gap is small, confirm it with new chains, and end at a limit."""

import signal
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.call.options import CallOptions
from pymc_bdmc.call.rounds import Plan, Side, Tasks, anneal_in_rounds
from pymc_bdmc.call.session import Session
from pymc_bdmc.engines import AnnealTask
from pymc_bdmc.run.tasks import PilotTask
from tests.models import small_regression

SEED = {"random_seed": 5, "progressbar": False, "cores": 1, "path": "prior"}
OPTIONS = {"chains": 4, "particles": 1, "temperatures": 20, "simulate": bdmc.FromPrior(1)} | SEED
TARGET = 1.0


def sample(**options):
    return pm.sample_bdmc(small_regression()[0], **OPTIONS | options)


@pytest.fixture(scope="module")
def result():
    return sample(target_gap=TARGET, chains=8)


def test_rounds_double_until_the_gap_and_its_error_fit_and_the_last_is_repeated(result):
    rounds = result["rounds"]
    *looked_at, confirming = rounds["temperatures"].values
    np.testing.assert_array_equal(looked_at, 20 * 2 ** np.arange(len(looked_at)))
    assert len(looked_at) > 2
    assert confirming == looked_at[-1]
    assert rounds["confirms"].values.tolist() == [False] * len(looked_at) + [True]
    meets = (rounds["jeffreys_bound"] + rounds["error"]).values <= TARGET
    np.testing.assert_array_equal(rounds["meets_target"], meets)
    assert meets[:-1].tolist() == [False] * (len(looked_at) - 1) + [True]
    assert result["forward"].sizes["beta"] == confirming + 1
    assert result.attrs["rounds"] == len(looked_at)
    gap = bdmc.summary(result).loc[("simulated", "jeffreys bound"), "value"]
    assert gap == rounds["jeffreys_bound"].values[-1] != rounds["jeffreys_bound"].values[-2]
    weights = rounds["forward_log_weight"]
    assert np.unique(weights).size == weights.size  # every round has streams of its own


def test_confidence_is_spent_over_the_rounds(result):
    """Round r and its confirmation may each use 2^-(r + 1) of the failure probability."""
    spent = bdmc.certified(result, 0.95)
    alone = result.copy()
    alone.attrs["rounds"] = 0
    share = 1 - 0.05 / 2 ** (result.attrs["rounds"] + 1)
    for side in ("lower", "upper"):
        np.testing.assert_allclose(spent[side], bdmc.certified(alone, share)[side])
    assert (spent["lower"] < bdmc.certified(alone, 0.95)["lower"]).all()


@pytest.mark.parametrize(
    ("simulate", "renewed"),
    [(bdmc.FromPrior(2), True), (bdmc.Given({"beta": np.ones(5)}, {"y": np.ones(40)}), False)],
)
def test_the_confirming_round_has_new_data_where_there_can_be_any(simulate, renewed):
    """The first round is that of a call without a target."""
    single, confirmed = (
        sample(simulate=simulate, real_data=False, target_gap=gap) for gap in (None, 1e3)
    )
    weights = confirmed["rounds"]["forward_log_weight"]
    np.testing.assert_array_equal(weights[0], single["forward"]["log_weight"])
    assert not np.intersect1d(weights[0], weights[1]).size
    same = np.isin(confirmed["simulated"]["y"], single["simulated"]["y"])
    assert not same.any() if renewed else same.all()


def test_runs_on_the_real_data_come_first_and_all_others_in_turn():
    sides = [Side("real", 0, {}, None, 3), *(Side("forward", d, {}, None, 2) for d in (1, 2))]
    tasks = Tasks(sides, 0, None, 0)
    assert tasks.places == [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    assert len(tasks) == 7


class GaussianWork:
    """A pool whose log weights are normal and obey Crooks' relation, with log Z = 0.

    Their variance is 8/T, so a forward one has the mean −4/T and the gap the mean 8/T.
    """

    tuning = SimpleNamespace(step_size=lambda betas: np.full(len(betas), np.nan))

    def run(self, tasks):
        for i, task in enumerate(tasks):
            blank = np.zeros(len(task.betas))
            sign = -1 if task.direction is Direction.FORWARD else 1
            noise = np.random.default_rng(task.seed).normal()
            variance = 8 / (len(blank) - 1)
            weight = sign * variance / 2 + np.sqrt(variance) * noise
            zeros = blank.astype(int)
            yield i, Run(weight, blank, blank, zeros, 0, {}, np.ones(1), blank, zeros, 1)

    def rounds(self, target, seed=0, chains=4, first=2, **limits):
        source = SimpleNamespace(point={}, burn_in=0)
        forward = Side("forward", 1, {}, self.tuning, chains)
        reverse = Side("reverse", 1, {}, self.tuning, chains, sources=[source])
        options = CallOptions(target_gap=target, **limits, progressbar=False)
        plan = Plan(sides=[forward, reverse], schedules=[bdmc.schedules.linear(first)])
        return anneal_in_rounds(Session(options, None, self, seed, stop=None), plan, result=None)


def sizes(rounds):
    return [(each.schedule.n_temperatures, each.confirms) for each in rounds]


def test_the_result_is_not_chosen_for_its_noise():
    """Four chains, target 0.1, α = 6e-5 a number; the twin reports the round that met the target.

    Given T, the lower bound of new chains has the mean −4/T and the variance 2/T, their gap 8/T
    and 4/T. The numbers of the twin are expected 6 and 8 standard errors away (power 98 %).
    """

    def scores(found):
        n = found.schedule.n_temperatures
        lower = found.runs["forward"][0].log_weight.mean()
        return (lower + 4 / n) / np.sqrt(2 / n), (8 / n - found.gap[0]) / np.sqrt(4 / n)

    last_two = [GaussianWork().rounds(0.1, seed, first=64)[-2:] for seed in range(200)]
    chosen, confirming = np.sum([[*map(scores, two)] for two in last_two], axis=0) / np.sqrt(200)
    assert (np.abs(confirming) < 4).all()
    assert (chosen > 4).all()
    sums = np.array([[sum(each.gap) for each in two] for two in last_two])
    assert (sums[:, 0] <= 0.1).all()
    assert (sums[:, 1] > 0.1).any()  # it is reported whatever it finds


def test_a_round_is_begun_only_if_its_confirmation_would_fit(monkeypatch, caplog):
    """By a clock on which a round of T temperatures takes T seconds, or a limit of temperatures."""
    now = [0.0]

    class Timed(GaussianWork):
        def run(self, tasks):
            now[0] += len(tasks[0].betas) - 1
            yield from super().run(tasks)

    monkeypatch.setattr("pymc_bdmc.call.rounds.time.perf_counter", lambda: now[0])
    two, four, eight = (2, False), (4, False), (8, False)
    for target, limits, expected in [
        (1e-9, {"max_time": 14}, [two, four]),  # 2 + 4 + 8 is 14, but not twice 8
        (1e-9, {"max_time": 22}, [two, four, eight]),
        (1e9, {"max_time": 0.1}, [two, (2, True)]),  # never unconfirmed
        (1e-9, {"max_temperatures": 5}, [two, four]),
    ]:
        assert sizes(Timed().rounds(target, chains=8, **limits)) == expected
    assert "not reached within max_temperatures=5: the result is the last round" in caplog.text


def test_a_gap_below_zero_does_not_make_up_for_its_error():
    """With four chains it often is; the twin, their sum alone, would have stopped earlier."""
    twin_stops = 0
    for seed in range(40):
        *earlier, last, _ = GaussianWork().rounds(0.3, seed, first=8)
        assert max(last.gap[0], 0) + last.gap[1] <= 0.3
        assert all(max(each.gap[0], 0) + each.gap[1] > 0.3 for each in earlier)
        twin_stops += any(sum(each.gap) <= 0.3 for each in earlier)
    assert twin_stops > 0


def test_a_ladder_holds_every_rung_and_the_last_is_the_result(monkeypatch):
    """Pilots are made once. Nothing is chosen, so no confidence is spent."""
    made, run = [], PilotTask.run

    def counted(self, engine):
        made.append(tuple(next(iter(self.data.values()))))
        return run(self, engine)

    monkeypatch.setattr(PilotTask, "run", counted)
    dt = sample(temperatures=[20, 30, 80], chains=8)
    assert len(set(made)) == len(made) == 2  # the real and the simulated data
    rounds = dt["rounds"]
    assert rounds["temperatures"].values.tolist() == [20, 30, 80]
    assert not (rounds["meets_target"] | rounds["confirms"]).any()
    weights = {group: rounds[f"{group}_log_weight"] for group in ("forward", "reverse", "real")}
    for group, rungs in weights.items():
        np.testing.assert_array_equal(rungs[-1], dt[group]["log_weight"])
        assert np.unique(rungs).size == rungs.size  # streams of their own
    assert dt.attrs["rounds"] == 0
    gaps = (weights["reverse"] - weights["forward"]).mean(["dataset", "chain"])
    np.testing.assert_allclose(rounds["jeffreys_bound"], gaps)
    assert (np.diff(gaps) < 0).all()


def test_schedules_are_adapted_to_forward_chains_only(monkeypatch):
    """Other reverse chains, the same schedule: what depends on θ* may not shape the kernel."""
    run = AnnealTask.run

    def shifted(self, engine):
        chain = run(self, engine)
        chain.log_likelihood[:] -= 50.0 * (self.start is not None)
        return chain

    options = {"target_gap": 1e-3, "max_temperatures": 40}
    plain = sample(**options)
    monkeypatch.setattr(AnnealTask, "run", shifted)
    other = sample(**options)
    assert plain["forward"].sizes["beta"] == 41
    np.testing.assert_array_equal(other["forward"]["beta"], plain["forward"]["beta"])
    assert not other["reverse"].equals(plain["reverse"])


def test_a_target_has_as_many_particles_as_it_needs():
    options = {"chains": 2, "particles": None, "temperatures": None, "max_time": 1e-6}
    found = {gap: sample(target_gap=gap, real_data=False, **options) for gap in (1.0, 0.1, 0.01)}
    particles = {gap: dt.attrs["particles"] for gap, dt in found.items()}
    squared = float(found[0.1]["forward"]["thermodynamic_length"][0]) ** 2
    assert particles == {1.0: 4, 0.1: np.ceil(squared / (100 * 0.1)), 0.01: 32}
    assert 4 < particles[0.1] < 32
    assert found[0.1]["forward"].sizes["beta"] - 1 == 100


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target_gap": 1e-3}, "the result is the last finished round"),
        ({"target_gap": 1e3}, "the round that met the target, and no new round has confirmed"),
        ({"temperatures": [20, 30]}, "the result is the last finished round"),
    ],
)
def test_ctrl_c_in_a_later_round_returns_the_round_before(monkeypatch, more, message):
    started, run = [], AnnealTask.run

    def interrupted(self, engine):
        started.append(True)
        if len(started) == 14:  # 12 chains are a round
            signal.raise_signal(signal.SIGINT)
        return run(self, engine)

    monkeypatch.setattr(AnnealTask, "run", interrupted)
    dt = sample(**more)
    assert message in " ".join(bdmc.diagnose(dt))
    assert dt.attrs["interrupted"] == 1
    assert dt.attrs["rounds"] == ("target_gap" in more)
    assert dt["rounds"].sizes["round"] == 1
    assert dt["forward"].sizes["beta"] == 21
    assert dt["forward"]["log_weight"].notnull().all()
    share = 1 - 0.05 / 4 if "target_gap" in more else 0.95
    alone = dt.copy()
    alone.attrs["rounds"] = 0
    assert bdmc.certified(dt).equals(bdmc.certified(alone, share).assign(confidence=0.95))
