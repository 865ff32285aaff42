"""Latent variables that the program finds, or that are named: `FittedPath(latent=…)`.

Known answers lie within `SIGMAS` stated errors: two-sided α = 6e-5 a comparison, seeded.
"""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc import paths
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import compiled as engine
from pymc_bdmc.fits import fit as fitting
from pymc_bdmc.run.tasks import FitTask
from tests.call.test_weighing import funnel
from tests.models import SIGMAS, eight_schools, eight_schools_log_ml, random_trials

QUICK = dict(simulate=None, random_seed=1, progressbar=False, cores=1)
SCHOOLS = eight_schools(centred=True)
COUNTS = np.array([8, 15, 12])


def called(model, latent, **options):
    return pm.sample_bdmc(model, path=bdmc.FittedPath(latent=latent), **(QUICK | options))


def log_normal_effects():
    """Effects that are normal on the unconstrained scale; the program looks at the other one."""
    with pm.Model() as model:
        effect = pm.LogNormal("effect", 0, pm.HalfNormal("scale"), shape=3)
        pm.Poisson("y", 10 * effect, observed=COUNTS)
    return model


def log_ml_of_log_normal_effects():
    """By quadrature over the scale, and over each effect given it."""
    scales, z = np.linspace(0.001, 6, 3000), np.linspace(-9, 9, 2001)
    rates = 10 * np.exp(scales[:, None] * z)
    found = stats.halfnorm.logpdf(scales)
    for count in COUNTS:
        terms = stats.poisson.logpmf(count, rates) + stats.norm.logpdf(z)
        found += logsumexp(terms, axis=1) + np.log(z[1] - z[0])
    return logsumexp(found) + np.log(scales[1] - scales[0])


@pytest.mark.parametrize(
    ("model", "log_ml", "latent", "split"),
    [
        (log_normal_effects(), log_ml_of_log_normal_effects(), "effect", "1 parameter, 3"),
        (SCHOOLS, eight_schools_log_ml(), ["theta"], "2 parameters, 8"),
        (SCHOOLS, eight_schools_log_ml(), ["mu", "theta"], "1 parameter, 9"),
        (eight_schools(centred=False), eight_schools_log_ml(), ["z"], "2 parameters, 8"),
    ],
)
def test_named_variables_are_latent(model, log_ml, latent, split, caplog):
    """The log and the reason say the split, which the program would not find or not choose."""
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        dt = called(model, latent)
    assert dt.attrs["path_reason"].startswith(f"{split} latent variables: ")
    assert f"Path: fitted, {split} latent variables: " in caplog.text
    assert dt.attrs["unreached"] == ""
    assert dt["real"].sizes["beta"] == 2
    found = bdmc.log_ml(dt)
    assert found.error < 0.05
    assert abs(found.value - log_ml) < SIGMAS * found.error


def item_response(persons=30, items=8):
    """Two parameters an item; the log discriminations have a normal prior, but are not latent."""
    rng = np.random.default_rng(3)
    slopes, places = np.exp(0.4 * rng.normal(size=items)), rng.normal(size=items)
    logits = slopes * (rng.normal(size=persons)[:, None] - places)
    with pm.Model() as model:
        discrimination = pm.Normal("log_discrimination", 0, 0.5, shape=items)
        difficulty = pm.Normal("difficulty", 0, 1.5, shape=items)
        ability = pm.Normal("ability", 0, 1, shape=persons)
        logit = pm.math.exp(discrimination) * (ability[:, None] - difficulty)
        answers = rng.random(logits.shape) < 1 / (1 + np.exp(-logits))
        pm.Bernoulli("y", logit_p=logit, observed=answers.astype(int))
    return model


def test_item_response_is_not_annealed(monkeypatch):
    """Discriminations multiply abilities, so they are parameters. Runs from a t fit agree."""
    default = pm.sample_bdmc(item_response(), **QUICK)
    assert default["real"].sizes["beta"] == 2
    assert default.attrs["path_reason"].startswith("8 parameters, 38 latent variables: ")
    monkeypatch.setattr(engine, "latent_variables", lambda model: ())
    annealed = pm.sample_bdmc(item_response(), **QUICK)
    assert annealed["real"].sizes["beta"] > 2
    default, annealed = bdmc.log_ml(default), bdmc.log_ml(annealed)
    assert default.error < 0.05
    assert abs(default.value - annealed.value) < SIGMAS * np.hypot(default.error, annealed.error)


def factor(sign_is_free):
    """Loadings and scores of one factor; the data are the same if both change their signs."""
    rng = np.random.default_rng(1)
    y = np.outer(rng.normal(size=20), [1, -1, 0.5]) + 0.5 * rng.normal(size=(20, 3))
    with pm.Model() as model:
        first = (pm.Normal if sign_is_free else pm.HalfNormal)("first", sigma=1)
        loading = pm.math.concatenate([first[None], pm.Normal("loading", 0, 1, shape=2)])
        score = pm.Normal("score", 0, 1, shape=20)
        pm.Normal("y", score[:, None] * loading, pm.LogNormal("noise", -0.7, 0.3), observed=y)
    return model


def test_both_signs_of_loadings_are_found():
    """Log ML is the same if one sign is ruled out. Twin: log 2 lower, as with one of two modes."""
    free, fixed = (pm.sample_bdmc(factor(sign), **QUICK) for sign in (True, False))
    assert "20 optimisations found 2 modes" in free.attrs["path_reason"]
    assert "16 optimisations found 1 mode;" in fixed.attrs["path_reason"]
    free, fixed = bdmc.log_ml(free), bdmc.log_ml(fixed)
    error = np.hypot(free.error, fixed.error)
    assert abs(free.value - fixed.value) < SIGMAS * error
    assert abs(free.value - np.log(2) - fixed.value) > SIGMAS * error


def test_both_signs_are_found_on_similar_data():
    """By a search that knows no mode. Twin: one that takes the only known mode for conclusive."""
    compiled, rng = engine.CompiledEngine(TemperedDensity(factor(True))), np.random.default_rng(4)
    data = compiled.density.data
    known = compiled.fit(FitTask(data, np.random.SeedSequence(1))).tuning
    assert len(known.reference.marginal_modes) == 2
    scores, noise = rng.normal(size=(8, 20, 1)), rng.normal(size=(8, 20, 3))
    loadings = rng.normal(size=(8, 1, 2)) @ [[1, 1, 0], [0.5, -0.5, -2]]  # far from the known ones
    others = [{"y": y} for y in scores * loadings + 0.5 * noise]

    def modes(known=known):
        fits = [compiled.fit(FitTask(each, np.random.SeedSequence(2), known)) for each in others]
        return [len(fit.tuning.reference.marginal_modes) for fit in fits]

    assert modes() == [2] * 8
    one = known.reference._replace(marginal_modes=known.reference.marginal_modes[:1])
    assert 1 in modes(replace(known, reference=one, is_conclusive=True))


@pytest.mark.parametrize(("degrees_of_freedom", "is_refused"), [(2, True), (30, False)])
def test_latent_variables_under_heavy_noise_are_not_normal(
    degrees_of_freedom, is_refused, monkeypatch
):
    """Each may be near its observation or near 0. Twins: light tails, and a fit that lacks them."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("spread", 1), shape=10)
        y = np.array([0.3, -0.5, 1.1, 0.2, -1.3, 0.8, 3.8, -3.9, 4.1, -0.1])
        pm.StudentT("y", degrees_of_freedom, mu=effect, sigma=0.25, observed=y)
    compiled = engine.CompiledEngine(TemperedDensity(model))

    def fits():
        seeds = np.random.SeedSequence(1).spawn(4)
        return [compiled.fit(FitTask(compiled.density.data, seed)) for seed in seeds]

    assert all((fit.tuning is None) == is_refused for fit in fits())
    assert any("in tails of latent variables" in fit.reason for fit in fits()) == is_refused
    monkeypatch.setattr(fitting, "share_in_tails", lambda *_: 0.0)
    assert any(fit.tuning is not None for fit in fits())


def test_further_data_sets_have_the_same_latent_variables():
    dt = called(SCHOOLS, "theta", simulate="hyperparameters")
    assert bdmc.verdict(dt).status == "good"
    assert dt["forward"].sizes["beta"] == 2


def test_names_that_fail_are_told_and_the_call_goes_on():
    """With the latent variables that the program finds; effects among the parameters are a bad fit.

    Eight of them have a funnel with their scale, which a few t distributions do not fill.
    """
    dt = called(SCHOOLS, "mu")
    told, rest = dt.attrs["path_reason"].split("); ")
    assert told.startswith("a fit with the latent variables that were named fails (9 parameters, ")
    assert rest.startswith("1 parameter, 9 latent variables: ")
    assert dt.attrs["unreached"] == ""


def test_names_that_fail_are_told_if_runs_are_annealed(caplog):
    """As without them, bit by bit."""
    dt = called(funnel(), "mean", chains=2)
    assert dt.attrs["path_reason"].startswith("a fit with the latent variables that were named")
    assert "The path is chosen as if none were given." in caplog.text
    default = pm.sample_bdmc(funnel(), chains=2, **QUICK)
    assert dt.attrs["path_reason"].endswith(default.attrs["path_reason"])
    assert np.array_equal(dt["real"]["log_weight"], default["real"]["log_weight"])


@pytest.mark.parametrize(
    ("model", "latent", "message"),
    [
        (SCHOOLS, ["thta"], "'thta' is no free variable of the model; choose among"),
        (SCHOOLS, "y", r"'y' is observed; choose among \['mu', 'tau', 'theta'\]"),
        (eight_schools(centred=False), ["theta"], "'theta' is no free variable"),
        (SCHOOLS, [], r"name at least one of \['mu', 'tau', 'theta'\]"),
        (SCHOOLS, ["mu", "tau", "theta"], "all free variables; leave out those that"),
        (SCHOOLS, "mu", r"9 elements are left among the others, {'tau': 1, 'theta': 8}, and"),
        (SCHOOLS, ["theta"], r"\['theta'\] have 8 elements, and at most 7 can"),
        (random_trials()[0], ["n"], "nothing is fitted to the discrete n"),
    ],
)
def test_names_that_are_refused(model, latent, message, monkeypatch):
    """By an error that says what to do, before anything is fitted; limits are as low as models."""
    monkeypatch.setattr(paths, "MOST_OTHERS", 8)
    monkeypatch.setattr(paths, "MOST_LATENT", 7)
    monkeypatch.setattr("pymc_bdmc.call.prepare.ImportanceSampling", None)
    with pytest.raises(ValueError, match=message):
        called(model, latent)


@pytest.mark.parametrize(
    "options", [dict(temperatures=20), dict(step="nuts"), dict(schedule="linear", temperatures=5)]
)
def test_names_without_effect_are_refused(options):
    with pytest.raises(ValueError, match="latent variables are named for runs that need no anneal"):
        called(SCHOOLS, "theta", **options)


def test_names_are_not_for_a_fit_of_t_distributions():
    with pytest.raises(ValueError, match="leave them out, or latent"):
        bdmc.FittedPath(latent="theta", degrees_of_freedom=5)
