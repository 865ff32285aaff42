"""Annealing a machine in one call gives a result that all else works on."""

from dataclasses import replace

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.rbm import RBM, anneal
from tests.models import SIGMAS


@pytest.fixture(scope="module")
def rbm():
    rng = np.random.default_rng(1)
    return RBM(rng.normal(size=30), rng.normal(size=12), rng.normal(size=(30, 12)))


@pytest.mark.parametrize(
    ("integrated", "base_rate"), [("none", True), ("hidden", False), ("visible", True)]
)
def test_every_estimator_covers_the_exact_value(rbm, integrated, base_rate):
    machine = replace(rbm, integrated=integrated)
    data = np.random.default_rng(8).random((20, 30)) < 0.3
    machine = machine.with_base_rate(data) if base_rate else machine
    result = anneal(machine, chains=150, temperatures=40, random_seed=1, progressbar=False)
    assert result.attrs["upper_bound"] == "exact"
    table = bdmc.evidence(result)
    inside = (table["value"] - machine.log_z()).abs() < SIGMAS * table["error"]
    assert inside[table["valid"]].all()
    assert table["valid"].sum() >= 3
    bounds = bdmc.certified(result).iloc[0]
    assert bounds["lower"] < machine.log_z() < bounds["upper"]


def test_a_burn_in_that_takes_long_hears_ctrl_c(ctrl_c_after):
    """Ctrl-C ends a burn-in that would last for hours."""
    large = RBM(np.zeros(500), np.zeros(500), np.zeros((500, 500)))
    options = {"chains": 2, "temperatures": 2, "progressbar": False}
    anneal(large, burn_in=1, **options)  # compiles
    with ctrl_c_after(0.2):
        dt = anneal(large, burn_in=10**7, **options)
    assert dt["forward"]["log_weight"].notnull().all()
    assert dt["reverse"]["log_weight"].isnull().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rbm": "rbm"}, "^rbm: "),
        ({"burn_in": -1}, "^burn_in: "),
        ({"schedule": "x"}, "^schedule: "),
        ({"temperatures": 0}, "^temperatures: "),
    ],
)
def test_refuses(rbm, options, message):
    with pytest.raises(ValueError, match=message):
        anneal(**({"rbm": rbm} | options))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:After .* initial iterations")
def test_machine_trained_on_mnist(reference_data):
    """784 × 500 units; published estimates of log Z are about 451.3-451.4."""
    rbm = bdmc.rbm.RBM.load(reference_data / "rbm" / "mnistvh_CD25.npz")
    samples = rbm.draw_posterior(100, np.random.default_rng(1), burn_in=4000)
    base = rbm.with_base_rate(samples.visible)
    dt = bdmc.rbm.anneal(base, temperatures=2000, burn_in=4000, random_seed=1, progressbar=False)
    annealed = bdmc.evidence(dt, "bar").iloc[0]
    tempered = bdmc.evidence(
        bdmc.temper(base, chains=100, temperatures=100, draws=2000, random_seed=1)
    ).droplevel(["data", "dataset"])
    found = [annealed, *(tempered.loc[name] for name in ("RTS", "TI-RB corrected", "MBAR"))]
    for each in found:
        assert each["error"] < 0.6
        assert abs(each["value"] - 451.35) < SIGMAS * each["error"]
        error = np.hypot(each["error"], annealed["error"])
        assert abs(each["value"] - annealed["value"]) < SIGMAS * error
