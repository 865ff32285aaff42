"""Which path a call takes that anneals, what it finds there, and what is refused."""

from dataclasses import replace
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
from tests.models import SIGMAS, conjugate_regression
from tests.systems import SpikeAndSlab

QUICK = dict(simulate=None, random_seed=3, progressbar=False)
pytestmark = pytest.mark.usefixtures("annealed")


@pytest.fixture(scope="module")
def regression():
    return conjugate_regression(d=5, n=40)


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


def test_draws_that_exist_take_the_place_of_the_pilot(regression, draws, monkeypatch):
    """Both directions on the real data by ten temperatures, and the draws are judged.

    The twin has draws of something else, and says so; the annealed evidence is right all the same.
    Two-sided α = 6e-5 each.
    """
    model, log_ml = regression
    tasks = []
    original = annealing.Annealing._pilots

    def pilots(self, data, references, until_mixed, key):
        tasks.extend(references.values() or [None])
        return original(self, data, references, until_mixed, key)

    monkeypatch.setattr(annealing.Annealing, "_pilots", pilots)
    dt = pm.sample_bdmc(model, path=bdmc.FittedPath(draws), **QUICK)
    assert len(tasks) == 1
    assert tasks[0] is not None
    assert dt.attrs["path"] == "fitted"
    assert dt["real"].sizes["beta"] - 1 == 10
    assert dt["agreement"].attrs["status"] == "good"
    other = draws.copy()
    other["posterior"] = draws["posterior"].dataset + 3.0
    wrong = pm.sample_bdmc(model, path=bdmc.FittedPath(other), **QUICK)
    assert wrong["agreement"].attrs["status"] == "bad"
    for found in (dt, wrong):
        row = bdmc.evidence(found).loc[("real", 0, "bar")]
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
    model, _ = regression
    few = xr.DataTree.from_dict({"posterior": draws["posterior"].dataset.isel(draw=slice(60))})
    with pytest.raises(ValueError, match="path: 60 draws in half of the draws, and 100 are needed"):
        pm.sample_bdmc(model, path=bdmc.FittedPath(few), **QUICK)
    renamed = xr.DataTree.from_dict({"posterior": draws["posterior"].dataset.rename(beta="b")})
    with pytest.raises(ValueError, match="beta"):
        pm.sample_bdmc(model, path=bdmc.FittedPath(renamed), **QUICK)
    with pytest.raises(ValueError, match="leave real_data=False out"):
        pm.sample_bdmc(model, path=bdmc.FittedPath(draws), real_data=False)
    with pytest.raises(ValueError, match="idata: expected a DataTree"):
        bdmc.FittedPath(5.0)


def test_a_regression_takes_the_fitted_path(regression):
    model, log_ml = regression
    dt = pm.sample_bdmc(model, **QUICK)
    assert dt.attrs["path"] == "fitted"
    assert "nats from the prior and" in dt.attrs["path_reason"]
    assert distance(dt, log_ml) < SIGMAS
    prior = pm.sample_bdmc(model, path="prior", **QUICK)
    assert prior.attrs["path"] == "prior"
    assert distance(prior, log_ml) < SIGMAS
    assert dt["real"]["thermodynamic_length"] < prior["real"]["thermodynamic_length"] / 3


def of_one_ancestor(weights, n, position):
    """Resample so that one state has all the children."""
    return np.full(n, np.searchsorted(np.cumsum(weights), position * weights.sum()))


def test_a_fit_that_misses_a_mode_is_not_taken(two_modes, monkeypatch):
    """Four seeds, α = 2.4e-4; pilots of two see one mode. The twin asks neither scouts nor R̂."""
    model, log_ml = two_modes
    seeds = [QUICK | {"random_seed": seed} for seed in (3, 4, 5, 6)]
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
    """α = 6e-5. The twin does not climb: it sees the slab alone, or meets the spike by chance."""
    model = SpikeAndSlab(dimension=3).model()
    dt = pm.sample_bdmc(model, **QUICK)
    assert dt.attrs["path"] == "fitted"
    assert "has a narrow peak" in dt.attrs["path_reason"]
    assert distance(dt, 0.0) < SIGMAS

    def share_inside(dt):
        return float((np.abs(dt["posterior"]["x"]) < 0.1).all("x_dim_0").mean())

    assert 0.8 < share_inside(dt) < 0.97
    monkeypatch.setattr(narrow_modes, "SEARCHES", 0)
    assert not 0.8 < share_inside(pm.sample_bdmc(model, **QUICK)) < 0.97


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


def test_only_a_peak_that_a_reference_misses_is_added():
    rng, narrow = np.random.default_rng(1), stats.norm(0.03, 0.01)

    def posterior(thetas):
        return stats.norm.logpdf(thetas).sum(axis=1)

    def with_peak(thetas):
        return np.logaddexp(posterior(thetas), narrow.logpdf(thetas).sum(axis=1))

    def funnel(thetas):  # r misses much of it, but no peak
        widths = np.exp(thetas[:, :1] / 2)
        rest = stats.norm.logpdf(thetas[:, 1:], 0, widths).sum(axis=1)
        return stats.norm.logpdf(thetas[:, 0], 0, 1.5) + rest

    one, two = [0], [0, 0.03]  # locations of components, alike in all elements
    cases = [
        (2, posterior, one), (6, funnel, one), (2, with_peak, two), (5, with_peak, two),
        (21, with_peak, one),
    ]  # fmt: skip
    for n, density, locations in cases:
        shape = Metric(np.ones(n), np.zeros((0, n)), np.zeros(0))
        found = narrow_modes.add_narrow_modes(
            make_reference(np.zeros(n), shape), Rows(density), rng
        )
        expected = np.tile(np.transpose([locations]), n)
        np.testing.assert_allclose(found.locations, expected, atol=1e-3)


@pytest.mark.parametrize("places", [[-1.0, 1.0], [1.0]])
def test_two_peaks_get_a_component_each(places, monkeypatch):
    """Both modes that the search found are added, or the only one."""

    def density(thetas):
        parts = [stats.norm.logpdf(thetas, at, 0.01) for at in (-1, 1)]
        return np.logaddexp.reduce([stats.norm.logpdf(thetas), *parts]).sum(axis=1)

    def at(place, scale):
        shape = Metric(np.full(1, scale), np.zeros((0, 1)), np.zeros(0))
        return make_reference(np.full(1, place), shape, 10.0)

    found = SimpleNamespace(reference=mix_references([at(place, 0.01) for place in places]))
    monkeypatch.setattr(narrow_modes, "find_modes", lambda *args, **options: found)
    fit = narrow_modes.add_narrow_modes(at(0.0, 1.0), Rows(density), np.random.default_rng(1))
    np.testing.assert_array_equal(fit.locations[:, 0], [0.0, *places])


def test_a_climb_can_be_stopped():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=0.0)
    density = TemperedDensity(model)
    engine, seed = CompiledEngine(density), np.random.SeedSequence(1)
    fit = make_reference(np.zeros(1), Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0)))
    stop = np.zeros(1, dtype=np.uint8)
    with engine.pool(1, stop):
        assert len(engine.with_narrow_modes(fit, density.data, seed).locations) == 1
        stop[0] = 1
        with pytest.raises(KeyboardInterrupt):
            engine.with_narrow_modes(fit, density.data, seed)


def test_a_scout_that_moves_lead_back_speaks_against_nothing(monkeypatch):
    """Its ℓ is 9 nats above all that the pilot of the fit saw; the twin stays where it is."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 50.0, observed=0.0)
    density = TemperedDensity(model)
    engine, data = CompiledEngine(density), density.data
    with interruptible() as stop, engine.pool(1, stop) as pool:
        prepare = annealing.Annealing(session_of(engine, pool))
        found = prepare.tunings({0: data}, FittedPath())[0]
        seen = found.last_log_likelihood.max()
        scouts = [SimpleNamespace(log_weight=0.0, weights=np.ones(1), ends={"x": np.zeros(1)})]
        monkeypatch.setattr(Problem, "log_likelihoods", lambda *_: np.array([seen + 9]))
        for end, surplus in ((seen - 1, -1), (seen + 9, 9)):
            monkeypatch.setattr(engine, "after_moves", lambda *_, end=end: np.array([end]))
            assert prepare._surplus({0: data}, found, scouts) == pytest.approx(surplus)


def test_moves_lead_states_back_from_the_tail():
    """From ten deviations out, 32 states, α = 1e-6; without moves they stay there."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 50.0, observed=0.0)
    density = TemperedDensity(model)
    engine, data = CompiledEngine(density), density.data
    with interruptible() as stop, engine.pool(1, stop) as pool:
        prepare = annealing.Annealing(session_of(engine, pool))
        found = prepare.tunings({0: data}, FittedPath())[0]
        far = np.full((32, 1), 10.0)
        before = engine.on(data, found.reference).log_likelihoods(far)
        after = engine.after_moves(far, data, found, np.random.SeedSequence(1))
    near = engine.on(data, found.reference).log_likelihoods(np.array([[0.0], [6.0]]))
    assert (after >= near.min()).all()
    assert (before < near.min()).all()


def test_the_pilot_stays_until_it_mixes(monkeypatch):
    """On a posterior with one mode that takes its time; the twin does not stay.

    All of 24 seeds mixed, and 16 of the twin's: of 16 one at least does not, but for 0.2 %.
    """
    density = TemperedDensity(models.eight_schools(True))
    engine = CompiledEngine(density)
    tasks = [PilotTask(density.data, np.random.SeedSequence(seed)) for seed in range(16)]
    assert sum(task.run(engine).rhat <= MAX_RHAT for task in tasks) >= 15
    assert np.isnan(replace(tasks[0], until_mixed=False).run(engine).rhat)
    monkeypatch.setattr(compiled, "MOST_ITERATIONS", 8)
    assert any(task.run(engine).rhat > MAX_RHAT for task in tasks)


KNOWN = {
    "centred": lambda: (models.eight_schools(True), models.eight_schools_log_ml()),
    "non-centred": lambda: (models.eight_schools(False), models.eight_schools_log_ml()),
    "coin": models.beta_bernoulli,
    "product": models.unidentified_binomial,
    "regression": models.conjugate_regression,
    "assignments": models.discrete_mixture,
    "missing": lambda: models.missing_values(True),
    "random trials": models.random_trials,
    "constraint": models.hard_constraint,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
@pytest.mark.parametrize("name", KNOWN)
def test_the_default_call_knows_the_answer(name):
    """Three seeds, each with simulated data but where the model cannot; and its gap is small."""
    model, log_ml = KNOWN[name]()
    simulate = {} if not model.potentials else {"simulate": None}
    for seed in (1, 2, 3):
        dt = pm.sample_bdmc(model, random_seed=seed, progressbar=False, **simulate)
        row = bdmc.evidence(dt).query("data == 'real'").iloc[0]
        assert abs(row["value"] - log_ml) < SIGMAS * row["error"]
        if not simulate:
            assert bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"] < 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_both_modes_are_found_by_default(two_modes, seed):
    model, log_ml = two_modes
    dt = pm.sample_bdmc(model, **QUICK | {"random_seed": seed})
    assert distance(dt, log_ml) < SIGMAS


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("apart", [3, 4, 5, 7])
def test_modes_at_any_distance(d, apart):
    """Fitted together, or told apart by the pilot or the scouts; 24 scores, α = 1.5e-3 in all."""
    model, log_ml = modes(d, apart, 0.3)
    for seed in (1, 2, 3):
        assert distance(pm.sample_bdmc(model, **QUICK | {"random_seed": seed}), log_ml) < SIGMAS


def test_a_reference_of_the_callers(regression):
    model, log_ml = regression
    path = bdmc.ReferencePath({"beta": np.zeros(5)}, {"beta": np.ones(5)}, degrees_of_freedom=5)
    dt = pm.sample_bdmc(model, path=path, **QUICK)
    assert dt.attrs["path"] == "reference"
    assert distance(dt, log_ml) < SIGMAS


def test_pilots_on_simulated_data_do_not_see_their_parameters():
    """Other parameters for the same data, the same forward runs on the fitted path."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, 10), observed=0.3)
    options = QUICK | dict(path="fitted", chains=3, temperatures=5, real_data=False)
    pairs = [bdmc.Given({"x": x}, {"y": 1.0}, exact=True) for x in (0.5, 1.5)]
    one, other = (pm.sample_bdmc(model, **options | {"simulate": pair}) for pair in pairs)
    assert one["forward"].equals(other["forward"])
    assert not one["reverse"]["log_weight"].equals(other["reverse"]["log_weight"])


def test_data_sets_go_the_same_way(regression):
    """Forward and reverse runs close to within noise on a path that was fitted for each."""
    model, _ = regression
    dt = pm.sample_bdmc(model, **QUICK | {"simulate": bdmc.FromPrior(datasets=3)})
    assert dt.attrs["path"] == "fitted"
    assert dt.attrs["upper_bound"] == "exact"
    gap = bdmc.summary(dt).loc[("simulated", "jeffreys bound")]
    assert abs(gap["value"]) < 0.1 + SIGMAS * gap["error"]


@pytest.fixture(scope="module")
def mixed():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x") + pm.Bernoulli("b", 0.5), observed=0.3)
    return model


def test_without_a_reference_the_path_is_from_the_prior(mixed):
    options = QUICK | dict(chains=2, temperatures=3)
    dt = pm.sample_bdmc(mixed, **options)
    assert dt.attrs["path"] == "prior"
    assert "nothing is fitted to the discrete b" in dt.attrs["path_reason"]


BAD = [
    ("spline", "path: 'spline' is none of 'prior', 'fitted'"),
    (bdmc.ReferencePath({"x": 0}, {"x": 1, "z": 1}), r"scale: must give \['x'\]"),
    (bdmc.ReferencePath({}, {"x": 1}), r"location: must give \['x'\]"),
    (bdmc.ReferencePath({"x": [0, 1]}, {"x": 1}), r"location: x must be finite and of shape \(\)"),
    (bdmc.ReferencePath({"x": 0}, {"x": 0}), "scale: must be positive"),
]


@pytest.mark.parametrize(("path", "message"), BAD)
def test_bad_paths_are_refused(path, message):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=0.3)
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(model, path=path, **QUICK)


def test_paths_that_a_model_or_a_step_method_does_not_have(mixed, regression):
    with pytest.raises(ValueError, match=r"'fitted' is not possible here.*discrete b"):
        pm.sample_bdmc(mixed, path="fitted", **QUICK)
    with pytest.raises(ValueError, match=r"'fitted' is not possible here.*step methods"):
        pm.sample_bdmc(regression[0], path="fitted", step=pm.Metropolis, temperatures=5, **QUICK)
    with pytest.raises(ValueError, match="degrees_of_freedom: must be a positive number"):
        bdmc.FittedPath(degrees_of_freedom=0)


def circle():
    x = pm.VonMises("x", 0, 6)
    pm.Normal("y", pm.math.cos(x), 2, observed=0.3)


def custom():
    """Its density lacks the constant."""
    x = pm.CustomDist(
        "x",
        logp=lambda value: -0.5 * value**2,
        random=lambda rng=None, size=None: rng.normal(size=size),
    )
    pm.Normal("y", x, 1, observed=0.3)


def ruled_out():
    x = pm.Normal("x")
    pm.Potential("cut", pm.math.switch(x > -1.5, -x, -np.inf))


@pytest.mark.parametrize(
    ("build", "reason"),
    [(circle, "x lies on a circle"), (custom, "x, a CustomDist"), (ruled_out, "is ruled out")],
)
def test_densities_that_are_good_from_the_prior_only(build, reason):
    with pm.Model() as model:
        build()
    dt = pm.sample_bdmc(model, chains=2, temperatures=3, **QUICK)
    assert dt.attrs["path"] == "prior"
    assert reason in dt.attrs["path_reason"]


def test_what_is_ruled_out_far_from_the_posterior_does_not_speak_against_a_fit():
    """α = 6e-5."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("far", pm.math.switch(x > 1.5, pm.logp(pm.Normal.dist(x, 0.1), 3.0), -np.inf))
    dt = pm.sample_bdmc(model, **QUICK)
    assert dt.attrs["path"] == "fitted"
    exact = stats.norm.logpdf(3, 0, np.sqrt(1.01))  # the cut takes 15 deviations away
    assert distance(dt, exact) < SIGMAS


def found(prior, fitted, rhat=1.0, lengths=(100.0, 1.0), with_scouts=True, **others):
    """Return findings of pilots, and of scouts on both paths."""
    scouts = np.array([prior, fitted]) if with_scouts else np.empty((2, 0))
    before, after = lengths
    return annealing.Findings(before, rhat, after, *scouts, **others)


LOW, HIGH = [-1.1, -0.9, -1.2, -1.0], [4.9, 5.0, 5.1, 4.8]

CHOICES = {
    "alike": (dict(prior=LOW, fitted=LOW), "fitted", "far shorter"),
    "the fit is higher": (dict(prior=LOW, fitted=HIGH, rhat=8.0), "fitted", "miss part"),
    "the prior is higher": (dict(prior=HIGH, fitted=LOW), "prior", "miss part"),
    "several modes": (dict(prior=LOW, fitted=LOW, rhat=8.0), "prior", "R̂ is 8"),
    "little shorter": (dict(prior=LOW, fitted=LOW, lengths=(100.0, 90.0)), "prior", "not far"),
    "a third as long": (dict(prior=LOW, fitted=LOW, lengths=(90.0, 30.0)), "prior", "not far"),
    "a third as long, and higher": (
        dict(prior=LOW, fitted=HIGH, lengths=(90.0, 30.0)),
        "fitted",
        "miss part",
    ),
    "longer": (dict(prior=LOW, fitted=LOW, lengths=(90.0, 100.0)), "prior", "not shorter"),
    "a place that the fit misses": (dict(prior=LOW, fitted=LOW, surplus=9.0), "prior", "misses"),
    "a peak": (dict(prior=LOW, fitted=LOW, peaks=1), "fitted", "narrow peak"),
    "peaks of several modes": (dict(prior=LOW, fitted=LOW, rhat=8.0, peaks=1), "prior", "R̂ is 8"),
    "tails that the fit has not": (
        dict(prior=LOW, fitted=LOW, heavy_tail=0.9, lengths=(100.0, 10.0)),
        "prior",
        "far too little mass",
    ),
    "tails, and a prior that is far": (
        dict(prior=LOW, fitted=LOW, heavy_tail=0.9, lengths=(300.0, 10.0)),
        "fitted",
        "far shorter",
    ),
    "tails of a higher fit": (dict(prior=LOW, fitted=HIGH, heavy_tail=0.9), "fitted", "miss part"),
    "a place that is negligible": (
        dict(prior=LOW, fitted=HIGH, surplus=9.0),
        "fitted",
        "miss part",
    ),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_path_is_chosen_by_the_lower_bounds_that_scouts_reach(case):
    seen, path, reason = CHOICES[case]
    chosen = annealing.choose(found(**seen))
    assert chosen.path == path
    assert reason in chosen.reason
    first = annealing.choose(found(**seen, with_scouts=False))
    assert first.needs == ("" if case in ("little shorter", "longer") else "scouts")
    assert annealing.choose(found(**seen)._replace(fitted_length=None)).needs == "fit"


def test_an_obstacle_needs_no_fit():
    seen = found(LOW, HIGH)
    assert annealing.choose(seen._replace(obstacle="a circle")) == ("prior", "a circle", "")
    assert annealing.choose(seen._replace(is_cut=True)).path == "prior"


@pytest.mark.parametrize("case", CHOICES)
def test_what_scouts_say_against_either_path(case):
    """A fit may miss what runs from the prior reach, and these may miss what a fit has."""
    seen, _, reason = CHOICES[case]
    objects = reason in ("misses", "R̂ is 8") or case == "the prior is higher"
    assert bool(annealing.missed_by_fit(found(**seen))) == objects
    fails = "peaks" in seen or (seen["fitted"] == HIGH)
    assert annealing.fails_from_prior(found(**seen)) == fails


@pytest.mark.parametrize(
    ("lengths", "temperatures"), [((2000.0, 100.0), 417), ((3000.0, 100.0), 120)]
)
def test_scouts_from_a_prior_that_is_far_cost_no_more_than_runs_from_a_fit(lengths, temperatures):
    """Λ²/(T N) is at most 0.15; 30 temperatures of 16 runs are 120 of four scouts."""
    pilots = {
        name: SimpleNamespace(
            path_betas=np.array([0.0, 1.0]), mean_log_likelihood=np.array([0.0, length])
        )
        for name, length in zip(("prior", "fitted"), lengths, strict=True)
    }
    engine = SimpleNamespace(default_particles=32, rows=0, description="")
    prepared = annealing.Annealing(session_of(engine))
    prepared._tunings = {(name, 0): pilot for name, pilot in pilots.items()}
    assert len(prepared._scout_betas(0, PriorPath())) - 1 == temperatures


def test_a_path_that_is_refuted_is_not_taken(monkeypatch):
    """The twin, for which nothing is ever refuted, goes by R̂ and takes the lower path."""
    seen = found(prior=LOW, fitted=HIGH, rhat=8.0)
    assert annealing.choose(seen).path == "fitted"
    monkeypatch.setattr(annealing, "refutes", lambda higher, lower: False)
    assert annealing.choose(seen).path == "prior"


@pytest.mark.parametrize("shape", [0.3, 0.5, 0.8])
def test_the_tail_of_weights_is_seen_by_states_of_the_posterior(shape):
    """Under r log weights are exponential with mean k; states of the posterior have them by weight.

    Within `SIGMAS` errors of the tail of 768 states (α = 6e-5). The twin takes these states for
    draws from r.
    """
    n, rng = 65_536, np.random.default_rng(1)
    g = shape / (1 - shape) * rng.exponential(size=n)
    found, limit = annealing.shape_by_states(g)
    error = (1 - shape) / np.sqrt(3 * np.sqrt(n))
    assert abs(found - shape) < SIGMAS * error
    assert abs(pareto_shape(np.exp(g - g.max())) - shape) > SIGMAS * error
    assert limit == 0.7
    assert annealing.shape_by_states(g[:100])[1] == 0.5


def test_a_fit_that_does_not_reach_small_scales_is_not_annealed_from():
    """Effects that are not normal. Twin: their scale is known."""
    for scale, path in ((pm.HalfNormal.dist(1), "prior"), (1.0, "fitted")):
        with pm.Model() as model:
            sd = scale if path == "fitted" else model.register_rv(scale, "sd")
            effect = pm.TruncatedNormal("effect", 0, sd, lower=-50, shape=8)
            pm.Normal("y", effect, 0.1, observed=np.linspace(-1, 1, 8))
        dt = pm.sample_bdmc(model, chains=2, **QUICK)
        assert dt.attrs["path"] == path
        told = "a fit does not reach small scales of the centred effect"
        assert (dt.attrs["path_reason"] == told) == (path == "prior")


def test_runs_follow_how_well_moves_mix(monkeypatch):
    """In the neck of centred schools more runs are made; without them the draws are worth less."""
    found = []
    for drawn in (annealing.MIN_DRAWS, 1):
        monkeypatch.setattr(annealing, "MIN_DRAWS", drawn)
        dt = pm.sample_bdmc(models.eight_schools(centred=True), **QUICK)
        found.append((dt["real"].sizes["chain"], dt["posterior"]["draw"].size))
    assert found[0][0] == 48
    assert found[1][0] == 16
    assert found[0][1] > 1.5 * found[1][1]


def test_few_particles_are_not_made_for_draws():
    """Nor those that do not move on."""
    engine = SimpleNamespace(default_particles=32, description="")
    prepared = annealing.Annealing(session_of(engine))
    for rhat, particles, moves, chains in (
        (9.0, 32, 15, 48), (9.0, 64, 15, 24), (1.1, 32, 15, 16), (9.0, 32, 0, 16), (9.0, 1, 15, 16)
    ):  # fmt: skip
        assert prepared._fewest_chains(rhat, particles, moves) == chains


def frequency():
    """A sinusoid of unknown frequency, whose mode runs from the prior seldom meet; its log ML."""
    rng, x = np.random.default_rng(1), np.linspace(0, 20, 120)
    y = np.sin(2.3 * x) + rng.normal(0, 0.3, 120)
    with pm.Model() as model:
        wave = pm.math.sin(pm.Uniform("frequency", 0, 10) * x)
        pm.Normal("y", pm.Normal("amplitude", 0, 2) * wave, pm.HalfNormal("noise"), observed=y)
    # The amplitude is integrated out; the frequency and the noise are summed over their mode.
    frequency, noise = np.linspace(2.2, 2.4, 801), np.linspace(0.15, 0.6, 300)[:, None]
    waves = np.sin(np.outer(frequency, x))
    precision = 1 / 4 + (waves**2).sum(axis=1) / noise**2
    log_likelihoods = (
        (waves @ y / noise**2) ** 2 / 2 / precision - np.log(4 * precision) / 2
        - 60 * np.log(2 * np.pi * noise**2) - y @ y / 2 / noise**2
    )  # fmt: skip
    cell = 0.2 / 800 * 0.45 / 299 / 10
    return model, logsumexp(log_likelihoods + stats.halfnorm.logpdf(noise)) + np.log(cell)


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
@pytest.mark.parametrize("build", [frequency, tight_scale])
def test_what_runs_from_the_prior_seldom_meet_is_never_recommended_wrongly(build):
    """Ten seeds; 20 scores, α = 1.2e-3 in all. Nine in ten answer, and fewer than six of ten with a
    probability of 1.6e-3."""
    model, log_ml = build()
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
