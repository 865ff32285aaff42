"""The verdict is good, open or bad where it should be, and says why."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import total_variation, total_variation_bound
from pymc_bdmc.results.agreement import Agreement, agreement_dataset
from pymc_bdmc.results.checks.missed import short_on_simulated
from pymc_bdmc.results.consistency import check_model
from pymc_bdmc.results.log_ml import write_log_ml
from pymc_bdmc.results.reading import Reading
from tests.call.test_systems import TwoSpins
from tests.results.trees import BETAS, particles, runs


def test_total_variation_is_that_of_the_worst_pair():
    for v in (0.01, 0.3, 0.9):
        # Two outcomes of probabilities (1 ± v)/2 and the reverse.
        jeffreys = 2 * v * np.log((1 + v) / (1 - v))
        assert total_variation_bound(jeffreys) == pytest.approx(v)
    assert [total_variation_bound(each) for each in (0.0, -1.0, np.inf)] == [0, 0, 1]


SETS = dict(sd=0.15, real_sd=0.15, datasets=20, n=16)


def good(**attrs):
    """A result with a good verdict, if these attributes do not change it."""
    dt = runs(**SETS)
    dt.attrs |= attrs
    return dt


def weighted(group, change, runs=..., **attrs):
    """The same with other log weights in some runs of a group."""
    dt = good(**attrs)
    dt[group]["log_weight"][runs] = change(dt["forward"]["log_weight"].values)
    return dt


def diverged(n):
    """The same, with this number of divergences in the 480 transitions of the real runs."""
    dt = good()
    counts = np.where(BETAS == 1, n, 0)
    dt["real"] = dt["real"].dataset.assign(divergences=("beta", counts))
    return dt


def below(forward):
    return forward - 1


@pytest.mark.parametrize(
    ("dt", "check", "status", "said"),
    [
        (good(), "total variation", "good", "The posterior draws of this run"),
        (diverged(144), "divergences", "open", "30% of the transitions diverged, so"),
        (good(interrupted=1), "interruption", "open", "interrupted"),
        (runs(**SETS | {"real_sd": 3.0}), "shortfall", "open", "harder for the sampler"),
        (good(upper_bound="burned-in"), "start", "good", "must be added"),
        (good(upper_bound="heuristic"), "start", "open", "is not certified"),
        (weighted("reverse", below), "Jeffreys bound", "bad", "with a correct sampler"),
        (
            weighted("reverse", below, upper_bound="burned-in"),
            "Jeffreys bound", "bad", "or use a longer burn_in",
        ),
        (
            weighted("forward", lambda w: w[0] - np.inf, 0),
            "Jeffreys bound", "open", "a state of probability zero",
        ),
        # A want of proof is open, whatever the gap.
        (runs(sd=0.7, real_sd=0.7, datasets=20, n=8), "total variation", "open", "not settle"),
        (
            runs(sd=3.0, real_sd=3.0, datasets=20, n=8), "log ML", "open",
            "No estimate of log ML can be trusted; it is certified to be at least",
        ),
        (runs(), "total variation", "open", "On one of the simulated data sets"),
    ],
)  # fmt: skip
def test_a_check_decides(dt, check, status, said):
    found = bdmc.verdict(dt)
    assert found.status == found.table.loc[check, "status"] == status
    assert said in found.text
    assert ("total variation" in found.table.index) == (dt.attrs["upper_bound"] != "heuristic")
    assert ("No estimate" in found.text) == np.isnan(found.table.loc["log ML", "value"])


def test_a_good_posterior_is_told_with_its_bound_and_later_looks_at_a_higher_confidence():
    dt = runs(**SETS)
    found = bdmc.verdict(dt)
    for look, level in ((None, 0.95), (1, 0.975), (3, 0.99375)):
        row = bdmc.verdict(dt, look=look).table.loc["total variation"]
        known = total_variation(dt["forward"]["log_weight"], dt["reverse"]["log_weight"], level)
        assert (row["value"], row["upper"]) == (known.value, known.upper)
    assert "98.75 % confidence at look 2" in bdmc.verdict(dt, look=2).text
    upper = found.table.loc["total variation", "upper"]
    assert 0.14 < upper < 0.25
    said = float(found.text.split("on average at most ")[1].split()[0])
    assert upper <= said < upper + 0.01
    assert "95 % confidence" in found.text
    assert "On 20 simulated data sets" in found.text
    value, error = found.table.loc["log ML", ["value", "error"]]
    assert abs(value + 20) < 4 * error
    html = found._repr_html_()
    assert repr(found) == str(found) == found.brief
    assert "<table" in html
    assert found.brief.splitlines()[0] in html
    assert "&lt;" not in html


def test_log_ml_of_many_data_is_told_as_finely_as_its_error():
    dt = runs(log_ml=-123456.0)
    found = bdmc.verdict(dt)
    value, error, low, high = found.table.loc["log ML", ["value", "error", "lower", "upper"]]
    assert 0.01 < error < 0.1
    told = f"Log ML is {value:.3f} ± {error:.3f}, with 95 % interval {low:.3f} to {high:.3f}"
    assert told in found.text
    said = float(found.text.split("certified to be at least ")[1].split()[0].rstrip("."))
    bound = bdmc.certified(dt).loc[("real", 0), "lower"]
    assert bound - 0.01 < said < bound


def test_an_open_verdict_names_what_would_settle_it():
    """Few data sets that are clean; many that are not; so few that no more runs are enough."""
    few = runs(sd=0.03, real_sd=0.03, datasets=5, n=8)
    few.attrs |= {"simulate": "prior", "sampling_time": 1.0}
    found = bdmc.verdict(few)
    needed = int(found.text.split("Next: ")[1].split()[0])
    assert f"bdmc.FromPrior(datasets={needed})" in found.text
    assert "verdict(dt, look=2)" in found.text
    enough = runs(sd=0.03, real_sd=0.03, datasets=needed, n=8)
    assert bdmc.verdict(enough, look=2).table.loc["total variation", "status"] == "good"
    noisy = dict(sd=0.75, real_sd=0.7)
    said = bdmc.verdict(runs(**noisy, datasets=30, n=4)).text.split("on each data set: chains=")
    enough = runs(**noisy, datasets=30, n=int(said[1].split()[0]))
    assert bdmc.verdict(enough, look=2).table.loc["total variation", "status"] == "good"
    assert "on each data set: chains=" not in bdmc.verdict(runs(**noisy, datasets=8, n=4)).text


@pytest.mark.parametrize(
    ("path", "effects", "remedy"),
    [
        ("prior", "", ""),
        ("fitted", "", 'try path="prior", since a fit to data like these'),
        ("fitted", "theta", "write theta non-centred, since a fit can miss where their scale is"),
    ],
)
def test_a_part_that_forward_runs_miss_is_told(path, effects, remedy):
    """The θ* of 8 data sets of 20 lie where no forward run goes."""
    dt = good(path=path, centred_effects=effects)
    dt["reverse"]["log_weight"][:8] += 30.0
    found = bdmc.verdict(dt)
    assert found.status == "open"
    most = 100 * stats.binomtest(8, 20, alternative="less").proportion_ci(0.95).high
    assert (
        "with the true parameters on 12 of 20 data sets; they miss it on at most "
        f"{np.ceil(most):.0f} % of such data sets (95 % confidence)" in found.text
    )
    row = found.table.loc["total variation"]
    assert 0.4 < row["value"] < row["upper"]
    assert remedy in found.text
    assert ("since a fit" in found.text) == bool(remedy)


@pytest.mark.parametrize("apart", [0.0, 9.0])
def test_runs_that_end_in_different_places_are_told(apart):
    dt = good()
    x = np.random.default_rng(7).normal(size=(16, 32)) + apart * (np.arange(16) % 2)[:, None]
    dt["particles"] = particles(x=x)
    found = bdmc.verdict(dt)
    assert found.status == ("open" if apart else "good")
    assert ("so that every run reaches all of these places" in found.text) == (apart > 0)


def test_runs_that_failed_count_against_the_posterior():
    found = bdmc.verdict(weighted("forward", lambda w: np.nan, (slice(10), 0)))
    assert found.table.loc["total variation", "value"] > 0.5
    assert "On 10 data sets some runs were not finished" in found.text
    assert "with the true parameters on 10 of 20 data sets" in found.text
    dt = weighted("forward", lambda w: np.nan)  # in its first runs a result has no bound yet
    dt["reverse"]["log_weight"][:] = np.nan
    found = bdmc.verdict(dt)
    assert found.status == "open"
    assert "nan" not in found.text.replace("finished", "")


def test_a_wrong_model_is_told():
    rng = np.random.default_rng(5)
    odd = runs(**SETS, y=rng.standard_t(1.5, size=200))
    found = bdmc.verdict(odd)
    assert found.status == found.table.loc["model", "status"] == "open"
    assert "of y" in found.text
    remedy = 'although the model does not fit, pass simulate="posterior"; to mend the model, see'
    assert remedy in found.remedy
    odd.attrs["simulate"] = "posterior"
    assert bdmc.verdict(odd).remedy.startswith("change the model where your data differ")
    row = {"p_value": 1 / 21, "valid": True, "flagged": True, "kind": "tails of y"}
    for value, simulate, status in [
        (2.8, "prior", None), (-4.3, "prior", "open"), (-4.3, "posterior", None),
    ]:  # fmt: skip
        extreme = pd.Series(row | {"value": value})
        assert check_model(extreme, Reading({}, simulate=simulate), "tails of y").status == status
    right = bdmc.verdict(runs(**SETS, y=rng.normal(size=200)))
    assert right.table.loc["model", "status"] == "good"
    assert right.remedy == ""
    assert "do not stand out" in right.text


@pytest.mark.parametrize(("distance", "status"), [(0.001, "good"), (0.2, "open")])
def test_the_distance_of_starts_is_added(distance, status):
    """It stands in place of the condition, and counts in the status."""
    dt = good(upper_bound="burned-in")
    before = bdmc.verdict(dt).table.loc["total variation"]
    distances = xr.full_like(dt["reverse"]["log_weight"], distance)
    dt["reverse"] = dt["reverse"].dataset.assign(start_distance=distances)
    found = bdmc.verdict(dt)
    row = found.table.loc["total variation"]
    assert row["value"] - before["value"] == pytest.approx(distance)
    assert row["status"] == status
    assert "must be added" not in found.text
    assert f"an estimated {max(distance, 0.01):.2f} at most for the burn-in" in found.text


def test_what_was_not_run_is_not_good():
    found = bdmc.verdict(good().drop_nodes("real"))
    assert found.status == "open"
    assert "no runs on the real data" in found.text
    assert "log ML" not in found.table.index
    found = bdmc.verdict(runs().drop_nodes(["forward", "reverse"]))
    assert found.status == "open"
    assert found.text.startswith("Log ML is")
    assert "Nothing was simulated" in found.text
    assert np.isfinite(found.table.loc["log ML", "error"])


def test_an_interruption_is_told_beside_log_ml_and_the_bayes_factor():
    """Also in the attributes; twin: a run that was not interrupted."""
    dt, whole = weighted("real", lambda w: np.nan, slice(3, None), interrupted=1), good()
    for each in (dt, whole):
        each["observed_data"] = xr.Dataset({"y": ("place", np.zeros(3))})
        write_log_ml(each)
    said = "3 of 16 real chains were finished"
    assert said in repr(bdmc.log_ml(dt))
    assert said in dt.attrs["log_ml_notes"]
    assert whole.attrs["log_ml_notes"] == ""
    for pair, who in (((dt, whole), "First"), ((whole, dt), "Second")):
        assert f"{who} model: Interrupted" in repr(bdmc.bayes_factor(*pair))
    assert "Interrupted" not in repr(bdmc.bayes_factor(whole, whole))


@pytest.mark.parametrize(
    ("reached", "draws", "status"),
    # Of a constraint with P = 1/15 the other path would seem to reach more without it.
    [(-10.0, 1, "bad"), (-20.0, 1, "good"), (-20.0 - np.log(15), 15, "good"), (-10.0, 0, "open")],
)
def test_another_path_that_reaches_more_is_evidence_of_an_error(reached, draws, status):
    dt = good(path="prior")
    dt["real"]["prior_draws"][:] = draws
    if not draws:  # of runs that are not finished nothing is said
        dt["real"]["log_weight"][:] = np.nan
    scouts = reached + np.linspace(-0.1, 0.1, 4)[None]
    dt["scouts"] = xr.Dataset({"log_weight": (("path", "chain"), scouts)}, {"path": ["fitted"]})
    found = bdmc.verdict(dt)
    assert found.status == status
    is_bad = status == "bad"
    assert ("two paths" in found.table.index) == ("pass path='fitted'" in found.text) == is_bad
    assert ("No estimate of log ML can be trusted" in found.text) == is_bad


@pytest.mark.parametrize(("shift", "status"), [(0.02, "good"), (-4.0, "bad")])
def test_both_sides_on_the_real_data(shift, status):
    dt = runs(**SETS | {"n": 40})
    reverse = np.random.default_rng(6).normal(-20 + shift, 0.15, 40)
    dt["real_reverse"] = xr.Dataset(
        {"log_weight": ("chain", reverse), "prior_draws": ("chain", np.zeros(40))},
        {"beta": BETAS},
    )
    found = bdmc.verdict(dt)
    assert found.status == status
    assert ("both sides" in found.table.index) == ("disagree" in found.text) == (status == "bad")


@pytest.mark.parametrize("status", ["good", "open", "bad"])
def test_the_draws_that_were_given_have_a_say(status):
    dt = good()
    table = pd.DataFrame({"shift": [0.1]}, index=pd.Index(["x"], name="quantity"))
    given = Agreement(status, "What was found.\nMore.\nOf the verdict.", table)
    dt["agreement"] = xr.DataTree(agreement_dataset(given))
    found = bdmc.verdict(dt)
    # Draws that are not judged leave nothing open of the run itself.
    assert found.status == ("bad" if status == "bad" else "good")
    assert found.table.loc["draws", "status"] == ("" if status == "open" else status)
    assert "What was found." in found.text
    assert ("More." in found.text) == (status != "good")
    assert "Of the verdict." not in found.text
    assert found.text.startswith("The draws that you gave and") == (status == "bad")


def test_results_of_temper_and_percentages_are_refused():
    with pytest.raises(ValueError, match="verdict reads annealed runs"):
        bdmc.verdict(xr.DataTree.from_dict({"tempering": xr.Dataset()}))
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, not 95"):
        bdmc.verdict(xr.DataTree(), confidence=95)


def test_real_weights_estimate_the_total_variation():
    """Weights 1/2 and 3/2 in equal numbers lack a quarter; even ones lack nothing."""
    halves = np.tile(np.log([0.5, 1.5]), 8)
    row = bdmc.verdict(weighted("real", lambda w: halves)).table.loc["real weights"]
    assert row["value"] == pytest.approx(0.25)
    assert 0 < row["error"] < 0.1
    assert row["status"] == ""
    even = bdmc.verdict(weighted("real", lambda w: 0.0)).table.loc["real weights"]
    assert even[["value", "error"]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("simulate", ["posterior", "hyperparameters"])
def test_runs_on_more_data_show_what_the_real_data_hide(simulate):
    """Also if other data may just be harder. The twin has runs that differ alike."""
    attrs = {"simulate": simulate, "upper_bound": "posterior draw"}
    dt = runs(sd=0.7, real_sd=0.01, datasets=20, n=8)
    dt.attrs |= attrs
    sets, own = bdmc.verdict(dt).table.loc[["total variation", "real weights"], "value"]
    assert sets > own + 0.1
    of_five = np.sqrt(1 / 5 + 1 / 4) * own  # of 8 runs, means of 5 are compared with those of 4
    assert short_on_simulated(dt) == pytest.approx(-np.log1p(of_five - sets))
    assert short_on_simulated(good(**attrs)) < 0.05


class Stuck(TwoSpins):
    """Only one of the two variables moves."""

    def step(self, state, betas, rng):
        return self._drawn(state, betas, rng, (0,))

    step_back = step


@pytest.mark.parametrize(("system", "status"), [(TwoSpins(), "good"), (Stuck(), "open")])
def test_the_total_variation_of_a_planted_fault_is_not_certified(system, status):
    dt = bdmc.anneal(system, temperatures=200, random_seed=1, cores=1, progressbar=False)
    found = bdmc.verdict(dt)
    assert found.status == found.table.loc["total variation", "status"] == status, found.text
    assert "simulated" not in found.text  # a system speaks of itself
    assert "independent pairs" in found.text
