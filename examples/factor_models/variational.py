"""Fit the factor models by mean-field variational Bayes, with closed-form updates."""

from typing import NamedTuple

import numpy as np
from scipy.special import entr, expit, log_expit, softmax

from factor_models.features import NORMAL, ONE_HOT, Factors
from factor_models.models import Problem


class _Rows(NamedTuple):
    """Moments of the distribution of the rows."""

    mean: np.ndarray
    """E[L], shape (N, K)."""
    squares: np.ndarray
    """E[L'L], shape (K, K)."""
    divergence: float
    """KL divergence from the prior, nats."""


def variational_bound(problem: Problem, sweeps: int, rng: np.random.Generator) -> float:
    """Return the lower bound on log ML found by coordinate ascent from random rows, nats.

    Parameters
    ----------
    problem : Problem
    sweeps : int
        Largest number of updates of all factors. It ends earlier if the bound no longer improves.
    rng : numpy.random.Generator
    """
    model, y = problem.model.factors, problem.y
    (start,) = problem.model.draw_rows(rng)
    rows = _Rows(start, start.T @ start, 0.0)
    n, size = y.shape
    bound = -np.inf
    for _ in range(sweeps):
        k = len(rows.squares)
        covariance = np.linalg.inv(
            np.eye(k) / model.feature_scale**2 + rows.squares / model.noise**2
        )
        mean = covariance @ rows.mean.T @ y / model.noise**2
        products = mean @ mean.T + size * covariance  # E[RR']
        rows = _update(model, rows.mean, y @ mean.T, products)
        misfit = (
            np.sum(y**2) - 2 * np.sum(rows.mean * (y @ mean.T)) + np.sum(rows.squares * products)
        )
        log_likelihood = (
            -(n * size * np.log(2 * np.pi * model.noise**2) + misfit / model.noise**2) / 2
        )
        divergence = _normal_divergence(covariance, products, size, model.feature_scale)
        before, bound = bound, log_likelihood - divergence - rows.divergence
        if bound - before < 1e-6:
            break
    return bound


def _update(model: Factors, mean: np.ndarray, pull: np.ndarray, products: np.ndarray) -> _Rows:
    """Return the optimal distribution of the rows, from Y E[R]' and E[RR']."""
    pull, products = pull / model.noise**2, products / model.noise**2
    if model.kind == NORMAL:
        covariance = np.linalg.inv(np.eye(len(products)) / model.row_scale**2 + products)
        mean = pull @ covariance
        squares = mean.T @ mean + len(mean) * covariance
        divergence = _normal_divergence(covariance, squares, len(mean), model.row_scale)
        return _Rows(mean, squares, divergence)
    if model.kind == ONE_HOT:
        mean = softmax(model.log_probabilities + pull - np.diag(products) / 2, axis=1)
        divergence = -np.sum(entr(mean)) - np.sum(mean @ model.log_probabilities)
        return _Rows(mean, np.diag(mean.sum(axis=0)), divergence)
    mean = mean.copy()
    for k in range(mean.shape[1]):
        others = mean @ products[:, k] - mean[:, k] * products[k, k]
        mean[:, k] = expit(model.log_odds + pull[:, k] - others - products[k, k] / 2)
    squares = mean.T @ mean + np.diag(np.sum(mean * (1 - mean), axis=0))
    prior = mean * log_expit(model.log_odds) + (1 - mean) * log_expit(-model.log_odds)
    return _Rows(mean, squares, -np.sum(entr(mean) + entr(1 - mean) + prior))


def _normal_divergence(covariance: np.ndarray, squares: np.ndarray, n: int, scale: float) -> float:
    """Return the KL divergence of n normal vectors with one covariance from N(0, scale² I)."""
    k = len(covariance)
    log_det = np.linalg.slogdet(covariance / scale**2)[1]
    return (np.trace(squares) / scale**2 - n * (log_det + k)) / 2
