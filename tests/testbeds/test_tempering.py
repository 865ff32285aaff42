"""Simulated tempering on machines, lattices and PyMC models, against exact answers."""

import signal
import sys

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.density.compiled import JittedDensity, NotJittable
from pymc_bdmc.lattice import Ising, Potts
from pymc_bdmc.testbeds import tempering
from pymc_bdmc.testsystems import BimodalGaussian
from tests.models import SIGMAS, hard_constraint, repeated_normal

FEW = {"chains": 2, "draws": 3, "temperatures": 2, "initial": 2, "iterations": 1, "random_seed": 1}


@pytest.fixture(scope="module")
def rbm():
    rng = np.random.default_rng(1)
    return bdmc.rbm.RBM(rng.normal(size=30), rng.normal(size=12), rng.normal(size=(30, 12)))


@pytest.fixture(scope="module")
def tempered(rbm):
    return bdmc.temper(rbm, temperatures=10, draws=1000, random_seed=1)


def evidence(dt, methods=("RTS", "sequential likelihood")):
    return bdmc.evidence(dt).droplevel([0, 1]).loc[list(methods)]


def test_every_method_on_the_same_draws(rbm, tempered):
    table = bdmc.evidence(tempered).droplevel([0, 1])
    z = (table["value"] - rbm.log_z()) / table["error"]
    sound = ["RTS", "sequential likelihood", "TI corrected", "TI-RB corrected", "MBAR"]
    assert (z[sound].abs() < SIGMAS).all()
    assert table["valid"][sound].all()
    # Broken twins: the rule that ten temperatures are too few for, which says so
    assert (z[["TI riemann", "TI-RB riemann"]] < -SIGMAS).all()
    assert not table["valid"][["TI riemann", "TI-RB riemann"]].any()


@pytest.mark.parametrize(
    ("system", "draws"),
    [
        (Ising(6), 300),
        (Potts(3, q=4, coupling=2.0), 300),
        (BimodalGaussian(dimension=10, distance=3.0, prior_std=5.0, upper_weight=0.5), 200),
    ],
)
def test_other_systems(system, draws):
    options = {"schedule": "cubic", "initial": 20} if draws == 200 else {}
    dt = bdmc.temper(system, temperatures=20, draws=draws, random_seed=2, **options)
    table = evidence(dt, ["RTS", "sequential likelihood", "MBAR"])
    log_z = system.log_z if draws == 200 else system.log_z()
    assert ((table["value"] - log_z).abs() < SIGMAS * table["error"]).all()
    assert table["error"].max() < 0.3


def score(run, k, expected):
    """Standard errors by which mean ℓ at a temperature differs."""
    by_chain = run["log_likelihood"].where(run["place"] == k).mean("draw")
    error = float(by_chain.std(ddof=1) / np.sqrt(by_chain.size))
    return abs(float(by_chain.mean()) - expected) / error


def test_draws_are_of_their_temperature(rbm, tempered):
    """Mean ℓ at each β is the slope of the exact log Z. Twin: draws of the next temperature."""
    run, h = tempered["tempering"], 1e-4
    for k in (2, 5, 8):
        beta = float(run["beta"][k])
        slope = (rbm.log_z(beta + h) - rbm.log_z(beta - h)) / (2 * h)
        assert score(run, k, slope) < SIGMAS < score(run, k + 1, slope)


def test_compiled_draws_are_of_their_temperature():
    """Mean ℓ at each β is the slope of the exact log Z. Twin: β in the opposite order."""
    model, betas = repeated_normal(), np.array([0.0, 0.1, 0.4, 1.0])
    y = model.rvs_to_values[model["y"]].eval()
    dt = bdmc.temper(model, temperatures=betas, draws=150, random_seed=3, progressbar=False)

    def exact(beta):
        variance = 1 / (1 / 4 + y.size * beta)
        ells = stats.norm.logpdf(y, beta * variance * y.sum())
        return ells.sum() - y.size * variance / 2

    assert dt.attrs["step"].startswith("compiled")
    for k, beta in enumerate(betas):
        scores = [score(dt["tempering"], k, exact(each)) for each in (beta, betas[-1 - k])]
        assert scores[0] < SIGMAS < scores[1]


def test_initial_iterations_stop_by_the_rule(tempered):
    flatness = [
        float(np.abs(11 * np.exp(log_c).mean("chain") - 1).max())
        for log_c in tempered["initial"]["log_probability"]
    ]
    assert flatness[-1] < 0.1 <= min(flatness[:-1])
    assert tempered.attrs["flatness"] == pytest.approx(flatness[-1])


def test_a_step_method_finds_the_evidence():
    """The estimate is right though most of the prior is impossible."""
    model, log_ml = hard_constraint()
    dt = bdmc.temper(
        model, chains=8, temperatures=np.linspace(0, 1, 6) ** 3, draws=80, initial=20,
        step=pm.Metropolis, random_seed=1, progressbar=False,
    )  # fmt: skip
    value, error = bdmc.evidence(dt, "RTS")[["value", "error"]].iloc[0]
    assert abs(value - log_ml) < SIGMAS * error
    assert error < 0.5


def test_models_that_cannot_be_compiled_use_step_methods(monkeypatch):
    """Here the model of the context."""

    def refuse(self, gradient):
        raise NotJittable("no")

    monkeypatch.setattr(JittedDensity, "_compile", refuse)
    with pm.Model():
        pm.Normal("y", pm.Bernoulli("k", 0.5), observed=0.0)
        dt = bdmc.temper(**FEW)
    assert dt.attrs["step"].startswith("BinaryGibbsMetropolis(")
    assert dt["tempering"]["place"].shape == (2, 3)


def test_one_seed_one_result_and_uneven_visits_are_said(rbm, caplog):
    runs = [bdmc.temper(rbm, temperatures=10, draws=200, random_seed=s) for s in (5, 5, 6)]
    ell = [run["tempering"]["log_likelihood"].values for run in runs]
    np.testing.assert_array_equal(ell[0], ell[1])
    assert (ell[0] != ell[2]).any()
    assert not caplog.records
    bdmc.temper(rbm, temperatures=3, draws=20, initial=2, iterations=1, random_seed=1)
    assert {(r.name, r.levelname) for r in caplog.records} == {
        ("pymc.bdmc.results.verdict", "WARNING")
    }
    assert "temperatures are visited unevenly" in caplog.text


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


def test_ctrl_c_keeps_draws(rbm, tempered, interrupt, caplog):
    number = 317
    interrupt("draws", number)
    dt = bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)
    assert f"Interrupted: {number} draws of each chain are kept" in caplog.text
    assert dt.attrs["interrupted"] == 1
    ell, whole = (each["tempering"]["log_likelihood"] for each in (dt, tempered))
    np.testing.assert_array_equal(ell, whole[:, :number])


@pytest.mark.parametrize(("sweep", "iterations", "draws"), [(40, 0, 40), (80, 1, 30)])
def test_ctrl_c_in_the_initial_iterations(rbm, interrupt, tmp_path, sweep, iterations, draws):
    """The result can be saved and read."""
    interrupt("initial", sweep)
    dt = bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)
    assert dt.attrs["interrupted"] == 1
    assert dt["initial"].sizes["iteration"] == iterations
    assert dt["tempering"].sizes["draw"] == draws
    table = evidence(dt)
    assert ((table["value"] - rbm.log_z()).abs() < SIGMAS * table["error"]).all()
    dt.to_netcdf(tmp_path / "run.nc")
    assert evidence(xr.load_datatree(tmp_path / "run.nc")).equals(table)


@pytest.mark.parametrize(("phase", "times"), [("start", 1), ("initial", 2), ("draws", 2)])
def test_ctrl_c_before_any_draw_or_twice_raises(rbm, interrupt, phase, times):
    interrupt(phase, 7, times)
    with pytest.raises(KeyboardInterrupt):
        bdmc.temper(rbm, temperatures=10, draws=1000, initial=50, random_seed=1)


def test_progress_of_every_phase(rbm, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    for progressbar, shown in ((True, ["Sweeps", "200/200"]), (False, [])):
        bdmc.temper(rbm, temperatures=3, draws=200, random_seed=1, progressbar=progressbar)
        out = capsys.readouterr().out
        assert all(each in out for each in shown)
        assert bool(out) is progressbar


def test_stuck_chains_are_not_valid(tempered):
    stuck = tempered.copy()
    place = tempered["tempering"]["place"].clip(3, 7)
    stuck["tempering"] = tempered["tempering"].dataset.assign(place=place)
    table = bdmc.evidence(stuck, "RTS")
    assert not table["valid"].any()
    assert "0 passages" in table["reason"].iloc[0]


def groups_from_one():
    """The index of a group is too large."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("effect", shape=2)[[1, 2]], observed=np.zeros(2))
    return model


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda dt, rbm: bdmc.temper(rbm, step="nuts"), "step: only a PyMC model"),
        (lambda dt, rbm: bdmc.temper(groups_from_one()), "^y: it cannot be evaluated"),
        (lambda dt, rbm: bdmc.temper("ising"), "^system: 'ising' is not a System"),
        (lambda dt, rbm: bdmc.temper(rbm, draws=0), "draws"),
        (lambda dt, rbm: bdmc.evidence(dt, "nonsense"), "method"),
        (lambda dt, rbm: bdmc.evidence(dt["initial"]), "result of sample_bdmc"),
    ],
)
def test_refuses(rbm, tempered, call, message):
    with pytest.raises(ValueError, match=message):
        call(tempered, rbm)


def test_mbar_says_how_to_install_pymbar(tempered, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymbar", None)
    with pytest.raises(ImportError, match=r"pip install 'pymc-bdmc\[mbar\]'"):
        bdmc.evidence(tempered, "MBAR")
