"""Schemes and thresholds of resampling, on a Gaussian path whose kernels mix slowly.

Run as ``python benchmarks/resampling.py``; a minute. The prior is N(0, 1) in ten dimensions, the
likelihood N(y | θ, 0.1²) in each, and K_t an autoregression of the given correlation towards the
tempered posterior, which is its own reversal. Printed is the gap ⟨log Ẑ⟩_r − ⟨log Ẑ⟩_f in nats with
its standard error: the smaller, the better. Every scheme is conditional in reverse.
"""

import numba
import numpy as np
from common import table

from pymc_bdmc.base.schedules import power
from pymc_bdmc.run.resampling import effective_size, resample, update_weights

DIMENSION, NOISE, PARTICLES, TEMPERATURES, RUNS = 10, 0.1, 32, 60, 3000
MULTINOMIAL, SYSTEMATIC, SORTED = range(3)
Y = 1.0


@numba.njit
def choose(scheme, weights, ells, kept, rng):
    if scheme == MULTINOMIAL:
        ancestors = np.searchsorted(np.cumsum(weights), rng.random(weights.size))
        ancestors = np.minimum(ancestors, weights.size - 1)
        if kept:
            ancestors[0] = 0
        return ancestors
    if scheme == SYSTEMATIC:
        return resample(weights, kept, rng.random())
    # The particles turned on their circle until the kept one is first, in the order of ℓ
    order = np.argsort(ells)
    order = np.roll(order, -np.argmin(order))
    return order[resample(weights[order], kept, rng.random())]


@numba.njit
def likelihood(theta):
    return -0.5 * np.sum(((Y - theta) / NOISE) ** 2)


@numba.njit
def move(theta, beta, correlation, rng):
    precision = 1 + beta / NOISE**2
    mean, sd = beta * Y / NOISE**2 / precision, precision**-0.5
    for i in range(theta.size):
        noise = np.sqrt(1 - correlation**2) * sd * rng.standard_normal()
        theta[i] = mean + correlation * (theta[i] - mean) + noise


@numba.njit
def log_z(betas, n, correlation, scheme, threshold, reverse, rng):
    last = betas.size - 1
    path = np.empty((last + 1, DIMENSION))
    thetas = rng.standard_normal((n, DIMENSION))
    if reverse:
        precision = 1 + 1 / NOISE**2
        theta = Y / NOISE**2 / precision + rng.standard_normal(DIMENSION) * precision**-0.5
        path[last] = theta
        for t in range(last, 0, -1):
            move(theta, betas[t], correlation, rng)
            path[t - 1] = theta
        thetas[0] = theta
    weights, total = np.full(n, 1 / n), 0.0
    for t in range(1, last + 1):
        ells = np.array([likelihood(theta) for theta in thetas])
        step = betas[t] - betas[t - 1]
        highest, rest = update_weights(weights, ells, step)
        total += step * highest + rest
        if effective_size(weights) < threshold * n:
            thetas = thetas[choose(scheme, weights, ells, reverse, rng)]
            weights[:] = 1 / n
        for i in range(n):
            move(thetas[i], betas[t], correlation, rng)
        if reverse:
            thetas[0] = path[t]
    return total


@numba.njit
def runs(count, betas, n, correlation, scheme, threshold, reverse, rng):
    return np.array(
        [log_z(betas, n, correlation, scheme, threshold, reverse, rng) for _ in range(count)]
    )


def gap(correlation, scheme, threshold) -> str:
    betas, rng = power(TEMPERATURES).betas, np.random.default_rng(1)
    forward, reverse = (
        runs(RUNS, betas, PARTICLES, correlation, scheme, threshold, side, rng)
        for side in (False, True)
    )
    error = np.sqrt((forward.var() + reverse.var()) / RUNS)
    return f"{reverse.mean() - forward.mean():.3f} ± {error:.3f}"


if __name__ == "__main__":
    rows = [
        [
            correlation,
            threshold,
            *(gap(correlation, scheme, threshold) for scheme in range(3)),
        ]
        for correlation in (0.5, 0.9, 0.97)
        for threshold in (0.5, 0.75, 0.9, 1.0)
    ]
    print(table(["correlation", "threshold", "multinomial", "systematic", "by ℓ"], rows))
