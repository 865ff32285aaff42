"""Check the certified total variation, and how much more would settle it."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.estimators import (
    TotalVariation,
    clustered_mean,
    datasets_needed,
    round_confidence,
    upper_confidence_bound,
)
from pymc_bdmc.results.certified import certified_total_variation
from pymc_bdmc.results.consistency import FEWEST_SETS, simulated_from_prior
from pymc_bdmc.results.finding import NOTHING, Doubt, Finding, Message, Status, message
from pymc_bdmc.results.reading import Reading

CLOSE = 0.25
"""Largest certified total variation of a good verdict: no probability is off by more; chosen."""

MOST_MORE = 10
"""Largest factor by which more data sets or runs are proposed; chosen."""

MOST_DATASETS = 60
"""Number of data sets up to which more are proposed whatever the factor; chosen."""

POOLED = (CLOSE / 3, CLOSE / 4, CLOSE / 6, CLOSE / 12)
"""Total variations of pooled runs of which more runs are to reach one; chosen."""

CONDITIONS = {"burned-in": "if burned in", "posterior draw": "if draws are right"}
"""Messages of what the bound presupposes, by the start of the reverse runs."""

LEAST_TOLD = 0.01
"""Smallest distance of starts that is told. The estimate was too small by up to 0.0021 where it was
compared with one by more draws (docs/method.md)."""

MISSED = 0.5
"""Total variation of a data set above which its forward runs miss most of the posterior."""


def total_variation(
    read: Reading, doubts: list[Doubt], confidence: float, look: int | None
) -> Iterator[Finding]:
    """Check whether the posterior is certified to be close on simulated data."""
    if not (found := certified_total_variation(read, confidence, look)):
        return
    if not all(side.n_finished for side in read.pair):  # which the order of the sides tells
        return
    distance = read.start_distance
    given = CONDITIONS.get(read.upper_bound or "") if distance is None else "with burn-in"
    starts = max(_outwards(distance or 0.0), LEAST_TOLD)
    is_good, unfinished, missed = found.upper <= CLOSE, _unfinished(read), _missed(read, found)
    told = [
        message(
            "total variation", about=_about(read, found.datasets), bound=_outwards(found.upper),
            confidence=100 * found.confidence, value=found.value,
            look=message("at look", look=look) if look else NOTHING,
            given=message(given or "nothing", distance=starts),
        )
    ]  # fmt: skip
    if n := read.n_draws:
        told.append(message("error of draws", n=n, bound=_outwards(0.5 / np.sqrt(n))))
    if missed > 0 and not read.independent_starts:  # a single pair is mostly noise
        told.append(message("missed on sets", n=missed, of=found.datasets))
    if unfinished:
        told.append(message("unfinished sets", n=unfinished))
    remedy = None if is_good else _to_settle(read, found, doubts, confidence, look)
    error = clustered_mean(found.terms[:, None])[1]
    ends = found.value, error, 0.0, found.upper
    brief = message(
        "within" if is_good else "not within", bound=_outwards(found.upper), value=found.value,
        confidence=100 * found.confidence, data=_data(read),
        given=message(f"brief {given}" if given else "nothing", distance=starts),
    )  # fmt: skip
    status: Status = "good" if is_good else "open"
    yield Finding("total variation", status, tuple(told), remedy, *ends, brief)


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


def _about(read: Reading, n: int) -> Message:
    """Say which data the bound applies to."""
    if read.independent_starts:
        return message("by pairs", n=n)
    if read.simulate == "given":
        return message("on given data")
    return message("on sets" if n > 1 else "on one set", n=n, data=_data(read))


def _data(read: Reading) -> Message:
    """Name the simulated data."""
    if read.independent_starts:
        return message("runs like these")
    # Also if the model has no hyperparameters to hold.
    source = "prior" if simulated_from_prior(read) else read.simulate
    known = ("prior", "matched", "hyperparameters", "posterior", "given")
    return message(f"{source if source in known else 'unknown'} data")


def _to_settle(
    read: Reading, found: TotalVariation, doubts: list[Doubt], confidence: float, look: int | None
) -> Message | Doubt:
    """Say what would certify the total variation, if it is as small as estimated."""
    datasets, runs = found.datasets, read.side("forward").chains
    if read.is_system:
        return message("more chains") if datasets < FEWEST_SETS else _longer(read, doubts)
    if read.simulate == "given":
        return message("not one pair")
    if read.needs_other_data:
        return message("data like yours")
    if read.path == "fitted" and _missed(read, found) > 0:
        if read.centred_effects:
            return message("non-centred for fit", names=read.centred_effects)
        return message("prior for fit")
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
        return message(
            "more sets", n=needed, of=datasets, look=following,
            seconds=read.sampling_time * needed / datasets,
            way=ways.get(read.simulate, "FromHyperparameters"),
        )  # fmt: skip
    if pools:
        return message("pool runs", n=int(np.ceil(more)), look=following)
    return _longer(read, doubts)


def _largest_certified(datasets: int, confidence: float) -> float:
    """Return the largest of `POOLED` that so many equal terms certify as close; 0 if none is."""
    bounds = (upper_confidence_bound(np.full(datasets, value), confidence) for value in POOLED)
    return next((value for value, b in zip(POOLED, bounds, strict=True) if b <= CLOSE), 0.0)


def _longer(read: Reading, doubts: list[Doubt]) -> Message | Doubt:
    return doubts[0] if doubts else message("longer")
