"""Annealing a machine in one call gives a result that all else works on."""

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.rbm import anneal
from pymc_bdmc.rbm.machine import RBM
from pymc_bdmc.types import Direction
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


def test_interrupt_keeps_finished_blocks(rbm, monkeypatch):
    run, count = RBM.run, 0

    def interrupted(self, state, betas, direction, rng):
        nonlocal count
        count += 1
        if count == 4:
            raise KeyboardInterrupt
        return run(self, state, betas, direction, rng)

    monkeypatch.setattr(RBM, "run", interrupted)
    dt = anneal(rbm, chains=150, temperatures=5, random_seed=1, progressbar=False)
    assert "150 of 150 forward, 100 of 150 reverse chains were finished" in " ".join(
        bdmc.diagnose(dt)
    )
    assert int(dt["reverse"]["log_weight"].isnull().sum()) == 50
    assert int(dt["forward"]["log_weight"].isnull().sum()) == 0
    assert np.isfinite(dt["reverse"]["log_likelihood_path"]).all()
    assert dt.attrs["interrupted"] == 1

    monkeypatch.setattr(RBM, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        anneal(rbm, temperatures=5, progressbar=False)


def test_interrupt_before_any_reverse_block(rbm, monkeypatch):
    run = RBM.run

    def forward_only(self, state, betas, direction, rng):
        if direction is Direction.REVERSE:
            raise KeyboardInterrupt
        return run(self, state, betas, direction, rng)

    monkeypatch.setattr(RBM, "run", forward_only)
    dt = anneal(rbm, temperatures=5, random_seed=1, progressbar=False)
    assert dt["reverse"]["log_weight"].isnull().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chains": 1}, "chains"), ({"burn_in": -1}, "burn_in"), ({"schedule": "x"}, "schedule")],
)
def test_refuses(rbm, options, message):
    with pytest.raises(ValueError, match=message):
        anneal(rbm, **options)
