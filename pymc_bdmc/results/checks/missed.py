"""Ask what all runs on the real data may miss: by simulated data, other paths, and other signs."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import (
    clustered_mean,
    jarzynski_forward,
    jarzynski_reverse,
    log_mean_exp,
    refutes,
)
from pymc_bdmc.estimators.checks import shape_of_weights
from pymc_bdmc.paths import PATHS
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.sandwich import certified_total_variation

SHARES = (np.arange(200) + 0.5) / 200
"""Shares of the posterior, all equally probable, that forward runs may miss; chosen."""

MOST_DIVERGENT = 0.01
"""Largest share of divergent transitions that is no sign of a miss; measured, as the others."""

HEAVY_TAIL, KNOWN_TAIL = 0.5, 0.6
"""Largest Pareto k of the weights of draws from a fit that is no sign of a miss. Above 0.5 their
variance does not exist, and so no standard error. If the model's structure gives the tails of the
fit, a somewhat larger one is no sign either: k of 1536 weights varies by 0.1."""

FAR, ENOUGH = 6.0, 64
"""Standard errors by which one way of getting log Ẑ may exceed another if the average of the higher
one is valid, and its fewest runs. Simulated: of 12,000 averages of right weights, log-normal ones
or with Pareto tails (k up to 0.9), none came so much too high."""

LONGER = Remedy("use more temperatures or particles, or another kernel.")


def real_weights(read: Reading) -> Iterator[Finding]:
    """Report E_f[(1 − w/Z)₊] on the real data, the mean of w for Z, with a jackknife error."""
    # Runs that all miss a part have even weights, so nothing is certified.
    log_weights = read.real.forward if read.sets_of("real") else np.empty(0)
    n, value = log_weights.size, _mean_lack(log_weights)
    if n < 2 or np.isnan(value):
        return
    left_out = np.array([_mean_lack(np.delete(log_weights, i)) for i in range(n)])
    error = float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
    text = (
        "On your data alone, the weights of the runs put this total variation at "
        f"{value:.2g} ± {error:.1g}, without a certificate."
    )
    yield Finding("real weights", None, text, value=value, error=error)


def _mean_lack(log_weights: np.ndarray) -> float:
    """Return the mean of (1 − w/Z)₊, with the mean of w for Z; NaN without finite weights."""
    if not log_weights.size or not np.isfinite(log_mean_exp(log_weights)):
        return np.nan
    lack = -np.expm1(log_weights - log_mean_exp(log_weights))
    return float(np.maximum(lack, 0.0).mean())


@once
def refuting_path(read: Reading) -> str:
    """Return the name of the path whose scouts refute the runs on the real data, if any."""
    runs = read.real_log_weights
    others = {path: each for path, each in read.scouts.items() if path != read.path}
    refuting = (path for path, each in others.items() if _exceeds(each, runs))
    return next(refuting, "") if runs.size else ""


def _exceeds(higher: np.ndarray, lower: np.ndarray) -> bool:
    """Return whether one way comes higher than another by more than chance explains."""
    if refutes(higher, lower, 0.998):  # chosen
        return True
    if higher.size < ENOUGH or not np.isfinite(lower).any():
        return False
    above, below = jarzynski_forward(higher), jarzynski_forward(lower)
    return above.valid and above.value - below.value > FAR * np.hypot(above.error, below.error)


def two_paths(read: Reading) -> Iterator[Finding]:
    """Report the path that refutes these runs."""
    if path := refuting_path(read):
        text = (
            f"A few runs on path {path!r} give a higher log ML than these, by more than chance "
            "explains, so these miss part of the posterior."
        )
        own, remedy = read.scouts.get(read.path), NO_REMEDY
        if own is not None and not refutes(read.scouts[path], own):
            remedy = LONGER  # the path of the runs is as good as the other
        elif path in PATHS:
            remedy = Remedy(f"pass path={path!r}.")
        yield Finding("two paths", "bad", text, remedy)


@once
def short_on_simulated(read: Reading) -> float:
    """Estimate how much of log ML all runs on the real data may miss, in nats (RMS, at least 0).

    Reverse runs show what forward runs miss, even if all forward weights agree. By Crooks' relation
    forward runs visit a part of the posterior with probability s/r if it holds the share s and
    reverse runs from it have r times the weight Z. So if the real data are like a simulated set, K
    runs on them all miss this part with probability (1 − s/r)^K, and log Ẑ is then too low by
    log((1 − s/r)/(1 − s)). The mean square of this, over the data sets, is added to the variance of
    log ML. docs/method.md derives it.
    """
    if not (gaps := gaps_on_simulated(read)) or not read.sets_of("real"):
        return 0.0
    squares = [_mean_square(gap, read.real.forward.size) for gap in gaps]
    return max(float(np.sqrt(np.mean(squares))), _short_beyond(read))


@once
def gaps_on_simulated(read: Reading) -> list[float]:
    """Return log r of every simulated data set: log Ẑ of reverse runs less that of forward ones.

    Their standard error is taken off: it is noise that shows in the weights, and the standard
    error of runs on the real data contains theirs. Fewer than 5 data sets show nothing; chosen.
    """
    pairs = [(each.forward, each.reverse) for each in read.sets_of("simulated")]
    enough = len(pairs) >= 5 and min(pair[0].size for pair in pairs) >= 2
    return [_gap(*pair) for pair in pairs] if enough else []


def _gap(forward: np.ndarray, reverse: np.ndarray) -> float:
    ends = jarzynski_forward(forward), jarzynski_reverse(reverse)
    with np.errstate(invalid="ignore"):  # weights of zero on both sides
        gap = np.nan_to_num(ends[1].value - ends[0].value)
    return float(gap - np.linalg.norm(np.nan_to_num([each.error for each in ends])))


def _mean_square(gap: float, runs: int) -> float:
    """Return the mean square of what this many runs miss if the data are like those with a gap."""
    # Reverse runs start in a part with the probability of its share. If all shares are equally
    # probable, they start in half of these parts, so each that is seen counts twice.
    visited = SHARES * np.exp(-max(gap, 0.0))
    missed = np.log1p(-visited) - np.log1p(-SHARES)
    return float(2 * np.mean((1 - visited) ** runs * missed**2))


def _short_beyond(read: Reading) -> float:
    """Return the nats that the spread of runs shows on simulated data, but not on the real data.

    If runs agree much better on the real data than on simulated ones, these are harder, or all runs
    miss the same part of the real posterior, which some find on simulated data. If the data contain
    the real ones, and the draws behind them miss that part, no reverse run starts there.
    """
    found, real = certified_total_variation(read), _mean_lack(read.real_log_weights)
    if found is None or not real < 1:
        return 0.0
    others = read.side("forward").chains - found.islands + 1
    # The total variation on simulated data is of means of few weights, whose spread is that of
    # single weights times a known factor.
    excess = found.value - np.sqrt(1 / found.islands + 1 / others) * real
    error = clustered_mean(found.terms[:, None])[1]
    return float(-np.log1p(-min(excess, 0.999))) if excess > 2 * error else 0.0


@once
def sign_of_a_miss(read: Reading) -> str:
    """Say why all runs on the real data may miss the same part, and a remedy; empty without a sign.

    Such a part shows neither in the effective sample size nor in the differences between runs.
    Simulated data measure what runs miss, except at small scales of centred effects, at which no
    reverse run may start. docs/method.md says what refusing such runs costs.
    """
    is_fitted = read.has("real") and read.path == "fitted"
    if is_fitted and (names := read.unreached):
        sign = f"runs start at a fit, which does not reach small scales of the centred {names}"
        ways = [Remedy(f"write {names} non-centred")]
    elif gaps_on_simulated(read) or not read.has("real"):
        return ""
    else:
        of_fit = _sign_of_the_fit(read) if is_fitted else ""
        if not (sign := of_fit or _sign_of_the_kernel(read)):
            return ""
        ways = [Remedy("simulate data to measure it")]
        if read.centred_effects:
            if not of_fit:  # a fit that reaches them is the same non-centred
                ways.insert(0, Remedy(f"write {read.centred_effects} non-centred"))
        elif is_fitted:
            ways.insert(0, Remedy('use path="prior"'))
    return f"{sign}, so all runs may miss the same part: {', or '.join(ways)}"


def _sign_of_the_fit(read: Reading) -> str:
    """Say why the fit where runs start may miss part of the posterior."""
    real = read.side("real")
    anneals, shape = real.n_temperatures > 1, float(read.heavy_tail)
    if not anneals and read.has("particles"):
        shape = shape_of_weights(read.last_particles.weights.ravel())
    if shape > (KNOWN_TAIL if read.knows_tails else HEAVY_TAIL):
        return f"the fit has too little mass in part of the posterior (Pareto k {shape:.2g})"
    # Two places do not mix, and the fit has both.
    mixes = not anneals or read.peaks or not real.pilot_rhat > MAX_RHAT
    return "" if mixes else f"the pilot behind the fit did not mix (R̂ {real.pilot_rhat:.2f})"


def _sign_of_the_kernel(read: Reading) -> str:
    """Say why transitions may not reach part of the posterior."""
    # Rejections at a hard constraint count as divergences, so these alone are no sign.
    real = read.side("real")
    share, rhat = real.divergent_share, real.pilot_rhat
    if share <= MOST_DIVERGENT:
        return ""
    sign = f"{share:.1%} of the transitions diverged"
    if read.centred_effects:
        return f"{sign}, with {read.centred_effects} centred"
    return f"{sign} and the pilot did not mix (R̂ {rhat:.2f})" if rhat > MAX_RHAT else ""
