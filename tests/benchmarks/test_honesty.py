"""The answers that benchmarks/honesty.py holds verdicts to, and how it counts."""

import importlib
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from tests.models import SIGMAS, interpreted


@pytest.fixture
def adversaries(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("adversaries")


@pytest.fixture
def honesty(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("honesty")


SMALL = {
    "spike_in_slab": lambda made: made.spike_in_slab(np.array([0.7])),
    "tight_scale": lambda made: made.tight_scale(np.array([3.0, 9.0])),
    "three_normals": lambda made: made.three_normals(
        THREE, *made.three_normals_by_gibbs(THREE, chains=200, sweeps=200)
    ),
    "odd_data": lambda made: made.odd_data(np.array([[-3.0, 2.0], [2.0, 1.0]])),
    "horseshoe": lambda made: made.horseshoe(np.array([0.3, -1.0, 2.0])),
    "volatility": lambda made: made.volatility(np.array([0.5, -1.0, 2.0])),
    "linear_trend": lambda made: made.linear_trend(np.array([1.0, 4.0])),
    "capture_recapture": lambda made: made.capture_recapture(np.array([2, 1, 0])),
    "change_point": lambda made: made.change_point(np.array([0, 3, 2, 1])),
    "two_modes": lambda made: made.two_modes(np.array([3.0])),
    "cauchy_locations": lambda made: made.cauchy_locations(np.array([0.0, 3.0])),
    "product": lambda made: made.product(5, 10),
    "schools": lambda made: made.schools(),
    "torn_location": lambda made: made.torn_location(np.array([-1.0, 1.0])),
    "funnel": lambda made: made.funnel(np.array([-1.0, 0.5])),
    "inflated_zeros": lambda made: made.inflated_zeros(np.array([0, 0, 3])),
    "parabola": lambda made: made.parabola(np.array([2.0]), noise=1.0),
    "separated": lambda made: made.separated(np.array([-1.0, 0.5])),
    "lost_signs": lambda made: made.lost_signs(np.array([0.5, 2.0]), noise=1.0),
    "observed_car": lambda made: made.observed_car(np.array([0.5, 1.1, 0.3])),
    "groups_alike": lambda made: made.groups_alike(np.array([1.0, 6.0]), 3.0),
    "correlated_slopes": lambda made: made.correlated_slopes(
        np.array([-1.0, 0.0, 1.0]), np.array([[5.0, 6.5, 6.0], [6.0, 5.5, 7.5]])
    ),
    "thin_ridge": lambda made: made.thin_ridge(3, scale=0.5, steepness=2),
    "heavy_tails": lambda made: made.heavy_tails(np.array([-1.0, 0.5])),
    "conflict": lambda made: made.conflict(np.array([1.0, 2.0, 2.5])),
    "errors_in_variables": lambda made: made.errors_in_variables(np.array([0.5]), np.array([1.0])),
    "two_way_layout": lambda made: made.two_way_layout(
        np.array([[2.5, 1.0], [0.0, 2.5]]), 1.0, 2.0
    ),
    "heavy_noise": lambda made: made.heavy_noise(np.array([0.3, -1.0]), 0.5),
    "two_tones": lambda made: made.two_tones(np.array([0.0, 1.0, 3.0]), np.array([1.0, -1.0, 0.5])),
    "shell": lambda made: made.shell(1, 0.3, 3.0),
    "neck": lambda made: made.neck("Gumbel", np.array([0.3, -1.0])),
    "waves": lambda made: made.waves(np.array([0.5, -0.3])),
}
"""Every adversary, on so few data that draws from the prior answer the same questions."""
THREE = np.array([18.0, 20.0, 23.0])


@pytest.mark.parametrize("name", SMALL)
def test_answers_by_draws_from_the_prior(adversaries, name):
    """Two-sided α = 6e-5 a comparison. Twins: log ML 0.4 beside, the probability 0.25 beside."""
    made, n = SMALL[name](adversaries), 4000
    observed = [pm.logp(y, made.model.rvs_to_values[y]).sum() for y in made.model.observed_RVs]
    likelihood = pt.add(*observed, *made.model.potentials, 0.0)
    if name == "observed_car":  # PyMC leaves this out: three nodes of 1, 2, 1 neighbours
        likelihood = likelihood - 1.5 * np.log(2 * np.pi) + 0.5 * np.log(2)
    free = made.model.free_RVs
    with interpreted():
        *values, logs = pm.draw([*free, likelihood], n, random_seed=1)
    weight = np.exp(logs - np.max(logs))
    weight /= weight.sum()
    size = 1 / np.sum(weight**2)
    assert size > 100
    log_ml = np.max(logs) + np.log(np.mean(np.exp(logs - np.max(logs))))
    error = np.hypot(np.sqrt(1 / size - 1 / n), made.error)
    assert abs(log_ml - made.log_ml) < SIGMAS * error
    assert abs(log_ml - made.log_ml - 0.4) > SIGMAS * error
    draws = xr.Dataset({
        rv.name: (("draw", *(f"{rv.name}_{k}" for k in range(each.ndim - 1))), each)
        for rv, each in zip(free, values, strict=True)
    })  # fmt: skip
    for event in made.events.values():
        share = np.sum(weight * event.holds(draws).values)
        error = np.sqrt(event.probability * (1 - event.probability) / size + event.error**2)
        assert abs(share - event.probability) < SIGMAS * error
        assert abs(share - event.probability - 0.25) > SIGMAS * error


def test_answers_that_are_known_elsewhere(adversaries):
    """Quadrature of others, to as many digits."""
    known = {
        "tight scale": 4.946058,
        "eight schools, non-centred": -31.311347,
        "observed CAR, n = 6": -5.676,
        "thin ridge, width 10": -6.4716,
        "heavy tails, n = 10": -2.420,
    }
    for name, log_ml in known.items():
        _, digits = str(log_ml).split(".")
        found = adversaries.ADVERSARIES[name]().log_ml
        assert found == pytest.approx(log_ml, abs=10.0 ** -len(digits))


def test_three_normals(adversaries):
    """A shorter run; two-sided α = 6e-5 a comparison. Twins: both 0.1 beside."""
    made = adversaries.ADVERSARIES["three normals"]()
    y = adversaries.few_many_few()
    log_ml, error, low, low_error = adversaries.three_normals_by_gibbs(
        y, chains=50, sweeps=1000, seed=2
    )
    low_event = list(made.events.values())[-1]
    for found, known, *errors in (
        (log_ml, made.log_ml, error, made.error),
        (low, low_event.probability, low_error, low_event.error),
    ):
        assert abs(found - known) < SIGMAS * np.hypot(*errors)
        assert abs(found - known - 0.1) > SIGMAS * np.hypot(*errors)


def groups(x, weight):
    """A result as `sample_bdmc` gives it, of (chain, particle) states and weights."""
    rng = np.random.default_rng(1)
    drawn = rng.choice(x.ravel(), (4, 100), p=weight.ravel())
    particles = xr.Dataset(
        {"x": (("chain", "particle"), x)},
        {"bdmc_weight": (("chain", "particle"), weight)},
    )
    posterior = xr.Dataset({"x": (("chain", "draw"), drawn)})
    return xr.DataTree.from_dict({"particles": particles, "posterior": posterior})


@pytest.mark.parametrize("missed", [False, True], ids=["right", "one mode missed"])
def test_distance_from_the_truth(adversaries, honesty, missed):
    """The share of draws on the right is within noise of the truth, unless it is all of them."""
    x = np.random.default_rng(2).normal(size=(16, 32))
    dt = groups(np.abs(x) if missed else x, np.full(x.shape, 1 / x.size))
    event = adversaries.Event(lambda draws: draws["x"] > 0, 0.5)
    share, error = honesty.found(dt, event)
    assert 0.02 < error < 0.05
    known = adversaries.Adversary(pm.Model(), 0.0, {"right": event})
    row = {"events": {"right": (share, error)}}
    distance = honesty.distance(known, row)
    assert (0.3 < distance < 0.5) if missed else distance == 0
    call = {"status": "good", "claim": 0.2, "seconds": 1.0, "value": 0.3, "error": 0.1} | row
    score = honesty.Score(known, [call, {"raised": "ValueError: y"}])
    assert (score.wrong, score.raised) == (missed, 1)
    np.testing.assert_allclose(score.z, 3)


@pytest.mark.parametrize("options", [{}, {"simulate": None}], ids=["default", "alone"])
def test_calls_are_kept(honesty, schools_result, monkeypatch, tmp_path, capsys, options):
    """A line a seed, of what the verdict and the evidence say; the first call is not among them."""
    seeds, results, name = [], tmp_path / "results.jsonl", "eight schools, non-centred"

    def sample(model, random_seed, progressbar, **given):
        assert given == options
        seeds.append(random_seed)
        if random_seed == 2:
            raise ValueError("y: odd")
        return schools_result

    table = bdmc.evidence(schools_result)
    table["recommended"] = table.index.get_level_values("method") == "forward average"
    monkeypatch.setattr(bdmc, "evidence", lambda dt: table)
    monkeypatch.setattr(pm, "sample_bdmc", sample)
    honesty.measure(name, [1], results, options)
    honesty.measure(name, [2], results, options)
    assert seeds == [0, 1, 0, 2]
    kept = honesty.read(results)[name]
    assert kept[2] == {"raised": "ValueError: y: odd"}
    assert kept[1]["status"] == bdmc.verdict(schools_result).status
    row = table.loc[("real", 0, "forward average")]
    assert (kept[1]["value"], kept[1]["error"]) == (row["value"], row["error"])
    tau = schools_result["posterior"]["tau"]
    assert kept[1]["events"]["tau < 3"][0] == float((tau < 3).mean())
    honesty.report(honesty.read(results), "What was measured")
    assert "2 calls on 1 models" in capsys.readouterr().out
