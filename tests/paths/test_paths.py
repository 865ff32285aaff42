"""Which path a call takes that anneals, what it finds there, and what is refused."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.call import annealing
from pymc_bdmc.density.refuse import no_reference_for
from pymc_bdmc.density.structure import with_necks
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, compiled
from pymc_bdmc.engines.problem import Problem
from pymc_bdmc.estimators import pareto_shape
from pymc_bdmc.fits import limits
from pymc_bdmc.fits import narrow as narrow_modes
from pymc_bdmc.paths import FittedPath, PriorPath
from pymc_bdmc.pilots import pilot
from pymc_bdmc.reference.contract import Density
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import make_reference, mix_references
from tests import models
from tests.call.sessions import session_of
from tests.engines.test_compiled import mixed_model
from tests.models import SIGMAS, interpreted, small_regression
from tests.systems import SpikeAndSlab

QUICK = dict(simulate=None, random_seed=3, progressbar=False)
pytestmark = pytest.mark.usefixtures("annealed")


@pytest.fixture(scope="module")
def regression():
    return small_regression()


def modes(d, apart, share):
    """Two modes so many standard deviations apart in d dimensions; the evidence is known."""
    sd = 0.3
    at = apart * sd / 2 / np.sqrt(d)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5, shape=d)
        logs = [-0.5 * pm.math.sum((x - place) ** 2) / sd**2 for place in (-at, at)]
        pm.Potential(
            "modes", pm.math.logaddexp(logs[0] + np.log(share), logs[1] + np.log1p(-share))
        )
    variance = 25 + sd**2
    return model, d / 2 * np.log(sd**2 / variance) - d * at**2 / 2 / variance


@pytest.fixture(scope="module")
def two_modes():
    """Far apart in ten dimensions, and equal."""
    return modes(10, 8 / 0.3, 0.5)


def distance(dt, log_ml):
    """From the known answer, in stated errors."""
    row = bdmc.evidence(dt).iloc[0]
    assert row["valid"]
    return abs(row["value"] - log_ml) / row["error"]


@pytest.fixture(scope="module")
def draws(regression):
    """Two chains of independent draws from the posterior of the regression, which is normal."""
    model, _ = regression
    x, y = model["x"].get_value(), model.rvs_to_values[model["y"]].data
    covariance = np.linalg.inv(x.T @ x + np.eye(5))
    posterior = stats.multivariate_normal(covariance @ x.T @ y, covariance)
    beta = posterior.rvs((2, 1000), random_state=1)
    return xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"beta": (("chain", "draw", "beta_dim_0"), beta)})}
    )


def test_every_path_gives_the_same_answer(regression):
    """The fitted one is taken, and is far shorter. Two-sided α = 6e-5 each."""
    model, log_ml = regression
    own = bdmc.ReferencePath({"beta": np.zeros(5)}, {"beta": np.ones(5)}, degrees_of_freedom=5)
    paths = {"fitted": None, "prior": "prior", "reference": own}
    found = {name: pm.sample_bdmc(model, path=path, **QUICK) for name, path in paths.items()}
    for name, dt in found.items():
        assert dt.attrs["path"] == name
        assert distance(dt, log_ml) < SIGMAS
    assert "nats from the prior and" in found["fitted"].attrs["path_reason"]
    lengths = {name: float(dt["real"]["thermodynamic_length"]) for name, dt in found.items()}
    assert lengths["fitted"] < lengths["prior"] / 3


@pytest.mark.parametrize(("shift", "status"), [(0.0, "good"), (3.0, "bad")])
def test_draws_that_exist_take_the_place_of_the_pilot(regression, draws, shift, status):
    """Both directions on the real data by ten temperatures, and the draws are judged.

    The twin has draws of something else, and says so; the annealed evidence is right all the same.
    Two-sided α = 6e-5 each.
    """
    model, log_ml = regression
    given = draws.copy()
    given["posterior"] = draws["posterior"].dataset + shift
    dt = pm.sample_bdmc(model, path=bdmc.FittedPath(given), **QUICK)
    assert shift or dt["real"].sizes["beta"] - 1 == 10
    assert dt["agreement"].attrs["status"] == status
    row = bdmc.evidence(dt).loc[("real", 0, "bar")]
    assert row["recommended"]
    assert abs(row["value"] - log_ml) < SIGMAS * row["error"]


def test_moves_at_the_end_leave_the_posterior_as_it_is(regression, draws, monkeypatch):
    """Means and squares of the states after the last of them, by run; two-sided α = 6e-5 each.

    Twins: states a deviation apart, and weights that belong to other particles.
    """
    model, _ = regression
    dt = pm.sample_bdmc(model, chains=32, path="fitted", **QUICK)
    exact = draws["posterior"]["beta"]
    particles = dt["particles"].dataset
    sweeps, n = particles.attrs["sweeps"], dt.attrs["particles"]
    assert particles.sizes["particle"] == sweeps * n
    assert sweeps > 5
    assert 1 <= particles.attrs["autocorrelation_time"] < sweeps
    weights = particles["bdmc_weight"].values.reshape(32, sweeps, n)
    np.testing.assert_allclose(weights, np.broadcast_to(weights[:, :1], weights.shape))
    states = particles["beta"].values.reshape(32, sweeps, n, 5)[:, -1]
    center, sd = exact.mean(("chain", "draw")).values, exact.std(("chain", "draw")).values
    standard = (states - center) / sd

    def score(values, expected):
        w = weights[:, -1] * sweeps
        mean = np.einsum("rn,rnk->k", w, values)
        by_run = np.einsum("rn,rnk->rk", w, values - mean)
        error = np.hypot(np.sqrt(32 / 31 * np.sum(by_run**2, axis=0)), 1.5 / np.sqrt(2000))
        return np.abs(mean - expected).max() / error.max()

    assert score(standard, 0.0) < SIGMAS
    assert score(standard**2, 1.0) < SIGMAS
    assert score(standard + 1, 0.0) > SIGMAS
    monkeypatch.setattr(annealing, "MAX_STATES", 1)
    without = pm.sample_bdmc(model, chains=32, path="fitted", **QUICK)
    assert without["particles"].attrs["sweeps"] == 1
    xr.testing.assert_identical(without["real"]["log_weight"], dt["real"]["log_weight"])
    assert without["posterior"].sizes["draw"] < dt["posterior"].sizes["draw"] / 2


def test_draws_to_fit_a_path_to_are_checked_before_any_run(regression, draws):
    model, posterior = regression[0], draws["posterior"].dataset
    few = "path: 60 draws in half of the draws, and 100 are needed"
    cases = [(posterior.isel(draw=slice(60)), few), (posterior.rename(beta="b"), "beta")]
    for wrong, message in cases:
        path = bdmc.FittedPath(xr.DataTree.from_dict({"posterior": wrong}))
        with pytest.raises(ValueError, match=message):
            pm.sample_bdmc(model, path=path, **QUICK)
    with pytest.raises(ValueError, match="leave real_data=False out"):
        pm.sample_bdmc(model, path=bdmc.FittedPath(draws), real_data=False)


def of_one_ancestor(weights, n, position):
    """Resample so that one state has all the children."""
    return np.full(n, np.searchsorted(np.cumsum(weights), position * weights.sum()))


def test_a_fit_that_misses_a_mode_is_not_taken(two_modes, monkeypatch):
    """Two seeds, α = 1.2e-4; the second pilot sees one mode. Twin: neither scouts nor R̂."""
    model, log_ml = two_modes
    seeds = [QUICK | {"random_seed": seed} for seed in (3, 5)]
    for options in seeds:
        if options["random_seed"] == 5:
            monkeypatch.setattr(pilot, "systematic", of_one_ancestor)
        dt = pm.sample_bdmc(model, **options)
        assert dt.attrs["path"] == "prior"
        assert distance(dt, log_ml) < SIGMAS
    monkeypatch.setattr(limits, "SURPLUS", np.inf)
    monkeypatch.setattr(annealing, "MAX_RHAT", np.inf)
    monkeypatch.setattr(annealing, "refutes", lambda higher, lower: False)
    twins = [pm.sample_bdmc(model, **options) for options in seeds]
    assert all(dt.attrs["path"] == "fitted" for dt in twins)
    off = [abs(bdmc.evidence(dt).iloc[0]["value"] - log_ml) for dt in twins]
    assert min(off) > 0.5  # a mode is half of the posterior


def test_a_narrow_peak_is_climbed(monkeypatch):
    """The answer, and the share of the spike, 0.9; α = 6e-5 each.

    The share has less than the error of log Z, and that of its draws. One call in 37 takes the path
    from the prior, so both of two do with a probability of 7e-4. The twin does not climb: it sees
    the slab alone, or meets the spike by chance, which gives no valid answer.
    """
    model = SpikeAndSlab(dimension=3).model()
    results = (pm.sample_bdmc(model, **QUICK | {"random_seed": seed}) for seed in (1, 2))
    dt = next(each for each in results if each.attrs["path"] == "fitted")
    assert "has a narrow peak" in dt.attrs["path_reason"]
    row, inside = bdmc.evidence(dt).iloc[0], (np.abs(dt["posterior"]["x"]) < 0.1).all("x_dim_0")
    assert abs(row["value"]) < SIGMAS * row["error"]
    assert abs(float(inside.mean()) - 0.9) < SIGMAS * np.hypot(row["error"], 0.3 / inside.size**0.5)
    monkeypatch.setattr(narrow_modes, "SEARCHES", 0)
    twin = bdmc.evidence(pm.sample_bdmc(model, **QUICK)).iloc[0]
    assert not (twin["valid"] and abs(twin["value"]) < SIGMAS * twin["error"])


class Rows(Density):
    """A density of rows of θ, with gradients by differences."""

    evaluations = 0
    draw_prior = None

    def __init__(self, log_density):
        super().__init__()
        self.log_density = log_density

    def terms(self, thetas):
        values = self.log_density(thetas)
        return np.stack([np.zeros_like(values), values], axis=1)

    def slopes(self, thetas):
        steps = 1e-6 * np.concatenate([np.eye(thetas.shape[1]), -np.eye(thetas.shape[1])])
        up, down = np.split(np.array([self.log_density(thetas + step) for step in steps]), 2)
        return self.log_density(thetas), (up - down).T / 2e-6


def normals(thetas, *places, scale=0.01):
    """log of the sum of a unit normal density and of narrow ones."""
    narrow = [stats.norm.logpdf(thetas, at, scale).sum(axis=1) for at in places]
    return np.logaddexp.reduce([stats.norm.logpdf(thetas).sum(axis=1), *narrow])


def normal_fit(n, location=0.0, scale=1.0):
    shape = Metric(np.full(n, scale), np.zeros((0, n)), np.zeros(0))
    return make_reference(np.full(n, location), shape, 10.0)


@pytest.mark.parametrize(
    ("n", "density", "locations"),
    [
        (2, normals, [0]),
        (5, lambda x: normals(x, 0.03), [0, 0.03]),
        (21, lambda x: normals(x, 0.03), [0]),
    ],
)
def test_only_peaks_that_a_reference_misses_are_added(n, density, locations):
    """Not with more than 20 elements. Locations are alike in all elements."""
    rng = np.random.default_rng(1)
    found = narrow_modes.add_narrow_modes(normal_fit(n), Rows(density), rng)
    expected = np.tile(np.transpose([locations]), n)
    np.testing.assert_allclose(found.locations, expected, atol=1e-3)


def test_two_peaks_get_a_component_each(monkeypatch):
    found = mix_references([normal_fit(1, place, 0.01) for place in (-1.0, 1.0)])
    modes = SimpleNamespace(reference=found)
    monkeypatch.setattr(narrow_modes, "find_modes", lambda *args, **options: modes)
    density, rng = Rows(lambda x: normals(x, -1, 1)), np.random.default_rng(1)
    fit = narrow_modes.add_narrow_modes(normal_fit(1), density, rng)
    np.testing.assert_array_equal(fit.locations[:, 0], [0.0, -1.0, 1.0])


@pytest.fixture(scope="module")
def wide():
    """An engine for a mean that is hardly informed, and a pilot of its fitted path."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 50.0, observed=0.0)
    engine = CompiledEngine(TemperedDensity(model))
    with interruptible() as stop, engine.pool(1, stop) as pool:
        prepare = annealing.Annealing(session_of(engine, pool))
        tunings = prepare.tunings({0: engine.density.data}, FittedPath())
        yield engine, prepare, tunings[0]


def test_a_climb_can_be_stopped():
    engine, seed = CompiledEngine(TemperedDensity(plain())), np.random.SeedSequence(1)
    fit = normal_fit(1)
    stop = np.zeros(1, dtype=np.uint8)
    with engine.pool(1, stop):
        assert len(engine.with_narrow_modes(fit, engine.density.data, seed).locations) == 1
        stop[0] = 1
        with pytest.raises(KeyboardInterrupt):
            engine.with_narrow_modes(fit, engine.density.data, seed)


def test_a_scout_that_moves_lead_back_speaks_against_nothing(wide, monkeypatch):
    """Its ℓ is 9 nats above all that the pilot of the fit saw; the twin stays where it is."""
    engine, prepare, found = wide
    seen = found.last_log_likelihood.max()
    scouts = [SimpleNamespace(log_weight=0.0, weights=np.ones(1), ends={"x": np.zeros(1)})]
    monkeypatch.setattr(Problem, "log_likelihoods", lambda *_: np.array([seen + 9]))
    for end, surplus in ((seen - 1, -1), (seen + 9, 9)):
        monkeypatch.setattr(engine, "after_moves", lambda *_, end=end: np.array([end]))
        assert prepare._surplus({0: engine.density.data}, found, scouts) == pytest.approx(surplus)


def test_moves_lead_states_back_from_the_tail(wide):
    """From ten deviations out, 32 states, α = 1e-6; without moves they stay there."""
    engine, _, found = wide
    far, data = np.full((32, 1), 10.0), engine.density.data
    problem = engine.on(data, found.reference)
    near = problem.log_likelihoods(np.array([[0.0], [6.0]])).min()
    assert (problem.log_likelihoods(far) < near).all()
    assert (engine.after_moves(far, data, found, np.random.SeedSequence(1)) >= near).all()


def test_the_pilot_stays_until_it_mixes(monkeypatch):
    """On a posterior with one mode that takes its time; the twin does not stay.

    All of 24 seeds mixed, and 16 of the twin's: of 8 one at least does not, but for 4 %.
    """
    density = TemperedDensity(models.centred_schools())
    engine = CompiledEngine(density)
    tasks = [PilotTask(density.data, np.random.SeedSequence(seed)) for seed in range(8)]
    assert sum(task.run(engine).rhat <= MAX_RHAT for task in tasks) >= 7
    assert np.isnan(replace(tasks[0], until_mixed=False).run(engine).rhat)
    monkeypatch.setattr(compiled, "MOST_ITERATIONS", 8)
    assert any(task.run(engine).rhat > MAX_RHAT for task in tasks)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("apart", [3, 4, 5, 7])
def test_modes_at_any_distance(d, apart):
    """Fitted together, or told apart by the pilot or the scouts; 24 scores, α = 1.5e-3 in all."""
    model, log_ml = modes(d, apart, 0.3)
    for seed in (1, 2, 3):
        assert distance(pm.sample_bdmc(model, **QUICK | {"random_seed": seed}), log_ml) < SIGMAS


def test_pilots_on_simulated_data_do_not_see_their_parameters():
    """Other parameters for the same data, the same forward runs on the fitted path."""
    options = QUICK | dict(path="fitted", chains=3, temperatures=5, real_data=False)
    pairs = [bdmc.Given({"x": x}, {"y": 1.0}, exact=True) for x in (0.5, 1.5)]
    one, other = (pm.sample_bdmc(plain(), **options | {"simulate": pair}) for pair in pairs)
    assert one["forward"].equals(other["forward"])
    assert not one["reverse"]["log_weight"].equals(other["reverse"]["log_weight"])


def plain():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=0.3)
    return model


def ruled_out():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("cut", pm.math.switch(x > -1.5, -x, -np.inf))
    return model


@pytest.mark.parametrize(
    ("make", "reason"),
    [(mixed_model, "nothing is fitted to the discrete b"), (ruled_out, "is ruled out")],
)
def test_densities_that_are_good_from_the_prior_only(make, reason):
    dt = pm.sample_bdmc(make(), chains=2, temperatures=3, **QUICK)
    assert dt.attrs["path"] == "prior"
    assert reason in dt.attrs["path_reason"]


def test_no_fit_of_a_circle_or_of_a_density_that_may_lack_its_constant():
    def draw(rng=None, size=None):
        return rng.normal(size=size)

    with pm.Model() as circle:
        pm.VonMises("x", 0, 6)
    with pm.Model() as custom:
        pm.CustomDist("x", logp=lambda value: -0.5 * value**2, random=draw)
    assert no_reference_for(circle) == "since x lies on a circle"
    assert "x, a CustomDist, need not integrate to 1" in no_reference_for(custom)
    assert no_reference_for(plain()) == ""


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (plain, {"path": "spline"}, "path: 'spline' is none of 'prior', 'fitted'"),
        (plain, {"path": bdmc.ReferencePath({"x": 0}, {"x": 1, "z": 1})}, "scale: must give"),
        (plain, {"path": bdmc.ReferencePath({}, {"x": 1})}, r"location: must give \['x'\]"),
        (plain, {"path": bdmc.ReferencePath({"x": [0, 1]}, {"x": 1})}, "x must be finite and of"),
        (plain, {"path": bdmc.ReferencePath({"x": 0}, {"x": 0})}, "scale: must be positive"),
        (mixed_model, {"path": "fitted"}, "'fitted' is not possible here.*discrete b"),
        (plain, {"path": "fitted", "step": pm.Metropolis}, "is not possible here.*step methods"),
    ],
)
@interpreted()
def test_bad_paths_are_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(make(), temperatures=5, **options, **QUICK)


def test_bad_fitted_paths_are_refused():
    with pytest.raises(ValueError, match="degrees_of_freedom: must be a positive number"):
        bdmc.FittedPath(degrees_of_freedom=0)
    with pytest.raises(ValueError, match="idata: expected a DataTree"):
        bdmc.FittedPath(5.0)


def test_what_is_ruled_out_far_from_the_posterior_does_not_speak_against_a_fit():
    """α = 6e-5, and 2e-5 for a draw of the fit, a t distribution of 3 degrees, beyond the cut."""
    with pm.Model() as model:
        x, sd = pm.Normal("x"), 0.005
        pm.Potential("far", pm.math.switch(x > 1.5, pm.logp(pm.Normal.dist(x, sd), 3.0), -np.inf))
    dt = pm.sample_bdmc(model, **QUICK)
    assert dt.attrs["path"] == "fitted"
    exact = stats.norm.logpdf(3, 0, np.hypot(1, sd))  # the cut is 300 deviations away
    assert distance(dt, exact) < SIGMAS


def found(prior, fitted, rhat=1.0, lengths=(100.0, 1.0), with_scouts=True, **others):
    """Return findings of pilots, and of scouts on both paths."""
    scouts = np.array([prior, fitted]) if with_scouts else np.empty((2, 0))
    before, after = lengths
    return annealing.Findings(before, rhat, after, *scouts, **others)


LOW, HIGH = [-1.1, -0.9, -1.2, -1.0], [4.9, 5.0, 5.1, 4.8]
TAILS = {"heavy_tail": 0.9}

CHOICES = {
    "alike": (LOW, LOW, {}, "fitted", "far shorter"),
    "the fit is higher": (LOW, HIGH, {"rhat": 8.0}, "fitted", "miss part"),
    "the prior is higher": (HIGH, LOW, {}, "prior", "miss part"),
    "several modes": (LOW, LOW, {"rhat": 8.0}, "prior", "R̂ is 8"),
    "little shorter": (LOW, LOW, {"lengths": (100.0, 90.0)}, "prior", "not far"),
    "a third as long": (LOW, LOW, {"lengths": (90.0, 30.0)}, "prior", "not far"),
    "a third, and higher": (LOW, HIGH, {"lengths": (90.0, 30.0)}, "fitted", "miss part"),
    "longer": (LOW, LOW, {"lengths": (90.0, 100.0)}, "prior", "not shorter"),
    "a place that the fit misses": (LOW, LOW, {"surplus": 9.0}, "prior", "misses"),
    "a peak": (LOW, LOW, {"peaks": 1}, "fitted", "narrow peak"),
    "peaks of several modes": (LOW, LOW, {"rhat": 8.0, "peaks": 1}, "prior", "R̂ is 8"),
    "tails": (LOW, LOW, TAILS | {"lengths": (100.0, 10.0)}, "prior", "far too little mass"),
    "tails, a far prior": (LOW, LOW, TAILS | {"lengths": (300.0, 10.0)}, "fitted", "far shorter"),
    "tails of a higher fit": (LOW, HIGH, TAILS, "fitted", "miss part"),
    "a place that is negligible": (LOW, HIGH, {"surplus": 9.0}, "fitted", "miss part"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_path_is_chosen_by_the_lower_bounds_that_scouts_reach(case):
    """A fit may miss what runs from the prior reach, and these may miss what a fit has."""
    prior, fitted, others, path, reason = CHOICES[case]
    seen = found(prior, fitted, **others)
    chosen = annealing.choose(seen)
    assert chosen.path == path
    assert reason in chosen.reason
    first = annealing.choose(found(prior, fitted, with_scouts=False, **others))
    assert first.needs == ("" if case in ("little shorter", "longer") else "scouts")
    assert annealing.choose(seen._replace(fitted_length=None)).needs == "fit"
    objects = reason in ("misses", "R̂ is 8") or case == "the prior is higher"
    assert bool(annealing.missed_by_fit(seen)) == objects
    assert annealing.fails_from_prior(seen) == ("peaks" in others or fitted == HIGH)


def test_an_obstacle_needs_no_fit():
    seen = found(LOW, HIGH)
    assert annealing.choose(seen._replace(obstacle="a circle")) == ("prior", "a circle", "")
    assert annealing.choose(seen._replace(is_cut=True)).path == "prior"


@pytest.mark.parametrize(("length", "temperatures"), [(2000.0, 417), (3000.0, 120)])
def test_scouts_from_a_prior_that_is_far_cost_no_more_than_runs_from_a_fit(length, temperatures):
    """Λ²/(T N) is at most 0.15; 30 temperatures of 16 runs are 120 of four scouts."""
    engine = SimpleNamespace(default_particles=32, rows=0, description="")
    prepared, ends = annealing.Annealing(session_of(engine)), np.array([0.0, 1.0])
    prepared._tunings = {
        (name, 0): SimpleNamespace(path_betas=ends, mean_log_likelihood=each * ends)
        for name, each in (("prior", length), ("fitted", 100.0))
    }
    assert len(prepared._scout_betas(0, PriorPath())) - 1 == temperatures


@pytest.mark.parametrize("shape", [0.4, 0.5, 0.75])
def test_the_tail_of_weights_is_seen_by_states_of_the_posterior(shape):
    """Under r log weights are exponential with mean k; states of the posterior have them by weight.

    Within `SIGMAS` errors of the tail of 1536 states (α = 6e-5). The twin takes these states for
    draws from r, which is seen but for 1e-5: it is 17 ± 3 errors off, or more.
    """
    n, rng = 2**18, np.random.default_rng(1)
    g = shape / (1 - shape) * rng.exponential(size=n)
    found, limit = annealing.shape_by_states(g)
    error = (1 - shape) / np.sqrt(3 * np.sqrt(n))
    assert abs(found - shape) < SIGMAS * error
    assert abs(pareto_shape(np.exp(g - g.max())) - shape) > SIGMAS * error
    assert limit == 0.7
    assert annealing.shape_by_states(g[:100])[1] == 0.5


@pytest.mark.parametrize("family", [pm.Normal, partial(pm.TruncatedNormal, lower=-50)])
def test_small_scales_of_centred_effects_are_known(family):
    """Whether effects are normal or not. Twin: their scale is known."""
    with pm.Model() as model:
        family("effect", 0, pm.HalfNormal("sd", 1), shape=8)
        family("of known scale", 0, 1.0, shape=8)
    assert with_necks(model) == ["effect"]


def test_runs_follow_how_well_moves_mix(monkeypatch):
    """In the neck of centred schools more runs are made; without them the draws are worth less.

    They start at the prior, since a fit does not reach small scales.
    """
    found = []
    for drawn in (annealing.MIN_DRAWS, 1):
        monkeypatch.setattr(annealing, "MIN_DRAWS", drawn)
        dt = pm.sample_bdmc(models.centred_schools(), **QUICK)
        assert dt.attrs["path"] == "prior"
        told = "a fit does not reach small scales of the centred theta"
        assert dt.attrs["path_reason"] == told
        found.append((dt["real"].sizes["chain"], dt["posterior"]["draw"].size))
    assert found[0][0] == 48
    assert found[1][0] == 16
    assert found[0][1] > 1.5 * found[1][1]


def test_few_particles_are_not_made_for_draws():
    """Nor those that do not move on."""
    engine = SimpleNamespace(default_particles=32, description="")
    prepared = annealing.Annealing(session_of(engine))
    for rhat, particles, moves, chains in [(9, 32, 15, 48), (1.1, 32, 15, 16), (9, 32, 0, 16)]:
        assert prepared._fewest_chains(rhat, particles, moves) == chains


def tight_scale():
    """Four values near each other: from s ~ 2 to s ~ 1e-3 the path from the prior is a leap."""
    y = 5 + 1e-3 * np.array([0.3, -1.0, 0.5, 1.2])
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), pm.HalfCauchy("s", 2), observed=y)
    # The mean is integrated out, the scale summed over its logarithm.
    scale = np.exp(np.linspace(-14, 6, 200_001))
    precision = 1 / 100 + len(y) / scale**2
    total, squares = y.sum() / scale**2, (y**2).sum() / scale**2
    logs = -2 * np.log(2 * np.pi * scale**2) - np.log(100 * precision) / 2
    logs += (total**2 / precision - squares) / 2 + stats.halfcauchy.logpdf(scale, 0, 2)
    return model, logsumexp(logs + np.log(scale)) + np.log(20 / 200_000)


@pytest.mark.slow
def test_what_runs_from_the_prior_seldom_meet_is_never_recommended_wrongly():
    """Ten seeds, α = 6e-4 in all. Nine in ten answer, and fewer than six of ten with a probability
    of 1.6e-3."""
    model, log_ml = tight_scale()
    rows = [
        bdmc.evidence(pm.sample_bdmc(model, **QUICK | {"random_seed": seed})).iloc[0]
        for seed in range(10)
    ]
    valid = [row for row in rows if row["valid"]]
    assert len(valid) >= 6
    assert all(abs(row["value"] - log_ml) < SIGMAS * row["error"] for row in valid)


def test_draws_of_a_reference_outside_the_prior():
    """Where log p is −∞ it does not matter that ℓ is no number."""
    with pm.Model() as model:
        s = pm.Exponential("s", 0.01, default_transform=None)
        pm.Normal("y", pm.math.sqrt(s), 1.0, observed=7.0)
    path = bdmc.ReferencePath({"s": 50.0}, {"s": 40.0})
    dt = pm.sample_bdmc(model, path=path, **QUICK)
    grid = np.linspace(0, 400, 400_001)[1:]
    joint = 0.01 * np.exp(-0.01 * grid - 0.5 * (np.sqrt(grid) - 7) ** 2) / np.sqrt(2 * np.pi)
    assert distance(dt, np.log(np.trapezoid(joint, grid))) < SIGMAS
    with pytest.raises(ValueError, match="path: the model is impossible at all of"):
        pm.sample_bdmc(model, path=bdmc.ReferencePath({"s": -1e3}, {"s": 1.0}), **QUICK)
