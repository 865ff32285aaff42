"""The table says what it should, and doubts what it should."""

import re

import numpy as np
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import jarzynski_forward
from pymc_bdmc.results.verdict import doubts_of, warn
from tests.results.trees import tree

RNG = np.random.default_rng(0)
FORWARD, REVERSE = RNG.normal(-10, 1, (3, 50)), RNG.normal(-9, 1, (3, 50))


@pytest.mark.parametrize("use", [bdmc.summary, bdmc.evidence, bdmc.certified])
def test_what_cannot_be_read_is_named(use):
    with pytest.raises(ValueError, match=r"a result of sample_bdmc or of lattice.anneal is needed"):
        use(xr.DataTree.from_dict({"posterior": xr.Dataset()}))
    without_draws, one_sided = tree(FORWARD, REVERSE), tree(FORWARD)
    without_draws["forward"] = without_draws["forward"].to_dataset().drop_vars("prior_draws")
    with pytest.raises(ValueError, match="has no variable 'prior_draws'"):
        use(without_draws)
    with pytest.raises(ValueError, match="no group 'reverse', which sample_bdmc"):
        use(one_sided)
    if use is bdmc.summary:
        with pytest.raises(ValueError, match="no attribute 'upper_bound'"):
            use(tree(FORWARD, REVERSE, status=None))


@pytest.mark.parametrize("status", ["exact", "burned-in", "heuristic"])
def test_the_start_of_reverse_runs_is_told_and_a_heuristic_one_gives_no_upper_bound(status):
    dt = tree(FORWARD, REVERSE, status=status)
    table = bdmc.summary(dt).loc["simulated"]
    assert table.loc["lower bound", "valid"]
    for name in ("upper bound", "jeffreys bound"):
        assert status in table.loc[name, "kind"]
        assert table.loc[name, "valid"] == (status != "heuristic")
    told = bdmc.evidence(dt)["reason"].str.contains(f"from a {status} start")
    needs = ~told.index.get_level_values("method").isin(["forward average", "cumulant forward"])
    assert (told == (needs & (status != "exact"))).all()


def test_rows_of_a_sandwich():
    """The mean of the logs bounds; the log of the mean estimates."""
    real = RNG.normal(-5, 0.3, 50)
    table = bdmc.summary(tree(FORWARD, REVERSE, real), details=True)
    assert [*table.loc["real"].index] == ["lower bound", "evidence", "certified lower"]
    assert table.loc[("real", "lower bound"), "median"] in real
    one = bdmc.summary(tree(FORWARD[:1], REVERSE[:1])).loc["simulated"]
    assert {"evidence, reverse", "certified lower", "certified upper"} < {*one.index}
    gaps = REVERSE.mean(axis=1) - FORWARD.mean(axis=1)
    of_one = np.sqrt((FORWARD[0].var(ddof=1) + REVERSE[0].var(ddof=1)) / 50)
    for row, value, error in (
        (table.loc[("simulated", "lower bound")], FORWARD.mean(), None),
        (table.loc[("simulated", "upper bound")], REVERSE.mean(), None),
        (table.loc[("simulated", "jeffreys bound")], gaps.mean(), gaps.std(ddof=1) / np.sqrt(3)),
        (one.loc["jeffreys bound"], gaps[0], of_one),
        (table.loc[("real", "lower bound")], real.mean(), None),
        (
            table.loc[("real", "evidence")],
            np.log(np.mean(np.exp(real))),
            jarzynski_forward(real).error,
        ),
    ):
        assert row["value"] == pytest.approx(value)
        assert error is None or row["error"] == pytest.approx(error)


def test_unfinished_chains_are_left_out_but_not_of_the_total_variation():
    holes = np.full((3, 10), np.nan)
    table = bdmc.summary(tree(*(np.concatenate([x, holes], 1) for x in (FORWARD, REVERSE))))
    expected = bdmc.summary(tree(FORWARD, REVERSE))
    assert table["value"].pop(("simulated", "total variation")) == 1
    table, expected = (each.drop(("simulated", "total variation")) for each in (table, expected))
    np.testing.assert_allclose(table["value"], expected["value"])
    np.testing.assert_allclose(table["error"], expected["error"])


def test_the_prior_mass_of_a_constraint_enters_bounds_and_evidence_but_not_the_gap():
    near = FORWARD[:1] / 2, REVERSE[:1] / 2  # averages whose errors are not withheld
    free, constrained = (bdmc.summary(tree(*near, draws=d)) for d in (1.0, 4.0))
    shift = constrained["value"] - free["value"]
    assert shift["simulated", "lower bound"] == pytest.approx(np.log(49 / 199))
    assert shift["simulated", "upper bound"] == pytest.approx(np.log(50 / 200))
    assert shift["simulated", "evidence"] == pytest.approx(np.log(0.25))
    assert shift["simulated", "jeffreys bound"] == 0
    assert constrained["error"]["simulated", "evidence"] > free["error"]["simulated", "evidence"]


def doubts(**groups):
    return " ".join(bdmc.diagnose(tree(**groups)))


HEAVY, STRAGGLER = 3 * RNG.exponential(size=500), np.r_[RNG.normal(0, 0.2, 63), -500.0]
UNEVEN = (
    r"{}: effective sample size [\d.]+ of \d+, [\d.]+ are needed; "
    "the averaged weights cannot be trusted"
)
DIVERGED = {"divergences": (("beta",), np.array([0, 30, 30, 29.1]))}
STILL = np.r_[0.001, np.full(32, 0.7)]
IDLE = {
    "reverse": np.zeros((20, 3)),
    "lowest_acceptance": (("dataset", "chain"), [[0.001] * 3] * 20),
}


@pytest.mark.parametrize(
    ("words", "groups", "twin"),
    [
        ("1 of 41 log weights are infinite", {"real": np.r_[np.zeros(40), -np.inf]}, {}),
        (UNEVEN.format("real"), {"real": HEAVY}, {"real": RNG.normal(0, 0.1, 200)}),
        (UNEVEN.format("reverse"), {"forward": np.zeros((1, 500)), "reverse": -HEAVY[None]}, {}),
        ("1 of 64 log weights are outliers", {"real": STRAGGLER}, {"real": -STRAGGLER}),
        ("90.0% of the transitions diverged", DIVERGED, {"divergences": (("beta",), np.zeros(4))}),
        ("real: 1 of 33 chains hardly moved", {"lowest_acceptance": (("chain",), STILL)}, {}),
        # Chains that do not move are no fault if forward and reverse runs agree all the same.
        (
            "hardly moved along part of the path; their log weights widen the gap",
            IDLE | {"real": None, "forward": np.full((20, 3), -1.5)},
            IDLE | {"real": None, "forward": np.zeros((20, 3))},
        ),
    ],
)  # fmt: skip
def test_faults_of_runs_are_told(words, groups, twin):
    assert re.search(words, doubts(**{"real": np.zeros(33)} | groups))
    assert not re.search(words, doubts(**{"real": np.zeros(33)} | twin))


def test_chains_that_hardly_moved_are_told_once():
    """A wide gap shows them in both directions."""
    groups = IDLE | {"real": None, "forward": np.full((20, 3), -1.5)}
    told = [each for each in bdmc.diagnose(tree(**groups)) if "hardly moved" in each]
    assert len(told) == 1
    assert told[0].count("hardly moved") == 1
    assert told[0].startswith("forward, reverse: 120 of 120 chains")


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_a_density_that_is_nan_next_to_the_posterior_is_told(lost):
    dt = tree(real=np.zeros(33))
    dt.attrs |= {"undefined": "y", "undefined_prior": 0.2, "undefined_posterior": lost}
    told = "write y in a form that does not overflow" in " ".join(bdmc.diagnose(dt))
    assert told == (lost > 0)


@pytest.mark.parametrize(
    ("kernels", "is_compiled", "told"),
    [
        ("HMC", 1, 'step="autostep"'), ("AutoStep HMC", 1, 'step="nuts"'),
        ("NUTS", 1, 'step="autostep"'), ("NUTS", 0, "step=functools.partial(pm.NUTS, target_"),
        ("Metropolis", 0, "another step method"),
    ],
)  # fmt: skip
def test_divergences_come_first(kernels, is_compiled, told):
    """Other doubts are their consequence, which no number of temperatures removes."""
    dt = tree(real=RNG.normal(0, 6, 33), **DIVERGED)
    dt.attrs |= {"kernels": kernels, "is_compiled": is_compiled}
    text = " ".join(bdmc.diagnose(dt))
    assert "the averaged weights cannot be trusted: remove the divergences first." in text
    assert f"diverged; try {told}" in text
    assert not re.search("non-centred|more temperatures", text)
    dt.attrs["centred_effects"] = "theta"
    assert "write theta non-centred" in " ".join(bdmc.diagnose(dt))


def with_paths(gap_at):
    """A sandwich whose directions disagree where ``gap_at`` says; 100 temperatures."""
    betas = np.linspace(0, 1, 101)
    dt = tree(np.full((1, 8), -2.0), np.full((1, 8), 2.0))
    for name, sign in (("forward", -1), ("reverse", 1)):
        path = ("dataset", "beta"), sign * gap_at(betas)[None]
        more = {"log_likelihood_path": path, "thermodynamic_length": ("dataset", [3.0])}
        dt[name] = dt[name].dataset.assign(more).assign_coords(beta=betas)
    return dt


def test_a_knot_is_named_with_its_beta_and_an_even_gap_is_not():
    knot = with_paths(lambda betas: 20.0 * ((betas > 0.4) & (betas < 0.45)))
    (message,) = [text for text in bdmc.diagnose(knot) if "transition" in text]
    beta = float(message.split("at beta = ")[1].split(" to ")[0])
    assert 0.34 < beta < 0.46
    assert "100% of the difference between forward and reverse runs arises at" in message
    knot.attrs["path"] = "data"
    assert any("observations are added that change" in text for text in bdmc.diagnose(knot))
    assert not any("transition" in text for text in bdmc.diagnose(with_paths(np.ones_like)))
    for group in ("forward", "reverse"):
        knot[group]["log_weight"][:] = 0.0
    assert bdmc.diagnose(knot) == []


def test_a_far_start_is_no_knot():
    dt = with_paths(lambda betas: 100.0 * (betas < 0.05))
    (message,) = [text for text in bdmc.diagnose(dt) if "arises at beta = 0 " in text]
    assert "chains that started far out in the tail of the" in message
    assert "adaptive" in message
    dt.attrs["schedule"] = "adaptive"
    assert not re.search("adaptive|kernel", " ".join(bdmc.diagnose(dt)))


def test_an_even_gap_is_told_with_the_temperatures_that_close_it():
    wide, closed = with_paths(np.ones_like), with_paths(np.zeros_like)
    closed["forward"]["log_weight"][:] = 2.0  # as the reverse ones
    assert bdmc.diagnose(closed) == []
    (message,) = bdmc.diagnose(wide)
    assert "4 nats between forward and reverse" in message
    assert "44 times the ideal gap, so the kernel hardly mixes: try another" in message
    wide.attrs["schedule"] = "linear"
    assert 'pass schedule="adaptive"' in bdmc.diagnose(wide)[0]
    wide.attrs |= {
        "kernels": "Metropolis, HMC", "is_compiled": 1, "discrete_variables": "z",
        "schedule": "adaptive",
    }  # fmt: skip
    (message,) = bdmc.diagnose(wide)
    assert 'sum z out of the likelihood, as pm.Mixture does, or try step="nuts".' in message
    wide["forward"]["thermodynamic_length"][:] = 9.0
    (message,) = bdmc.diagnose(wide)
    assert "temperatures=400," in message


@pytest.mark.parametrize(
    ("ideal", "rhat", "told"),
    [
        (1.1, 1.2, ""),  # that of the runs is 1 ± 0.2
        (170_799.0, np.nan, "the gap of the runs is smaller, at most"),
        (0.5, 2.4, "R̂ 2.4"),
    ],
)
def test_an_ideal_gap_is_not_valid_above_that_of_the_runs_or_if_the_pilot_did_not_mix(
    ideal, rhat, told
):
    dt = tree(FORWARD, REVERSE)
    for group in ("forward", "reverse"):
        dt[group] = dt[group].dataset.assign_coords(beta=np.linspace(0, 1, 101))
    of_pilot = {"thermodynamic_length": np.full(3, np.sqrt(100 * ideal)), "pilot_rhat": [rhat] * 3}
    dt["forward"] = dt["forward"].dataset.assign({k: ("dataset", v) for k, v in of_pilot.items()})
    row = bdmc.summary(dt).loc[("simulated", "ideal gap")]
    assert row["value"] == pytest.approx(ideal)
    assert row["valid"] == (not told)
    assert told in row["kind"]


def with_tail(real, log_likelihood):
    dt = tree(FORWARD[:1] / 2, REVERSE[:1] / 2, real)
    of_draws = xr.DataArray(log_likelihood, dims="prior_draw")
    dt["real"] = dt["real"].dataset.assign(prior_log_likelihood=of_draws)
    of_draws = of_draws.expand_dims(dataset=1)
    dt["forward"] = dt["forward"].dataset.assign(prior_log_likelihood=of_draws)
    return dt


NORMAL_TAIL = -(np.random.default_rng(6).normal(size=512) ** 2)
RANKS = (np.arange(512) + 0.5) / 512


@pytest.mark.parametrize(
    ("tail", "told"),
    [
        (-1 / RANKS**2, "the mean is −∞: ℓ of prior draws has no mean"),
        (-1 / RANKS**0.75, "not resolved: ℓ of prior draws has no variance"),
        (NORMAL_TAIL[:99], "not resolved: 99 prior draws are too few"),
        (NORMAL_TAIL, ""),
    ],
    ids=["no mean", "no variance", "few draws", "twin"],
)
def test_medians_lead_where_the_mean_of_logs_does_not_exist(tail, told):
    """Without the check one far draw prints as a Jeffreys bound of 1e4 nats."""
    real = np.random.default_rng(5).normal(-5, 0.3, 50)
    real[7] = -1e6
    table = bdmc.summary(with_tail(real, tail), details=True)
    row, gap = table.loc[("real", "lower bound")], table.loc[("simulated", "jeffreys bound")]
    average = np.median if told else np.mean
    assert row["value"] == pytest.approx(average(real))
    assert gap["value"] == pytest.approx((average(REVERSE[:1]) - average(FORWARD[:1])) / 2)
    assert gap["median"] == pytest.approx((np.median(REVERSE[:1]) - np.median(FORWARD[:1])) / 2)
    assert told in row["kind"]
    assert row["valid"] == gap["valid"] == (not told)
    assert (row["error"] < 0.2) == ("no bound" in gap["kind"]) == bool(told)
    assert table.loc[("simulated", "upper bound"), "valid"]
    first = next(quantity for data, quantity in table.index if data == "real")
    assert first == ("certified lower" if told else "lower bound")
    doubts = " ".join(table.attrs["warnings"])
    assert ("rely on medians and certified bounds" in doubts) == bool(told)


EQUAL = np.full(64, -2.302585)


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        (RNG.normal(-12.5, 5, 64), "effective sample size"),  # one or two decide the average
        (RNG.normal(-12.5, 0.5, 64), ""),
        (EQUAL, "says nothing about what no chain found"),
        (EQUAL + 4e-9 * RNG.normal(size=64), "says nothing about what no chain found"),
    ],
)
def test_weights_that_tell_too_little_get_no_error(weights, told):
    row = bdmc.summary(tree(real=weights)).loc[("real", "evidence")]
    assert row["valid"] == (not told)
    assert (row["error"] < 0.2) == (not told)
    assert told in row["kind"]
    assert bool(doubts(real=weights)) == bool(told)


def test_results_of_temper_have_the_same_readers():
    weights = np.random.default_rng(1).normal(size=(6, 4))
    rbm = bdmc.rbm.RBM(np.zeros(6), np.zeros(4), weights)
    tempered = bdmc.temper(rbm, temperatures=5, draws=200, random_seed=1, progressbar=False)
    table, annealed = bdmc.evidence(tempered), bdmc.evidence(tree(FORWARD, REVERSE))
    assert list(table.columns) == list(annealed.columns)
    (best,) = table.index[table["recommended"]]
    assert best == ("tempering", 0, bdmc.log_ml(tempered).method) == ("tempering", 0, "RTS")
    row = bdmc.summary(tempered).loc[("tempering", "evidence")]
    assert (row["value"], row["error"]) == tuple(table.loc[best, ["value", "error"]])
    assert bdmc.diagnose(tempered) == []
    tempered["tempering"]["place"] = 0 * tempered["tempering"]["place"]
    assert not bdmc.summary(tempered)["valid"].any()
    assert "0 passages" in bdmc.diagnose(tempered)[0]


def test_a_failing_diagnosis_loses_nothing(caplog):
    dt = tree(FORWARD, REVERSE)
    dt["forward"] = xr.DataTree(dt["forward"].dataset.drop_vars("log_weight"))
    warn(dt)
    assert "diagnosing it failed" in caplog.text
    with pytest.raises(ValueError, match="log_weight"):  # which is what it does if asked
        bdmc.diagnose(dt)


def test_three_warnings_at_most_and_the_gravest_first(caplog):
    weights = np.r_[RNG.normal(0, 0.2, 60), -500.0, -np.inf, 8, 9]
    acceptance = {"lowest_acceptance": (("chain",), np.r_[0.001, np.full(63, 0.7)])}
    dt = tree(real=weights, **DIVERGED, **acceptance)
    assert len(bdmc.diagnose(dt)) > 3
    warn(dt)
    said = [record.message for record in caplog.records]
    assert said[:3] == [doubt.text for doubt in doubts_of(dt)[:3]]
    assert said[3:] == bdmc.verdict(dt).text.split("\n")[-1:]  # one remedy, that of the verdict
    assert "infinite" in said[0]


def test_more_particles_are_a_remedy_where_there_can_be_more():
    dt = tree(real=RNG.normal(0, 6, 64))
    assert "particles" not in bdmc.diagnose(dt)[0]
    for particles, more in ((1, 16), (32, 128)):
        dt.attrs["particles"] = particles
        assert f"particles={more}" in bdmc.diagnose(dt)[0]
