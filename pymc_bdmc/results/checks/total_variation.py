"""Check the certified total variation, what it rests on, and how many runs would be enough."""

from collections.abc import Iterator

import numpy as np
from scipy.special import betaincinv

from pymc_bdmc.estimators import (
    TotalVariation,
    clustered_mean,
    datasets_needed,
    log_mean_exp,
    round_confidence,
    upper_confidence_bound,
)
from pymc_bdmc.results.checks.missed import LONGER
from pymc_bdmc.results.consistency import FEWEST_SETS
from pymc_bdmc.results.finding import MAX_CHANCE, NO_REMEDY, Finding, Remedy, upwards
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.sandwich import CERTAIN, burn_in_of, certified_total_variation

CLOSE = 0.25
"""Largest certified total variation of a good verdict: no probability is off by more; chosen."""

MOST_MORE = 10
"""Largest factor by which more data sets or runs are proposed; chosen."""

MISSED = 0.5
"""Total variation of a data set above which its forward runs miss most of the posterior."""

DATA = {
    "prior": "data sets simulated from the prior of your model",
    "posterior": (
        "data sets that contain yours, each with as many more simulated from your posterior draws"
    ),
    "hyperparameters": "data sets simulated with hyperparameters from your fit",
    "given": "the data that you gave",
}
"""Names of simulated data by what they were simulated from."""


def nothing_simulated(read: Reading) -> Iterator[Finding]:
    """Report that the distance of the draws from the posterior is not known."""
    reason = f", since {read.not_simulated}" if read.not_simulated else ""
    text = (
        f"Nothing was simulated{reason}, so the distance of the posterior draws from the true "
        "posterior is not known."
    )
    remedy = Remedy("to judge the draws too, data must be simulated: leave out simulate=None.")
    if reason:
        remedy = Remedy(
            "to judge the draws too, write all that has no random draws as an observed "
            "pm.CustomDist with random=..., or pass a pair from your own simulator, "
            "simulate=bdmc.Given(point, data)."
        )
    yield Finding("total variation", "open", text, remedy)


def start(read: Reading) -> Iterator[Finding]:
    """Check whether the start of reverse runs is known to come from the posterior."""
    found, remedy = read.start("simulated"), NO_REMEDY
    if found not in ("exact", "posterior draw"):
        remedy = Remedy('pass simulate="prior" for an exact start.')
        if read.is_system:
            remedy = Remedy('start reverse chains from exact samples, on a lattice start="exact".')
    if found in CERTAIN:
        yield Finding("start", "good", remedy=remedy)
        return
    text = (
        f"The start of the reverse runs is {found}, so the distance of the posterior draws from "
        "the true posterior is not certified."
    )
    yield Finding("start", "open", text, remedy)


def too_short(read: Reading) -> Iterator[Finding]:
    """Doubt a burn-in on which the mean log weight depends."""
    if not read.has("reverse", "burn_in"):
        return
    before = burn_in_of(read).iloc[-2]
    if before["pvalue"] <= MAX_CHANCE:
        text = (
            f"reverse: the mean log weight depends on the burn-in: after {before.name} steps it is "
            f"{before['difference']:.2g} nats above that after the longest"
        )
        yield Finding("burn-in", None, text, Remedy("use a longer burn_in."))


def simulated_from(read: Reading) -> Iterator[Finding]:
    """Report the e-value against the draws as a sample of the posterior."""
    if not read.contains_real or "log_e_value" not in read.side("reverse").run:
        return
    found = read.side("reverse").rows("log_e_value")
    # The draws are those of one posterior, so e-values of data sets are dependent: average them.
    value = float(log_mean_exp(found[~np.isnan(found)]))
    if value < -np.log(MAX_CHANCE):
        yield Finding("e-value", None, value=value)
        return
    text = (
        "The draws that data were simulated from are not draws of the posterior: the e-value "
        f"against them is {np.exp(value):.2g}, which exceeds 1000 by chance in at most one call of "
        "a thousand."
    )
    remedy = Remedy(
        "see where these draws differ from those of the run: bdmc.agreement(dt, idata)."
    )
    yield Finding("e-value", "bad", text, remedy, value)


def total_variation(
    read: Reading, doubts: list[Finding], confidence: float, look: int | None
) -> Iterator[Finding]:
    """Check whether the posterior is certified to be close on simulated data."""
    if not (found := certified_total_variation(read, confidence, look)):
        return
    if not all(side.n_finished for side in read.pair):  # `order` reports it
        return
    given, briefly = _presupposed(read)
    cut = [np.isnan(side.log_weight).any(axis=1) for side in read.pair]
    n, unfinished = found.datasets, int(np.sum(np.any(cut, axis=0)))
    missed = int(np.sum(found.terms > MISSED)) - unfinished
    bound, level = upwards(found.upper), f"{100 * found.confidence:.5g} % confidence"
    data = DATA.get(read.data_source, "simulated data sets")
    about = f"On {n} {data}" if n > 1 else f"On one of the {data}"
    if read.independent_starts:
        data, about = "posterior draws of runs like these", f"By {n} independent pairs of runs"
    elif read.simulate == "given":
        about = "On the data that you gave"
    at_look = f" at look {look}" if look else ""
    text = (
        f"{about}, a posterior draw of such runs is on average at most {bound} from the true "
        f"posterior in total variation ({level}{at_look}; estimate {found.value:.2g}). So on "
        f"average no probability is off by more than {bound}{given}."
    )
    if draws := read.n_draws:
        text += (
            f" In addition, a probability computed from the {draws} draws in the group posterior "
            f"has a standard error of at most about {upwards(0.5 / np.sqrt(draws))}."
        )
    if n > 1 and not read.independent_starts:  # a single pair is mostly noise
        k = missed + unfinished
        most = betaincinv(k + 1, n - k, found.confidence) if k < n else 1.0  # Clopper and Pearson
        # A part that all posterior draws miss is not looked for.
        target = "draw that the data are from" if read.contains_real else "true parameters"
        text += (
            f" Runs found the part of the posterior with the {target} on {n - k} of {n} data sets; "
            f"they miss it on at most {np.ceil(100 * most):.0f} % of such data sets ({level})."
        )
    if unfinished:
        text += f" On {unfinished} data sets some runs were not finished; each counts as 1."
    error = clustered_mean(found.terms[:, None])[1]
    numbers = found.value, error, 0.0, found.upper
    off = f"probability is off by more than {bound}, on average over {data} ({level}"
    if found.upper <= CLOSE:
        brief = f"No {off}){briefly}."
        yield Finding("total variation", "good", text, NO_REMEDY, *numbers, brief)
    else:
        brief = f"It is only certified that no {off}; estimate {found.value:.2g}){briefly}."
        remedy = _enough(read, found, missed, doubts, confidence, look)
        yield Finding("total variation", "open", text, remedy, *numbers, brief)


def _presupposed(read: Reading) -> tuple[str, str]:
    """Say what the bound presupposes or includes, by the start of the reverse runs, and briefly."""
    if (distance := read.start_distance) is not None:
        # The estimate was too small by up to 0.0021 (docs/method.md).
        most = f"an estimated {upwards(max(distance, 0.01))} at most for the burn-in"
        return (
            f". This includes {most} of reverse runs, which do not start from exact posterior "
            "samples",
            f", including {most}",
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


def _enough(
    read: Reading,
    found: TotalVariation,
    missed: int,
    doubts: list[Finding],
    confidence: float,
    look: int | None,
) -> Remedy:
    """Say what would certify the total variation, if it is as small as estimated."""
    datasets, runs = found.datasets, read.side("forward").chains
    longer = doubts[0].with_remedy if doubts else LONGER
    if read.is_system:
        if datasets >= FEWEST_SETS:
            return longer
        return Remedy("take more chains; if these do not settle it, use more temperatures.")
    if read.simulate == "given":
        return Remedy('one pair certifies almost nothing: simulate data sets, simulate="prior".')
    if read.path == "fitted" and missed > 0:
        if names := read.centred_effects:
            return Remedy(
                f"write {names} non-centred, since a fit can miss where their scale is small."
            )
        return Remedy(
            'try path="prior", since a fit to data like these can miss part of the posterior.'
        )
    next_look = (look or 1) + 1
    level = round_confidence(confidence, next_look)
    needed = datasets_needed(CLOSE, level, found.terms)
    # Terms fall as 1/√(number of pooled runs). Find the largest that so many equal terms certify
    # among a few; chosen.
    pooled = [CLOSE / n for n in (3, 4, 6, 12)]
    bounds = {v: upper_confidence_bound(np.full(datasets, v), level) for v in pooled}
    enough = max((value for value, bound in bounds.items() if bound <= CLOSE), default=0.0)
    more = runs * (found.value / enough) ** 2 if enough else np.inf
    pools = runs < more <= MOST_MORE * runs and not (found.terms > MISSED).any()
    cheaper = needed and (not pools or needed / datasets <= more / runs)
    if needed and cheaper and needed <= max(MOST_MORE * datasets, 60):  # chosen
        ways = {"prior": "FromPrior", "posterior": "FromPosterior"}
        way = ways.get(read.simulate, "FromHyperparameters")
        return Remedy(
            f"{needed} data sets would be enough if they are like these {datasets}, in about "
            f"{read.sampling_time * needed / datasets:.2g} s: "
            f"simulate=bdmc.{way}(datasets={needed}) with another random_seed and your other "
            f"options, and then verdict(dt, look={next_look})."
        )
    if pools:
        return Remedy(
            f"use more runs on each data set: chains={int(np.ceil(more))} with another "
            f"random_seed, and then verdict(dt, look={next_look})."
        )
    return longer
