"""The verdict is good, open or bad where it should be, and says why."""

from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.blocking import RaveledVars
from pymc.step_methods.arraystep import GradientSharedStep

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import total_variation_bound
from tests.results.test_consistency import BETAS, runs


def test_total_variation_is_that_of_the_worst_pair():
    for v in (0.01, 0.3, 0.9):
        # Two outcomes of probabilities (1 ± v)/2 and the reverse.
        p, q = (1 + v) / 2, (1 - v) / 2
        jeffreys = 2 * (p * np.log(p / q) + q * np.log(q / p))
        assert total_variation_bound(jeffreys) == pytest.approx(v)
        assert total_variation_bound(jeffreys) <= np.sqrt(jeffreys) / 2
    assert total_variation_bound(0.0) == total_variation_bound(-1.0) == 0.0
    assert total_variation_bound(np.inf) == 1.0
    assert total_variation_bound(4000.0) <= 1.0


def test_a_good_posterior_is_called_so():
    dt = runs()
    found = bdmc.verdict(dt)
    assert found.status == "good"
    row = found.table.loc["Jeffreys bound"]
    assert row["value"] == pytest.approx(0.09)
    assert row["lower"] < 0.09 < row["upper"] < 0.25
    off = total_variation_bound(row["upper"])
    assert f"no probability is off by more than {off:.2g}" in found.text
    assert "start from exact" in found.text
    assert "not tested" in found.text  # of one data set the model
    assert "FromHyperparameters(datasets=19)" in found.text.splitlines()[-1]
    dt.attrs["simulate"] = "prior"
    assert "FromPrior(datasets=19)" in bdmc.verdict(dt).text.splitlines()[-1]
    value, error, low, high = found.table.loc["log ML", ["value", "error", "lower", "upper"]]
    assert abs(value + 20) < 4 * error
    assert f"{low:.3f} and {high:.3f}" in found.text


def test_log_ml_of_many_data_is_told_as_finely_as_its_error():
    dt = runs()
    dt["real"]["log_weight"][:] -= 123456.0
    found = bdmc.verdict(dt)
    value, error, low, high = found.table.loc["log ML", ["value", "error", "lower", "upper"]]
    assert 0.01 < error < 0.1
    assert f"Log ML is {value:.3f} ± {error:.2g}, between {low:.3f} and {high:.3f}" in found.text
    said = float(found.text.split("certified to be at least ")[1].split()[0].rstrip("."))
    bound = bdmc.certified(dt).loc[("real", 0), "lower"]
    assert bound - 0.01 < said < bound


def test_a_wide_gap_is_bad_and_one_between_is_open():
    wide = bdmc.verdict(runs(sd=3.0, real_sd=3.0))
    assert wide.status == wide.table.loc["Jeffreys bound", "status"] == "bad"
    assert "no reason to believe" in wide.text
    between = bdmc.verdict(runs(sd=0.7, real_sd=0.7, n=400))
    assert between.status == between.table.loc["Jeffreys bound", "status"] == "open"


def test_a_result_in_its_first_runs_has_no_bound_yet():
    dt = runs()
    for group in ("forward", "reverse"):
        dt[group]["log_weight"][:] = np.nan
    found = bdmc.verdict(dt)
    assert found.status == "open"
    assert "too few runs to tell how wide the gap" in found.text
    assert "nan" not in found.text.splitlines()[1]


def test_too_few_runs_are_never_good():
    for n in (2, 5):
        found = bdmc.verdict(runs(n=n, seed=3))
        assert found.status == "open", found.text
    # Two data sets have a spread, but it says next to nothing.
    dt = runs(datasets=2)
    forward = dt["forward"]["log_weight"].values
    shift = np.array([[0.0], [0.05]])
    dt["reverse"] = dt["reverse"].dataset.assign(
        log_weight=(("dataset", "chain"), forward + 0.1 + shift)
    )
    row = bdmc.verdict(dt).table.loc["Jeffreys bound"]
    assert row["error"] == pytest.approx(0.025)
    assert row["status"] == "open"


def test_data_that_the_sampler_finds_harder_are_told():
    found = bdmc.verdict(runs(real_sd=3.0))
    assert found.status == found.table.loc["shortfall", "status"] == "bad"
    assert found.table.loc["Jeffreys bound", "status"] == "good"
    assert "finds your data harder" in found.text


def test_a_wrong_model_is_told():
    rng = np.random.default_rng(5)
    odd = runs(datasets=19, y=rng.standard_t(1.5, size=200))
    found = bdmc.verdict(odd)
    assert found.status == found.table.loc["model", "status"] == "open"
    assert "of y" in found.text
    assert found.text.splitlines()[-1].startswith("Next: change the model")
    right = bdmc.verdict(runs(datasets=19, y=rng.normal(size=200)))
    assert right.table.loc["model", "status"] == "good"
    assert "do not stand out" in right.text


@pytest.mark.parametrize(
    ("start", "status", "said"),
    [("burned-in", "good", "no proof"), ("heuristic", "open", "no bound")],
)
def test_what_is_not_exact_is_said(start, status, said):
    dt = runs()
    dt.attrs["upper_bound"] = start
    found = bdmc.verdict(dt)
    assert found.status == found.table.loc["start", "status"] == status
    assert said in found.text


def test_what_was_not_run_is_not_good():
    without = runs()
    del without["real"]
    found = bdmc.verdict(without)
    assert found.status == "open"
    assert "no runs on the real data" in found.text
    assert "log ML" not in found.table.index
    alone = runs()
    del alone["forward"], alone["reverse"]
    found = bdmc.verdict(alone)
    assert found.status == "open"
    assert "nothing bounds" in found.text
    assert np.isfinite(found.table.loc["log ML", "error"])


def test_an_interrupted_run_is_open():
    dt = runs()
    dt.attrs["interrupted"] = 1
    found = bdmc.verdict(dt)
    assert found.status == "open"
    assert "interrupted" in found.text


def test_an_evidence_that_cannot_be_trusted_has_no_interval():
    found = bdmc.verdict(runs(sd=3.0, real_sd=3.0))
    assert "No estimate of log ML can be trusted; it is certified to be at least" in found.text
    assert np.isnan(found.table.loc["log ML", "value"])


@pytest.mark.parametrize("start", ["exact", "burned-in"])
def test_reverse_runs_below_forward_ones_are_a_contradiction(start):
    dt = runs()
    dt.attrs["upper_bound"] = start
    forward = dt["forward"]["log_weight"]
    dt["reverse"] = dt["reverse"].dataset.assign(log_weight=forward - 1)
    found = bdmc.verdict(dt)
    assert found.table.loc["Jeffreys bound", "status"] == "bad"
    assert "another distribution" in found.text


def test_an_impossible_state_is_an_infinite_gap():
    dt = runs()
    forward = dt["forward"]["log_weight"].values.copy()
    forward[0, ::2] = -np.inf
    dt["forward"] = dt["forward"].dataset.assign(log_weight=(("dataset", "chain"), forward))
    assert bdmc.verdict(dt).table.loc["Jeffreys bound", "status"] == "bad"


@pytest.mark.parametrize(
    ("shift", "n", "status"), [(0.09, 40, "good"), (-4.0, 40, "bad"), (0.09, 7, "open")]
)
def test_both_sides_on_the_real_data(shift, n, status):
    dt, rng = runs(), np.random.default_rng(6)
    reverse = rng.normal(-20 - 0.045 + shift, 0.3, n)
    dt["real_reverse"] = xr.DataTree(xr.Dataset(
        {"log_weight": ("chain", reverse), "prior_draws": ("chain", np.zeros(n))},
        {"beta": BETAS},
    ))  # fmt: skip
    found = bdmc.verdict(dt)
    assert found.status == found.table.loc["both sides", "status"] == status
    assert "heuristic" in found.text
    assert ("disagree" in found.text) == (status == "bad")


def test_lattices_speak_of_themselves():
    dt = bdmc.lattice.anneal(
        bdmc.lattice.Ising(4), temperatures=400, random_seed=1, progressbar=False
    )
    found = bdmc.verdict(dt)
    assert found.status == "good"
    assert "simulated" not in found.text
    low, high = found.table.loc["log ML", ["lower", "upper"]]
    assert low - 0.05 < bdmc.lattice.Ising(4).log_z() < high + 0.05


def test_it_prints_and_shows_and_cannot_be_changed():
    found = bdmc.verdict(runs())
    assert repr(found) == str(found) == found.text
    html = found._repr_html_()
    assert "<table" in html
    assert found.text.splitlines()[0] in html
    assert "&lt;" not in html
    with pytest.raises(FrozenInstanceError):
        found.status = "bad"


def test_results_of_temper_are_refused():
    with pytest.raises(ValueError, match="verdict reads annealed runs"):
        bdmc.verdict(xr.DataTree.from_dict({"tempering": xr.Dataset()}))


class Langevin(GradientSharedStep):
    """Metropolis-adjusted, of a fixed step size; may leave coordinates alone."""

    name = "langevin"
    stats_dtypes_shapes = {"accepted": (float, [])}

    def __init__(self, vars, step_size=0.9, moving=True, **kwargs):
        self.scales = step_size * np.broadcast_to(moving, 4)
        super().__init__(vars, **kwargs)

    def astep(self, q0):
        logp0, grad0 = self._logp_dlogp_func._pytensor_function(q0.data)
        drift, moving = 0.5 * self.scales**2, self.scales > 0
        noise = self.rng.normal(size=q0.data.shape)
        q = q0.data + drift * grad0 + self.scales * noise
        logp, grad = self._logp_dlogp_func._pytensor_function(q)
        back = (q0.data - q - drift * grad)[moving] / self.scales[moving]
        log_ratio = logp - logp0 - 0.5 * (back @ back - noise[moving] @ noise[moving])
        accepted = np.log(self.rng.random()) < log_ratio
        end = q if accepted else q0.data
        return RaveledVars(end, q0.point_map_info), [{"accepted": float(accepted)}]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("fault", "temperatures", "status"),
    [
        ({}, 300, "good"),
        ({"moving": [True, False, False, False]}, 60, "bad"),
        ({"step_size": 50.0}, 60, "bad"),
    ],
    ids=["sound", "stuck", "far too large"],
)
def test_a_planted_fault_gets_a_bad_verdict(fault, temperatures, status):
    with pm.Model():
        x = pm.Normal("x", shape=4)
        pm.Normal("y", x, 0.8, observed=np.array([0.8, -0.5, 1.3, 0.1]))
        dt = pm.sample_bdmc(
            chains=40, temperatures=temperatures, step=partial(Langevin, **fault),
            simulate="prior", random_seed=1, cores=1, progressbar=False,
        )  # fmt: skip
    found = bdmc.verdict(dt)
    assert found.status == status, found.text
    assert found.table.loc["Jeffreys bound", "status"] == status
