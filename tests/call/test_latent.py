"""Latent variables that the program finds, or that are named: `FittedPath(latent=…)`.

Known answers lie within `SIGMAS` stated errors: two-sided α = 6e-5 a comparison, seeded.
"""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

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
from tests.models import SIGMAS, centred_schools, eight_schools_log_ml

QUICK = {"simulate": None, "random_seed": 1, "progressbar": False, "cores": 1}
SCHOOLS = centred_schools()
READ = SimpleNamespace(no_reference="", has_gradient=True, density=TemperedDensity(SCHOOLS))
"""What a path looks at before anything is compiled."""


def called(model, latent, **options):
    return pm.sample_bdmc(model, path=bdmc.FittedPath(latent=latent), **(QUICK | options))


def test_named_variables_are_latent(caplog):
    """The log and the reason say the split, which the program would not choose.

    Further data sets have the same latent variables.
    """
    with caplog.at_level("INFO", logger="pymc.bdmc"):
        dt = called(SCHOOLS, ["theta"], simulate="hyperparameters")
    split = "2 parameters, 8 latent variables: "
    assert dt.attrs["path_reason"].startswith(split)
    assert f"Path: fitted, {split}" in caplog.text
    assert dt.attrs["unreached"] == ""
    assert dt["real"].sizes["beta"] == dt["forward"].sizes["beta"] == 2
    found = bdmc.log_ml(dt)
    assert found.error < 0.05
    assert abs(found.value - eight_schools_log_ml()) < SIGMAS * found.error
    assert bdmc.verdict(dt).status == "good"


rng = np.random.default_rng(1)
Y = np.outer(rng.normal(size=20), [1, -1, 0.5]) + 0.5 * rng.normal(size=(20, 3))


@cache
def factor():
    """Loadings and scores of one factor; the data are the same if both change their signs."""
    with pm.Model() as model:
        loading = pm.Normal("loading", 0, 1, shape=3)
        score = pm.Normal("score", 0, 1, shape=20)
        pm.Normal("y", score[:, None] * loading, pm.LogNormal("noise", -0.7, 0.3), observed=Y)
    return model


def log_ml_of_factor(n=100_000):
    """Scores are integrated out; the rest by prior draws. Returns the value and its error."""
    loading = rng.normal(size=(n, 3))
    variance = np.exp(2 * rng.normal(-0.7, 0.3, n))
    total = variance + (loading**2).sum(axis=1)
    fitted = ((loading @ (Y.T @ Y)) * loading).sum(axis=1) / total
    log_det = 2 * np.log(variance) + np.log(total)
    log_p = -(20 * (3 * np.log(2 * np.pi) + log_det) + ((Y**2).sum() - fitted) / variance) / 2
    weights = np.exp(log_p - log_p.max())
    return log_p.max() + np.log(weights.mean()), weights.std() / weights.mean() / np.sqrt(n)


def test_both_signs_of_loadings_are_found():
    """Twin: log 2 lower, as with one of two modes."""
    dt = pm.sample_bdmc(factor(), **QUICK)
    assert "20 optimisations found 2 modes" in dt.attrs["path_reason"]
    found, (log_ml, error) = bdmc.log_ml(dt), log_ml_of_factor()
    error = np.hypot(found.error, error)
    assert abs(found.value - log_ml) < SIGMAS * error
    assert abs(found.value - np.log(2) - log_ml) > SIGMAS * error


def test_both_signs_are_found_on_similar_data():
    """By a search that knows no mode. Twin: one that takes the only known mode for conclusive.

    From a mode of the other sign such a search may find both, so it starts from each of the two.
    """
    compiled, rng = engine.CompiledEngine(TemperedDensity(factor())), np.random.default_rng(4)
    data = compiled.density.data
    known = compiled.fit(FitTask(data, np.random.SeedSequence(1))).tuning
    assert len(known.reference.marginal_modes) == 2
    scores, noise = rng.normal(size=(3, 20, 1)), rng.normal(size=(3, 20, 3))
    loadings = np.array([[[1.5, 1, -1]], [[0.5, 1, 1]], [[1.0, 0, -2]]])  # far from the known ones
    others = [{"y": y} for y in scores * loadings + 0.5 * noise]

    def modes(known=known):
        fits = [compiled.fit(FitTask(each, np.random.SeedSequence(2), known)) for each in others]
        return [len(fit.tuning.reference.marginal_modes) for fit in fits]

    assert modes() == [2] * 3
    ones = [
        known.reference._replace(marginal_modes=each[None])
        for each in known.reference.marginal_modes
    ]
    assert any(1 in modes(replace(known, reference=one, is_conclusive=True)) for one in ones)


def test_latent_variables_under_heavy_noise_are_drawn_on_a_grid(monkeypatch):
    """Each may be near its observation or near 0; log ML is by quadrature, with α = 6e-5.

    Twin: a fit that does not look at their tails, and draws them from a normal distribution.
    """
    y = np.array([0.3, -0.5, 1.1, 0.2, -1.3, 0.8, 3.8, -3.9, 4.1, -0.1])
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("spread", 1), shape=10)
        pm.StudentT("y", 2, mu=effect, sigma=0.25, observed=y)
    compiled = engine.CompiledEngine(TemperedDensity(model))
    x, logs = np.linspace(-12, 12, 6001), np.linspace(-7, 2, 200)
    noise = stats.t.logpdf(y[:, None], 2, x, 0.25) + np.log(x[1] - x[0])
    given = [logsumexp(noise + stats.norm.logpdf(x, 0, np.exp(s)), axis=1).sum() for s in logs]
    log_f = given + stats.halfnorm.logpdf(np.exp(logs)) + logs
    log_ml = logsumexp(log_f) + np.log(logs[1] - logs[0])

    def cores():
        seeds = np.random.SeedSequence(1).spawn(2)
        return [compiled.fit(FitTask(compiled.density.data, seed)).tuning for seed in seeds]

    for found in cores():
        assert found.reference.core.is_on_grid
        weights = np.exp(found.prior_log_likelihood - log_ml)
        assert abs(weights.mean() - 1) < SIGMAS * weights.std() / np.sqrt(len(weights)) < 0.5
    monkeypatch.setattr(fitting, "share_in_tails", lambda *_: 0.0)
    assert any(found and not found.reference.core.is_on_grid for found in cores())


def test_names_that_fail_are_told_and_the_call_goes_on():
    """With the latent variables that the program finds; effects among the parameters are a bad fit.

    Eight of them have a funnel with their scale, which a few t distributions do not fill. Draws
    given the parameters that are found reach into its neck, so that log ML is right.
    """
    dt = called(SCHOOLS, "mu")
    told, rest = dt.attrs["path_reason"].split("); ")
    assert told.startswith("a fit with the latent variables that were named fails (9 parameters, ")
    assert rest.startswith("1 parameter, 9 latent variables: ")
    assert dt.attrs["unreached"] == ""
    found = bdmc.log_ml(dt)
    assert abs(found.value - eight_schools_log_ml()) < SIGMAS * found.error


@pytest.mark.parametrize(
    ("latent", "message"),
    [
        (["thta"], "'thta' is no free variable of the model; choose among"),
        ("y", r"'y' is observed; choose among \['mu', 'tau', 'theta'\]"),
        ([], r"name at least one of \['mu', 'tau', 'theta'\]"),
        (["mu", "tau", "theta"], "all free variables; leave out those that"),
        ("mu", r"9 elements are left among the others, {'tau': 1, 'theta': 8}, and"),
        (["theta"], r"\['theta'\] have 8 elements, and at most 7 can"),
    ],
)
def test_names_that_are_refused(latent, message, monkeypatch):
    """By an error that says what to do; limits are as low as models."""
    monkeypatch.setattr(paths, "MOST_OTHERS", 8)
    monkeypatch.setattr(paths, "MOST_LATENT", 7)
    with pytest.raises(ValueError, match=message):
        bdmc.FittedPath(latent=latent).check(READ)


def test_a_search_goes_on_from_a_draw_that_has_most_of_the_weight(monkeypatch):
    """The peak of a tone is so narrow that searches on some of six data sets miss it, draws not.

    Twin: of those draws nothing is learned.
    """
    rng = np.random.default_rng(25)
    times = np.sort(rng.uniform(0, 10, 25))
    data = [{"y": np.sin(4 * times) + 0.5 * rng.normal(size=25)} for _ in range(7)]
    with pm.Model() as model:
        frequency, a, b = pm.Gamma("frequency", 2, 2), pm.Normal("a"), pm.Normal("b")
        mean = a * pm.math.sin(frequency * times) + b * pm.math.cos(frequency * times)
        pm.Normal("y", mean, 0.5, observed=data[0]["y"])
    compiled = engine.CompiledEngine(TemperedDensity(model))
    known = compiled.fit(FitTask(data[0], np.random.SeedSequence(1))).tuning

    def variances():
        tasks = [FitTask(each, np.random.SeedSequence(3), known) for each in data[1:]]
        return [compiled.fit(task).variance for task in tasks]

    assert max(variances()) < 5
    monkeypatch.setattr("pymc_bdmc.fits.limits.MOST_VARIANCE", np.inf)
    assert max(variances()) > 20
