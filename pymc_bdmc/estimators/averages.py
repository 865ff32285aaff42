"""Average weights of forward or reverse runs or expand log Z in their cumulants, with errors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtri

from pymc_bdmc.estimators.checks import (
    ROUNDING,
    Estimate,
    EvidenceDraws,
    check_average,
    checked_pair,
    checked_weights,
    effective_sample_size,
    log_mean_exp,
    log_sum_exp,
    skewness_of_mean,
    skewness_of_sum,
    student_factor,
    widening,
)

MAX_NEGLECTED = 0.5
"""Largest neglected terms of a valid expansion, in standard errors, for a coverage of 92 %."""


def jarzynski_forward(forward: ArrayLike) -> Estimate:
    """Average the forward weights, log Ẑ = log (1/K) Σ w_k, as in annealed importance sampling.

    This is Jarzynski's equality (Habeck 2017, Eq. 9; Neal 2001). The standard error by the delta
    method is sd(w) / (mean(w) √K). With γ the skewness of w, it is widened by the factor 1 + 1.08
    γ²/K + 1.21/K, so that ± 1.96 standard errors cover 95 % (Hall 1992, Sec. 2.6).

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats; may contain −∞.

    Returns
    -------
    Estimate
        Biased low by about var(w)/(2K mean(w)²). Valid if `check_average` is. Only the reverse
        direction can show large weights that no forward chain found.

    Raises
    ------
    ValueError
        If there are no weights or one is NaN.

    Examples
    --------
    >>> from pymc_bdmc.estimators import jarzynski_forward
    >>> round(jarzynski_forward([0.0, 0.1, -0.1]).value, 4)
    0.0033
    """
    log_weights = checked_weights(forward, "forward")
    check, k = check_average(log_weights), log_weights.size
    # var(w)/mean(w)² = (K/ESS − 1) K/(K − 1) with the unbiased variance
    error = np.sqrt(max(k / check.size - 1, 0.0) / (k - 1)) if check.size > 0 and k > 1 else np.nan
    error = float(error * student_factor(skewness_of_mean(log_weights), k))
    return Estimate(log_mean_exp(log_weights), error, "forward average", check.valid, check.reason)


def jarzynski_reverse(reverse: ArrayLike) -> Estimate:
    """Average the reciprocal reverse weights, log Ẑ = −log (1/K) Σ 1/w_k.

    This is the reverse AIS estimator (RAISE) of Burda, Grosse and Salakhutdinov (2015). See also
    Habeck (2017), Section 2. The standard error is by the delta method.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Biased high. Valid under the same check as `jarzynski_forward`.

    Raises
    ------
    ValueError
        If there are no weights or one is NaN.

    Examples
    --------
    >>> from pymc_bdmc.estimators import jarzynski_reverse
    >>> round(jarzynski_reverse([0.0, 0.1, -0.1]).value, 4)
    -0.0033
    """
    found = jarzynski_forward(-checked_weights(reverse, "reverse"))
    return replace(found, value=-found.value, method="reverse average")


def cumulant_forward(forward: ArrayLike) -> Estimate:
    """Estimate log Z by the forward cumulant expansion, ⟨log w⟩_f + var_f(log w)/2.

    See Habeck (2017), Eq. 12. The derivatives of K(t) = log E_f[wᵗ] at 0 are the cumulants κ₁, κ₂,
    … of log w, and this is the Taylor polynomial of log Z = K(1). Its remainder is K‴(t)/6 at some
    t between 0 and 1, which is zero for Gaussian work and otherwise about κ₃/6 if K‴ is nearly
    constant. The standard error is by the delta method and does not assume Gaussian work. It is the
    spread of d + d²/2 over the chains, with d = log w − ⟨log w⟩, widened as in `jarzynski_forward`.
    The first neglected terms, ``|κ̂₃|/6 + |κ̂₄|/24``, are added in quadrature, since the bias may be
    as large as the noise.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are at least 50 chains, whose log weights differ and have a variance of at
        most 1 nat² and a skewness of at most 1, and if the neglected terms are at most the standard
        error without them. NaN for a single chain or if a weight is zero, since the cumulants do
        not exist then.

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or +∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_forward
    >>> round(cumulant_forward([0.0, 1.0, -1.0]).value, 6)
    0.5
    """
    log_weights, method = checked_weights(forward, "forward"), "cumulant forward"
    if undefined := _undefined(method, log_weights):
        return undefined
    mean, variance, third, fourth = _cumulants(log_weights)
    chains, fewest = log_weights.size, 50  # fewer cannot show that work is Gaussian
    noise, asymmetry = _influence(log_weights, 1.0, 0.5)
    noise *= student_factor(asymmetry, chains)
    neglected = abs(third) / 6 + abs(fourth) / 24
    skewness = abs(third) / variance**1.5 if variance > 0 else 0.0
    # Beyond these limits Gaussian work cannot be verified: with more skewness, errors of κ̂₃ and of
    # the estimate are correlated, and samples that look Gaussian are those that missed the tail.
    is_gaussian = variance <= 1.0 and skewness <= 1.0 and neglected <= noise
    valid = chains >= fewest and np.ptp(log_weights) > ROUNDING and is_gaussian
    reason = (
        f"neglected terms about {neglected:.2g} nats, variance {variance:.2g} nats², skewness "
        f"{skewness:.2f}, {_enough(chains, fewest)}"
    )
    error = float(np.hypot(noise, neglected))
    return Estimate(float(mean + 0.5 * variance), error, method, bool(valid), reason)


def cumulant_reverse(reverse: ArrayLike) -> Estimate:
    """Estimate log Z by the reverse cumulant expansion, ⟨log w⟩_r − var_r(log w)/2.

    This is Eq. 12 of Habeck (2017) in the reverse direction. For the error and the check, see
    `cumulant_forward`.

    Parameters
    ----------
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or −∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_reverse
    >>> round(cumulant_reverse([0.0, 1.0, -1.0]).value, 6)
    -0.5
    """
    found = cumulant_forward(-checked_weights(reverse, "reverse"))
    return replace(found, value=0.0 - found.value, method="cumulant reverse")  # not −0


def cumulant_combined(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Estimate log Z by the two-sided expansion, (⟨log w⟩_f + ⟨log w⟩_r)/2 + (var_f − var_r)/12.

    See Habeck (2017), Eq. 13. By Crooks' relation K(t) = log E_f[wᵗ] gives the forward cumulants at
    t = 0 and the reverse cumulants at t = 1. The estimate is the Euler-Maclaurin rule for log Z =
    ∫₀¹ K′(t) dt. The third and fourth cumulants cancel, and the remainder is the fifth derivative
    of K at some t between 0 and 1, divided by 720. The standard error is by the delta method.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are at least 20 chains per direction and two estimates of the neglected terms
        are at most half a standard error. One is the next term of the rule, (κ₄,r − κ₄,f)/720. The
        other is a twelfth of the error of the rule applied to K″, ``|⟨log w⟩_r − ⟨log w⟩_f − (var_f
        + var_r)/2|/12``. NaN for a single chain or if a weight is infinite.

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_combined
    >>> round(cumulant_combined([0.0, 1.0, -1.0], [2.0, 3.0, 1.0]).value, 6)
    1.0
    """
    forward, reverse = checked_pair(forward, reverse)
    method = "cumulant combined"
    if undefined := _undefined(method, forward, reverse):
        return undefined
    mean_f, var_f, _, fourth_f = _cumulants(forward)
    mean_r, var_r, _, fourth_r = _cumulants(reverse)
    value = (mean_f + mean_r) / 2 + (var_f - var_r) / 12
    error = np.hypot(_influence(forward, 0.5, 1 / 12)[0], _influence(reverse, 0.5, -1 / 12)[0])
    # The same rule applied to K″ must give ⟨log w⟩_r − ⟨log w⟩_f. A difference shows work that
    # neither end sees; divided by 12 it enters log Z as a variance does.
    hidden = abs(mean_r - mean_f - (var_f + var_r) / 2) / 12
    neglected = max(hidden, abs(fourth_r - fourth_f) / 720)
    chains, fewest = min(forward.size, reverse.size), 20
    valid = chains >= fewest and neglected <= MAX_NEGLECTED * error
    reason = f"neglected terms about {neglected:.2g} nats, {_enough(chains, fewest)}"
    return Estimate(float(value), float(error), method, bool(valid), reason)


def _enough(chains: int, needed: int) -> str:
    return f"{chains} chains" + (f" where {needed} are needed" if chains < needed else "")


def _cumulants(log_weights: np.ndarray) -> tuple[float, float, float, float]:
    """Return the first four cumulants, of which the second is unbiased."""
    mean, variance = log_weights.mean(), log_weights.var(ddof=1)
    deviation = log_weights - mean
    return mean, variance, np.mean(deviation**3), np.mean(deviation**4) - 3 * variance**2


def _influence(log_weights: np.ndarray, linear: float, quadratic: float) -> tuple[float, float]:
    """Return standard error and skewness of linear · mean + quadratic · variance over chains."""
    n, deviation = log_weights.size, log_weights - log_weights.mean()
    influence = linear * deviation + quadratic * deviation**2
    influence -= influence.mean()
    error = np.sqrt(np.sum(influence**2) / n / (n - 1))
    return float(error), skewness_of_sum(influence)


def _undefined(method: str, *sides: np.ndarray) -> Estimate | None:
    """Return an estimate that is NaN if the cumulants of a direction do not exist."""
    if not all(np.isfinite(side).all() for side in sides):
        return Estimate(np.nan, np.nan, method, False, "zero weights have no cumulants")
    if min(side.size for side in sides) < 2:
        return Estimate(np.nan, np.nan, method, False, "one chain has no variance")
    return None


@dataclass(frozen=True)
class WeightedAverage:
    """Posterior average of one or many variables.

    Attributes
    ----------
    value, error : ndarrays
        Average and standard error, in the units and with the shape of the variable.
    effective_sample_size : float
    valid : bool
        Whether the weights pass `check_average`.
    reason : str
        What the check found.
    """

    value: np.ndarray
    error: np.ndarray
    effective_sample_size: float
    valid: bool
    reason: str


def weighted_average(log_weights: ArrayLike, values: ArrayLike) -> WeightedAverage:
    """Average a variable over the posterior, by the weighted last states of forward chains.

    By Crooks' relation ⟨x⟩_posterior = ⟨w x⟩_f / ⟨w⟩_f for a variable x (Favaro et al. 2015, Eq.
    11). With u the normalised weights, the standard error of this ratio by the delta method is
    √(n/(n−1) Σ u²(x − x̄)²), which is derived here.

    Parameters
    ----------
    log_weights : array_like of shape (n,)
        Forward log weights, nats; may contain −∞.
    values : array_like of shape (n, ...)
        The variable in the last state of each chain.

    Returns
    -------
    WeightedAverage
        NaN and not valid if every weight is zero.

    Raises
    ------
    ValueError
        If there are no weights, one is NaN or +∞, or the lengths differ.

    Examples
    --------
    >>> from pymc_bdmc.estimators import weighted_average
    >>> round(float(weighted_average([0.0, 1.0], [0.0, 1.0]).value), 4)
    0.7311
    """
    log_weights, values = checked_weights(log_weights, "forward"), np.asarray(values, dtype=float)
    n = log_weights.size
    if values.shape[:1] != (n,):
        raise ValueError(f"{n} log weights do not fit values of shape {values.shape}.")
    check = check_average(log_weights)
    if check.size == 0:
        missing = np.full(values.shape[1:], np.nan)
        return WeightedAverage(missing, missing, 0.0, False, check.reason)
    weights = np.exp(log_weights - log_weights.max())
    weights = (weights / weights.sum()).reshape(n, *[1] * (values.ndim - 1))
    values = np.where(weights > 0, values, 0.0)  # states of zero weight may be infinite
    average = np.sum(weights * values, axis=0)
    factor = n / (n - 1) if n > 1 else np.nan
    error = np.sqrt(factor * np.sum((weights * (values - average)) ** 2, axis=0))
    return WeightedAverage(average, error, check.size, check.valid, check.reason)


@dataclass(frozen=True)
class Reweighted:
    """Result of `reweighted_evidence`.

    Attributes
    ----------
    log_weights : ndarray of shape (K,)
        Log weights of the runs under the new model, nats. Their average is unbiased for Z_new.
    log_z : Estimate
        Estimate of log Z_new.
    log_ratio : Estimate
        Estimate of log(Z_new/Z_old) from the same runs. Its error is smaller if the two averages
        are correlated.

    Examples
    --------
    >>> from pymc_bdmc.estimators import reweighted_evidence
    >>> found = reweighted_evidence([[0.7, 0.7]] * 2, [[0.5, 0.5]] * 2, [-1.0, -1.1])
    >>> found.log_weights.round(3).tolist()
    [-0.3, -0.4]
    """

    log_weights: np.ndarray
    log_z: Estimate
    log_ratio: Estimate


def reweighted_evidence(
    log_ratios: ArrayLike, shares: ArrayLike, log_weights: ArrayLike
) -> Reweighted:
    """Estimate log Z of a new model by reweighting the particles of runs on an old model.

    The estimate (1/K) Σ_k Ẑ_k Σ_i W_ki f_new(θ_ki)/f_old(θ_ki) of Z_new is unbiased if f_old > 0
    wherever f_new > 0. This holds for any schedule, since the particles of a run are properly
    weighted by Ẑ_k W_ki (Del Moral, Doucet and Jasra 2006, Section 2). Particles of one run are
    dependent, so errors are those of an average over K independent runs.

    Parameters
    ----------
    log_ratios : array_like of shape (K, N)
        log f_new(θ_ki) − log f_old(θ_ki), nats; −∞ if f_new is zero.
    shares : array_like of shape (K, N)
        Weights W_ki within each run, which add up to 1.
    log_weights : array_like of shape (K,)
        log Ẑ_k of the runs, nats; may contain −∞.

    Returns
    -------
    Reweighted
        Not valid if the averages of either model fail `check_average`. Pareto k of the weights of
        the particles would show a small overlap of the two models. It is not checked here.

    Raises
    ------
    ValueError
        If a log ratio is NaN or +∞ at a particle that has weight, or as `jarzynski_forward` does.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import reweighted_evidence
    >>> rng = np.random.default_rng(1)
    >>> theta = rng.normal(size=(16, 100))  # exact draws, so that every log weight is 0
    >>> log_ratios = np.log(2) - 1.5 * theta**2  # from N(0, 1) to N(0, 1/4)
    >>> weights = rng.normal(0, 0.01, 16)
    >>> found = reweighted_evidence(log_ratios, np.full((16, 100), 0.01), weights)
    >>> bool(abs(found.log_z.value) < 3 * found.log_z.error)
    True
    """
    log_weights = checked_weights(log_weights, "forward")
    log_ratios, shares = np.asarray(log_ratios, float), np.asarray(shares, float)
    seen = (shares > 0) & np.isfinite(log_weights)[:, None]
    if not (log_ratios[seen] < np.inf).all():
        raise ValueError("log_ratios: one is NaN or +∞ at a particle that has weight.")
    with np.errstate(divide="ignore"):  # particles of weight zero, and runs without any
        # With b, `logsumexp` divides by the share of the largest ratio, which may overflow.
        log_terms = np.where(seen, log_ratios, -np.inf) + np.log(shares)
        new = log_weights + logsumexp(log_terms, axis=1)
    return Reweighted(new, jarzynski_forward(new), log_ratio_of_averages(new, log_weights))


def log_ratio_of_averages(above: ArrayLike, below: ArrayLike) -> Estimate:
    """Estimate the logarithm of the ratio of two averages of weights over the same runs.

    With u and v the normalised weights, the standard error by the delta method is √(K/(K−1) Σ (u_k
    − v_k)²), which is derived here. It is widened for skewness, as in `jarzynski_forward`.

    Parameters
    ----------
    above, below : array_like of shape (K,)
        Log weights of the same runs, nats; may contain −∞.

    Returns
    -------
    Estimate
        Valid if both averages pass `check_average`. NaN and not valid if every weight of one of
        them is zero.

    Raises
    ------
    ValueError
        If the lengths differ, or a log weight is NaN or +∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import log_ratio_of_averages
    >>> found = log_ratio_of_averages([1.0, 2.0], [0.0, 1.0])
    >>> round(found.value, 6), round(found.error, 6)
    (1.0, 0.0)
    """
    pair = [checked_weights(each, "forward") for each in (above, below)]
    k = pair[0].size
    if pair[1].size != k:
        raise ValueError(f"{k} log weights cannot be paired with {pair[1].size}.")
    checks = [check_average(each) for each in pair]
    if not all(check.size for check in checks):
        return Estimate(np.nan, np.nan, "log ratio", False, "every weight is zero")
    parts = np.subtract(*[np.exp(each - log_sum_exp(each)) for each in pair])
    error = widening(parts) * float(np.linalg.norm(parts)) if k > 1 else np.nan
    reasons = "; ".join(dict.fromkeys(check.reason for check in checks))
    value = log_mean_exp(pair[0]) - log_mean_exp(pair[1])
    return Estimate(value, error, "log ratio", all(check.valid for check in checks), reasons)


class PredictiveDensities(NamedTuple):
    """Log predictive densities of observations given the earlier ones, with errors, nats.

    Attributes
    ----------
    value, error : ndarray of shape (N,)
        log p(y_i | y_<i) and one standard error.
    cumulative, cumulative_error : ndarray of shape (N,)
        log p(y_1, …, y_i) and one standard error.
    valid : ndarray of bool, shape (N,)
        Whether the average over the runs up to each observation passes `check_average`.
    """

    value: np.ndarray
    error: np.ndarray
    cumulative: np.ndarray
    cumulative_error: np.ndarray
    valid: np.ndarray


def predictive_densities(log_weights: ArrayLike) -> PredictiveDensities:
    """Estimate the predictive density of every observation from forward runs, with errors.

    The weight of run k after observation i is w_ki = ∏_{j≤i} exp(log weight of j), and its average
    over the runs is an unbiased estimate of p(y_1, …, y_i) [1]_. The predictive density is the
    ratio of two of these averages. The runs are independent, so by the delta method the error of
    its logarithm is that of the mean of w_ki/w̄_i − w_k,i−1/w̄_i−1 over the runs. It is widened as
    in `jarzynski_forward`.

    Parameters
    ----------
    log_weights : array_like of shape (K, N)
        Part of the log weight of every run that each observation added, nats; may be −∞.

    Returns
    -------
    PredictiveDensities
        Densities whose values sum to the last ``cumulative``, the logarithm of the mean weight.

    References
    ----------
    .. [1] Chopin (2002), A sequential particle filter method for static models, Section 2.
       https://doi.org/10.1093/biomet/89.3.539

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import jarzynski_forward, predictive_densities
    >>> parts = np.random.default_rng(0).normal(-1, 0.1, (50, 4))
    >>> found = predictive_densities(parts)
    >>> bool(abs(found.value.sum() - jarzynski_forward(parts.sum(axis=1)).value) < 1e-10)
    True
    """
    parts = np.asarray(log_weights, dtype=float)
    if parts.ndim != 2 or not parts.size:
        raise ValueError(f"log_weights: shape (runs, observations) is needed, not {parts.shape}.")
    totals = np.cumsum(parts, axis=1)
    k = len(totals)
    cumulative = logsumexp(totals, axis=0) - np.log(k)
    with np.errstate(invalid="ignore"):  # where every weight is zero
        shares = np.exp(totals - cumulative)
        value = np.diff(cumulative, prepend=0.0)
    before = np.concatenate([np.ones((k, 1)), shares[:, :-1]], axis=1)
    widened = np.array([student_factor(skewness_of_mean(column), k) for column in totals.T])
    error, cumulative_error = (
        widened * np.std(each, axis=0, ddof=min(k - 1, 1)) / (np.sqrt(k) if k > 1 else np.nan)
        for each in (shares - before, shares)
    )
    valid = np.array([check_average(column).valid for column in totals.T])
    return PredictiveDensities(value, error, cumulative, cumulative_error, valid)


def bootstrap(
    estimator: Callable[..., Estimate],
    *log_weights: ArrayLike,
    replicates: int = 1000,
    random_seed: int | np.random.Generator | None = None,
) -> EvidenceDraws:
    """Estimate an estimator's error by resampling its chains.

    Each direction is resampled separately. Resampling cannot show regions that no chain has seen,
    so if an estimator's check fails, its bootstrap interval is too short as well.

    Parameters
    ----------
    estimator : function
        Function of one or two arrays of log weights that returns an `Estimate`, such as `bar`.
    *log_weights : array_like
        Arguments of the estimator, nats.
    replicates : int
    random_seed : int or Generator, optional

    Returns
    -------
    EvidenceDraws
        Draws whose estimate has the estimator's own value and check, with the standard deviation of
        the replicates as its error.

    Raises
    ------
    ValueError
        If there are fewer than 2 replicates, or as the estimator does.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import bootstrap, jarzynski_forward
    >>> forward = np.random.default_rng(0).normal(-0.02, 0.2, size=100)
    >>> round(bootstrap(jarzynski_forward, forward, random_seed=1).estimate.error, 2)
    0.02
    """
    if replicates < 2:
        raise ValueError("A bootstrap needs at least 2 replicates.")
    rng = np.random.default_rng(random_seed)
    arrays = [np.asarray(a, dtype=float).ravel() for a in log_weights]
    full = estimator(*arrays)
    values = np.array(
        [estimator(*(rng.choice(a, a.size) for a in arrays)).value for _ in range(replicates)]
    )
    error = float(values.std(ddof=1)) if np.isfinite(values).all() else np.nan
    estimate = Estimate(full.value, error, f"{full.method}, bootstrap", full.valid, full.reason)
    return EvidenceDraws(values, estimate)


@dataclass(frozen=True)
class ErrorAnalysis:
    """Analysis of the block averages L_M = log (1/M) Σ w of N weights.

    Attributes
    ----------
    estimate : Estimate
        L_N corrected for its bias, with its standard error σ̂(N).
    block_sizes : ndarray of shape (n_sizes,)
        Block sizes M, which are powers of two that leave at least 32 blocks.
    variance : ndarray of shape (n_sizes,)
        σ̂²(M), the variance of L_M over the blocks, nats².
    drift : ndarray of shape (n_sizes,)
        Ĉ(M, N), the mean of L_M minus L_N, nats. It is the visible part of the bias B(M) = C(M, N)
        + B(N).
    limits : tuple of float
        D̂−(N) and D̂+(N), which contain L_N − log Z with the requested probability, nats.
    curves : ndarray of shape (3, n_sizes)
        Three estimates of σ²(M), nats², from the spread of the blocks, from their bias, and from
        the variance of single weights. They agree if the central limit theorem applies.
    agreement : int or None
        Smallest M from which the curves agree. If it is None, the limits do not hold.
    mean_square_error : ndarray of shape (2, n_sizes)
        Lower and upper limit of E(L_M − log Z)², nats².
    """

    estimate: Estimate
    block_sizes: np.ndarray
    variance: np.ndarray
    drift: np.ndarray
    limits: tuple[float, float]
    curves: np.ndarray
    agreement: int | None
    mean_square_error: np.ndarray


def error_analysis(
    log_weights: ArrayLike, direction: str = "forward", *, probability: float = 0.95
) -> ErrorAnalysis:
    """Split the error of an exponential average into spread, visible and invisible bias.

    After Favaro et al. (2015), Eqs 26-43. The bias of a block average is B(M) = E[L_M] − log
    Z = C(M, N) + B(N). The drift C(M, N) = E[L_M] − E[L_N] is estimated by block means; B(N) is not
    visible. If the mean weight of a block is close to normal with relative variance φ/M, expanding
    the logarithm gives σ²(M) = φ/M and B(M) = −σ²(M)/2. In place of their Eq. 50, this is tested by
    comparing three estimates of σ²(M): the variance of the L_M, −2 times the bias Ĉ(M, N) −
    φ̂/(2N), and φ̂/M.

    The error of the given sample, D(N) = L_N − log Z (their Eq. 27), is random with mean B(N) =
    −φ/(2N) and variance φ/N. So it lies within D̂±(N) = −φ̂/(2N) ± z √(φ̂/N). Their limits (Eq. 29)
    come from an interval for Z that is symmetric about the mean weight, −log(1 ∓ z √(φ̂/N)) =
    ±z √(φ̂/N) + z² φ̂/(2N) + …, and are higher in second order. Weights are skewed to the right, so
    L_N is too low more often than too high, and the lower limits used here have better coverage.

    Parameters
    ----------
    log_weights : array_like of shape (N,)
        Log weights of one direction in the order of the chains, nats.
    direction : {"forward", "reverse"}
        Reverse weights are averaged as 1/w, and all signs except that of the estimate refer to
        log 1/Z.
    probability : float
        Probability of the limits.

    Returns
    -------
    ErrorAnalysis
        Its estimate is valid if the curves agree from some M on.

    Raises
    ------
    ValueError
        If there are fewer than 64 weights, all are zero, one is NaN or impossible, or the
        direction is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import error_analysis
    >>> forward = np.random.default_rng(0).normal(-0.02, 0.2, size=4096)
    >>> analysis = error_analysis(forward)
    >>> analysis.agreement
    1
    >>> abs(analysis.estimate.value) < 3 * analysis.estimate.error
    True
    """
    if direction not in ("forward", "reverse"):
        raise ValueError(f"direction must be 'forward' or 'reverse', not {direction!r}.")
    sign = 1 if direction == "forward" else -1
    values = sign * checked_weights(log_weights, direction)
    n, fewest = values.size, 32  # blocks; the variance over fewer is too noisy (25 %) to compare
    if n < 2 * fewest:
        raise ValueError(f"Block averages need {2 * fewest} chains or more, not {n}.")
    if not np.isfinite(values).any():
        raise ValueError(f"{direction}: every weight is zero.")

    total = log_mean_exp(values)
    relative_variance = max(n / effective_sample_size(values) - 1, 0.0) * n / (n - 1)
    blocks = {}
    for size in 2 ** np.arange(int(np.log2(n // fewest)) + 1):
        rows = values[: n // size * size].reshape(-1, size)
        averages = log_sum_exp(rows, axis=1) - np.log(size)
        if np.isfinite(averages).all():  # a small block may have zero weights only
            blocks[size] = averages
    sizes, counts = np.array(list(blocks)), np.array([a.size for a in blocks.values()])
    variance = np.array([a.var(ddof=1) for a in blocks.values()])
    drift = np.array([a.mean() for a in blocks.values()]) - total

    hidden, spread = -relative_variance / (2 * n), np.sqrt(relative_variance / n)
    z = ndtri((1 + probability) / 2)
    limits = (float(hidden - z * spread), float(hidden + z * spread))
    curves = np.array([variance, -2 * (drift + hidden), relative_variance / np.maximum(sizes, 1)])
    agreement = _first_agreement(sizes, counts, curves)
    biases = drift + np.array(limits)[:, None]
    smallest = np.where(np.prod(biases, axis=0) < 0, 0.0, np.abs(biases).min(axis=0))
    errors = variance + np.array([smallest, np.abs(biases).max(axis=0)]) ** 2
    found = f"curves agree from M = {agreement}" if agreement else "curves do not agree"
    method, reason = f"{direction} average, block analysis", f"{found}, {n} chains"
    value = float(sign * (total - hidden))
    estimate = Estimate(value, float(spread), method, agreement is not None, reason)
    return ErrorAnalysis(estimate, sizes, variance, drift, limits, curves, agreement, errors)


def _first_agreement(sizes, counts, curves) -> int | None:
    """Return the smallest block size from which the curves agree up to their noise and 15 %."""
    if sizes.size == 0:
        return None
    by_spread, by_bias, by_weights = curves
    noise_of_spread = by_spread * np.sqrt(2 / (counts - 1))
    noise_of_bias = 2 * np.sqrt(by_spread / counts)
    agree = np.abs(by_spread - by_weights) <= 2 * noise_of_spread + 0.15 * by_weights
    agree &= np.abs(by_bias - by_weights) <= 2 * noise_of_bias + 0.15 * by_weights
    agree &= by_weights <= 0.5  # beyond, the logarithm of a block's mean may not be expanded
    unbroken = np.logical_and.accumulate(agree[::-1])[::-1]  # from here to the largest M
    return int(sizes[np.argmax(unbroken)]) if unbroken[-1] else None
