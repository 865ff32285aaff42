"""The answers that benchmarks/honesty.py holds verdicts to, and how it counts."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.special import logsumexp, softmax

import pymc_bdmc as bdmc
from tests.models import SIGMAS, interpreted

SMALL = {
    "spike_in_slab": [[0.7]],
    "tight_scale": [[3.0, 9.0]],
    "three_normals": [[18.0, 20.0, 23.0]],
    "odd_data": [[[-3.0, 2.0], [2.0, 1.0]]],
    "horseshoe": [[0.3, -1.0, 2.0]],
    "volatility": [[0.5, -1.0, 2.0]],
    "linear_trend": [[1.0, 2.0]],
    "capture_recapture": [[2, 1, 0]],
    "change_point": [[0, 3, 2, 1]],
    "two_modes": [[3.0]],
    "cauchy_locations": [[0.0, 3.0]],
    "product": [5, 10],
    "schools": [],
    "torn_location": [[-1.0, 1.0]],
    "funnel": [[-1.0, 0.5]],
    "inflated_zeros": [[0, 0, 3]],
    "parabola": [[2.0], 1.0],
    "separated": [[-1.0, 0.5]],
    "lost_signs": [[0.5, 2.0], 1.0],
    "observed_car": [[0.5, 1.1, 0.3]],
    "groups_alike": [[1.0, 6.0], 3.0],
    "correlated_slopes": [[-1.0, 0.0, 1.0], [[5.0, 6.5, 6.0], [6.0, 5.5, 7.5]]],
    "thin_ridge": [3, 0.5, 2],
    "heavy_tails": [[-1.0, 0.5]],
    "conflict": [[1.0, 2.0, 2.5]],
    "errors_in_variables": [[0.5], [1.0]],
    "two_way_layout": [[[2.5, 1.0], [0.0, 2.5]], 1.0, 2.0],
    "heavy_noise": [[0.3, -1.0], 0.5],
    "hinge": [[1.0, 0.2], 0.5],
    "one_tone": [[0.5, 1.0], [0.3, -0.2]],
    "contaminated": [[[0.5, -0.3], [1.0, 5.0]]],
    "vague_precisions": [[[0.5, 1.0], [-1.0, 0.3]], 2.0, 1.0],
    "vague_rates": [[3.0, 2.0], [0, 2], 1.0, 1.0],
    "two_tones": [[0.0, 1.0, 3.0], [1.0, -1.0, 0.5]],
    "shell": [1, 0.3, 3.0],
    "neck": ["Gumbel", [0.3, -1.0]],
    "waves": [[0.5]],
}
"""Every adversary, on so few data that draws from the prior answer the same questions."""


def drawn(outputs, worth=150, most=4000):
    """Draws of outputs, the last of which is a log weight, until they are worth enough."""
    rows, size = [], 0.0
    with interpreted():
        draw = pm.compile([], outputs, random_seed=1)
        while size < worth and len(rows) < most:
            rows += [draw() for _ in range(500)]
            logs = np.array([row[-1] for row in rows])
            size = np.sum(np.exp(logs - max(logs))) ** 2 / np.sum(np.exp(2 * (logs - max(logs))))
    return map(np.array, zip(*rows, strict=True)), size


SLOW = ["correlated_slopes", "waves"]  # whose quadrature takes seconds


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in SMALL]
)
def test_answers_by_draws_from_the_prior(script, name):
    """Two-sided α = 6e-5 a comparison. Twins: log ML 0.5 beside, the probability 0.3 beside."""
    adversaries = script("adversaries")
    given = [np.array(each) if isinstance(each, list) else each for each in SMALL[name]]
    if name == "three_normals":
        given += adversaries.three_normals_by_gibbs(*given, chains=100, sweeps=200)
    made = getattr(adversaries, name)(*given)
    free, values = made.model.free_RVs, made.model.rvs_to_values
    observed = [pm.logp(y, values[y]).sum() for y in made.model.observed_RVs]
    likelihood = pt.add(*observed, *made.model.potentials, 0.0)
    if name == "observed_car":  # PyMC leaves this out: three nodes of 1, 2, 1 neighbours
        likelihood = likelihood - 1.5 * np.log(2 * np.pi) + 0.5 * np.log(2)
    (*thetas, logs), size = drawn([*free, likelihood])
    log_ml = logsumexp(logs) - np.log(len(logs))
    error = np.hypot(np.sqrt(1 / size - 1 / len(logs)), made.error)
    assert abs(log_ml - made.log_ml) < SIGMAS * error < abs(log_ml - made.log_ml - 0.5)
    draws = xr.Dataset({
        rv.name: (("draw", *(f"{rv.name}_{k}" for k in range(each.ndim - 1))), each)
        for rv, each in zip(free, thetas, strict=True)
    })  # fmt: skip
    for event in made.events.values():
        distance = np.sum(softmax(logs) * event.holds(draws).values) - event.probability
        error = np.sqrt(event.probability * (1 - event.probability) / size + event.error**2)
        assert abs(distance) < SIGMAS * error < abs(distance - 0.3)


@pytest.mark.parametrize(
    ("name", "log_ml"),
    [
        ("tight scale", 4.946058),
        ("eight schools, non-centred", -31.311347),
        ("observed CAR, n = 6", -5.676),
        ("thin ridge, width 10", -6.4716),
        ("heavy tails, n = 10", -2.42),
        ("hinged effects, J = 4", -10.082),
        ("vague rates, J = 3", -14.2635),
    ],
)
def test_answers_that_are_known_elsewhere(script, name, log_ml):
    """Quadrature of others, to as many digits."""
    found = script("adversaries").ADVERSARIES[name]().log_ml
    assert found == pytest.approx(log_ml, abs=10.0 ** -len(str(log_ml).partition(".")[2]))


def groups(x, weight):
    """A result as `sample_bdmc` gives it, of (chain, particle) states and weights."""
    rng = np.random.default_rng(1)
    drawn = rng.choice(x.ravel(), (4, 100), p=weight.ravel())
    particles = xr.Dataset(
        {"x": (("chain", "particle"), x)}, {"bdmc_weight": (("chain", "particle"), weight)}
    )
    posterior = xr.Dataset({"x": (("chain", "draw"), drawn)})
    return xr.DataTree.from_dict({"particles": particles, "posterior": posterior})


@pytest.mark.parametrize("missed", [False, True], ids=["right", "one mode missed"])
def test_distance_from_the_truth(script, missed):
    """The share of draws on the right is within noise of the truth, unless it is all of them."""
    adversaries, honesty = script("adversaries"), script("honesty")
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


def test_calls_are_kept(script, schools_result, monkeypatch, tmp_path, capsys):
    """A line a seed, of what the verdict and the evidence say; the first call is not among them."""
    honesty, seeds, results = script("honesty"), [], tmp_path / "results.jsonl"
    name, options = "eight schools, non-centred", {"simulate": None}

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
    for seed in (1, 2):
        honesty.measure(name, [seed], results, options)
    assert seeds == [0, 1, 0, 2]
    kept = honesty.read(results)[name]
    assert kept[2] == {"raised": "ValueError: y: odd"}
    assert kept[1]["status"] == bdmc.verdict(schools_result).status
    row = table.loc[("real", 0, "forward average")]
    assert (kept[1]["value"], kept[1]["error"]) == (row["value"], row["error"])
    tau = schools_result["posterior"]["tau"]
    assert kept[1]["events"]["tau < 3"][0] == float((tau < 3).mean())
    capsys.readouterr()
    honesty.report(honesty.read(results), "What was measured", "Made by hand.", "honesty")
    printed = capsys.readouterr().out
    assert "2 calls on 1 models. Made by hand." in printed
    assert "1 raised |" in printed


def test_every_model_is_in_one_group(script):
    """Each has its row in the aggregate, whose sums are those of the models."""
    honesty, adversaries = script("honesty"), script("adversaries")
    rows = [
        [name, "9 / 1 / 0, 1 raised", "0.20", "0.00", 0, "0.010", 1, "", "2.00", 1, "1.0"]
        for name in adversaries.ADVERSARIES
    ]
    grouped = honesty.aggregated(honesty.HEAD, rows, honesty.GROUPS, honesty.COLUMNS)
    assert sum(int(row[1]) for row in grouped) == len(rows)
    assert [row[0] for row in grouped] == list(honesty.GROUPS)
    rows = [["a", "9 / 1 / 0", "", "", 0, "", 0, "", "1.00", 0, ""],
            ["b", "0 / 5 / 0, 5 raised", "0.1", "", 1, "0.2", 5, "", "4.00", 2, "3"]]  # fmt: skip
    (row,) = honesty.aggregated(honesty.HEAD, rows, {"all": ("",)}, honesty.COLUMNS)
    assert row == ["all", "2", "9 / 6 / 0, 5 raised", "0.10", "1", "0.200", "5", "2.00", "2", "3.0"]
