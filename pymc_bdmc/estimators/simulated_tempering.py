"""Estimate log Z at every inverse temperature of a ladder, from simulated tempering.

In simulated tempering the state x and its place k on a ladder 0 = β_1 < … < β_K = 1 are drawn in
turn from p(x, k) ∝ r_k f_{β_k}(x)/Ẑ_k, with a guess Ẑ of the partition functions. The probability
of place k is then ∝ r_k Z_k/Ẑ_k, so the frequencies of visits correct the guess. Here r_k is
uniform; for any other r_k, pass log Ẑ_k − log r_k in place of log Ẑ_k.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax

from pymc_bdmc.estimators.checks import log_sum_exp
from pymc_bdmc.estimators.estimate import Estimate

MAX_RELATIVE_ERROR = 0.3
"""Largest relative error of the mean probabilities of the two ends. Beyond it, the delta method is
too inaccurate."""

MIN_CHAINS = 8
"""Smallest number of independent chains for a trusted standard error."""


@dataclass(frozen=True)
class LadderEstimate:
    """Estimates of log Z_k at every temperature of a ladder, relative to the first.

    Attributes
    ----------
    log_z : ndarray of shape (K,)
        Estimates, nats, of which the first is 0.
    error : ndarray of shape (K,)
        Standard errors from the spread of the chains.
    bias : ndarray of shape (K,)
        Leading order of E[log Ẑ_k] − log Z_k, which is not subtracted.
    estimate : Estimate
        Estimate at the last temperature.
    """

    log_z: np.ndarray
    error: np.ndarray
    bias: np.ndarray
    estimate: Estimate


def place_probabilities(
    log_likelihood: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> np.ndarray:
    """Return q(β_k | x) ∝ exp(β_k ℓ(x))/Ẑ_k, the distribution of the place given the state.

    Parameters
    ----------
    log_likelihood : array_like of shape (…,)
        ℓ of states, nats; −∞ is possible at β = 0 only.
    betas, log_z : array_like of shape (K,)
        The ladder and the guess log Ẑ_k.

    Returns
    -------
    ndarray of shape (…, K)

    Raises
    ------
    ValueError
        If the ladder and the guess differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import place_probabilities
    >>> place_probabilities([0.0, -np.inf], [0, 1], [0, 0])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    return softmax(_exponents(log_likelihood, betas, log_z), axis=-1)


def draw_places(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a place for every row of probabilities, of shape (n, K).

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import draw_places
    >>> draw_places(np.eye(3), np.random.default_rng(0))
    array([0, 1, 2])
    """
    uniforms = rng.random((len(probabilities), 1))
    places = (probabilities.cumsum(axis=1) < uniforms).sum(axis=1)
    return np.minimum(places, probabilities.shape[1] - 1)  # rounding may make the sum less than 1


def _exponents(log_likelihood, betas, log_z) -> np.ndarray:
    """Return β_k ℓ − log Ẑ_k, with 0 · (−∞) = 0."""
    ell, betas, log_z = (np.asarray(each, float) for each in (log_likelihood, betas, log_z))
    if betas.ndim != 1 or log_z.shape != betas.shape:
        raise ValueError(f"betas, log_z: the shapes {betas.shape} and {log_z.shape} differ.")
    with np.errstate(invalid="ignore"):
        return np.where(betas > 0, betas * ell[..., None], 0.0) - log_z


def rao_blackwellized(
    log_likelihood: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> LadderEstimate:
    """Estimate log Z_k by Rao-Blackwellized tempered sampling (RTS).

    The estimate is log Ẑ_k + log ĉ_k − log ĉ_1, with ĉ_k the mean of q(β_k | x) over the draws
    (Carlson, Stinson, Pakman and Paninski 2016). The chains are independent. Let σ be the
    covariance of their mean probabilities. By the delta method (their Eqs 15 and 16) the variance
    is σ_kk/c_k² + σ_11/c_1² − 2σ_1k/(c_1 c_k) and the bias is (σ_11/c_1² − σ_kk/c_k²)/2.

    Parameters
    ----------
    log_likelihood : array_like of shape (chains, draws)
        ℓ of all draws made with this guess, nats.
    betas, log_z : array_like of shape (K,)
        The ladder and the guess log Ẑ_k.

    Returns
    -------
    LadderEstimate
        Valid if at least 8 chains agree on the mean probabilities of the first and of the last
        place to 30 %.

    Raises
    ------
    ValueError
        If the array does not have two dimensions or contains NaN, or if the ladder and the guess
        differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import rao_blackwellized
    >>> found = rao_blackwellized(np.zeros((8, 10)), [0, 1], [0, 0.5])
    >>> float(found.log_z[1])
    0.0
    """
    log_c = log_mean_probabilities(log_likelihood, betas, log_z)
    chains = len(log_c)
    log_mean = log_sum_exp(log_c, axis=0) - np.log(chains)
    values = np.asarray(log_z) + log_mean
    # Deviations of c_k between chains relative to their mean, also if it underflows
    relative = np.exp(log_c - log_mean) - 1
    difference = relative - relative[:, :1]
    freedom = chains * (chains - 1)
    if chains > 1:
        error = np.sqrt(np.sum(difference**2, axis=0) / freedom)
        squares = np.sum(relative**2, axis=0) / freedom
        bias = (squares[0] - squares) / 2
        worst = float(np.sqrt(max(squares[0], squares[-1])))
    else:
        error = bias = np.full(len(values), np.nan)
        worst = np.nan
    values = values - values[0]
    estimate = Estimate(
        float(values[-1]),
        float(error[-1]),
        "RTS",
        bool(worst <= MAX_RELATIVE_ERROR and chains >= MIN_CHAINS),
        f"{chains} chains agree on the ends of the ladder to {100 * worst:.0f} %",
    )
    return LadderEstimate(values, error, bias, estimate)


def log_mean_probabilities(
    log_likelihood: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> np.ndarray:
    """Return the log of each chain's mean probability of each place, shape (chains, K)."""
    ell = checked_draws(log_likelihood)
    # One chain at a time, since all of q may not fit into memory.
    rows = []
    for row in ell:
        exponents = _exponents(row, betas, log_z)
        log_q = exponents - log_sum_exp(exponents, axis=1)[:, None]
        rows.append(log_sum_exp(log_q, axis=0))
    return np.array(rows) - np.log(ell.shape[1])


def checked_draws(log_likelihood: ArrayLike) -> np.ndarray:
    """Return draws of ℓ as an array, or raise an error if they are NaN or not two-dimensional."""
    ell = np.asarray(log_likelihood, dtype=float)
    if ell.ndim != 2 or ell.size == 0:
        raise ValueError(f"log_likelihood: expected (chains, draws), got the shape {ell.shape}.")
    if np.isnan(ell).any():
        raise ValueError("log_likelihood: some draws are NaN.")
    return ell


def sequential_likelihood(
    log_probabilities: ArrayLike, log_z: ArrayLike, draws: ArrayLike
) -> LadderEstimate:
    """Combine runs that were made with different guesses Ẑ.

    In run i a draw has place k with probability p_k⁽ⁱ⁾ ∝ Z_k/Ẑ_k⁽ⁱ⁾. The estimate maximises the
    concave function Σ_i n_i Σ_k ĉ_k⁽ⁱ⁾ log p_k⁽ⁱ⁾(Z) (Carlson et al. 2016, Appendix A). With a
    single run this is RTS. The error comes from the scores of the chains at the maximum (delta
    method).

    Parameters
    ----------
    log_probabilities : array_like of shape (runs, chains, K)
        Log of each chain's mean of q(β_k | x).
    log_z : array_like of shape (runs, K)
        The guesses log Ẑ_k⁽ⁱ⁾.
    draws : array_like of shape (runs,)
        Number of draws of one chain, in each run.

    Returns
    -------
    LadderEstimate
        Estimate whose bias is not known. Valid if there are at least 8 chains.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import sequential_likelihood
    >>> halves = np.log(np.full((2, 8, 2), 0.5))
    >>> found = sequential_likelihood(halves, [[0, 1.0], [0, 1.2]], [100, 100])
    >>> round(float(found.log_z[1]), 3)
    1.1
    """
    c = np.exp(np.asarray(log_probabilities, dtype=float))
    guesses, draws = np.asarray(log_z, dtype=float), np.asarray(draws, dtype=float)
    _, chains, K = c.shape
    counts = draws[:, None, None] * c  # expected visits by run, chain and place
    totals = counts.sum(axis=(1, 2))

    def expected(values):
        return softmax(values - guesses, axis=1)

    def objective(values):
        return np.sum(counts.sum(axis=1) * log_softmax(values - guesses, axis=1))

    values = np.average(guesses - guesses[:, :1], axis=0, weights=draws)
    for _ in range(200):
        p = expected(values)
        gradient = (counts.sum(axis=1) - totals[:, None] * p).sum(axis=0)
        step = _solve_ladder(_information(p, totals), gradient)
        size = 1.0 if np.abs(step).max() < 1 else 1 / np.abs(step).max()
        while size > 1e-8 and objective(values + size * step) < objective(values):
            size /= 2
        values = values + size * step
        if np.abs(step).max() < 1e-10:
            break
    p = expected(values)
    scores = (counts - draws[:, None, None] * p[:, None]).sum(axis=0)
    error = _clustered_error(_information(p, totals), scores)
    reason = f"{len(draws)} runs of {chains} chains"
    estimate = Estimate(
        float(values[-1]), float(error[-1]), "sequential likelihood", chains >= MIN_CHAINS, reason
    )
    return LadderEstimate(values, error, np.full(K, np.nan), estimate)


def mbar_error(
    log_likelihood: ArrayLike, places: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> np.ndarray:
    """Estimate standard errors of MBAR's log Z_k for correlated draws.

    MBAR solves Σ_n p_k(x_n) = N_k with p_k(x) ∝ N_k exp(β_k ℓ(x))/Z_k (Shirts and Chodera 2008).
    Given the N_k, the error comes from p_k minus its mean at the temperature of the draw. Sums over
    different chains are independent, which gives the covariance by the delta method. MBAR's own
    error assumes that all draws are independent.

    Parameters
    ----------
    log_likelihood, places : array_like of shape (chains, draws)
        ℓ, nats, and the index of the temperature at which the state was drawn.
    betas, log_z : array_like of shape (K,)
        The ladder and MBAR's solution.

    Returns
    -------
    ndarray of shape (K,)
        Standard errors, of which the first is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import mbar_error
    >>> rng = np.random.default_rng(0)
    >>> ell, places = rng.normal(size=(20, 100)), rng.integers(2, size=(20, 100))
    >>> mbar_error(ell, places, [0, 1], [0, 0.5]).shape
    (2,)
    """
    ell, places = checked_draws(log_likelihood), np.asarray(places)
    K = len(np.asarray(betas))
    counts = np.bincount(places.ravel(), minlength=K)
    with np.errstate(divide="ignore"):
        offsets = np.asarray(log_z) - np.log(counts)
    information, sums, by_place = np.zeros((K, K)), np.empty((len(ell), K)), np.zeros((K, K))
    for i, row in enumerate(ell):
        p = place_probabilities(row, betas, offsets)
        information += np.diag(p.sum(axis=0)) - p.T @ p
        sums[i] = p.sum(axis=0)
        np.add.at(by_place, places[i], p)
    expected = by_place / np.maximum(counts, 1)[:, None]
    visits = np.array([np.bincount(row, minlength=K) for row in places])
    return _clustered_error(information, visits @ expected - sums)


def _information(p: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the information matrix Σ_i n_i (diag(p) − p pᵀ)."""
    weighted = totals[:, None] * p
    return np.diag(weighted.sum(axis=0)) - weighted.T @ p


def _solve_ladder(information: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the first unknown fixed at 0, without changing places that have no visits."""
    solution = np.zeros(right.shape)
    solution[1:] = np.linalg.lstsq(information[1:, 1:], right[1:], rcond=1e-14)[0]
    return solution


def _clustered_error(information: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return standard errors from the scores of independent chains, of shape (chains, K)."""
    chains = len(scores)
    if chains < 2:
        return np.full(scores.shape[1], np.nan)
    influence = _solve_ladder(information, (scores - scores.mean(axis=0)).T)
    return np.sqrt(np.sum(influence**2, axis=1) * chains / (chains - 1))
