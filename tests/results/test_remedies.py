"""Every remedy that is printed is followed on a model that prints it, and the complaint is gone."""

import re
import tomllib
from functools import cache, partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import Ising, Potts
from pymc_bdmc.results import say
from pymc_bdmc.results.checks.missed import sign_of_a_miss
from pymc_bdmc.results.diagnose import doubts_of
from pymc_bdmc.results.finding import Doubt, Message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.verdict import verdict_of
from tests.campaign.test_posterior_draws import drawn
from tests.models import conjugate_regression, eight_schools

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


def normal():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", shape=4), 0.5, observed=[1.0, 0.0, -1.0, 0.5])
    return model


def steep():
    """The prior has heavy tails, and the likelihood is steep there."""
    with pm.Model() as model:
        x = pm.StudentT("x", nu=1, mu=0, sigma=10, shape=2)
        pm.Normal("y", x, 0.01, observed=[1.0, 2.0])
    return model


def bounded():
    """The likelihood is zero where the bound is below a datum."""
    with pm.Model() as model:
        pm.Uniform("y", 0, pm.HalfNormal("top", 2), observed=[0.5, 1.0, 0.3])
    return model


def regression():
    return conjugate_regression(d=8, n=40)[0]


def group(centred):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        x = pm.Normal("x", 0, scale, shape=4) if centred else scale * pm.Normal("z", shape=4)
        pm.Normal("y", x.cumsum(), 0.1, observed=[1.0, 2.0, 1.0, 3.0])
    return model


def centred_group():
    return group(centred=True)


def other_group():
    return group(centred=False)


class Careless(pm.Metropolis):
    """A step method that accepts every proposal."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.delta_logp = lambda q, q0: 0.0


class Gambler(pm.Metropolis):
    """A step method that takes a hundredth of every log ratio."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        right = self.delta_logp
        self.delta_logp = lambda q, q0: 0.01 * right(q, q0)


def press(dt):
    """Interrupt the call after its first run."""
    raise KeyboardInterrupt


CALLS = {
    "4 x 4": partial(bdmc.lattice.anneal, Ising(4)),
    "strong": partial(bdmc.lattice.anneal, Ising(8, 2.0)),
    "ten colours": partial(bdmc.lattice.anneal, Potts(6, 10), kernel="heat bath", chains=128),
    "tempered 4 x 4": partial(bdmc.temper, Ising(4), chains=8),
    "tempered 8 x 8": partial(bdmc.temper, Ising(8), temperatures=20),
}
"""Calls without a model."""
PAIR = {"rate": 2.0}, {"y": np.array([1, 2, 3, 2])}
WRONG_PAIR = {"rate": 0.3}, {"y": np.array(COUNTS) + 1}
DRAWS = stats.gamma(2 + sum(COUNTS), scale=1 / 5).rvs(1000, random_state=1)
CHAIN = {"path": "prior", "particles": 1}
BOTH_SIDES = ALONE | CHAIN | {"temperatures": 30, "chains": 32}
ONE_SET = CHAIN | {"simulate": bdmc.FromPrior(1)}
FRONT = np.linspace(0, 1, 31) ** 0.5
LATE = np.unique([*np.linspace(0.16, 0.26, 900), *np.linspace(0, 1, 99)])
FIT = {"simulate": bdmc.FromPrior(10), "path": "fitted", "temperatures": 10, "chains": 16}
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
    "again": (
        rates, CHAIN | {"simulate": "prior", "temperatures": 10, "callback": press},
        rates, CHAIN | {"simulate": "prior", "temperatures": 10},
    ),
    "test the step": (
        rates, CHAIN | {"temperatures": 10, "simulate": bdmc.Given(*WRONG_PAIR, exact=True)},
        rates, CHAIN | {"temperatures": 10, "simulate": "prior"},
    ),
    "until alike": (
        rates, ONE_SET | {"schedule": "linear", "temperatures": 5},
        rates, ONE_SET | {"schedule": "linear", "temperatures": 20},
    ),
    "both efforts": (
        rates, BOTH_SIDES | {"posterior": drawn(rate=DRAWS + 20)},
        rates, BOTH_SIDES | {"posterior": drawn(rate=DRAWS)},
    ),
    "exact states": (
        "4 x 4", {"temperatures": 400, "start": "ordered"},
        "4 x 4", {"temperatures": 400, "start": "exact"},
    ),
    "more chains": (
        "4 x 4", {"temperatures": 400, "chains": 16}, "4 x 4", {"temperatures": 400},
    ),
    "more chains, and temperatures": (
        "4 x 4", {"temperatures": 100, "chains": 16}, "4 x 4", {"temperatures": 400},
    ),
    "longer": ("ten colours", {"temperatures": 50}, "ten colours", {"temperatures": 200}),
    "longer, on a path that scouts refute": (
        two_modes, ALONE | {"temperatures": 3, "particles": 1, "chains": 16},
        two_modes, ALONE | {"temperatures": 100, "chains": 16},
    ),
    "efforts": (
        "strong", {"temperatures": LATE},
        "strong", {"temperatures": 2000},
    ),
    "non-centred for fit": (
        centred_schools, FIT | {"particles": 4}, other_schools, FIT | {"particles": 4}
    ),
    "medians": (
        steep, ONE_SET | {"temperatures": 100},
        steep, ONE_SET | {"temperatures": 100, "particles": 16},
    ),
    "finer start": (
        steep, ONE_SET | {"temperatures": 100, "schedule": "linear"},
        steep, ONE_SET | {"temperatures": 100, "particles": 16},
    ),
    "better schedule": (
        steep, ONE_SET | {"temperatures": 100, "particles": 8, "schedule": "linear"},
        steep, ONE_SET | {"temperatures": 100, "particles": 8, "schedule": "adaptive"},
    ),
    "divergences first": (
        centred_group, ALONE | CHAIN | {"temperatures": 100},
        other_group, ALONE | CHAIN | {"temperatures": 300},
    ),
    "slow kernel": (
        regression, ONE_SET | {"step": "metropolis", "temperatures": 100},
        regression, ONE_SET | {"step": "metropolis", "temperatures": 100, "particles": 64},
    ),
    "widened": (
        rates, ONE_SET | {
            "step": partial(pm.Metropolis, scaling=1e4, tune=False), "temperatures": 10,
            "chains": 48,
        },
        rates, ONE_SET | {"step": pm.Slice, "temperatures": 10, "chains": 48},
    ),
    "more passages": ("tempered 4 x 4", {"draws": 20}, "tempered 4 x 4", {"draws": 1000}),
    "more visits": ("tempered 8 x 8", {"chains": 8}, "tempered 8 x 8", {"chains": 32}),
    "more visits, by the start": (
        "tempered 4 x 4", {"temperatures": 60, "initial": 2},
        "tempered 4 x 4", {"temperatures": 60, "initial": 50},
    ),
}  # fmt: skip
"""By kind of remedy: a model and options that print it, and those that follow it."""
HERE = "results/test_remedies.py"
ELSEWHERE = {
    "close the gap": "campaign/test_sampling.py::test_the_remedy_of_a_wide_gap_works",
    "more sets": "results/test_verdict.py::test_an_open_verdict_names_what_would_settle_it",
    "each chain": "results/test_agreement.py::test_chains_that_contradict_each_other_are_bad",
    "longer burn-in": (
        "results/test_burn_in.py::test_a_doubt_tells_that_the_longest_may_be_too_short"
    ),
    "compare draws": (
        "campaign/test_posterior_draws.py::test_what_draws_or_forward_runs_miss_is_told"
    ),
    "test the kernel": f"{HERE}::test_a_wrong_step_method_fails_the_check_that_is_named",
    "plot agreement": f"{HERE}::test_a_call_that_is_named_shows_the_quantity",
    "compare sources": f"{HERE}::test_a_call_that_is_named_shows_the_quantity",
    "temperatures there": f"{HERE}::test_temperatures_are_put_where_the_gap_opens",
    "pool runs": f"{HERE}::test_more_runs_on_each_data_set_settle_the_verdict",
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
    "nothing", "as told", "or longer burn-in", "or draw the pair", "use temperatures",
    "adaptive schedule",
    "lighter prior", "particles", "or particles", "some particles", "take particles",
    "or try", "try", "step", "another step", "careful nuts", "non-centred", "mixture",
    "or leave out",
}  # fmt: skip
"""Parts of other remedies."""
NOT_FOLLOWED = {"pass"}
"""Remedies that no model here prints. It may only become shorter: follow what is new."""


@cache
def model_of(make):
    return make()


def run(make, options):
    options = dict(random_seed=1, progressbar=False) | options
    if make in CALLS:
        return CALLS[make](**options)
    return pm.sample_bdmc(model_of(make), cores=1, **options)


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
    if read.is_tempering:
        return kinds(doubts_of(read))
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
    if Reading.of(after).is_tempering:
        assert bdmc.evidence(after, "RTS")["valid"].all()
    else:
        assert bdmc.log_ml(after).valid


def test_reverse_runs_of_probability_zero_lose_no_results():
    """They show that a step method is wrong. Twin: `pm.Metropolis`."""
    options = {"simulate": bdmc.FromPrior(1), "temperatures": 20, "chains": 16}
    for step, is_right in ((Careless, False), (pm.Metropolis, True)):
        dt = run(rates, options | {"step": step})
        assert np.isfinite(dt["reverse"]["log_weight"]).all() == is_right
        assert ("test the kernel" in printed(dt)) is not is_right


@pytest.mark.parametrize(
    ("kind", "wrong", "make", "options"),
    [
        ("test the kernel", Careless, bounded, ALONE | {"temperatures": 20, "chains": 16}),
        (
            "test the step", Gambler, normal,
            ONE_SET | {"real_data": False, "chains": 64, "temperatures": FRONT},
        ),
    ],
)  # fmt: skip
def test_a_wrong_step_method_fails_the_check_that_is_named(kind, wrong, make, options):
    for step, is_right in ((wrong, False), (pm.Metropolis, True)):
        dt = run(make, options | {"step": step})
        assert (kind in printed(dt)) is not is_right
        check = partial(bdmc.testing.check_invariance, step, model_of(make), budget=2000)
        assert check(random_seed=1).passed is is_right


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("plot agreement", BOTH_SIDES),
        ("compare sources", {"simulate": "posterior"}),
    ],
)
def test_a_call_that_is_named_shows_the_quantity(kind, options):
    """As it is printed; draws that are right are the twin."""
    assert kind not in printed(run(rates, options | {"posterior": drawn(rate=DRAWS)}))
    idata = drawn(rate=DRAWS + 20)
    dt = run(rates, options | {"posterior": idata})
    findings = verdict_of(Reading.of(dt)).findings
    (remedy,) = [each.remedy for each in findings if kind in kinds(each.remedy)]
    name, arguments = re.search(r"bdmc\.(\w+)\((.*)\)", say.say(remedy)).groups()
    assert arguments == "dt, idata"
    found = getattr(bdmc, name)(dt, idata)
    if name == "agreement":
        assert found.status == "bad"
        assert found.table.index.tolist() == ["rate"]
    else:
        axes = found.viz["figure"].item().axes
        assert "distribution of rate" in [each.get_title() for each in axes]


def test_temperatures_are_put_where_the_gap_opens():
    """Half of them between the printed numbers; the doubt is gone, and the gap is closed."""
    before = run("strong", {"temperatures": 200})
    (text,) = bdmc.diagnose(before)
    assert "put temperatures there" in text
    low, high = map(float, re.search(r"at beta = (\S+) to (\S+),", text).groups())
    there, everywhere = np.linspace(low, high, 500), np.linspace(0, 1, 501)
    after = run("strong", {"temperatures": np.unique([*there, *everywhere])})
    assert bdmc.diagnose(after) == []
    rows = [bdmc.summary(dt).loc[("simulated", "jeffreys bound")] for dt in (before, after)]
    assert rows[1]["value"] < 2 < rows[0]["value"]


def test_more_runs_on_each_data_set_settle_the_verdict():
    """As many as are asked for; twin: one data set, on which no number of runs would be enough."""
    options = CHAIN | {"simulate": bdmc.FromPrior(30), "temperatures": 20, "chains": 8}
    before = run(normal, options)
    assert "pool runs" in printed(before)
    chains = int(re.search("chains=([0-9]+)", bdmc.verdict(before).text)[1])
    after = run(normal, options | {"chains": chains, "random_seed": 2})
    assert bdmc.verdict(after, look=2).table.loc["total variation", "status"] == "good"
    assert "pool runs" not in printed(run(normal, ONE_SET | {"temperatures": 20, "chains": 8}))
