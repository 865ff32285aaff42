"""Check the certified total variation, what it rests on, and how much more would settle it."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.estimators import (
    TotalVariation,
    clustered_mean,
    datasets_needed,
    log_mean_exp,
    round_confidence,
    upper_confidence_bound,
)
from pymc_bdmc.results.attributes import CERTAIN
from pymc_bdmc.results.burn_in import burn_in_of
from pymc_bdmc.results.certified import certified_total_variation
from pymc_bdmc.results.checks.missed import LONGER
from pymc_bdmc.results.checks.weights import OTHER_DATA
from pymc_bdmc.results.consistency import FEWEST_SETS, simulated_from_prior
from pymc_bdmc.results.finding import MAX_CHANCE, NO_REMEDY, Finding, Remedy, Status
from pymc_bdmc.results.reading import Reading

CLOSE = 0.25
"""Largest certified total variation of a good verdict: no probability is off by more; chosen."""

MOST_MORE = 10
"""Largest factor by which more data sets or runs are proposed; chosen."""

MOST_DATASETS = 60
"""Number of data sets up to which more are proposed whatever the factor; chosen."""

POOLED = (CLOSE / 3, CLOSE / 4, CLOSE / 6, CLOSE / 12)
"""Total variations of pooled runs of which more runs are to reach one; chosen."""

LEAST_TOLD = 0.01
"""Smallest distance of starts that is told. The estimate was too small by up to 0.0021 where it was
compared with one by more draws (docs/method.md)."""

MISSED = 0.5
"""Total variation of a data set above which its forward runs miss most of the posterior."""


DATA = {
    "prior": "data sets simulated from the prior of your model",
    "matched": "data sets from your model that are most like yours",
    "posterior": (
        "data sets that contain yours, each with as many more simulated from your posterior draws"
    ),
    "hyperparameters": "data sets simulated with hyperparameters from your fit",
    "given": "the data that you gave",
}
"""Names of simulated data by what they were simulated from."""


def nothing_simulated(read: Reading) -> Iterator[Finding]:
    """Report that the distance of the draws from the posterior is not known."""
    told = (
        "Nothing was simulated, so the distance of the posterior draws from the true posterior is "
        "not known."
    )
    remedy = Remedy(
        "to judge the draws too, data must be simulated: leave out simulate=None, write a "
        "Potential as an observed pm.CustomDist with random=..., or pass a pair from your own "
        "simulator, simulate=bdmc.Given(point, data)."
    )
    yield Finding("total variation", "open", (told,), remedy)


def start(read: Reading) -> Iterator[Finding]:
    """Check whether the start of reverse runs is known to come from the posterior."""
    found, remedy = read.start("simulated"), NO_REMEDY
    if found not in ("exact", "posterior draw"):
        remedy = Remedy('pass simulate="prior" for an exact start.')
        if read.is_system:
            remedy = Remedy('start reverse chains from exact samples, on a lattice start="exact".')
    if found in CERTAIN:
        yield Finding("start", "good", (), remedy)
        return
    told = (
        f"The start of the reverse runs is {found}, so the distance of the posterior draws from "
        "the true posterior is not certified."
    )
    yield Finding("start", "open", (told,), remedy)


def too_short(read: Reading) -> Iterator[Finding]:
    """Doubt a burn-in on which the mean log weight depends."""
    if not read.has("reverse", "burn_in"):
        return
    before = burn_in_of(read).iloc[-2]
    if before["pvalue"] <= MAX_CHANCE:
        found = (
            f"reverse: the mean log weight depends on the burn-in: after {before.name} steps it is "
            f"{before['difference']:.2g} nats above that after the longest"
        )
        yield Finding("burn-in", None, (found,), Remedy("use a longer burn_in."))


def simulated_from(read: Reading) -> Iterator[Finding]:
    """Report the e-value against the draws as a sample of the posterior.

    The draws are those of one posterior, so data sets are dependent and their e-values are
    averaged.
    """
    if not read.contains_real or "log_e_value" not in read.side("reverse").run:
        return
    found = read.side("reverse").rows("log_e_value")
    value = float(log_mean_exp(found[~np.isnan(found)]))
    if value < -np.log(MAX_CHANCE):
        yield Finding("e-value", None, value=value)
        return
    told = (
        "The draws that data were simulated from are not draws of the posterior: the e-value "
        f"against them is {np.exp(value):.2g}, which exceeds 1000 by chance in at most one call of "
        "a thousand."
    )
    remedy = Remedy(
        "see where these draws differ from those of the run: bdmc.agreement(dt, idata)."
    )
    yield Finding("e-value", "bad", (told,), remedy, value)


def total_variation(
    read: Reading, doubts: list[Finding], confidence: float, look: int | None
) -> Iterator[Finding]:
    """Check whether the posterior is certified to be close on simulated data."""
    if not (found := certified_total_variation(read, confidence, look)):
        return
    if not all(side.n_finished for side in read.pair):  # which the order of the sides tells
        return
    given, briefly = _presupposed(read)
    is_good, unfinished, missed = found.upper <= CLOSE, _unfinished(read), _missed(read, found)
    bound, level = f"{_outwards(found.upper):.2f}", f"{100 * found.confidence:.5g} % confidence"
    at_look = f" at look {look}" if look else ""
    told = [
        f"{_about(read, found.datasets)}, a posterior draw of such runs is on average at most "
        f"{bound} from the true posterior in total variation ({level}{at_look}; estimate "
        f"{found.value:.2g}). So on average no probability is off by more than {bound}{given}."
    ]
    if n := read.n_draws:
        told.append(
            f"In addition, a probability computed from the {n} draws in the group posterior has a "
            f"standard error of at most about {_outwards(0.5 / np.sqrt(n)):.2f}."
        )
    if missed > 0 and not read.independent_starts:  # a single pair is mostly noise
        told.append(
            f"On {missed} of the {found.datasets} data sets the forward runs miss most of the "
            "posterior."
        )
    if unfinished:
        told.append(f"On {unfinished} data sets some runs were not finished; each counts as 1.")
    remedy = NO_REMEDY if is_good else _to_settle(read, found, doubts, confidence, look)
    error = clustered_mean(found.terms[:, None])[1]
    ends = found.value, error, 0.0, found.upper
    brief = (
        f"No probability is off by more than {bound}, on average over {_data(read)} "
        f"({level}){briefly}."
    )
    if not is_good:
        brief = (
            f"It is only certified that no probability is off by more than {bound}, on average "
            f"over {_data(read)} ({level}; estimate {found.value:.2g}){briefly}."
        )
    status: Status = "good" if is_good else "open"
    yield Finding("total variation", status, tuple(told), remedy, *ends, brief)


def _presupposed(read: Reading) -> tuple[str, str]:
    """Say what the bound presupposes or includes, by the start of the reverse runs, and briefly."""
    if (distance := read.start_distance) is not None:
        most = f"{max(_outwards(distance), LEAST_TOLD):.2f}"
        return (
            f". This includes an estimated {most} at most for the burn-in of reverse runs, which "
            "do "
            "not start from exact posterior samples",
            f", including an estimated {most} at most for the burn-in",
        )
    if read.upper_bound == "burned-in":
        return (
            ", if reverse runs start from exact posterior samples. They start from burned-in "
            "samples, so the unknown distance of these from the posterior must be added",
            ", if the burn-in is long enough for reverse runs to start from the posterior",
        )
    if read.upper_bound == "posterior draw":
        return (
            ", if the posterior draws that data were simulated from are right",
            ", if those draws are right",
        )
    return "", ""


def _unfinished(read: Reading) -> int:
    """Return the number of simulated data sets with runs that were not finished."""
    cut = [np.isnan(side.log_weight).any(axis=1) for side in read.pair]
    return int(np.sum(np.any(cut, axis=0)))


def _missed(read: Reading, found: TotalVariation) -> int:
    """Return the number of data sets whose forward runs miss most of the posterior."""
    return int(np.sum(found.terms > MISSED)) - _unfinished(read)


def _outwards(bound: float) -> float:
    """Round a bound up to two decimals."""
    return float(np.ceil(100 * bound - 1e-9) / 100)


def _about(read: Reading, n: int) -> str:
    """Say which data the bound applies to."""
    if read.independent_starts:
        return f"By {n} independent pairs of runs"
    if read.simulate == "given":
        return "On the data that you gave"
    return f"On {n} {_data(read)}" if n > 1 else f"On one of the {_data(read)}"


def _data(read: Reading) -> str:
    """Name the simulated data."""
    if read.independent_starts:
        return "posterior draws of runs like these"
    # Also if the model has no hyperparameters to hold.
    source = "prior" if simulated_from_prior(read) else read.simulate
    return DATA.get(source, "simulated data sets")


def _to_settle(
    read: Reading, found: TotalVariation, doubts: list[Finding], confidence: float, look: int | None
) -> Remedy:
    """Say what would certify the total variation, if it is as small as estimated."""
    datasets, runs = found.datasets, read.side("forward").chains
    if read.is_system:
        if datasets >= FEWEST_SETS:
            return _longer(doubts)
        return Remedy("take more chains; if these do not settle it, use more temperatures.")
    if read.simulate == "given":
        return Remedy('one pair certifies almost nothing: simulate data sets, simulate="prior".')
    if read.needs_other_data:
        return OTHER_DATA
    if read.path == "fitted" and _missed(read, found) > 0:
        if names := read.centred_effects:
            return Remedy(
                f"write {names} non-centred, since a fit can miss where their scale is small."
            )
        return Remedy(
            'try path="prior", since a fit to data like these can miss part of the posterior.'
        )
    following = (look or 1) + 1
    level = round_confidence(confidence, following)
    needed = datasets_needed(CLOSE, level, found.terms)
    # Terms fall as 1/√(number of pooled runs).
    enough = _largest_certified(datasets, level)
    more = runs * (found.value / enough) ** 2 if enough else np.inf
    pools = runs < more <= MOST_MORE * runs and not (found.terms > MISSED).any()
    cheaper = needed and (not pools or needed / datasets <= more / runs)
    if needed and cheaper and needed <= max(MOST_MORE * datasets, MOST_DATASETS):
        ways = {"prior": "FromPrior", "matched": "Matched", "posterior": "FromPosterior"}
        way = ways.get(read.simulate, "FromHyperparameters")
        return Remedy(
            f"{needed} data sets would be enough if they are like these {datasets}, in about "
            f"{read.sampling_time * needed / datasets:.2g} s: "
            f"simulate=bdmc.{way}(datasets={needed}) with another random_seed and your other "
            f"options, and then verdict(dt, look={following})."
        )
    if pools:
        return Remedy(
            f"use more runs on each data set: chains={int(np.ceil(more))} with another "
            f"random_seed, and then verdict(dt, look={following})."
        )
    return _longer(doubts)


def _largest_certified(datasets: int, confidence: float) -> float:
    """Return the largest of `POOLED` that so many equal terms certify as close; 0 if none is."""
    bounds = (upper_confidence_bound(np.full(datasets, value), confidence) for value in POOLED)
    return next((value for value, b in zip(POOLED, bounds, strict=True) if b <= CLOSE), 0.0)


def _longer(doubts: list[Finding]) -> Remedy:
    return doubts[0].told if doubts else LONGER
