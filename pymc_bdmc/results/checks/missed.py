"""Estimate what all runs on the real data may miss: from simulated data, or from signs of it."""

import numpy as np

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import clustered_mean, log_mean_exp
from pymc_bdmc.estimators.tails import shape_of_weights
from pymc_bdmc.results.certified import certified_total_variation
from pymc_bdmc.results.checks.real_weights import mean_lack
from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.reading import Reading, once

FEWEST_TO_JUDGE = 5
"""Fewest simulated data sets from which the share that forward runs miss is estimated."""
MOST_SHORT = 3.0
"""Largest shortfall of one data set, in nats: two runs a direction cannot tell 95 % from 100 %."""
LEAST_EVIDENCE = 0.9
"""Standard errors by which mean squares must lie above 0 to widen an error; chosen. A single data
set that exceeds all others by far lies 1 above 0, however large it is."""
NORMAL_RATIO = 1.18
"""Mean over median of |z| for a normal z."""
OUTLYING = 5.0
"""Standard deviations above the mean from which a reverse run stands out; of 40 normal ones, one in
100,000 calls has such a run."""

MOST_DIVERGENT = 0.01
"""Largest share of divergent transitions that is no sign of a miss; measured, as the others."""
HEAVY_TAIL, KNOWN_TAIL = 0.5, 0.6
"""Largest Pareto k of the weights of draws from a fit that is no sign of a miss. Above 0.5 their
variance does not exist, and so no standard error. If the tails of the fit follow from the model's
structure, a somewhat larger one is no sign either: k of 1536 weights varies by 0.1."""


@once
def short_on_simulated(read: Reading) -> float:
    """Estimate how far forward averages fall below log Z on simulated data, in nats (RMS).

    Reverse runs show what forward runs miss, even if all forward weights agree. With weights v, v′
    of forward runs and w of reverse runs on one data set, E(1 − v/w)₊ = E|v − v′|/(2Z) by Crooks'
    relation if nothing is missed. So the mean of (1 − v/w)₊ over all pairs, less that of
    |v − v′|/(v + v′) on a usual data set, estimates the share s of the posterior that forward runs
    do not reach, and log Ẑ is too low by −log(1 − s). If the real data are like the simulated ones,
    the same applies to them, and the mean square of this shortfall is added to the variance of
    their log ML. Squares are of −log(1 − |s|) and keep the sign of s, so that noise cancels on
    average.

    With two runs a direction noise would be most of the stated error. So nothing is added unless
    the mean of the squares lies above 0 by `LEAST_EVIDENCE` standard errors, or transitions
    diverge. If a reverse run lies far above all that the spread of forward runs explains, or if the
    fit where runs start may miss something (see `sign_of_a_miss`), all positive squares count.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`.

    Returns
    -------
    float
        Nats, at least 0; also 0 with fewer than `FEWEST_TO_JUDGE` simulated data sets.
    """
    if not (pairs := simulated_pairs(read)):
        return 0.0
    return max(_short_of(read, pairs), _short_beyond(read) if read.contains_real else 0.0)


def _short_beyond(read: Reading) -> float:
    """Return the nats that runs lack on data that contain the real ones, but not on these alone.

    If the draws behind the data miss a part of the posterior, no reverse run starts there. But runs
    on more data then differ more from each other than those on the real data, since some find it.
    It counts if the total variation on simulated data exceeds that of the weights on the real data
    by more than two standard errors.
    """
    found, real = certified_total_variation(read), mean_lack(read.real_log_weights)
    if found is None or not real < 1:
        return 0.0
    excess, error = found.value - real, clustered_mean(found.terms[:, None])[1]
    return float(-np.log1p(-min(excess, 0.999))) if excess > 2 * error else 0.0


def _short_of(read: Reading, pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return how far forward runs fall short of reverse ones, a root mean square in nats."""
    missed = _shares_missed(pairs)
    with np.errstate(divide="ignore"):
        shortfall = np.minimum(-np.log1p(-np.minimum(np.abs(missed), 1.0)), MOST_SHORT)
    squares = np.sign(missed) * shortfall**2
    if _sign_of_the_fit(read) or _stands_out(pairs):
        return float(np.sqrt(np.mean(np.maximum(squares, 0.0))))
    mean, error = np.mean(squares), np.std(squares, ddof=1) / np.sqrt(len(squares))
    counts = mean > LEAST_EVIDENCE * error or _sign_of_the_kernel(read)
    return float(np.sqrt(max(mean, 0.0))) if counts else 0.0


def _stands_out(pairs: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Return whether a reverse run lies far above the forward runs on its data set.

    If log weights are normal with variance σ², log w − log Ẑ of two forward runs has a mean of σ²
    and a variance of 3σ²/2. σ² is that of the forward runs, on average over data sets.
    """
    with np.errstate(invalid="ignore"):  # −∞, a weight of zero
        variance = np.mean([np.var(forward, ddof=1) for forward, _ in pairs])
        highest = max(reverse.max() - log_mean_exp(forward) for forward, reverse in pairs)
        return bool(highest > variance + OUTLYING * np.sqrt(1.5 * variance))


@once
def simulated_pairs(read: Reading) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return forward and reverse log weights of every simulated data set; none if they are few."""
    pairs = [(each.forward, each.reverse) for each in read.sets_of("simulated")]
    enough = len(pairs) >= FEWEST_TO_JUDGE and min(pair[0].size for pair in pairs) >= 2
    return pairs if enough else []


def _shares_missed(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the mean of (1 − v/w)₊ on every data set, less the usual mean of |v − v′|/(v + v′).

    The usual mean is that over data sets, or `NORMAL_RATIO` times their median if that is less. A
    forward run that finds a part which the others miss lies far from these, and would otherwise
    hide what is missed.
    """
    seen, apart = np.array([(_seen(*pair), _apart(pair[0])) for pair in pairs]).T
    return seen - min(np.mean(apart), NORMAL_RATIO * np.median(apart))


def _seen(forward: np.ndarray, reverse: np.ndarray) -> float:
    """Return the mean of (1 − v/w)₊ over all pairs."""
    with np.errstate(invalid="ignore"):  # two weights of zero are equal
        return float(np.mean(np.nan_to_num(-np.expm1(np.minimum(forward[:, None] - reverse, 0)))))


def _apart(forward: np.ndarray) -> float:
    """Return the mean of |v − v′|/(v + v′) over all pairs."""
    first, second = np.triu_indices(forward.size, 1)
    with np.errstate(invalid="ignore"):  # two weights of zero are equal
        apart = np.nan_to_num(np.abs(forward[first] - forward[second]), posinf=np.inf)
    return float(np.mean(np.tanh(apart / 2)))


@once
def sign_of_a_miss(read: Reading) -> Message | None:
    """Say why all runs on the real data may miss the same part of the posterior, and a remedy.

    Such a part shows neither in the effective sample size nor in the differences between runs. The
    signs are that draws from the fit have weights with a heavy tail, or do not reach small scales
    of centred effects; that the pilot did not mix, if runs are annealed from a fit; and that more
    than a few transitions diverge, if effects are centred or the pilot did not mix.
    docs/method.md says what refusing them costs.
    """
    of_fit = _sign_of_the_fit(read)
    if not (sign := of_fit or _sign_of_the_kernel(read)):
        return None
    ways = [message("simulate to measure")]
    if read.centred_effects:
        if read.unreached or not of_fit:  # a fit that reaches them is the same non-centred
            ways.insert(0, message("only non-centred", names=read.centred_effects))
    elif _is_fitted(read):
        ways.insert(0, message("use path", path="prior"))
    return message("may miss", sign=sign, ways=message("any of", parts=ways))


def _is_fitted(read: Reading) -> bool:
    """Return whether runs on the real data start at a fit."""
    return read.has("real") and read.path == "fitted"


@once
def _sign_of_the_fit(read: Reading) -> Message | None:
    """Say why the fit where runs start may miss part of the posterior."""
    if not _is_fitted(read):
        return None
    limit = KNOWN_TAIL if read.knows_tails else HEAVY_TAIL
    if (shape := _shape_of_fit(read)) > limit:
        return message("heavy tail", shape=shape)
    if read.unreached:
        return message("unreached", names=read.unreached)
    if not _anneals(read) or read.peaks:  # two places do not mix, and the fit has both
        return None
    rhat = read.side("real").pilot_rhat
    return message("pilot of fit", rhat=rhat) if rhat > MAX_RHAT else None


@once
def _sign_of_the_kernel(read: Reading) -> Message | None:
    """Say why transitions may not reach part of the posterior.

    Rejections at a hard constraint count as divergences, so these alone are no sign.
    """
    share = read.side("real").divergent_share if read.has("real") else 0.0
    if share <= MOST_DIVERGENT:
        return None
    if read.centred_effects:
        return message("divergent and centred", share=share, names=read.centred_effects)
    rhat = read.side("real").pilot_rhat
    return message("divergent pilot", share=share, rhat=rhat) if rhat > MAX_RHAT else None


def _anneals(read: Reading) -> bool:
    """Return whether the runs on the real data have more than one temperature step."""
    return read.side("real").n_temperatures > 1


def _shape_of_fit(read: Reading) -> float:
    """Return Pareto k of weights of draws from the fit: of the runs if they do not anneal."""
    if not _anneals(read) and read.has("particles"):
        return shape_of_weights(read.last_particles.weights.ravel())
    return float(read.heavy_tail)
