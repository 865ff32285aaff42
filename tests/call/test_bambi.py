"""Models of Bambi, over its formulas and families: each gives draws with the model's names."""

import bambi
import numpy as np
import pandas
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.models import SIGMAS

pytestmark = [
    pytest.mark.filterwarnings("ignore:For backward compatibility"),  # of pandas, to Bambi
    pytest.mark.filterwarnings("ignore:The intercept is omitted in ordinal families"),
]

QUICK = {
    "simulate": None, "path": "prior", "step": "metropolis", "chains": 2, "particles": 4,
    "temperatures": 3, "random_seed": 1, "cores": 1, "progressbar": False,
}  # fmt: skip

MODELS = [
    ("y ~ 1", "gaussian"),
    ("y ~ 0 + h", "gaussian"),
    ("y ~ x + (x | g)", "gaussian"),
    ("y ~ (1 | h / g)", "gaussian"),
    ("y ~ hsgp(x, m=3, c=1.5)", "gaussian"),
    ("k ~ x + offset(z)", "poisson"),
    ("k ~ 1", "hurdle_poisson"),
    ("p(s, n) ~ x", "binomial"),
    ("b ~ 1", "bernoulli"),
    ("o ~ x", "sratio"),
    ("positive ~ 1", "gamma"),
    ("share ~ x", "beta"),
]


def table(rows=24):
    rng = np.random.default_rng(0)
    x, z, trials = rng.normal(size=rows), rng.normal(size=rows), np.full(rows, 5)
    return pandas.DataFrame({
        "x": x, "z": z, "y": x + rng.normal(size=rows), "n": trials,
        "g": np.resize(list("abc"), rows), "h": np.resize(list("uv"), rows),
        "k": rng.poisson(np.exp(0.3 * x)), "b": (x > 0).astype(int), "s": rng.binomial(trials, 0.4),
        "o": pandas.Categorical(rng.integers(1, 4, rows), ordered=True),
        "day": 3 + x, "subject": np.resize(list("abcdefgh"), rows),
        "positive": np.exp(x), "share": rng.beta(2, 3, rows),
    })  # fmt: skip


def built(formula, family):
    model = bambi.Model(formula, table(), family=family)
    model.build()
    return model


@pytest.mark.parametrize(("formula", "family"), MODELS)
def test_formulas_and_families(formula, family):
    model = built(formula, family)
    dt = pm.sample_bdmc(model, **QUICK)
    known, particles = model.backend.model, dt["particles"].to_dataset()
    assert set(particles) == {rv.name for rv in known.unobserved_RVs}
    for name, values in particles.items():
        assert np.isfinite(values).all()
        dims = known.named_vars_to_dims.get(name, ())
        if values.shape[2:] == tuple(len(known.coords[dim]) for dim in dims):
            assert values.dims[2:] == tuple(dims)


FITS = [
    ("y ~ day", "gaussian"),
    ("y ~ day + (1 | subject)", "gaussian"),
    ("b ~ day", "bernoulli"),
    ("k ~ bs(x, df=4)", "poisson"),
]


@pytest.mark.parametrize(("formula", "family"), FITS)
def test_log_ml_of_a_fit(formula, family):
    """By its draws as by runs, within 4 errors, α = 6e-5; Bambi moves and leaves out variables."""
    model = built(formula, family)
    idata = model.fit(
        draws=1000, tune=500, chains=2, cores=1, target_accept=0.9, random_seed=1, progressbar=False
    )
    runs = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    found, own = bdmc.log_ml(idata, model, random_seed=1), bdmc.log_ml(runs)
    assert found.valid
    assert own.valid
    assert abs(found.value - own.value) < SIGMAS * np.hypot(found.error, own.error)
    with pytest.raises(ValueError, match="Bambi moves the intercept of its draws"):
        bdmc.log_ml(idata, model.backend.model)
    del idata["posterior"].attrs["modeling_interface"]
    if "|" in formula:  # broken twins: the draws as they are
        with pytest.raises(ValueError, match=r"lacks .*'1\|subject_offset'\]. It has"):
            bdmc.log_ml(idata, model)
    else:
        wrong = bdmc.log_ml(idata, model, random_seed=1)
        error = np.hypot(wrong.error, own.error)
        assert not (wrong.valid and abs(wrong.value - own.value) < SIGMAS * error)


def test_the_null_model_is_right():
    """Log ML within 4 errors of a sum over a grid, α = 6e-5; its mean has no row for each datum."""
    model = built("y ~ 1", "gaussian")
    dt = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    known, found = model.backend.model, bdmc.log_ml(dt)
    log_p = known.compile_logp()
    intercept, log_scale = np.linspace(-3, 3, 121), np.linspace(-1.5, 1.5, 61)
    names = sorted((value.name for value in known.value_vars), key=lambda name: "sigma" in name)
    grid = [[log_p({names[0]: a, names[1]: b}) for b in log_scale] for a in intercept]
    cell = np.log((intercept[1] - intercept[0]) * (log_scale[1] - log_scale[0]))
    exact = np.logaddexp.reduce(np.ravel(grid)) + cell
    assert found.valid
    assert abs(found.value - exact) < SIGMAS * found.error
    assert dt["posterior"]["mu"].shape[2:] == (1,)
