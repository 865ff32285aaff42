"""Annealing a machine in one call gives a result that all else works on."""

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.rbm import RBM, anneal
from tests.models import SIGMAS


@pytest.fixture(scope="module")
def rbm():
    rng = np.random.default_rng(1)
    return RBM(rng.normal(size=30), rng.normal(size=12), rng.normal(size=(30, 12)))


@pytest.fixture(scope="module")
def result(rbm):
    return anneal(rbm, chains=150, temperatures=40, random_seed=1, progressbar=False)


def test_every_estimator_covers_the_exact_value(rbm, result):
    table = bdmc.evidence(result)
    inside = (table["value"] - rbm.log_z()).abs() < SIGMAS * table["error"]
    assert inside[table["valid"]].all()
    assert table["valid"].sum() >= 3
    bounds = bdmc.certified(result).iloc[0]
    assert bounds["lower"] < rbm.log_z() < bounds["upper"]


def test_result_is_like_that_of_sample_bdmc(result):
    for group in ("forward", "reverse"):
        dims = {name: result[group][name].dims for name in result[group].dataset}
        assert dims == {
            **dict.fromkeys(
                ("log_weight", "prior_draws", "lowest_acceptance"), ("dataset", "chain")
            ),
            **dict.fromkeys(
                (
                    "log_likelihood_path",
                    "log_likelihood_sd",
                    "acceptance",
                    "divergences",
                    "step_size",
                ),
                ("dataset", "beta"),
            ),
        }
    assert result.attrs["upper_bound"] == "exact"
    assert {"gap", "evidence"} & set(bdmc.summary(result).index.get_level_values(1))
    bdmc.plot_hysteresis(result, backend="matplotlib")
    bdmc.plot_sandwich(result, backend="matplotlib")


def test_moments_are_over_all_blocks(rbm, result):
    by_block = [
        anneal(rbm, chains=100, temperatures=40, random_seed=1, progressbar=False)["forward"],
        result["forward"].isel(chain=slice(100, None)),
    ]
    np.testing.assert_array_equal(
        by_block[0]["log_weight"], result["forward"]["log_weight"][:, :100]
    )
    spread = result["forward"]["log_likelihood_sd"] / by_block[0]["log_likelihood_sd"]
    assert ((spread > 0.8) & (spread < 1.25)).all()


def test_a_burn_in_that_takes_long_hears_ctrl_c(ctrl_c_after):
    """Ctrl-C ends a burn-in that would last for hours."""
    large = RBM(np.zeros(500), np.zeros(500), np.zeros((500, 500)))
    options = {"chains": 2, "temperatures": 2, "progressbar": False}
    anneal(large, burn_in=1, **options)  # compiles
    with ctrl_c_after(0.5):
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
