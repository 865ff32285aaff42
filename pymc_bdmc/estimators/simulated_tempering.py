"""Estimate log Z at every inverse temperature of a ladder, from simulated tempering.

In simulated tempering the state x and its place k on a ladder 0 = β_1 < … < β_K = 1 are drawn in
turn from p(x, k) ∝ r_k f_{β_k}(x)/Ẑ_k, with a guess Ẑ of the partition functions. The probability
of place k is then ∝ r_k Z_k/Ẑ_k, so the frequencies of visits correct the guess. Here r_k is
uniform; for any other r_k, pass log Ẑ_k − log r_k in place of log Ẑ_k.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax

from pymc_bdmc.estimators.checks import Estimate, log_sum_exp

MIN_CHAINS = 8
"""Smallest number of independent chains for a trusted standard error."""

Rule = Literal["riemann", "trapezoid", "corrected"]


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
        First order of E[log Ẑ_k] − log Z_k, which is not subtracted.
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
    values = values - values[0]
    # Deviations of c_k between chains relative to their mean, also if it underflows
    relative = np.exp(log_c - log_mean) - 1
    freedom = chains * (chains - 1) or np.nan  # a single chain shows no error
    error = np.sqrt(np.sum((relative - relative[:, :1]) ** 2, axis=0) / freedom)
    squares = np.sum(relative**2, axis=0) / freedom
    bias = (squares[0] - squares) / 2
    worst = float(np.sqrt(max(squares[0], squares[-1])))
    # With larger errors the delta method is too inaccurate.
    valid = bool(worst <= 0.3 and chains >= MIN_CHAINS)
    reason = f"{chains} chains agree on the ends of the ladder to {100 * worst:.0f} %"
    estimate = Estimate(float(values[-1]), float(error[-1]), "RTS", valid, reason)
    return LadderEstimate(values, error, bias, estimate)


def log_mean_probabilities(
    log_likelihood: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> np.ndarray:
    """Return the log of each chain's mean probability of each place, shape (chains, K)."""
    ell, rows = checked_draws(log_likelihood), []
    for row in ell:  # one chain at a time, since all of q may not fit into memory
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
    chains = c.shape[1]
    counts = draws[:, None, None] * c  # expected visits by run, chain and place
    visits, totals = counts.sum(axis=1), counts.sum(axis=(1, 2))

    def objective(values):
        return np.sum(visits * log_softmax(values - guesses, axis=1))

    values = np.average(guesses - guesses[:, :1], axis=0, weights=draws)
    for _ in range(200):
        p = softmax(values - guesses, axis=1)
        gradient = (visits - totals[:, None] * p).sum(axis=0)
        step = _solve_ladder(_information(p, totals), gradient)
        size = 1.0 if np.abs(step).max() < 1 else 1 / np.abs(step).max()
        while size > 1e-8 and objective(values + size * step) < objective(values):
            size /= 2
        values = values + size * step
        if np.abs(step).max() < 1e-10:
            break
    p = softmax(values - guesses, axis=1)
    scores = (counts - draws[:, None, None] * p[:, None]).sum(axis=0)
    error = _clustered_error(_information(p, totals), scores)
    method, reason = "sequential likelihood", f"{len(draws)} runs of {chains} chains"
    estimate = Estimate(float(values[-1]), float(error[-1]), method, chains >= MIN_CHAINS, reason)
    return LadderEstimate(values, error, np.full(len(values), np.nan), estimate)


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
    K = np.size(betas)
    counts = np.bincount(places.ravel(), minlength=K)
    with np.errstate(divide="ignore"):
        offsets = np.asarray(log_z) - np.log(counts)
    information, sums, by_place = np.zeros((K, K)), np.empty((len(ell), K)), np.zeros((K, K))
    for i, row in enumerate(ell):
        p = place_probabilities(row, betas, offsets)
        information += _information(p)
        sums[i] = p.sum(axis=0)
        np.add.at(by_place, places[i], p)
    expected = by_place / np.maximum(counts, 1)[:, None]
    visits = np.array([np.bincount(row, minlength=K) for row in places])
    return _clustered_error(information, visits @ expected - sums)


def _information(p: np.ndarray, totals: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the information matrix Σ_i n_i (diag(p_i) − p_i p_iᵀ) of n_i draws each."""
    weighted = np.reshape(totals, (-1, 1)) * p
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


def integrate_path(
    betas: ArrayLike, mean: ArrayLike, variance: ArrayLike, rule: Rule = "trapezoid"
) -> np.ndarray:
    """Integrate m(β) = E_β[ℓ] over β, by one of three rules.

    Since m grows with slope v(β) = Var_β[ℓ], left Riemann sums are too low. The slopes also correct
    the trapezoid rule, to Δ(m_k + m_{k+1})/2 − Δ²(v_{k+1} − v_k)/12 (Friel, Hurn and Wyse 2014).

    Parameters
    ----------
    betas : array_like of shape (K,)
    mean, variance : array_like of shape (…, K)
        Mean and variance of ℓ at each β.
    rule : {"riemann", "trapezoid", "corrected"}

    Returns
    -------
    ndarray of shape (…,)
        Nats.

    Raises
    ------
    ValueError
        If the rule is unknown.

    Examples
    --------
    >>> from pymc_bdmc.estimators import integrate_path
    >>> float(integrate_path([0, 0.5, 1], [0, 1, 2], [1, 1, 1], "trapezoid"))
    1.0
    """
    mean, variance, width = np.asarray(mean), np.asarray(variance), np.diff(betas)
    if rule == "riemann":
        return mean[..., :-1] @ width
    if rule not in ("trapezoid", "corrected"):
        raise ValueError(f"rule: {rule!r} is none of 'riemann', 'trapezoid' and 'corrected'.")
    total = (mean[..., 1:] + mean[..., :-1]) @ width / 2
    if rule == "corrected":
        total = total - np.diff(variance, axis=-1) @ width**2 / 12
    return total


def thermodynamic_integration(
    log_likelihood: ArrayLike,
    betas: ArrayLike,
    *,
    places: ArrayLike | None = None,
    log_z: ArrayLike | None = None,
    rule: Rule = "trapezoid",
) -> Estimate:
    """Integrate the mean log likelihood of draws from simulated tempering.

    With ``places``, m_k is the mean over the draws made at β_k. With ``log_z``, every draw is
    weighted by its probability q(β_k | x) (Rao-Blackwellized TI-RB of Carlson et al. 2016). The
    error is by the jackknife over chains. It does not include the error of the rule, which is
    judged by the difference from the corrected trapezoid rule.

    Parameters
    ----------
    log_likelihood : array_like of shape (chains, draws)
        ℓ, nats.
    betas : array_like of shape (K,)
        The ladder.
    places : array_like of shape (chains, draws), optional
        Index of the temperature at which each state was drawn.
    log_z : array_like of shape (K,), optional
        The guess log Ẑ_k of the run.
    rule : {"riemann", "trapezoid", "corrected"}
        See `integrate_path`.

    Returns
    -------
    Estimate
        Valid if there are at least 8 chains, draws at every temperature, and a difference from the
        corrected rule of at most the error.

    Raises
    ------
    ValueError
        If not exactly one of ``places`` and ``log_z`` is given, or the rule is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import thermodynamic_integration
    >>> ell, ladder = np.full((8, 10), 2.0), np.linspace(0, 1, 5)
    >>> round(thermodynamic_integration(ell, ladder, log_z=2 * ladder).value, 6)
    2.0
    """
    if (places is None) == (log_z is None):
        raise ValueError("places, log_z: exactly one of them is needed.")
    ell, betas = checked_draws(log_likelihood), np.asarray(betas, dtype=float)
    chains = len(ell)
    moments = np.empty((3, chains, len(betas)))
    for i, row in enumerate(ell):
        if log_z is None:
            weights = np.asarray(places)[i][:, None] == np.arange(len(betas))
        else:
            weights = place_probabilities(row, betas, log_z)
        moments[:, i] = np.stack([np.ones_like(row), row, row**2]) @ weights

    def integral(sums, rule):
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sums[1] / sums[0]
            return integrate_path(betas, mean, sums[2] / sums[0] - mean**2, rule)

    total = moments.sum(axis=1)
    value = float(integral(total, rule))
    correction = float(abs(integral(total, "corrected") - value))
    without = integral(total[:, None] - moments, rule)
    error = float(np.sqrt((chains - 1) * np.var(without))) if chains > 1 else np.nan
    empty = int(np.sum(total[0] == 0))
    name = f"{'TI' if log_z is None else 'TI-RB'} {rule}"
    reason = f"{chains} chains, {empty} temperatures without draws, correction {correction:.2g}"
    valid = chains >= MIN_CHAINS and empty == 0 and bool(correction <= error)
    return Estimate(value, error, name, valid, reason)


@dataclass(frozen=True)
class TemperatureFlow:
    """Flow of chains between the temperatures of simulated tempering.

    Attributes
    ----------
    transition : ndarray of shape (K, K)
        Estimated probability of place l after k. A row without visits is NaN.
    symmetric_difference : float
        SD, the total variation distance between the flow k → l and the flow l → k, from 0 to 1.
    relative : float
        RSD, the SD divided by the flow of all moves to another place.
    conductance : ndarray of shape (K − 1,)
        Flow across the cut between k and k + 1, averaged over both directions, as a share of the
        visits on the side with fewer visits. It is NaN if a side has none. Few chains pass the cut
        with the smallest conductance.
    """

    transition: np.ndarray
    symmetric_difference: float
    relative: float
    conductance: np.ndarray


def count_passages(places: ArrayLike, n_places: int) -> np.ndarray:
    """Count how often each chain went from one end of the temperatures to the other.

    Parameters
    ----------
    places : array_like of shape (chains, draws)
        Index of the temperature of every draw.
    n_places : int
        K.

    Returns
    -------
    ndarray of int, shape (chains,)

    Examples
    --------
    >>> from pymc_bdmc.estimators import count_passages
    >>> count_passages([[0, 1, 0, 1, 2, 1, 2, 0]], 3)
    array([2])
    """
    rows = [row[(row == 0) | (row == n_places - 1)] for row in np.asarray(places)]
    return np.array([np.count_nonzero(np.diff(row)) for row in rows])


def temperature_flow(
    log_likelihood: ArrayLike, places: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> TemperatureFlow:
    """Estimate the transition matrix between temperatures, and whether flows are balanced.

    The flow F_kl is the sum of q(β_l | x) over the states x drawn at β_k, divided by the number of
    all draws. In equilibrium it equals r_k ∫ π_k(x) q(β_l | x) dx, which is symmetric for any
    kernel. So a difference between F and its transpose is noise, or shows chains that drift or are
    stuck. It is measured by SD = ½ Σ_kl abs(F_kl − F_lk) and RSD = SD/Σ_{k≠l} F_kl. These are this
    package's definitions of the measures in Carlson et al. (2016), Appendix G.

    Parameters
    ----------
    log_likelihood, places : array_like of shape (chains, draws)
        ℓ, nats, and the index of the temperature at which the state was drawn.
    betas, log_z : array_like of shape (K,)
        The ladder and the guess log Ẑ_k.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import temperature_flow
    >>> flow = temperature_flow(np.zeros((1, 4)), [[0, 1, 0, 1]], [0, 1], [0, 0])
    >>> flow.transition
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    ell, places = checked_draws(log_likelihood), np.asarray(places)
    K = np.size(betas)
    flow = np.zeros((K, K))
    for row, here in zip(ell, places, strict=True):
        np.add.at(flow, here, place_probabilities(row, betas, log_z))
    flow /= ell.size
    balanced = (flow + flow.T) / 2
    crossing = np.array([balanced[:k, k:].sum() for k in range(1, K)])
    below = np.cumsum(balanced.sum(axis=1))[:-1]
    difference = float(np.abs(flow - flow.T).sum() / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        transition = flow / flow.sum(axis=1)[:, None]
        relative = float(np.divide(difference, float(flow.sum() - np.trace(flow))))
        conductance = crossing / np.minimum(below, 1 - below)
    return TemperatureFlow(transition, difference, relative, conductance)
