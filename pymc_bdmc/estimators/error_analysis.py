"""Analyse the error of an exponential average by the spread and the bias of block averages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from pymc_bdmc.estimators.checks import checked_weights, effective_sample_size, log_sum_exp
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.jarzynski import log_mean_exp

MIN_BLOCKS = 32
"""Smallest number of blocks, since with fewer the variances are too noisy (25 %) to compare."""

TOLERANCE = 0.15
"""Largest relative difference of agreeing curves, in addition to their noise."""

MAX_BLOCK_VARIANCE = 0.5
"""Largest relative variance of a block's mean for which the logarithm may be expanded."""


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

    This follows Favaro et al. (2015), Eqs 26-43. The bias of a block average is B(M) = E[L_M] − log
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
    n = values.size
    if n < 2 * MIN_BLOCKS:
        raise ValueError(f"Block averages need {2 * MIN_BLOCKS} chains or more, not {n}.")
    if not np.isfinite(values).any():
        raise ValueError(f"{direction}: every weight is zero.")

    total = log_mean_exp(values)
    relative_variance = max(n / effective_sample_size(values) - 1, 0.0) * n / (n - 1)
    # Zero weights make blocks of small M infinite; those sizes say nothing.
    powers = [2**i for i in range(int(np.log2(n // MIN_BLOCKS)) + 1)]
    blocks = {m: _block_averages(values, m) for m in powers}
    blocks = {m: averages for m, averages in blocks.items() if np.isfinite(averages).all()}
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
    estimate = Estimate(
        float(sign * (total - hidden)),
        float(spread),
        f"{direction} average, block analysis",
        agreement is not None,
        f"{found}, {n} chains",
    )
    return ErrorAnalysis(estimate, sizes, variance, drift, limits, curves, agreement, errors)


def _block_averages(values: np.ndarray, size: int) -> np.ndarray:
    count = values.size // size
    return log_sum_exp(values[: count * size].reshape(count, size), axis=1) - np.log(size)


def _first_agreement(sizes, counts, curves) -> int | None:
    """Return the smallest block size from which the curves agree up to noise and tolerance."""
    if sizes.size == 0:
        return None
    by_spread, by_bias, by_weights = curves
    level = by_weights
    noise_of_spread = by_spread * np.sqrt(2 / (counts - 1))
    noise_of_bias = 2 * np.sqrt(by_spread / counts)
    agree = np.abs(by_spread - level) <= 2 * noise_of_spread + TOLERANCE * level
    agree &= np.abs(by_bias - level) <= 2 * noise_of_bias + TOLERANCE * level
    agree &= level <= MAX_BLOCK_VARIANCE
    unbroken = np.logical_and.accumulate(agree[::-1])[::-1]  # from here to the largest M
    return int(sizes[np.argmax(unbroken)]) if unbroken[-1] else None
