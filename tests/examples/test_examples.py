"""What the examples show, runs; `make docs` runs them all, so the long ones are slow tests."""

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

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


def test_first_evidence(tmp_path):
    """What its page says: rows of the table, and the exact numbers beside them."""
    module = example("first_evidence")
    results = module.main(folder=str(tmp_path), progressbar=False)
    page = (ROOT / "docs" / "first_evidence.md").read_text()
    for dt, slope in zip(results.values(), (True, False), strict=True):
        value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
        assert abs(value - module.log_ml(slope)) < 4 * error
    for _, row in bdmc.summary(results["with slope"]).index:
        assert f"`{row}`" in page
    assert f"{module.log_ml(True):.3f}".replace("-", "−") in page
    assert (tmp_path / "first_evidence.png").stat().st_size > 10_000


def test_eight_schools(tmp_path):
    module = example("eight_schools")
    results = module.main(folder=str(tmp_path))
    assert (tmp_path / "eight_schools.png").stat().st_size > 10_000
    for dt in results.values():
        value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
        assert abs(value - module.LOG_ML) < 4 * error


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # by LOO of an outlier
@pytest.mark.slow
def test_which_model(tmp_path):
    """What its page says: the table, the observation that decides, the averaged prediction."""
    module = example("which_model")
    found = module.main(folder=str(tmp_path), progressbar=False)
    pages = [ROOT / "docs" / f"which_{page}.md" for page in ("model", "observations")]
    page = "".join(each.read_text() for each in pages)
    results = {name: found[name] for name in module.NAMES}
    table = bdmc.compare(results)
    assert table.index.tolist() == ["gross errors", "Student t", "normal"]
    assert table["valid"].all()
    for name, told in (("gross errors", -219.574), ("Student t", -222.272), ("normal", -254.153)):
        assert f"−{-told:.3f}" in page
        assert abs(table.loc[name, "log_ml"] - told) < 6 * table.loc[name, "error"]
    decide = bdmc.pointwise(found["in turn"]["Student t"], found["in turn"]["normal"])
    assert decide["value"].idxmax() == 6
    assert decide["value"].idxmin() == 10
    assert float((found["predicted"] < 0).mean()) == pytest.approx(0.012, abs=0.003)
    for name in ("which_model", "which_observations"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert f"images/{name}.png" in page


@pytest.mark.slow
def test_trust(tmp_path, monkeypatch):
    """The sound sampler is shown to be closer than the one that hardly moves, and draws judged."""
    module, judged = example("trust"), {}
    judge = module.judge
    monkeypatch.setattr(
        module, "judge", lambda *args, **options: judged.update(judge(*args, **options))
    )
    results = module.main(folder=str(tmp_path), datasets=4, progressbar=False)
    assert {name: each.status for name, each in judged.items()} == {"NUTS": "good", "ADVI": "bad"}
    good, bad = (bdmc.verdict(dt).table.loc["total variation", "value"] for dt in results.values())
    assert good < 0.2 < 0.6 < bad
    for name in ("agreement", "sandwich", "consistency"):
        assert (tmp_path / f"trust_{name}.png").stat().st_size > 10_000
        assert f"images/trust_{name}.png" in (ROOT / "docs" / "trust.md").read_text()


@pytest.mark.slow
def test_approximations(tmp_path):
    """A mean field is too narrow; the divergences and the slopes say so."""
    found = example("approximations").main(folder=str(tmp_path), iterations=6000)
    value = found["table"]["value"]
    assert value["mean field", "KL(q‖p)"] > 0.6 > 0.2 > value["moments of NUTS", "KL(q‖p)"]
    assert found["slopes"]["mean field"].std() < 0.7 * found["slopes"]["NUTS"].std()
    assert (tmp_path / "approximations.png").stat().st_size > 10_000
    assert "images/approximations.png" in (ROOT / "docs" / "advi.md").read_text()


@pytest.mark.slow
def test_prior_sensitivity(tmp_path, monkeypatch):
    """The curve is the exact one, and the page says where it crosses that of no effect.

    At every other scale, since each is a model to compile.
    """
    module = example("prior_sensitivity")
    monkeypatch.setattr(module, "SCALES", module.SCALES[::2])
    found = module.main(folder=str(tmp_path))
    table = found["table"]
    assert table["valid"].all()
    assert ((table["log_ml"] - table["exact"]).abs() < 4 * table["error"]).all()
    assert (table["how"] == "reweighed").sum() >= 5
    page = (ROOT / "docs" / "prior_sensitivity.md").read_text()
    assert "images/prior_sensitivity.png" in page
    turn = optimize.brentq(lambda scale: module.log_ml(scale) - module.log_ml(None), 20, 80)
    assert f"exactly, at {turn:.1f}" in page
    assert (tmp_path / "prior_sensitivity.png").stat().st_size > 10_000


def test_evidence_gallery(tmp_path):
    found = example("evidence_gallery").main(chains=64, temperatures=60, folder=str(tmp_path))
    assert found["exact"]["real"] == pytest.approx(-4.97455, abs=1e-5)
    table = bdmc.evidence(found["result"], "bar").iloc[0]
    assert abs(table["value"] - found["exact"]["simulated"]) < 4 * table["error"]
    for name in ("work", "estimators", "convergence", "error_analysis"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert f"images/{name}.png" in (ROOT / "docs" / "gallery.md").read_text()


def test_discrete_mixture(tmp_path):
    module = example("discrete_mixture")
    options = dict(datasets=1, chains=48, temperatures=150, folder=str(tmp_path))
    for spread, dt in module.main(**options).items():
        value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
        assert abs(value - module.log_ml(spread)) < 4 * error


def test_step_method_on_trial(tmp_path):
    module = example("step_method_on_trial")
    found = module.main(chains=400, temperatures=50, folder=str(tmp_path))
    passed = {name: report.passed for name, (report, _) in found.items()}
    assert passed == {"Langevin": True, "Uncorrected": False}
    assert abs(found["Langevin"][1]) < 4
    assert abs(found["Uncorrected"][1]) > 4
    assert (tmp_path / "step_method_on_trial.png").stat().st_size > 10_000


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


def test_logistic_regression(tmp_path):
    options = dict(datasets=2, chains=6, temperatures=40, folder=str(tmp_path))
    dt = example("logistic_regression").main(**options)
    assert dt.attrs["hyperparameters"] == "spread"
    assert dt["posterior"]["slope"].sizes["feature"] == 6


def test_partition_function(tmp_path):
    found = example("partition_function").main(hidden=8, epochs=10, folder=str(tmp_path))
    assert (tmp_path / "tempering.png").stat().st_size > 10_000
    for table in (found["annealed"], found["table"].droplevel([0, 1]).loc[["RTS", "MBAR"]]):
        assert ((table["value"] - found["exact"]).abs() < 4 * table["error"]).all()


def test_ising(tmp_path):
    results = example("ising").main(temperatures=(20, 100), folder=str(tmp_path))
    assert (tmp_path / "ising_hysteresis.png").stat().st_size > 10_000
    gaps = [
        bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"] for dt in results.values()
    ]
    assert gaps[0] > gaps[1] > 0


@pytest.mark.slow
def test_tenth_estimator(tmp_path):
    """A bridge without a path is further off than annealing."""
    module = example("tenth_estimator")
    model = bdmc.testbed.Clustering(8, n=30, size=10)
    result = module.main(model, trials=3, folder=str(tmp_path), budgets=[400])
    rmse = bdmc.testbed.standings(result)["rmse"].droplevel("budget")
    assert rmse["bridge"] > 1 > rmse["population"]
    assert (tmp_path / "tenth_estimator.png").stat().st_size > 10_000
    lines = inspect.getsource(module).split("def ", 1)[1].split("\n\n\nif ")[0].splitlines()
    assert len([line for line in lines if line.strip()]) <= 30
