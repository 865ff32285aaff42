"""Prior draws are compared with their density: right ones pass, wrong ones are named."""

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import transforms

import pymc_bdmc as bdmc
from pymc_bdmc.density import support
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.support import (
    DRAWS,
    check_prior,
    repeated_elements,
    suspicious_variables,
)
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import make_engine
from tests.density.families import CONTINUOUS, OTHERS
from tests.models import interpreted

N = pm.Normal.dist


def custom(random):
    """A standard normal density with other draws."""
    return lambda n: pm.CustomDist(n, logp=lambda v: pm.logp(N(), v), random=random)


SCALE = custom(lambda rng=None, size=None: rng.normal(scale=1.4, size=size))
LOCATION = custom(lambda rng=None, size=None: rng.normal(0.4, size=size))
SHAPE = custom(lambda rng=None, size=None: rng.logistic(scale=1, size=size))
ATOM = custom(lambda rng=None, size=None: np.maximum(rng.normal(size=size), -1.5))


def angle(n):
    return pm.VonMises(n, 2, 0.1, shape=2)


RIGHT = [
    lambda n: pm.Cauchy(n, 1, 2),
    lambda n: pm.Normal(n, pm.Poisson(n + "_count", 3), pm.HalfCauchy(n + "_scale", 1)),
    lambda n: pm.Uniform(n, -1, 3, default_transform=None),
    angle,
]
VECTORS = [
    lambda n: pm.Normal(n, shape=3, transform=transforms.ordered),
    lambda n: pm.Dirichlet(n, [0.5, 1, 3]),
]


def verdict(builders, gradient):
    """What both checks say of a model of all these priors, by their numbers."""
    with pm.Model() as model:
        for i, build in enumerate(builders):
            build(f"x{i}")
        pm.Normal("y", observed=0.0)
    density, rng = TemperedDensity(model), np.random.default_rng(1)
    draws = density.prior.draw_many(DRAWS, rng)
    jitted = JittedDensity(density) if gradient else None
    repeated = list(repeated_elements(density, draws))
    named = repeated + suspicious_variables(density, draws, rng, jitted)
    return {int(name.removeprefix("x")) for name in named}


CAR = [lambda n: pm.CAR(n, np.zeros(3), 1 - np.eye(3), alpha=0.5, tau=0.3)]


@pytest.mark.parametrize(
    ("priors", "gradient"), [(RIGHT[:3] + CAR, True), (RIGHT + VECTORS, False)]
)
def test_right_draws_pass(priors, gradient):
    """α = 1e-3: tails, a hierarchy, an edge, a discrete parent, an angle; a cut, a simplex."""
    with interpreted():
        assert verdict(priors, gradient) == set()


CENSORED = lambda n: pm.Censored(n, N(), lower=0, upper=None)  # noqa: E731


@pytest.mark.parametrize(
    ("wrong", "gradient"), [([SCALE], True), ([SCALE, LOCATION, SHAPE, ATOM, CENSORED], False)]
)
def test_wrong_draws_are_named(wrong, gradient):
    """The broken twins of the right ones: the wrong variables alone, between two right ones."""
    priors = [pm.Normal, *wrong, lambda n: pm.HalfCauchy(n, 1)]
    assert verdict(priors, gradient) == set(range(1, 1 + len(wrong)))


def test_angles_are_compared_within_one_period(monkeypatch):
    """Twin: on the whole line the log density is periodic, and draws disagree with it."""
    monkeypatch.setattr(support, "angles", lambda model: [])
    assert verdict([angle], gradient=False) == {0}


def of_family(make):
    return lambda n: pm.modelcontext(None).register_rv(make(), n)


FAMILIES = [of_family(make) for name, (make, _) in CONTINUOUS.items() if name != "PolyaGamma"]
PARTS = {f"families {i}": FAMILIES[i::3] for i in range(3)} | {
    "vectors": [of_family(make) for make, *_ in OTHERS.values()],
}


@pytest.mark.slow  # minutes of compilation
@pytest.mark.filterwarnings("ignore")  # those of PyMC and PyTensor
@pytest.mark.parametrize("part", PARTS)
def test_no_false_alarm(part):
    """α = 1e-3 a model of up to 17 priors, 4 models; numba takes too long for vectors."""
    assert verdict(PARTS[part], gradient=part != "vectors") == set()


def two(build):
    """A density with a right variable and with another prior."""
    with pm.Model() as model:
        pm.Normal("right")
        pm.Normal("y", build("bad").sum() + model["right"], 1.0, observed=1.0)
    return TemperedDensity(model)


def test_both_engines_warn_by_name(caplog):
    """They and `check_prior` itself say the same of one model."""
    density, texts = two(SCALE), []
    for check in (
        check_prior,
        lambda density: make_engine(density, np.array([0.0, 1.0]), "metropolis"),
        lambda density: make_engine(density, np.array([0.0, 1.0]), pm.Metropolis),
    ):
        caplog.clear()
        check(density)
        texts.append([each.message for each in caplog.records if each.levelname == "WARNING"])
    assert "Prior draws of bad disagree with the log density" in texts[0][0]
    assert texts[0] == texts[1] == texts[2]


def test_temper_checks_too():
    with pytest.raises(ValueError, match=r"^bad: its prior draws repeat a value"):
        bdmc.temper(two(ATOM).model, progressbar=False)


def test_a_prior_that_depends_on_data_is_checked_given_them():
    with pm.Model() as model:
        y = pm.Normal("y", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("z", y, 0.1)
        pm.Uniform("u", y - 5, y + 5)
    density, rng = TemperedDensity(model), np.random.default_rng(1)
    draws = density.prior.draw_many(DRAWS, rng)
    assert suspicious_variables(density, draws, rng) == []
    density.set_data({"y": 3.5})  # the twin: the density of other data
    assert suspicious_variables(density, draws, rng)
