"""Check the draws that the call was given, and the reverse runs that start from some of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from pymc_bdmc.results.agreement import kept_agreement
from pymc_bdmc.results.checks.moves import non_centred
from pymc_bdmc.results.finding import MAX_CHANCE, NO_REMEDY, Finding, Remedy, Status
from pymc_bdmc.results.reading import Reading, once

LEAST_TEMPERATURES = 100
"""Fewest temperatures proposed to anneal from a fit to given draws; chosen."""

EACH_CHAIN = Remedy(
    "see which of your chains agrees with the run: bdmc.agreement(dt, idata.sel(chain=[0])), and "
    "so on."
)


class BothSides(NamedTuple):
    """Mean log weights of reverse runs on the real data.

    Attributes
    ----------
    forward, reverse : float
        Mean that forward runs predict, and mean of the reverse runs; nats.
    pvalue : float
        P-value of the difference, for normal log weights.
    """

    forward: float
    reverse: float
    pvalue: float


@once
def both_sides(read: Reading) -> BothSides | None:
    """Compare log weights of forward and of reverse runs on the real data.

    By Crooks' relation the mean of reverse log weights is E_f[w log w]/E_f[w]; for normal ones it
    is ⟨log w⟩_f + Var_f(log w). The two differ if forward runs miss part of the posterior, since
    then rare large weights are missing. The test is Student's t with one degree of freedom less
    than there are runs.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`.

    Returns
    -------
    BothSides or None
        None without ``posterior`` draws, or if a log weight is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.checks.draws import both_sides
    >>> rng, groups = np.random.default_rng(0), {}
    >>> for name, mean in [("real", -2.0), ("real_reverse", 2.0)]:
    ...     columns = dict(log_weight=("chain", rng.normal(mean, 0.1, 20)))
    ...     groups[name] = xr.Dataset(columns | dict(prior_draws=("chain", np.ones(20))))
    >>> both_sides(xr.DataTree.from_dict(groups)).pvalue < 1e-3
    True
    """
    for each in read.sets_of("real"):
        if each.reverse.size and np.isfinite([*each.forward, *each.reverse]).all():
            return _compared(each.forward, each.reverse)
    return None


def _compared(forward: np.ndarray, reverse: np.ndarray) -> BothSides:
    variance = forward.var(ddof=1)
    predicted = forward.mean() + variance
    squared_error = variance / len(forward) + 2 * variance**2 / (len(forward) - 1)
    squared_error += reverse.var(ddof=1) / len(reverse)
    least = 1e-9 * max(abs(predicted), abs(reverse.mean())) + 1e-300  # rounding
    score = abs(reverse.mean() - predicted) / max(np.sqrt(squared_error), least)
    pvalue = 2 * float(stdtr(min(len(forward), len(reverse)) - 1, -score))
    return BothSides(float(predicted), float(reverse.mean()), pvalue)


def disagreement(read: Reading) -> Iterator[Finding]:
    """Doubt draws, or reverse runs from them, that contradict the forward runs."""
    if not read.has("real_reverse"):
        return
    kept, sides = kept_agreement(read), both_sides(read)
    if kept and (kept.status == "bad" or kept.too_low):
        found = kept.sentences[0].rstrip(".")
    elif sides and sides.pvalue <= MAX_CHANCE:
        found = (
            f"real_reverse: the mean log weight is {sides.reverse:.3g}, and the forward runs "
            f"predict {sides.forward:.3g} (p = {sides.pvalue:.1g})"
        )
    else:
        return
    remedy = Remedy(
        "the posterior draws or the forward runs miss part of the posterior. Compare the draws "
        "with the group posterior, run more chains of that sampler, or use more temperatures."
    )
    if read.too_low:
        remedy = _reach_draws(read)
    elif kept and kept.contradicts:
        remedy = EACH_CHAIN
    yield Finding("disagreement", None, (found,), remedy)


def draws(read: Reading) -> Iterator[Finding]:
    """Check the draws against the run's own, and forward against reverse runs."""
    if found := kept_agreement(read):
        # An open agreement does not leave the verdict open.
        status: Status | None = None if found.status == "open" else found.status
        remedy = NO_REMEDY
        if found.too_low:
            status, remedy = "bad", _reach_draws(read)
        elif found.contradicts:
            remedy = EACH_CHAIN
        elif found.status == "bad":
            remedy = Remedy("see where they differ: bdmc.plot_agreement(dt, idata).")
        # The last sentence is about the run's own draws, as the verdict is.
        told = found.sentences[: 1 if found.status == "good" else -1]
        agrees = "The draws that you gave agree with these."
        brief = agrees if found.status == "good" else found.sentences[0]
        yield Finding("draws", status, tuple(told), remedy, found.too_low, brief=brief)
    sides = both_sides(read)
    if sides and sides.pvalue <= MAX_CHANCE:
        differ = (
            "Forward runs and the reverse runs from the draws that you gave disagree: the mean log "
            f"weight is {sides.reverse:.3g}, and forward runs predict {sides.forward:.3g} "
            f"(p = {sides.pvalue:.1g}). One side misses part of the posterior."
        )
        remedy = Remedy("use more temperatures or particles; run more chains of that sampler.")
        yield Finding("both sides", "bad", (differ,), remedy, sides.pvalue)


def _reach_draws(read: Reading) -> Remedy:
    """Return the remedy if draws show a part of the posterior that the runs miss."""
    if read.centred_effects:
        return Remedy(f"{non_centred(read.centred_effects)}.")
    n = max(LEAST_TEMPERATURES, 2 * read.side("real").n_temperatures)
    return Remedy(
        f"anneal from a fit to these draws: path=bdmc.FittedPath(idata), temperatures={n}."
    )
