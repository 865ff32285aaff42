"""One call: exact answers within the errors, the same result on any number of cores."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc import estimators, lattice
from pymc_bdmc.base.types import Direction
from pymc_bdmc.lattice import Ising, LatticeChains, Potts, anneal
from tests.models import SIGMAS

QUIET = {"random_seed": 1, "progressbar": False}


def weights(dt):
    return [dt[group]["log_weight"].values[0] for group in ("forward", "reverse")]


@pytest.mark.parametrize(
    ("system", "kernel", "sites", "start"),
    [
        (Ising(4), "metropolis", "checkerboard", "exact"),
        (Ising(4), "heat bath", "random", "swendsen-wang"),
        (Potts(4, 10, coupling=1.0), "metropolis", "random", "swendsen-wang"),
        (Potts(4, 10, coupling=1.0), "heat bath", "checkerboard", "exact"),
        (Potts(3, 5), "metropolis", "random", "exact"),
    ],
)
def test_small_lattices_have_the_exact_evidence(system, kernel, sites, start):
    """Odd sides too."""
    dt = anneal(
        system, temperatures=60, chains=1024, kernel=kernel, sites=sites, start=start, **QUIET
    )
    forward, reverse = weights(dt)
    for estimate in (
        estimators.bar(forward, reverse),
        estimators.jarzynski_forward(forward),
        estimators.jarzynski_reverse(reverse),
    ):
        assert abs(estimate.value - system.log_z()) < SIGMAS * estimate.error
        assert estimate.error < 0.1


def test_the_published_run():
    """Habeck (2017), Fig. 3: bounds 1290.5 and 1352.0, BAR 1338.05; the truth is 1339.267."""
    dt = anneal(Ising(32), sites="random", updates=1000, **QUIET)
    value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    assert abs(value - 1339.2670768) < SIGMAS * error
    assert error < 0.8
    table = bdmc.summary(dt)
    for name, published in (("lower bound", 1290.5), ("upper bound", 1352.0)):
        bound, error = table.loc[("simulated", name), ["value", "error"]]
        assert abs(bound - published) < SIGMAS * np.sqrt(2) * error  # theirs has an error too
    assert dt.attrs["upper_bound"] == "exact"


def crooks_statistic(dt, log_z):
    """Largest |z| between reverse counts of each log weight and reweighted forward ones."""
    forward, reverse = (np.round(w, 9) for w in weights(dt))
    worst = 0.0
    for value in np.unique(reverse):
        hits = (forward == value) * np.exp(value - log_z)
        share = np.mean(reverse == value)
        error = np.sqrt((np.var(hits) + share * (1 - share)) / len(forward))
        worst = max(worst, abs(np.mean(hits) - share) / error)
    return worst


@pytest.mark.parametrize("reversed_order", [True, False])
def test_reverse_chains_are_the_reversal(reversed_order, monkeypatch):
    """Crooks' relation, value by value; it fails if the sites are not visited backwards."""
    if not reversed_order:
        order = LatticeChains.site_order
        monkeypatch.setattr(
            LatticeChains,
            "site_order",
            lambda self, block: order(self, replace(block, direction=Direction.FORWARD)),
        )
    system = Ising(2, coupling=0.4)
    options = {"sites": "random", "updates": 3, "temperatures": 2, "chains": 30_000}
    # Of this seed the sites are not the same backwards. Nine values are compared: α < 6e-4.
    dt = anneal(system, **options, random_seed=9, progressbar=False)
    assert bool(crooks_statistic(dt, system.log_z()) < SIGMAS) is reversed_order


def test_blocks_are_independent():
    """The blocks' numbers differ, and so do the two directions'."""
    dt = anneal(Ising(8), temperatures=20, chains=3072, **QUIET)
    forward, _ = weights(dt)
    blocks = forward.reshape(3, -1)
    assert np.abs(np.corrcoef(blocks) - np.eye(3)).max() < SIGMAS / np.sqrt(1024)


def test_the_result_is_that_of_sample_bdmc(tmp_path):
    system, betas = Potts(4, 10, coupling=2.0), np.array([0, 0.1, 0.4, 1.0])
    dt = anneal(system, chains=1500, temperatures=betas, **QUIET)
    for group in ("forward", "reverse"):
        run = dt[group]
        assert run["log_weight"].shape == (1, 1500)
        np.testing.assert_array_equal(run["beta"], betas)
        path = run["log_likelihood_path"].values[0]
        # The weights are made of the same ℓ as the path, also across blocks.
        assert path[:-1] @ np.diff(betas) == pytest.approx(run["log_weight"].values.mean())
        assert (run["log_likelihood_sd"] > 0).all()
        assert ((run["acceptance"][0, 1:] > 0) & (run["acceptance"][0, 1:] < 1)).all()
        assert np.isnan([run["acceptance"][0, 0], *run["step_size"][0]]).all()
        assert run["divergences"].sum() == 0
    assert dt.attrs["upper_bound"] == "exact"
    assert set(bdmc.evidence(dt).loc[("simulated", 0)].index) >= {"bar", "histogram"}
    pc = bdmc.plot_hysteresis(dt, backend="matplotlib")
    line = pc.viz["critical"]["log_likelihood"].item()
    assert line.get_xdata()[0] == dt.attrs["critical_beta"] == system.critical_beta
    bdmc.plot_sandwich(dt, backend="matplotlib")
    dt.to_netcdf(tmp_path / "result.nc")
    assert bdmc.summary(xr.load_datatree(tmp_path / "result.nc")).equals(bdmc.summary(dt))


def test_starts_have_their_status():
    for start, status in (("swendsen-wang", "burned-in"), ("ordered", "heuristic")):
        dt = anneal(Potts(4, 10), chains=2, temperatures=2, start=start, burn_in=7, **QUIET)
        assert dt.attrs["upper_bound"] == status
        assert dt.attrs["burn_in"] == (7 if status == "burned-in" else 0)


def test_an_exact_start_that_takes_long_hears_ctrl_c(monkeypatch, ctrl_c_after):
    """At a strong first-order transition, coupling from the past does not end."""
    monkeypatch.setattr(lattice, "MAX_SWEEPS", 2**40)
    options = {"chains": 2, "temperatures": 2, **QUIET}
    anneal(Potts(32, 256, coupling=0.1), **options)  # compiles
    with ctrl_c_after(0.2):
        dt = anneal(Potts(32, 256, coupling=np.log(17)), **options)
    forward, reverse = weights(dt)
    assert np.isfinite(forward).all()
    assert np.isnan(reverse).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system": "ising"}, "^system: "),
        ({"updates": 0}, "^updates: "),
        ({"updates": 17}, '^updates: .* use sites="random"'),
        ({"system": Ising(5)}, '^sites: .* use "random"'),
        ({"burn_in": -1}, "^burn_in: "),
        ({"kernel": "gibbs"}, "^kernel: 'gibbs' is none of 'metropolis', 'heat bath'"),
        ({"sites": "spiral"}, "^sites: "),
        ({"start": "cold"}, "^start: "),
        ({"schedule": "steep"}, "^schedule: "),
        ({"temperatures": 0}, "^temperatures: "),
    ],
    ids=str,
)
def test_bad_input_is_named(options, message):
    options = {"system": Ising(4), "progressbar": False, **options}
    with pytest.raises(ValueError, match=message):
        anneal(options.pop("system"), **options)
