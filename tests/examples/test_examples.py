"""What the examples show, runs; `make docs` runs them all, so most are slow tests here."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import optimize

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def story(tmp_path, monkeypatch):
    """Run a story in an empty folder, with options of all its calls replaced; return its names."""

    def run(name, **few):
        monkeypatch.chdir(tmp_path)
        called = pm.sample_bdmc
        monkeypatch.setattr(
            pm, "sample_bdmc", lambda *args, **options: called(*args, **options | few)
        )
        return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))

    return run


@pytest.fixture
def shows(tmp_path):
    """Check that these pictures were made, and that a page has them if it is named."""

    def check(*names, page=""):
        for name in names:
            (picture,) = tmp_path.rglob(f"{name}.png")
            assert picture.stat().st_size > 10_000
            assert not page or f"images/{name}.png" in page_of(page)

    return check


def page_of(name):
    return (ROOT / "docs" / f"{name}.md").read_text()


def score(dt, log_ml):
    """Standard errors by which log ML differs."""
    value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
    return abs(value - log_ml) / error


def test_first_evidence(story, shows):
    """What its page says: rows of the table, and the exact numbers beside them."""
    found = story("first_evidence")
    page = page_of("first_evidence")
    for dt, variance in ((found["dt"], 0.25), (found["dt_flat"], 0.0)):
        assert score(dt, found["exact_log_ml"](variance)) < 4
    assert all(f"`{row}`" in page for _, row in bdmc.summary(found["dt"]).index)
    assert f"{found['exact_log_ml'](0.25):.3f}".replace("-", "−") in page
    shows("first_evidence")


@pytest.mark.slow
def test_eight_schools(story, shows):
    found = story("eight_schools")
    for name in ("centred", "non_centred"):
        assert score(found[name], -31.0362) < 4
    shows("eight_schools")


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # by LOO of an outlier
@pytest.mark.slow
def test_which_model(story, shows):
    """What its page says: the table, the observation that decides, the averaged prediction."""
    found = story("which_model")
    page = page_of("which_model")
    table = found["table"]
    assert table.index.tolist() == ["gross errors", "Student t", "normal"]
    assert table["valid"].all()
    for name, told in (("gross errors", -219.574), ("Student t", -222.272), ("normal", -254.153)):
        assert f"−{-told:.3f}" in page
        assert abs(table.loc[name, "log_ml"] - told) < 6 * table.loc[name, "error"]
    assert found["decide"]["value"].idxmax() == 6
    assert found["decide"]["value"].idxmin() == 10
    assert float((found["predicted"] < 0).mean()) == pytest.approx(0.012, abs=0.003)
    shows("which_model", "which_observations", page="which_model")


@pytest.mark.slow
def test_trust(story, shows):
    """Draws of NUTS, of ADVI and of the run itself are judged as they should be."""
    found = story("trust")
    assert (found["nuts"].status, found["advi"].status) == ("good", "bad")
    assert bdmc.verdict(found["good"]).table.loc["total variation", "value"] < 0.2
    shows("trust_agreement", "trust_consistency", page="trust")


@pytest.mark.slow
def test_two_samplers(story, shows):
    """The sampler with the small bound has the exact mean; the other does not, and is not trusted.

    Its picture is on the first page that anyone reads.
    """
    found = story("two_samplers")
    good, bad = (bdmc.verdict(found[name]) for name in ("good", "bad"))
    assert (good.status, bad.status) == ("good", "open")
    bound = [each.table.loc["total variation", "upper"] for each in (good, bad)]
    assert bound[0] < 0.25 < 0.9 < bound[1]
    exact = np.trapezoid(found["density"] * np.exp(found["log_rate"]), found["log_rate"])
    draws = [found["draws"](found[name]) for name in ("good", "bad")]
    off = [abs(np.average(rates, weights=shares) - exact) for rates, shares in draws]
    assert off[0] < 0.5 < 3 < off[1]
    shows("two_samplers", page="trust")
    assert "docs/images/two_samplers.png" in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_prior_sensitivity(story, shows, monkeypatch):
    """The curve is the exact one, and the page says where it crosses that of no effect.

    At every other scale, since each is a model to compile.
    """
    sensitivity = bdmc.sensitivity
    monkeypatch.setattr(
        bdmc,
        "sensitivity",
        lambda dt, build, values, **options: sensitivity(dt, build, values[::2], **options),
    )
    found = story("prior_sensitivity")
    table, log_ml = found["table"], found["exact_log_ml"]
    assert table["valid"].all()
    assert ((table["log_ml"] - table["exact"]).abs() < 4 * table["error"]).all()
    assert (table["how"] == "reweighed").sum() >= 5
    turn = optimize.brentq(lambda scale: log_ml(scale) - log_ml(None), 20, 80)
    assert f"exactly, at {turn:.1f}" in page_of("which_model")
    shows("prior_sensitivity", page="which_model")


@pytest.mark.slow
def test_evidence_gallery(tmp_path, shows):
    found = example("evidence_gallery").main(chains=64, temperatures=60, folder=str(tmp_path))
    assert found["exact"]["real"] == pytest.approx(-4.97455, abs=1e-5)
    table = bdmc.evidence(found["result"], "bar").iloc[0]
    assert abs(table["value"] - found["exact"]["simulated"]) < 4 * table["error"]
    shows("work", "estimators", "convergence", "error_analysis")


@pytest.mark.slow
def test_discrete_mixture(story, shows):
    found = story("discrete_mixture")
    for spread, dt in found["results"].items():
        assert score(dt, found["exact_log_ml"](spread)) < 4
    shows("discrete_mixture")


@pytest.mark.slow
def test_step_method_on_trial(tmp_path, shows):
    found = example("step_method_on_trial").main(folder=str(tmp_path))
    passed = {name: report.passed for name, (report, _) in found.items()}
    assert passed == {"Langevin": True, "Uncorrected": False}
    assert abs(found["Langevin"][1]) < 4 < abs(found["Uncorrected"][1])
    shows("step_method_on_trial")


def test_blackjax_on_trial():
    """In a process of its own, since JAX's threads do not bear that this one forks."""
    if not importlib.util.find_spec("blackjax"):
        pytest.skip("BlackJAX is not installed: pip install blackjax")
    path = ROOT / "examples" / "blackjax_on_trial.py"
    told = subprocess.run(
        [sys.executable, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.findall(r"on (\w+): (\w+)", told.stdout) == [
        ("log_density", "passed"),
        ("without_jacobian", "FAILED"),
    ]


@pytest.mark.slow
def test_logistic_regression(story, shows):
    dt = story("logistic_regression")["dt"]
    assert dt.attrs["hyperparameters"] == "spread"
    assert dt["posterior"]["slope"].sizes["feature"] == 6
    shows("logistic_regression")


def test_partition_function(tmp_path, shows):
    found = example("partition_function").main(hidden=8, epochs=10, folder=str(tmp_path))
    for table in (found["annealed"], found["table"].droplevel([0, 1]).loc[["RTS", "MBAR"]]):
        assert ((table["value"] - found["exact"]).abs() < 4 * table["error"]).all()
    shows("tempering")


def test_ising(tmp_path, shows):
    results = example("ising").main(temperatures=(20, 100), folder=str(tmp_path))
    few, many = (
        bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"] for dt in results.values()
    )
    assert few > many > 0
    shows("ising_hysteresis")


@pytest.mark.slow
def test_approximations(story, shows, monkeypatch):
    """A mean field is too narrow; the divergences and the slopes say so."""
    fit = pm.fit
    monkeypatch.setattr(pm, "fit", lambda n, **options: fit(6000, **options))
    found = story("approximations")
    value, slopes = found["table"]["value"], found["slopes"]
    assert value["mean field", "KL(q‖p)"] > 0.6 > 0.2 > value["moments of NUTS", "KL(q‖p)"]
    assert slopes["mean field"].std() < 0.7 * slopes["NUTS"].std()
    shows("approximations", page="trust")


@pytest.mark.slow
def test_tenth_estimator(tmp_path, shows):
    """A bridge without a path is further off than annealing."""
    module = example("tenth_estimator")
    model = module.Clustering(8, n=30, size=10)
    result = module.main(model, trials=3, folder=str(tmp_path), budgets=[400])
    rmse = module.study.standings(result)["rmse"].droplevel("budget")
    assert rmse["bridge"] > 1 > rmse["population"]
    shows("tenth_estimator")
