"""Every remedy that is printed is followed where a result prints it, and the complaint is gone."""

import ast
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import Ising, Potts
from pymc_bdmc.results.checks.missed import sign_of_a_miss
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.verdict import doubts_of, verdict_of
from tests.call.test_posterior_draws import drawn
from tests.models import interpreted, rates
from tests.results.trees import runs

TESTS = Path(__file__).parent.parent
MODEL, POSTERIOR, _ = rates()


class Careless(pm.Metropolis):
    """A step method that accepts every proposal."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.delta_logp = lambda q, q0: 0.0


DRAWS = POSTERIOR.rvs(500, random_state=1)
IDATA = {"right": drawn(rate=DRAWS), "wrong": drawn(rate=DRAWS + 20)}
BOTH_SIDES = {"simulate": None, "chains": 32}
LATE = np.unique([*np.linspace(0.16, 0.26, 900), *np.linspace(0, 1, 99)])
RATES = {
    "simulated": {"simulate": "prior"},
    "alone": {"simulate": None},
    "4 chains": {"simulate": None, "chains": 4},
    "1 temperature": {"simulate": None, "temperatures": 1},
    "right draws": BOTH_SIDES | {"posterior": IDATA["right"]},
    "wrong draws": BOTH_SIDES | {"posterior": IDATA["wrong"]},
    "wrong source": {
        "path": None, "particles": None, "temperatures": None,
        "simulate": "posterior", "posterior": IDATA["wrong"],
    },
}  # fmt: skip
"""Calls on counts of an unknown rate: from the prior by ten temperatures, or as is said."""


def of_numbers(change=0.0, datasets=15, **attrs):
    """A result on simulated data sets, with this added to the log weights of its reverse runs."""
    dt = runs(datasets=datasets, n=16, y=np.arange(6.0))
    dt["reverse"]["log_weight"][:] += change
    dt.attrs |= attrs
    return dt


NUMBERS = {
    "no real data": runs().drop_nodes("real"),
    "15 data sets": of_numbers(),
    "a pair": of_numbers(upper_bound="heuristic"),
    "an exact pair": of_numbers(datasets=1, simulate="given"),
    "a wrong pair": of_numbers(-1.0, simulate="given"),
    "interrupted": of_numbers(interrupted=1),
    "5 temperatures": runs(real_sd=3.0),
}
"""Results as calls that do not follow a remedy would have them."""
ISING, TEMPERED = partial(bdmc.lattice.anneal, Ising(4)), partial(bdmc.temper, Ising(4), chains=8)
POTTS = partial(bdmc.lattice.anneal, Potts(6, 10), kernel="heat bath", chains=128)
STRONG = partial(bdmc.lattice.anneal, Ising(8, 2.0))
SYSTEMS = {
    "ordered": partial(ISING, temperatures=400, start="ordered"),
    "16 pairs": partial(ISING, temperatures=400, chains=16),
    "exact": partial(ISING, temperatures=400),
    "50 for ten colours": partial(POTTS, temperatures=50),
    "200 for ten colours": partial(POTTS, temperatures=200),
    "late": partial(STRONG, temperatures=LATE),
    "even": partial(STRONG, temperatures=2000),
    "20 draws": partial(TEMPERED, draws=20),
    "1000 draws": partial(TEMPERED, draws=1000),
    "initial=2": partial(TEMPERED, temperatures=60, initial=2),
    "initial=50": partial(TEMPERED, temperatures=60, initial=50),
}
"""Calls without a model."""
FOLLOWED = [
    ("data must be simulated: leave out simulate=None", "alone", "simulated"),
    ("leave out real_data=False", "no real data", "simulated"),
    ("to test the model too, simulate", "15 data sets", "simulated"),
    ('pass simulate="prior" for an exact start', "a pair", "simulated"),
    ("one pair certifies almost nothing", "an exact pair", "simulated"),
    ("test the step method with bdmc.testing.check_invariance", "a wrong pair", "simulated"),
    ("run it again.", "interrupted", "simulated"),
    ("until the boxes of plot_consistency agree", "5 temperatures", "simulated"),
    ("too few runs to trust their averaged weights", "4 chains", "alone"),
    ("the averaged weights cannot be trusted: ", "1 temperature", "alone"),
    ("particles; run more chains of that sampler", "wrong draws", "right draws"),
    ("bdmc.plot_agreement(dt, idata)", "wrong draws", "right draws"),
    ("see where these draws differ from those of the run", "wrong source", "right draws"),
    ('on a lattice start="exact"', "ordered", "exact"),
    ("take more chains; if these do not settle it", "16 pairs", "exact"),
    ("particles, or another kernel", "50 for ten colours", "200 for ten colours"),
    ("use more temperatures.", "late", "even"),
    ("take more draws, or more temperatures where", "20 draws", "1000 draws"),
    ("take more chains, or a larger `initial`", "initial=2", "initial=50"),
]
"""Words of a remedy, a call that prints it, and one that follows it."""
ELSEWHERE = {
    "write all that has no random draws": "what_has_no_random_draws_is_named",
    "for a gap of about one nat": "the_remedy_of_a_wide_gap_works",
    "Compare the draws with the group posterior": "what_draws_or_forward_runs_miss_is_told",
    "see which of your chains agrees": "chains_that_contradict_each_other_are_bad",
    "use a longer burn_in.": "a_doubt_tells_that_the_longest_may_be_too_short",
    " non-centred": "a_sign_of_a_miss_refuses_what_nothing_simulated_confirms",
    "simulate data to measure it": "a_sign_of_a_miss_refuses_what_nothing_simulated_confirms",
    'use path="prior"': "a_sign_of_a_miss_refuses_what_nothing_simulated_confirms",
    "anneal from a fit to these draws": "the_remedy_for_a_run_that_misses_a_mode_works",
    "test it with testing.check_invariance": "a_wrong_step_method_fails_the_check_that_is_named",
    "put temperatures there": "temperatures_are_put_where_the_gap_opens",
    "that does not overflow": "a_density_that_is_nan_next_to_the_posterior_is_told",
    "their log weights widen the gap": "faults_of_runs_are_told",
    "remove the divergences first": "divergences_come_first",
    "so the kernel hardly mixes": "an_even_gap_is_told_with_the_temperatures_that_close_it",
    "of the best schedule: pass": "an_even_gap_is_told_with_the_temperatures_that_close_it",
    "rely on medians": "medians_lead_where_the_mean_of_logs_does_not_exist",
    "chains that started far out in the tail": "a_far_start_is_no_knot",
    "data sets would be enough if": "an_open_verdict_names_what_would_settle_it",
    "use more runs on each data set": "an_open_verdict_names_what_would_settle_it",
    'try path="prior", since a fit': "a_part_that_forward_runs_miss_is_told",
    "since a fit can miss where their scale is small": "a_part_that_forward_runs_miss_is_told",
    "pass path=": "another_path_that_reaches_more_is_evidence_of_an_error",
    "although the model does not fit, pass simulate": "a_wrong_model_is_told",
    "change the model where your data differ": "a_wrong_model_is_told",
    "so that every run reaches": "runs_that_end_in_different_places_are_told",
}
"""Words of remedies that other tests follow, by calls or by numbers."""


@cache
def run(name):
    """Return the result of a call, which several remedies share."""
    if name in NUMBERS:
        return NUMBERS[name]
    if name in SYSTEMS:
        return SYSTEMS[name](random_seed=1, progressbar=False)
    options = {"path": "prior", "particles": 1, "temperatures": 10} | RATES[name]
    return pm.sample_bdmc(MODEL, random_seed=1, cores=1, progressbar=False, **options)


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


def test_every_remedy_has_its_place():
    found, known = list(written()), [*{row[0] for row in FOLLOWED}, *ELSEWHERE]
    assert len(found) > 40
    for parts in found:
        assert any(words in part or part in words for part in parts for words in known), parts
    for words in known:
        assert any(words in part or part in words for parts in found for part in parts), words
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert all(f"def test_{name}(" in tests for name in ELSEWHERE.values())


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


@pytest.mark.parametrize(("words", "without", "following"), FOLLOWED)
def test_a_remedy_is_followed(words, without, following):
    """The run that does not follow it, whose complaint must be there, is the twin."""
    assert words in printed(run(without))
    dt = run(following)
    assert words not in printed(dt)
    if Reading.of(dt).is_tempering:
        assert bdmc.evidence(dt, "RTS")["valid"].all()
    else:
        assert bdmc.log_ml(dt).valid


def test_what_has_no_random_draws_is_named():
    """By the default call, which says nothing of simulate=None. Twin: the call that has it."""
    with interpreted(), pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("extra", -(x**2))
        pm.Normal("y", x, observed=0.5)
    options = {"chains": 4, "random_seed": 1, "cores": 1, "progressbar": False}
    dt, twin = pm.sample_bdmc(model, temperatures=5, **options), run("alone")
    reason = "since the Potential extra has a log density but no random draws"
    assert reason in bdmc.verdict(dt).text
    assert "write all that has no random draws" in printed(dt)
    assert "simulate=None" not in bdmc.verdict(dt).text + printed(dt)
    assert "Nothing was simulated, so" in bdmc.verdict(twin).text
    assert "leave out simulate=None" in printed(twin)


def test_a_wrong_step_method_fails_the_check_that_is_named():
    """Reverse runs of probability zero lose no results. Twin: the default kernel."""
    wrong = pm.sample_bdmc(
        MODEL, path="prior", particles=1, simulate=bdmc.FromPrior(1), temperatures=10,
        chains=16, step=Careless, random_seed=1, cores=1, progressbar=False,
    )  # fmt: skip
    for dt, is_right in ((wrong, False), (run("simulated"), True)):
        assert np.isfinite(dt["reverse"]["log_weight"]).all() == is_right
        assert ("test it with testing.check_invariance" in printed(dt)) is not is_right
    assert not bdmc.testing.check_invariance(Careless, MODEL, budget=1000, random_seed=1).passed


@pytest.mark.parametrize("draws", ["wrong draws", "wrong source"])
def test_a_call_that_is_named_shows_the_quantity(draws):
    """As it is printed."""
    (named,) = {*re.findall(r"bdmc\.\w+\(dt, idata\)", bdmc.verdict(run(draws)).text)}
    found = eval(named, {"bdmc": bdmc, "dt": run(draws), "idata": IDATA["wrong"]})
    if "plot" in named:
        axes = found.viz["figure"].item().axes
        assert "distribution of rate" in [each.get_title() for each in axes]
    else:
        assert (found.status, found.table.index.tolist()) == ("bad", ["rate"])


def test_temperatures_are_put_where_the_gap_opens():
    """Half of them between the printed numbers; the doubt is gone, and the gap is closed."""
    options = {"random_seed": 1, "progressbar": False}
    before = STRONG(temperatures=200, **options)
    (text,) = bdmc.diagnose(before)
    assert "put temperatures there" in text
    low, high = map(float, re.search(r"at beta = (\S+) to (\S+),", text).groups())
    there, everywhere = np.linspace(low, high, 500), np.linspace(0, 1, 501)
    after = STRONG(temperatures=np.unique([*there, *everywhere]), **options)
    assert bdmc.diagnose(after) == []
    rows = [bdmc.summary(dt).loc[("simulated", "jeffreys bound")] for dt in (before, after)]
    assert rows[1]["value"] < 2 < rows[0]["value"]
