"""Simulated tempering on machines and on PyMC models, against exact answers."""

import signal

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.density.compiled import JittedDensity, NotJittable
from pymc_bdmc.testbeds import tempering
from tests.call.test_bad_input import groups_from_one
from tests.models import SIGMAS, beta_bernoulli, conjugate_regression, hard_constraint


@pytest.fixture(scope="module")
def rbm():
    rng = np.random.default_rng(1)
    return bdmc.rbm.RBM(rng.normal(size=30), rng.normal(size=12), rng.normal(size=(30, 12)))


@pytest.fixture(scope="module")
def tempered(rbm):
    return bdmc.temper(rbm, temperatures=10, draws=1000, random_seed=1)


def test_every_method_on_the_same_draws(rbm, tempered):
    table = bdmc.evidence(tempered).droplevel([0, 1])
    z = (table["value"] - rbm.log_z()) / table["error"]
    sound = ["RTS", "sequential likelihood", "TI corrected", "TI-RB corrected", "MBAR"]
    assert (z[sound].abs() < SIGMAS).all()
    assert table["valid"][sound].all()
    # Broken twins: the rule that ten temperatures are too few for, which says so
    assert (z[["TI riemann", "TI-RB riemann"]] < -SIGMAS).all()
    assert not table["valid"][["TI riemann", "TI-RB riemann"]].any()


def test_every_temperature(rbm, tempered):
    run = tempered["tempering"]
    found = bdmc.estimators.rao_blackwellized(
        run["log_likelihood"], run["beta"].values, run["log_z_guess"].values
    )
    exact = [rbm.log_z(beta) for beta in run["beta"].values]
    assert (np.abs(found.log_z - exact)[1:] < SIGMAS * found.error[1:]).all()


def test_draws_are_of_their_temperature(rbm, tempered):
    """Mean ℓ at each β is the slope of the exact log Z."""
    run, h = tempered["tempering"], 1e-4
    for k in (2, 5, 8):
        beta = float(run["beta"][k])
        slope = (rbm.log_z(beta + h) - rbm.log_z(beta - h)) / (2 * h)
        by_chain = run["log_likelihood"].where(run["place"] == k).mean("draw")
        error = float(by_chain.std(ddof=1) / np.sqrt(by_chain.size))
        assert abs(float(by_chain.mean()) - slope) < SIGMAS * error
        # Broken twin: draws of the next temperature
        wrong = run["log_likelihood"].where(run["place"] == k + 1).mean()
        assert abs(float(wrong) - slope) > SIGMAS * error


def test_two_gaussians_in_ten_dimensions():
    system = bdmc.testsystems.BimodalGaussian(
        dimension=10, distance=3.0, prior_std=5.0, upper_weight=0.5
    )
    dt = bdmc.temper(
        system, temperatures=20, schedule="cubic", draws=300, initial=20, random_seed=2
    )
    table = bdmc.evidence(dt).droplevel([0, 1]).loc[["RTS", "sequential likelihood", "MBAR"]]
    assert ((table["value"] - system.log_z).abs() < SIGMAS * table["error"]).all()
    assert table["error"].max() < 0.3
    difference = abs(table.loc["RTS", "value"] - table.loc["MBAR", "value"])
    assert difference < SIGMAS * table.loc["RTS", "error"]


def test_initial_iterations_stop_by_the_rule(tempered):
    flatness = [
        float(np.abs(11 * np.exp(log_c).mean("chain") - 1).max())
        for log_c in tempered["initial"]["log_probability"]
    ]
    assert flatness[-1] < 0.1
    assert all(value >= 0.1 for value in flatness[:-1])
    assert tempered.attrs["flatness"] == pytest.approx(flatness[-1])


def test_one_seed_one_result(rbm):
    runs = [bdmc.temper(rbm, temperatures=8, draws=200, random_seed=s) for s in (5, 5, 6)]
    ell = [run["tempering"]["log_likelihood"].values for run in runs]
    np.testing.assert_array_equal(ell[0], ell[1])
    assert (ell[0] != ell[2]).any()


def test_result_round_trips(tempered, tmp_path):
    import xarray as xr

    tempered.to_netcdf(tmp_path / "run.nc")
    back = xr.open_datatree(tmp_path / "run.nc").load()
    assert bdmc.evidence(back, "RTS").equals(bdmc.evidence(tempered, "RTS"))


@pytest.mark.parametrize("step", [None, pm.Metropolis], ids=["compiled", "step methods"])
@pytest.mark.parametrize("build", [beta_bernoulli, conjugate_regression, hard_constraint])
def test_pymc_models(build, step):
    model, log_ml = build() if build is not conjugate_regression else build(d=2, n=20)
    betas = np.linspace(0, 1, 9) ** 3
    dt = bdmc.temper(
        model, chains=12, temperatures=betas, draws=150, initial=20, step=step, random_seed=1,
        progressbar=False,
    )  # fmt: skip
    assert dt.attrs["step"].startswith("compiled") == (step is None)
    value, error = bdmc.evidence(dt, "RTS")[["value", "error"]].iloc[0]
    assert abs(value - log_ml) < SIGMAS * error
    assert error < 0.5


def test_compiled_draws_are_of_their_temperature():
    """Mean ℓ at each β is the slope of the exact log Z."""
    y = np.array([0.4, -1.3, 2.2, 0.9, 1.7, -0.6])
    n, betas = y.size, np.array([0.0, 0.1, 0.4, 1.0])
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=y)
    dt = bdmc.temper(model, temperatures=betas, draws=1000, random_seed=3, progressbar=False)
    run = dt["tempering"]

    def exact(beta):
        moments = y @ y, y.sum() ** 2 / (1 + n * beta), y.sum() ** 2 * n / (1 + n * beta) ** 2
        slope = -0.5 * moments[0] + beta * moments[1] - 0.5 * beta**2 * moments[2]
        return slope - 0.5 * n * np.log(2 * np.pi) - 0.5 * n / (1 + n * beta)

    for k, beta in enumerate(betas):
        by_chain = run["log_likelihood"].where(run["place"] == k).mean("draw")
        error = float(by_chain.std(ddof=1) / np.sqrt(by_chain.size))
        assert abs(float(by_chain.mean()) - exact(beta)) < SIGMAS * error
        # Broken twin: the temperatures in the opposite order
        assert abs(float(by_chain.mean()) - exact(betas[-1 - k])) > SIGMAS * error


def test_models_that_cannot_be_compiled_use_step_methods(monkeypatch):
    def refuse(self, gradient):
        raise NotJittable("no")

    monkeypatch.setattr(JittedDensity, "_compile", refuse)
    dt = bdmc.temper(
        beta_bernoulli()[0], chains=2, draws=3, temperatures=2, initial=2, iterations=1,
        random_seed=1, progressbar=False,
    )  # fmt: skip
    assert dt.attrs["step"].startswith("NUTS(")


def test_model_of_the_context():
    with beta_bernoulli()[0]:
        dt = bdmc.temper(chains=2, draws=3, temperatures=2, initial=2, iterations=1, random_seed=1)
    assert dt["tempering"]["place"].shape == (2, 3)


def test_uneven_visits_are_said(rbm, caplog):
    bdmc.temper(rbm, temperatures=3, draws=20, initial=2, iterations=1, random_seed=1)
    assert {(r.name, r.levelname) for r in caplog.records} == {("pymc.bdmc", "WARNING")}
    assert "temperatures are visited unevenly" in caplog.text
    caplog.clear()
    bdmc.temper(rbm, temperatures=10, draws=200, random_seed=1)
    assert not caplog.records


@pytest.fixture
def interrupt(monkeypatch):
    """Make Ctrl-C come, once or more often, in the given sweep of a phase."""
    sweep = tempering._Chains.sweep

    def at(phase, number, times=1):
        count = 0

        def interrupted(self, current):
            nonlocal count
            count += current == phase
            if current == phase and count == number:
                for _ in range(times):
                    signal.raise_signal(signal.SIGINT)
            return sweep(self, current)

        monkeypatch.setattr(tempering._Chains, "sweep", interrupted)

    return at


@pytest.mark.parametrize("number", np.random.default_rng(5).integers(100, 1000, 2))
def test_ctrl_c_keeps_draws(rbm, tempered, interrupt, caplog, number):
    interrupt("draws", number)
    dt = bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)
    assert f"Interrupted: {number} draws of each chain are kept" in caplog.text
    assert dt.attrs["interrupted"] == 1
    ell, whole = (each["tempering"]["log_likelihood"] for each in (dt, tempered))
    np.testing.assert_array_equal(ell, whole[:, :number])


@pytest.mark.parametrize(("sweep", "iterations", "draws"), [(40, 0, 40), (50, 0, 50), (80, 1, 30)])
def test_ctrl_c_in_the_initial_iterations(rbm, interrupt, tmp_path, sweep, iterations, draws):
    interrupt("initial", sweep)
    dt = bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)
    assert dt.attrs["interrupted"] == 1
    assert dt["initial"].sizes["iteration"] == iterations
    assert dt["tempering"].sizes["draw"] == draws
    table = bdmc.evidence(dt).droplevel([0, 1]).loc[["RTS", "sequential likelihood"]]
    assert ((table["value"] - rbm.log_z()).abs() < SIGMAS * table["error"]).all()
    dt.to_netcdf(tmp_path / "run.nc")


@pytest.mark.parametrize(("phase", "times"), [("start", 1), ("initial", 2), ("draws", 2)])
def test_ctrl_c_before_any_draw_or_twice_raises(rbm, interrupt, phase, times):
    interrupt(phase, 7, times)
    with pytest.raises(KeyboardInterrupt):
        bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)


def test_progress_of_every_phase(rbm, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    bdmc.temper(rbm, temperatures=3, draws=200, random_seed=1)
    shown = capsys.readouterr().out
    assert "Sweeps" in shown
    assert "200/200" in shown
    bdmc.temper(rbm, temperatures=3, draws=200, random_seed=1, progressbar=False)
    assert not capsys.readouterr().out


def test_stuck_chains_are_not_valid(tempered):
    stuck = tempered.copy()
    stuck["tempering"] = tempered["tempering"].dataset.assign(
        place=tempered["tempering"]["place"].clip(3, 7)
    )
    table = bdmc.evidence(stuck, "RTS")
    assert not table["valid"].any()
    assert "0 passages" in table["reason"].iloc[0]


def test_refuses(rbm, tempered):
    with pytest.raises(ValueError, match="step: only a PyMC model"):
        bdmc.temper(rbm, step="nuts")
    with pytest.raises(ValueError, match=r"^y: it cannot be evaluated"):
        bdmc.temper(groups_from_one())
    with pytest.raises(ValueError, match=r"^system: 'ising' is not a System"):
        bdmc.temper("ising")
    with pytest.raises(ValueError, match="draws"):
        bdmc.temper(rbm, draws=0)
    with pytest.raises(ValueError, match="method"):
        bdmc.evidence(tempered, "nonsense")
    with pytest.raises(ValueError, match="result of sample_bdmc"):
        bdmc.evidence(tempered["initial"])


def test_mbar_says_how_to_install_pymbar(tempered, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymbar", None)
    with pytest.raises(ImportError, match=r"pip install 'pymc-bdmc\[mbar\]'"):
        bdmc.evidence(tempered, "MBAR")
