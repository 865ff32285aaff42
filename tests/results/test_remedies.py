"""Every remedy that is printed is followed on a model that prints it, and the complaint is gone."""

import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.results import say
from pymc_bdmc.results.checks.missed import sign_of_a_miss
from pymc_bdmc.results.diagnose import doubts_of
from pymc_bdmc.results.finding import Doubt, Message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.verdict import verdict_of
from tests.models import eight_schools

TESTS = Path(__file__).parent.parent
COUNTS = [4, 6, 3, 5]
ALONE = {"simulate": None}


def rates():
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=COUNTS)
    return model


def far_rates():
    """The prior is far from the data, so that few runs of few steps are close."""
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1, shape=4), observed=10 * np.array([COUNTS] * 3))
    return model


def two_modes():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=5)
        pm.Normal("y", abs(x), 0.1, observed=[4.0, 5.0, 3.0, 6.0, 4.0])
    return model


def narrow():
    """Data are spread more widely than the model expects."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=[-8.0, -6, 7, 9, 3])
    return model


def wide():
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.Exponential("scale", 0.1)
        pm.Normal("y", mean, scale, observed=[-8.0, -6, 7, 9, 3])
    return model


def outside():
    """A density from elsewhere is a Potential, of which no data can be simulated."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Potential("y", pm.logp(pm.Poisson.dist(rate), COUNTS).sum())
    return model


def inside():
    """The same density as an observed variable with random draws."""

    def random(rate, rng=None, size=None):
        return rng.poisson(rate, size=size)

    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.CustomDist(
            "y", rate, logp=lambda value, rate: pm.logp(pm.Poisson.dist(rate), value),
            random=random, dtype="int64", observed=COUNTS,
        )  # fmt: skip
    return model


def cornered():
    """The posterior is highest at a corner, where a fit has too little mass."""
    with pm.Model() as model:
        pm.Normal("y", pm.Uniform("x", 0, 1, shape=12), 0.3, observed=np.zeros(12))
    return model


def centred_schools():
    return eight_schools(centred=True)


def other_schools():
    return eight_schools(centred=False)


def root():
    """The posterior is high where its density ends, at NaN."""
    with pm.Model() as model:
        pm.Normal("y", pm.math.sqrt(pm.Normal("x", 1, 1)), 1.0, observed=0.3)
    return model


def bounded_root():
    with pm.Model() as model:
        x = pm.TruncatedNormal("x", 1, 1, lower=0)
        pm.Normal("y", pm.math.sqrt(x), 1.0, observed=0.3)
    return model


PAIR = {"rate": 2.0}, {"y": np.array([1, 2, 3, 2])}
FOLLOWED = {
    "simulate": (rates, ALONE, rates, {}),
    "simulate, of a Potential": (outside, {}, inside, {}),
    "simulate, by a pair": (outside, {}, inside, {"simulate": bdmc.Given(*PAIR)}),
    "prior for fit": (
        two_modes, {"simulate": bdmc.FromPrior(6), "path": "fitted", "temperatures": 20},
        two_modes, {"simulate": bdmc.FromPrior(6), "path": "prior", "temperatures": 100},
    ),
    "use path": (cornered, ALONE, cornered, ALONE | {"path": "prior"}),
    "simulate to measure": (cornered, ALONE, cornered, {}),
    "real data": (rates, {"simulate": "prior", "real_data": False}, rates, {"simulate": "prior"}),
    "stable form": (root, ALONE, bounded_root, ALONE),
    "exact start": (rates, {"simulate": bdmc.Given(*PAIR)}, rates, {"simulate": "prior"}),
    "not one pair": (
        rates, {"simulate": bdmc.Given(*PAIR, exact=True)}, rates, {"simulate": "prior"}
    ),
    "simulate more": (
        rates, {"simulate": bdmc.FromPrior(15)}, rates, {"simulate": bdmc.FromPrior(19)}
    ),
    "contain the data": (narrow, {"simulate": "prior"}, narrow, {"simulate": "posterior"}),
    "change model": (narrow, {"simulate": "posterior"}, wide, {"simulate": "posterior"}),
    "more runs": (
        rates, ALONE | {"chains": 4, "path": "prior", "temperatures": 10},
        rates, ALONE | {"chains": 16, "path": "prior", "temperatures": 10},
    ),
    "distrust": (
        far_rates, ALONE | {"path": "prior", "temperatures": 5, "particles": 1},
        far_rates, ALONE | {"path": "prior", "temperatures": 100, "particles": 32},
    ),
    "reach all ends": (
        two_modes, ALONE | {"path": "prior", "temperatures": 20, "particles": 8},
        two_modes, ALONE | {"path": "prior", "temperatures": 60, "particles": 256},
    ),
    "stop": (
        centred_schools, ALONE | {"path": "prior", "temperatures": 50},
        other_schools, ALONE | {"path": "prior", "temperatures": 50},
    ),
}  # fmt: skip
"""By kind of remedy: a model and options that print it, and those that follow it."""
ELSEWHERE = {
    "close the gap": "campaign/test_sampling.py::test_the_remedy_of_a_wide_gap_works",
    "more sets": "results/test_verdict.py::test_an_open_verdict_names_what_would_settle_it",
    "each chain": "results/test_agreement.py::test_chains_that_contradict_each_other_are_bad",
    "fit to draws": (
        "results/test_which_side.py::"
        "test_log_ml_of_a_run_that_misses_a_mode_is_withheld_and_the_remedy_works"
    ),
    "data like yours": (
        "campaign/test_weighing.py::"
        "test_simulated_data_that_are_harder_than_the_real_ones_are_named"
    ),
}
PARTS = {
    "nothing", "as told", "or longer burn-in", "use temperatures", "adaptive schedule",
    "lighter prior", "particles", "or particles", "some particles", "take particles", "efforts",
    "or try", "try", "step", "another step", "careful nuts", "non-centred", "mixture",
    "or leave out",
}  # fmt: skip
"""Parts of other remedies."""
NOT_FOLLOWED = {
    "again", "test the kernel", "test the step", "longer burn-in", "pass", "until alike",
    "compare sources", "plot agreement", "both efforts", "compare draws", "more chains",
    "non-centred for fit", "pool runs", "anneal instead", "longer", "finer start", "medians",
    "divergences first", "slow kernel", "widened", "temperatures there", "more passages",
    "more visits",
}  # fmt: skip
"""Remedies that no model here prints. It may only become shorter: follow what is new."""


@cache
def model_of(make):
    return make()


def run(make, options):
    options = dict(random_seed=1, cores=1, progressbar=False) | options
    return pm.sample_bdmc(model_of(make), **options)


def test_every_remedy_has_its_place():
    known = tomllib.loads(Path(say.__file__).with_name("say.toml").read_text(encoding="utf-8"))
    followed = {kind.split(",")[0] for kind in FOLLOWED} & set(known["remedies"])
    places = [followed, set(ELSEWHERE), PARTS, NOT_FOLLOWED]
    assert sorted(known["remedies"]) == sorted(kind for place in places for kind in place)
    for test in ELSEWHERE.values():
        path, name = test.split("::")
        assert f"def {name}(" in (TESTS / path).read_text(encoding="utf-8")


def kinds(what):
    """Kinds of a message and of all messages in it."""
    if isinstance(what, Doubt):
        return kinds(what.remedy)
    if isinstance(what, list | tuple) and not isinstance(what, Message):
        return set().union(*map(kinds, what))
    if isinstance(what, Message):
        return {what.kind}.union(*map(kinds, what.numbers.values()))
    return set()


def printed(dt):
    """Kinds of all that the verdict, `diagnose` or the reason of log ML may tell to do."""
    read = Reading.of(dt)
    remedies = [each.remedy for each in verdict_of(read).findings]
    if read.has("real") and not bdmc.log_ml(dt).valid:
        remedies.append(sign_of_a_miss(read))
    return kinds([*remedies, *doubts_of(read)])


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "prior for fit")) for kind in FOLLOWED],
)
def test_a_remedy_is_followed(kind):
    """The run that does not follow it, whose complaint must be there, is the twin."""
    make, options, then, changed = FOLLOWED[kind]
    kind = kind.split(",")[0]
    before, after = run(make, options), run(then, changed)
    assert kind in printed(before)
    assert kind not in printed(after)
    assert bdmc.log_ml(after).valid
