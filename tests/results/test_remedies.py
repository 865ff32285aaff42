"""Every remedy that is printed is followed on a model that prints it, and the complaint is gone."""

import ast
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import Ising, Potts
from pymc_bdmc.results.checks.missed import sign_of_a_miss
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.verdict import doubts_of, verdict_of
from tests.call.test_posterior_draws import drawn
from tests.models import conjugate_regression, eight_schools

TESTS = Path(__file__).parent.parent
COUNTS = [4, 6, 3, 5]
ALONE = {"simulate": None}
HEAVY = {"random_seed": 3}
"""With this seed the weights of draws from the fit to `cornered` have a heavy tail."""


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
FOLLOWED = [
    (
        "data must be simulated: leave out simulate=None",
        rates, ALONE, rates, {},
    ),
    (
        "data must be simulated: leave out simulate=None",
        outside, {}, inside, {},
    ),
    (
        "data must be simulated: leave out simulate=None",
        outside, {}, inside, {"simulate": bdmc.Given(*PAIR)},
    ),
    (
        'try path="prior", since a fit',
        two_modes, {"simulate": bdmc.FromPrior(6), "path": "fitted", "temperatures": 20},
        two_modes, {"simulate": bdmc.FromPrior(6), "path": "prior", "temperatures": 100},
    ),
    (
        'use path="prior"',
        cornered, ALONE | HEAVY, cornered, ALONE | HEAVY | {"path": "prior"},
    ),
    (
        "simulate data to measure it",
        cornered, ALONE | HEAVY, cornered, HEAVY,
    ),
    (
        "leave out real_data=False",
        rates, {"simulate": "prior", "real_data": False}, rates, {"simulate": "prior"},
    ),
    (
        "in a form that does not overflow",
        root, ALONE, bounded_root, ALONE,
    ),
    (
        'pass simulate="prior" for an exact start',
        rates, {"simulate": bdmc.Given(*PAIR)}, rates, {"simulate": "prior"},
    ),
    (
        "one pair certifies almost nothing",
        rates, {"simulate": bdmc.Given(*PAIR, exact=True)}, rates, {"simulate": "prior"}
    ),
    (
        "to test the model too, simulate",
        rates, {"simulate": bdmc.FromPrior(15)}, rates, {"simulate": bdmc.FromPrior(19)}
    ),
    (
        'although the model does not fit, pass simulate="posterior"',
        narrow, {"simulate": "prior"}, narrow, {"simulate": "posterior"},
    ),
    (
        "change the model where your data differ",
        narrow, {"simulate": "posterior"}, wide, {"simulate": "posterior"},
    ),
    (
        "too few runs to trust their averaged weights",
        rates, ALONE | {"chains": 4, "path": "prior", "temperatures": 10},
        rates, ALONE | {"chains": 16, "path": "prior", "temperatures": 10},
    ),
    (
        "the averaged weights cannot be trusted: use more temperatures",
        far_rates, ALONE | {"path": "prior", "temperatures": 5, "particles": 1},
        far_rates, ALONE | {"path": "prior", "temperatures": 100, "particles": 32},
    ),
    (
        "so that every run reaches all of these places",
        two_modes, ALONE | {"path": "prior", "temperatures": 20, "particles": 8},
        two_modes, ALONE | {"path": "prior", "temperatures": 60, "particles": 256},
    ),
    (
        "non-centred, as mean + scale * z",
        centred_schools, ALONE | {"path": "prior", "temperatures": 50},
        other_schools, ALONE | {"path": "prior", "temperatures": 50},
    ),
    (
        "run it again.",
        rates, CHAIN | {"simulate": "prior", "temperatures": 10, "callback": press},
        rates, CHAIN | {"simulate": "prior", "temperatures": 10},
    ),
    (
        "test the step method with bdmc.testing.check_invariance",
        rates, CHAIN | {"temperatures": 10, "simulate": bdmc.Given(*WRONG_PAIR, exact=True)},
        rates, CHAIN | {"temperatures": 10, "simulate": "prior"},
    ),
    (
        "until the boxes of plot_consistency agree",
        rates, ONE_SET | {"schedule": "linear", "temperatures": 5},
        rates, ONE_SET | {"schedule": "linear", "temperatures": 20},
    ),
    (
        "use more temperatures or particles; run more chains of that sampler",
        rates, BOTH_SIDES | {"posterior": drawn(rate=DRAWS + 20)},
        rates, BOTH_SIDES | {"posterior": drawn(rate=DRAWS)},
    ),
    (
        'on a lattice start="exact"',
        "4 x 4", {"temperatures": 400, "start": "ordered"},
        "4 x 4", {"temperatures": 400, "start": "exact"},
    ),
    (
        "take more chains; if these do not settle it",
        "4 x 4", {"temperatures": 400, "chains": 16}, "4 x 4", {"temperatures": 400},
    ),
    (
        "take more chains; if these do not settle it",
        "4 x 4", {"temperatures": 100, "chains": 16}, "4 x 4", {"temperatures": 400},
    ),
    (
        "use more temperatures or particles, or another kernel",
        "ten colours", {"temperatures": 50}, "ten colours", {"temperatures": 200},
    ),
    (
        "use more temperatures or particles, or another kernel",
        two_modes, ALONE | {"temperatures": 3, "particles": 1, "chains": 16},
        two_modes, ALONE | {"temperatures": 100, "chains": 16},
    ),
    (
        "use more temperatures.",
        "strong", {"temperatures": LATE},
        "strong", {"temperatures": 2000},
    ),
    (
        "since a fit can miss where their scale is small",
        centred_schools, FIT | {"particles": 4}, other_schools, FIT | {"particles": 4}
    ),
    (
        "rely on medians and certified bounds",
        steep, ONE_SET | {"temperatures": 100},
        steep, ONE_SET | {"temperatures": 100, "particles": 16},
    ),
    (
        "chains that started far out in the tail",
        steep, ONE_SET | {"temperatures": 100, "schedule": "linear"},
        steep, ONE_SET | {"temperatures": 100, "particles": 16},
    ),
    (
        "that of the best schedule: pass",
        steep, ONE_SET | {"temperatures": 100, "particles": 8, "schedule": "linear"},
        steep, ONE_SET | {"temperatures": 100, "particles": 8, "schedule": "adaptive"},
    ),
    (
        "remove the divergences first",
        centred_group, ALONE | CHAIN | {"temperatures": 100},
        other_group, ALONE | CHAIN | {"temperatures": 300},
    ),
    (
        "so the kernel hardly mixes",
        regression, ONE_SET | {"step": "metropolis", "temperatures": 100},
        regression, ONE_SET | {"step": "metropolis", "temperatures": 100, "particles": 64},
    ),
    (
        "their log weights widen the gap",
        rates, ONE_SET | {
            "step": partial(pm.Metropolis, scaling=1e4, tune=False), "temperatures": 10,
            "chains": 48,
        },
        rates, ONE_SET | {"step": pm.Slice, "temperatures": 10, "chains": 48},
    ),
    (
        "take more draws, or more temperatures where",
        "tempered 4 x 4", {"draws": 20}, "tempered 4 x 4", {"draws": 1000},
    ),
    (
        "take more chains, or a larger `initial`",
        "tempered 8 x 8", {"chains": 8}, "tempered 8 x 8", {"chains": 32},
    ),
    (
        "take more chains, or a larger `initial`",
        "tempered 4 x 4", {"temperatures": 60, "initial": 2},
        "tempered 4 x 4", {"temperatures": 60, "initial": 50},
    ),
]  # fmt: skip
"""Words of a remedy, a model and options that print it, and those that follow it."""
HERE = "results/test_remedies.py"
ELSEWHERE = {
    "for a gap of about one nat": "call/test_sampling.py::test_the_remedy_of_a_wide_gap_works",
    "data sets would be enough if they are like these": (
        "results/test_verdict.py::test_an_open_verdict_names_what_would_settle_it"
    ),
    "see which of your chains agrees with the run": (
        "results/test_agreement.py::test_chains_that_contradict_each_other_are_bad"
    ),
    "use a longer burn_in.": (
        "results/test_burn_in.py::test_a_doubt_tells_that_the_longest_may_be_too_short"
    ),
    "Compare the draws with the group posterior": (
        "call/test_posterior_draws.py::test_what_draws_or_forward_runs_miss_is_told"
    ),
    "test it with testing.check_invariance": (
        f"{HERE}::test_a_wrong_step_method_fails_the_check_that_is_named"
    ),
    "bdmc.plot_agreement(dt, idata)": f"{HERE}::test_a_call_that_is_named_shows_the_quantity",
    "see where these draws differ from those of the run": (
        f"{HERE}::test_a_call_that_is_named_shows_the_quantity"
    ),
    "put temperatures there": f"{HERE}::test_temperatures_are_put_where_the_gap_opens",
    "use more runs on each data set": f"{HERE}::test_more_runs_on_each_data_set_settle_the_verdict",
    "anneal from a fit to these draws": (
        "results/test_which_side.py::"
        "test_log_ml_of_a_run_that_misses_a_mode_is_withheld_and_the_remedy_works"
    ),
    " non-centred": "results/test_missed.py::test_the_remedy_of_a_refusal_works",
}
NOT_FOLLOWED = {"pass path="}
"""Remedies that no model here prints. It may only become shorter: follow what is new."""
SLOW = 'try path="prior", since a fit'


@cache
def model_of(make):
    return make()


def run(make, options):
    options = dict(random_seed=1, progressbar=False) | options
    if make in CALLS:
        return CALLS[make](**options)
    return pm.sample_bdmc(model_of(make), cores=1, **options)


def written():
    """Words of every remedy in the source, in parts between numbers and names.

    The type `Remedy` is what the remedy of a finding has, so none can be left out here.
    """
    for path in Path(bdmc.__file__).parent.glob("results/**/*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Remedy":
                nodes = getattr(call.args[0], "values", call.args)
                parts = [node.value for node in nodes if isinstance(node, ast.Constant)]
                parts = [part for part in parts if re.search("[a-z]", part)]
                if parts:  # else it is that of another function
                    yield parts


def is_of(words, parts):
    return any(words in part or part in words for part in parts)


def test_every_remedy_has_its_place():
    found = list(written())
    assert len(found) > 40
    places = [{words for words, *_ in FOLLOWED}, set(ELSEWHERE), NOT_FOLLOWED]
    known = set().union(*places)
    assert len(known) == sum(map(len, places))
    for parts in found:
        assert any(is_of(words, parts) for words in known), parts
    for words in known - {"non-centred, as mean + scale * z"}:  # one of several in a remedy
        assert any(is_of(words, parts) for parts in found), words
    assert not any(is_of(words, ["drink more wine."]) for words in known)  # twin
    for test in ELSEWHERE.values():
        path, name = test.split("::")
        assert f"def {name}(" in (TESTS / path).read_text(encoding="utf-8")


def printed(dt):
    """Return all that the verdict, `diagnose` or the reason of log ML may tell to do."""
    read = Reading.of(dt)
    remedies = [doubt.remedy for doubt in doubts_of(read)]
    if read.is_tempering:
        return "\n".join(remedies)
    remedies += [each.remedy for each in verdict_of(read).findings]
    if read.has("real") and not bdmc.log_ml(dt).valid:
        remedies.append(sign_of_a_miss(read))
    return "\n".join(remedies)


@pytest.mark.parametrize(
    ("words", "make", "options", "then", "changed"),
    [
        pytest.param(*row, marks=[pytest.mark.slow] * (row[0] == SLOW), id=row[0])
        for row in FOLLOWED
    ],
)
def test_a_remedy_is_followed(words, make, options, then, changed):
    """The run that does not follow it, whose complaint must be there, is the twin."""
    before, after = run(make, options), run(then, changed)
    assert words in printed(before)
    assert words not in printed(after)
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
        assert ("test it with testing.check_invariance" in printed(dt)) is not is_right


@pytest.mark.parametrize(
    ("words", "wrong", "make", "options"),
    [
        (
            "test it with testing.check_invariance", Careless, bounded,
            ALONE | {"temperatures": 20, "chains": 16},
        ),
        (
            "test the step method with bdmc.testing.check_invariance", Gambler, normal,
            ONE_SET | {"real_data": False, "chains": 64, "temperatures": FRONT},
        ),
    ],
)  # fmt: skip
def test_a_wrong_step_method_fails_the_check_that_is_named(words, wrong, make, options):
    for step, is_right in ((wrong, False), (pm.Metropolis, True)):
        dt = run(make, options | {"step": step})
        assert (words in printed(dt)) is not is_right
        check = partial(bdmc.testing.check_invariance, step, model_of(make), budget=2000)
        assert check(random_seed=1).passed is is_right


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("bdmc.plot_agreement(dt, idata)", BOTH_SIDES),
        ("see where these draws differ from those of the run", {"simulate": "posterior"}),
    ],
)
def test_a_call_that_is_named_shows_the_quantity(words, options):
    """As it is printed; draws that are right are the twin."""
    assert words not in printed(run(rates, options | {"posterior": drawn(rate=DRAWS)}))
    idata = drawn(rate=DRAWS + 20)
    dt = run(rates, options | {"posterior": idata})
    findings = verdict_of(Reading.of(dt)).findings
    (remedy,) = [each.remedy for each in findings if words in each.remedy]
    name, arguments = re.search(r"bdmc\.(\w+)\((.*)\)", remedy).groups()
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
    assert "use more runs on each data set" in printed(before)
    chains = int(re.search("chains=([0-9]+)", bdmc.verdict(before).text)[1])
    after = run(normal, options | {"chains": chains, "random_seed": 2})
    assert bdmc.verdict(after, look=2).table.loc["total variation", "status"] == "good"
    assert "use more runs on each data set" not in printed(
        run(normal, ONE_SET | {"temperatures": 20, "chains": 8})
    )
