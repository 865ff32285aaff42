"""The best of several models is found, and no more often wrongly than is said."""

from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from pymc_bdmc.studies import compare_models as module
from pymc_bdmc.studies.compare_models import compare_models, pooled_log_ml
from tests.models import SIGMAS
from tests.results.trees import tree

Y = np.array([0.3, 1.2, -0.4, 0.8])
OPTIONS = dict(random_seed=1, progressbar=False, cores=1)


def normal(scale, y=Y):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, scale), 1.0, observed=y)
    return model


def log_ml(scale):
    return stats.multivariate_normal.logpdf(Y, np.zeros(4), np.eye(4) + scale**2)


# Integers where others have them, so that they share a compiled density
SCALES = {"one": 2, "near": 2, "wide": 60.0}
ONE, WIDE = normal(2), normal(60.0)
MODELS = {"one": ONE, "near": ONE, "wide": WIDE}
SMALL = {"particles": 4, "temperatures": 40, "path": "prior", "chains": 32}


@pytest.fixture(scope="module")
def found():
    """One look rules out a scale of 60. The two others are the same model."""
    return compare_models(MODELS, max_looks=2, **SMALL, **OPTIONS)


def test_more_runs_go_where_the_order_is_undecided(found):
    table = found.table
    assert table["runs"].to_dict() == {"one": 64, "near": 64, "wide": 32}
    assert table["beaten"].to_dict() == {"one": False, "near": False, "wide": True}
    assert [len(found.results[name]) for name in MODELS] == [2, 2, 1]
    assert [dt["real"].sizes["chain"] for dt in found.results["one"]] == [32, 32]
    assert not found.known
    told, second = str(found), "near" if found.best == "one" else "one"
    assert told.startswith(f"It is open whether the data favour {found.best} or {second}: the B")
    assert 'such evidence "not worth more than a bare mention".' in told
    assert f"More runs may bring another model to the top: {second}.\n" in told
    assert "beaten" not in told


def test_known_answers(found):
    """α = 6e-5 a comparison. Runs of all looks are fresh, and pooled with equal weights."""
    table = found.table
    exact = np.array([log_ml(SCALES[name]) for name in table.index])
    assert (np.abs(table["log_ml"] - exact) < SIGMAS * table["error"]).all()
    assert table["probability"].sum() == pytest.approx(1.0)
    assert table["log_bayes_factor"].iloc[0] == 0
    # Broken twin: the sum of the weights of all looks in place of their mean
    assert (np.abs(table["log_ml"] + np.log(2) - exact) > SIGMAS * table["error"]).all()
    joined = np.concatenate([dt["real"]["log_weight"].values for dt in found.results["one"]])
    assert len(np.unique(joined)) == 64
    assert table.loc["one", "log_ml"] == pytest.approx(np.log(np.mean(np.exp(joined))))


def test_a_clear_case_takes_one_look_on_any_cores():
    models = {"wide": WIDE, "one": ONE}
    found, again = (compare_models(models, **SMALL, **OPTIONS | {"cores": n}) for n in (1, 2))
    assert (found.best, found.known, found.looks) == ("one", True, 1)
    assert str(found).startswith("The data favour one over wide, with a Bayes factor of ")
    assert "More runs would not bring another model to the top (95 % confidence), " in str(found)
    columns = ["log_ml", "error", "log_bayes_factor", "probability"]
    assert found.table[columns].equals(again.table[columns])


TWO = {"a": ONE, "b": WIDE}


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"a": ONE}, {}, "two or more models"),
        (list(TWO.values()), {}, "two or more models"),
        (TWO, {"target_error": 0}, "target_error: must be a positive"),
        (TWO, {"max_looks": 0}, "max_looks: must be a whole number"),
        (TWO, {"chains": 8, "target_error": 0.1}, "target_error: .* leave one of them out"),
        (TWO, {"confidence": 1.5}, "confidence must lie between"),
        (TWO, {"simulate": None}, "simulate: compare_models makes its own runs"),
        (TWO, {"draws": 1000}, "draws: sample_bdmc has no such argument"),
        (TWO | {"b": xr.DataTree()}, {}, r"\['b'\] are results; bdmc.compare compares those"),
        (TWO | {"b": normal(2, Y + 1)}, SMALL | OPTIONS, "its data are not those of a"),
    ],
)
def test_bad_input_is_named(models, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare_models(models, **options)


def log_normal(rng, mean, chains, trials=1):
    """A result whose weights are log-normal with a known mean."""
    dt = tree(real=rng.normal(mean - 0.125, 0.5, chains), draws=trials)
    dt["real"].attrs["gradient_evaluations"] = 1
    dt["observed_data"] = xr.Dataset({"y": ("i", Y)})
    dt.attrs |= {"sampling_time": 1.0, "preparation_time": 1.0, "path": "prior"}
    return dt


def test_log_prior_mass_of_every_result_counts():
    """Half of the prior draws are impossible in one result and a third in the other."""
    rng = np.random.default_rng(1)
    parts = [log_normal(rng, np.log(2), 400, trials=2), log_normal(rng, np.log(3), 400, trials=3)]
    found = pooled_log_ml(parts)
    assert abs(found.value) < SIGMAS * found.error
    alone = [pooled_log_ml([each]) for each in parts]
    assert found.error < min(each.error for each in alone)


def faked(monkeypatch, sample):
    monkeypatch.setattr("pymc_bdmc.studies.compare_models.sample_bdmc", sample)


def wrong_choices(monkeypatch, runs=40):
    """Number of times that the worse of two models, by a hair, is declared the best."""
    rng, models = np.random.default_rng(1), {"better": 1e-9, "worse": 0.0}
    faked(monkeypatch, lambda mean, chains=16, **options: log_normal(rng, mean, chains))
    found = (compare_models(models, confidence=0.8, progressbar=False) for _ in range(runs))
    return sum(each.known and each.best == "worse" for each in found)


def test_the_confidence_holds_over_all_looks(monkeypatch):
    """At most 20 % of 40 are wrong: more than 16 with probability below 0.002."""
    assert wrong_choices(monkeypatch) <= 16
    # Broken twin: every look spends all of δ
    monkeypatch.setattr(module, "round_confidence", lambda confidence, look: confidence)
    assert wrong_choices(monkeypatch) > 16


def test_what_cannot_be_trusted_is_not_judged():
    rng = np.random.default_rng(1)
    results = {"a": [log_normal(rng, 0.0, 8)], "b": [log_normal(rng, -50.0, 8)]}  # too few runs
    rows = {name: module._row(each) for name, each in results.items()}
    module._judge(rows, 0.01)
    assert not any(row["beaten"] for row in rows.values())
    choice = module._choice(rows, 0.95, 1, results)
    assert (choice.best, choice.known) == ("", False)
    assert str(choice).startswith("No model has a log ML that can be trusted.")


@pytest.mark.parametrize(("calls", "options"), [(1, {}), (3, {}), (9, {"max_time": 1e-9})])
def test_ctrl_c_and_a_limit_of_time_keep_the_looks_so_far(calls, options, monkeypatch):
    """Ctrl-C ends the first look without a result, and a later one with the result before it."""
    rng, made = np.random.default_rng(1), []

    def interrupted(mean, chains=16, **options):
        made.append(mean)
        if len(made) > calls:
            raise KeyboardInterrupt
        return log_normal(rng, mean, chains)

    faked(monkeypatch, interrupted)
    with pytest.raises(KeyboardInterrupt) if calls == 1 else nullcontext():
        found = compare_models({"a": 0.0, "b": 0.0}, progressbar=False, **options)
        assert (found.looks, found.known) == (1, False)
