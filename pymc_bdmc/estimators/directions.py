"""Find the directions in which a sampler's draws and weighted particles differ most."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from pymc_bdmc.estimators.agreement import (
    FEWEST_RUNS,
    LEAST_ESS,
    DrawsComparison,
    checked_samples,
    compare_draws,
    effective_runs,
)


def differing_directions(
    draws: ArrayLike, particles: ArrayLike, weights: ArrayLike
) -> tuple[np.ndarray, DrawsComparison] | None:
    """Find the directions in which draws and particles differ most, on half of both.

    The first two directions have the largest and the smallest ratio of variances. They are
    generalised eigenvectors of the covariance matrices. Along the third direction the means differ
    most, in standard deviations. These directions show a wrong correlation, or a shift along a
    narrow ridge, that no single element shows. They are compared on the other half of chains and
    runs, so that their choice causes no bias. With many elements, the covariance matrices are
    regularised, and only the elements that differ most are used.

    Parameters
    ----------
    draws, particles, weights
        As for `compare_draws`.

    Returns
    -------
    directions : ndarray of shape (elements, 3)
        Coefficients of the elements.
    comparison : DrawsComparison
        Three rows, from the halves that were not used to find the directions. If these halves are
        too small, the function returns None instead of the directions and the comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import differing_directions
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=(4, 1000))
    >>> _, found = differing_directions(draws, rng.normal(size=(32, 64, 2)), np.ones((32, 64)))
    >>> found.status(hypotheses=6).tolist()
    ['bad', 'bad', 'bad']
    """
    draws, particles, weights = checked_samples(draws, particles, weights)
    half = 19 * draws.shape[1] // 40  # of a single chain, with a gap between
    first, second = (
        (draws[::2], draws[1::2]) if len(draws) > 1 else (draws[:, :half], draws[:, -half:])
    )
    if second[..., 0].size < LEAST_ESS or min(map(effective_runs, _halves(weights))) < FEWEST_RUNS:
        return None
    directions = _directions(first, particles[::2], weights[::2])
    found = compare_draws(second @ directions, particles[1::2] @ directions, weights[1::2])
    # Chains are judged by element.
    return directions, replace(found, away=0 * found.away, ends=np.nan * found.ends)


def _halves(weights: np.ndarray) -> list[np.ndarray]:
    shares = weights.sum(axis=1)
    return [half / half.sum() if half.any() else np.ones(1) for half in (shares[::2], shares[1::2])]


def _directions(draws: np.ndarray, particles: np.ndarray, weights: np.ndarray) -> np.ndarray:
    a, b = (each.reshape(-1, each.shape[2]) for each in (draws, particles))
    w = weights.ravel() / weights.sum()
    low, high = np.quantile(a, [0.01, 0.99], axis=0)
    below, above = np.quantile(b[w > 0], [0.01, 0.99], axis=0)
    center = (low + high + below + above) / 4
    reach = np.maximum(high, above) - np.minimum(low, below)
    a, b = (np.clip(each - center, -2 * reach, 2 * reach) for each in (a, b))
    mean_a, mean_b = a.mean(axis=0), w @ b
    var_a, var_b = a.var(axis=0), w @ (b - mean_b) ** 2
    scale = np.sqrt((var_a + var_b) / 2)
    usable = np.flatnonzero(np.minimum(var_a, var_b) > (1e-9 * (np.abs(center) + reach)) ** 2)
    worth = min(len(a), 1 / np.sum(w**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = ((mean_a - mean_b) / scale) ** 2 + np.log(var_a / var_b) ** 2
    chosen = usable[np.argsort(-score[usable])[: max(2, int(worth / 5))]]
    found = np.zeros((len(scale), 3))
    if chosen.size:
        a, b = ((x - m)[:, chosen] / scale[chosen] for x, m in ((a, mean_a), (b, mean_b)))
        ridge = np.eye(chosen.size) * chosen.size / worth
        of_a, of_b = a.T @ a / len(a) + ridge, (b * w[:, None]).T @ b + ridge
        vectors = eigh(of_a, of_b)[1][:, [-1, 0]]
        apart = np.linalg.solve(of_a + of_b, (mean_a - mean_b)[chosen] / scale[chosen])
        found[chosen] = np.column_stack([vectors, apart]) / scale[chosen, None]
    return found
