"""Models made to break claims: each comes with log ML and the posterior probability of events.

Every function takes data and returns the model together with what is known about it. The data are
written here or made here from fixed seeds. Nearly all answers are closed forms or sums over grids:
log ML is right to 0.0001, and a probability to 0.002 where its limit cuts a grid. Where an answer
is estimated its error stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from models import SD_SCHOOLS, Y_SCHOOLS, eight_schools
from scipy import stats
from scipy.special import betaln, digamma, gammaln, log_expit, log_ndtr, logsumexp

__all__ = ["ADVERSARIES", "MODELS", "Adversary", "Event", "three_normals_by_gibbs"]


class Event(NamedTuple):
    """Something that is true of a state or not, and its posterior probability."""

    holds: Callable[[xr.Dataset], xr.DataArray]
    """From variables of the model with dimensions of draws in front to booleans of draws."""
    probability: float
    error: float = 0.0


@dataclass(frozen=True)
class Adversary:
    """A model and what is known about it.

    Attributes
    ----------
    model : Model
    log_ml : float
    events : dict
        `Event` by name.
    error : float
        Standard error of ``log_ml``; 0 where it is exact.
    """

    model: pm.Model
    log_ml: float
    events: dict[str, Event]
    error: float = 0.0


def summed(logs: np.ndarray, *steps: float) -> tuple[float, np.ndarray]:
    """Log of an integral from the log integrand on a grid, and the share of every point."""
    total = logsumexp(logs)
    return float(total + np.log(steps).sum()), np.exp(logs - total)


def below(name: str, limit: float, probability: float, index: int | None = None) -> dict:
    """The event that a variable, or one element of it, is less than a limit."""

    def holds(draws: xr.Dataset) -> xr.DataArray:
        values = draws[name]
        return (values if index is None else values[..., index]) < limit

    element = "" if index is None else f"[{index}]"
    return {f"{name}{element} < {limit:g}": Event(holds, float(probability))}


def spike_in_slab(y: np.ndarray, share: float = 0.4, width: float = 0.05) -> Adversary:
    """An instrument measures x with this probability; else it shows noise of the same law.

    So the posterior is a narrow normal on the data, with the share, and the prior.
    """
    d, variance = len(y), 1 + width**2

    def logp(y, x):
        near = -0.5 * ((y - x) ** 2).sum() / width**2 - d * np.log(width)
        far = -0.5 * (y**2).sum() / variance - 0.5 * d * np.log(variance)
        both = pt.logaddexp(np.log(share) + near, np.log1p(-share) + far)
        return both - 0.5 * d * np.log(2 * np.pi)

    def draw(x, rng=None, size=None):
        noise = rng.normal(size=np.shape(x))
        return x + width * noise if rng.random() < share else np.sqrt(variance) * noise

    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=d)
        pm.CustomDist("y", x, logp=logp, random=draw, signature="(d)->(d)", observed=y)

    # The ball that holds 99 % of the spike.
    centre, spread = y / variance, width / np.sqrt(variance)
    square = stats.chi2.ppf(0.99, d)
    slab = stats.ncx2.cdf(square * spread**2, d, centre @ centre)

    def near(draws):
        return ((draws["x"] - centre) ** 2).sum(draws["x"].dims[-1]) < square * spread**2

    return Adversary(
        model,
        float(stats.norm.logpdf(y, 0, np.sqrt(variance)).sum()),
        {"x in the spike": Event(near, share * 0.99 + (1 - share) * float(slab))},
    )


def tight_scale(y: np.ndarray) -> Adversary:
    """The data agree to three digits, and the prior of their scale does not expect it.

    Quadrature over log scale; given it the data are jointly normal.
    """
    with pm.Model() as model:
        scale = pm.HalfCauchy("scale", 2)
        mean = pm.Normal("mean", 0, 10)
        pm.Normal("y", mean, scale, observed=y)
    step, n = 0.001, len(y)
    logs = np.arange(-14, 12, step)
    variance = np.exp(2 * logs)
    total = n * 100 + variance
    square = ((y - y.mean()) ** 2).sum() / variance + n * y.mean() ** 2 / total
    log_ml, shares = summed(
        stats.halfcauchy.logpdf(np.exp(logs), scale=2) + logs
        - 0.5 * (n * np.log(2 * np.pi) + (n - 1) * 2 * logs + np.log(total) + square),
        step,
    )  # fmt: skip
    limits = np.round(y.std(), 4) * np.array([1, 100])
    events = [below("scale", limit, shares[logs < np.log(limit)].sum()) for limit in limits]
    return Adversary(model, log_ml, events[0] | events[1])


LOW = 10.0
"""Limit of the lowest of three means, for an event."""
THREE_SHAPE, THREE_SCALE, THREE_CENTRE, THREE_WIDTH = 3.0, 4.0, 20.0, 5.0
"""v ~ InverseGamma(shape, scale) and μ | v ~ N(centre, (width)² v) for each of three normals."""


def three_normals(
    y: np.ndarray, log_ml: float, error: float, low: float, low_error: float
) -> Adversary:
    """A mixture whose labels can be exchanged: a few, many, a few, as with the galaxies.

    By symmetry each of the three means is the lowest with probability 1/3. The other answers are
    those of `three_normals_by_gibbs`.
    """
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(3))
        variance = pm.InverseGamma("variance", THREE_SHAPE, THREE_SCALE, shape=3)
        sd = pm.math.sqrt(variance)
        mean = pm.Normal("mean", THREE_CENTRE, THREE_WIDTH * sd, shape=3)
        pm.NormalMixture("y", share, mean, sd, observed=y)

    def rank(draws, index, order):
        means = draws["mean"]
        return means[..., index] == order(means, means.dims[-1])

    lowest = {
        f"mean[{k}] is lowest": Event(partial(rank, index=k, order=xr.DataArray.min), 1 / 3)
        for k in range(2)
    }
    highest = {"mean[0] is highest": Event(partial(rank, index=0, order=xr.DataArray.max), 1 / 3)}
    few = Event(lambda draws: draws["mean"].min(draws["mean"].dims[-1]) < LOW, low, low_error)
    return Adversary(model, log_ml, lowest | highest | {f"lowest mean < {LOW:g}": few}, error)


def three_normals_by_gibbs(
    y: np.ndarray, chains: int = 200, sweeps: int = 4000, seed: int = 1
) -> tuple[float, float, float, float]:
    """Log ML of `three_normals` and the probability that the lowest mean is low, with errors.

    Chib (1995): log ML = log p(θ, y) − log p(θ | y) at any θ, where p(θ | y) is the mean of
    p(θ | z, y) over draws of the labels z by Gibbs sampling. Averaging over the six orders of θ
    (Berkhof, van Mechelen and Gelman 2003) makes it right whether or not labels switch.
    """
    rng = np.random.default_rng(seed)
    precision = THREE_WIDTH**-2

    def given_labels(labels):
        """Parameters of the law of weights, variances and means, (chain, component)."""
        n = labels.sum(axis=1)
        total, square = np.einsum("cik,i->ck", labels, y), np.einsum("cik,i->ck", labels, y**2)
        strength = n + precision
        centre = (total + precision * THREE_CENTRE) / strength
        scale = THREE_SCALE + 0.5 * (square + precision * THREE_CENTRE**2 - strength * centre**2)
        return 1 + n, THREE_SHAPE + n / 2, scale, centre, strength

    def log_density(weight, variance, mean, laws):
        counts, shape, scale, centre, strength = laws
        each = (
            (counts - 1) * np.log(weight) - gammaln(counts)
            + shape * np.log(scale) - gammaln(shape) - (shape + 1) * np.log(variance)
            - scale / variance
            + 0.5 * np.log(strength / variance / (2 * np.pi))
            - 0.5 * strength * (mean - centre) ** 2 / variance
        )  # fmt: skip
        return each.sum(axis=-1) + gammaln(counts.sum(axis=-1))

    prior = given_labels(np.zeros((1, len(y), 3)))

    # Every chain cuts the line at two places; from random labels most would take long.
    cuts = rng.choice(y, (chains, 2, 1))
    labels = np.eye(3)[(y > cuts).sum(axis=1)]
    best, point, kept, low = -np.inf, None, [], []
    for sweep in range(sweeps):
        counts, shape, scale, centre, strength = given_labels(labels)
        weight = rng.standard_gamma(counts)
        weight /= weight.sum(axis=1, keepdims=True)
        variance = scale / rng.standard_gamma(shape)
        mean = rng.normal(centre, np.sqrt(variance / strength))
        component = stats.norm.logpdf(y[:, None], mean[:, None], np.sqrt(variance)[:, None])
        logs = np.log(weight)[:, None] + component
        labels = np.eye(3)[(logs + rng.gumbel(size=logs.shape)).argmax(axis=2)]
        joint = logsumexp(logs, axis=2).sum(axis=1) + log_density(weight, variance, mean, prior)
        if sweep < sweeps // 2:
            if joint.max() > best:
                best, at = joint.max(), joint.argmax()
                point = weight[at], variance[at], mean[at]
            continue
        orders = [
            log_density(*(part[list(order)] for part in point), given_labels(labels))
            for order in permutations(range(3))
        ]
        kept.append(logsumexp(orders, axis=0) - np.log(6))
        low.append(mean.min(axis=1) < LOW)
    # Chains are independent.
    ordinates, shares = np.exp(np.array(kept) - np.max(kept)).mean(axis=0), np.mean(low, axis=0)
    log_ml = best - np.max(kept) - np.log(ordinates.mean())
    error = ordinates.std(ddof=1) / ordinates.mean() / np.sqrt(chains)
    return log_ml, error, shares.mean(), shares.std(ddof=1) / np.sqrt(chains)


def odd_data(y: np.ndarray, freedom: float = 4.0, width: float = 5.0) -> Adversary:
    """Half of the data contradict the other half, in every column.

    Data that the model produces have one mode, these have two in each element of x. Elements are
    independent, so quadrature is over one at a time.
    """
    with pm.Model() as model:
        x = pm.Normal("x", 0, width, shape=y.shape[1])
        pm.StudentT("y", freedom, mu=x, sigma=1, observed=y)
    step = 0.005
    grid = np.arange(-40 + step / 2, 40, step)
    prior = stats.norm.logpdf(grid, 0, width)
    log_ml, events = 0.0, {}
    for k, column in enumerate(y.T):
        logs, shares = summed(
            prior + stats.t.logpdf(column[:, None], freedom, grid).sum(axis=0), step
        )
        log_ml += logs
        events |= below("x", 0, shares[grid < 0].sum(), k)
    return Adversary(model, log_ml, events)


def horseshoe(y: np.ndarray) -> Adversary:
    """Normal means, centred: a funnel at the neck of which most of the means lie.

    Quadrature over the logs of the overall and of one local scale; given the overall scale the
    means are independent.
    """
    n = len(y)
    with pm.Model() as model:
        overall = pm.HalfCauchy("overall", 0.5)
        local = pm.HalfCauchy("local", 1, shape=n)
        mean = pm.Normal("mean", 0, overall * local, shape=n)
        pm.Normal("y", mean, 1, observed=y)
    step = 0.1
    # Both priors fall by e per unit of the log, on either side.
    logs = np.arange(-30, 30, step)
    scales = np.exp(logs)
    variance = np.exp(2 * (logs[:, None] + logs))[..., None]  # overall, local, observation
    each = stats.halfcauchy.logpdf(scales)[:, None] + logs[:, None]
    each = each + stats.norm.logpdf(y, 0, np.sqrt(1 + variance))
    by_mean = logsumexp(each, axis=1) + np.log(step)
    prior = stats.halfcauchy.logpdf(scales, scale=0.5) + logs
    log_ml, shares = summed(prior + by_mean.sum(axis=1), step)
    events = below("overall", 0.2, shares[scales < 0.2].sum())
    # One mean given both scales is normal; scales of mean k given the data have these shares.
    shrink = (variance / (1 + variance))[..., 0]
    for k, limit in ((0, -0.1), (n - 1, 4.0)):
        of_local = np.exp(each[..., k] + np.log(step) - by_mean[:, k, None])
        chance = stats.norm.cdf(limit, shrink * y[k], np.sqrt(shrink))
        events |= below("mean", limit, shares @ (of_local * chance).sum(axis=1), k)
    return Adversary(model, log_ml, events)


def volatility(y: np.ndarray) -> Adversary:
    """Stochastic volatility, centred: log variances are a random walk of unknown step.

    Given the step a filter on a grid goes over the log variances. The walk's move is a product in
    Fourier space, exact for steps far below the grid's.
    """
    n = len(y)
    with pm.Model() as model:
        size = pm.HalfNormal("size", 1)
        start = pm.Normal.dist(0, 1)
        walk = pm.GaussianRandomWalk("walk", sigma=size, init_dist=start, shape=n)
        pm.Normal("y", 0, pm.math.exp(walk / 2), observed=y)
    width, points = 128.0, 4096
    grid = (np.arange(points) - points // 2) * width / points
    frequencies = 2 * np.pi * np.fft.rfftfreq(points, width / points)
    step = 0.02
    # The integrand is an even function of the size, so the midpoint rule has no error to speak of.
    sizes = np.arange(step / 2, 6, step)
    log_likelihood = stats.norm.logpdf(y[:, None], 0, np.exp(grid / 2))
    logs, lasts, limit = np.empty(len(sizes)), np.empty(len(sizes)), 3.0
    for k, each in enumerate(sizes):
        density = stats.norm.pdf(grid)
        total = np.log(width / points)
        for t, row in enumerate(log_likelihood):
            if t:
                moved = np.fft.rfft(density) * np.exp(-0.5 * (each * frequencies) ** 2)
                density = np.fft.irfft(moved, points)
            density = density * np.exp(row)
            total += np.log(density.sum())
            density /= density.sum()
        logs[k], lasts[k] = total, density[grid < limit].sum() + density[grid == limit].sum() / 2
    log_ml, shares = summed(logs + stats.halfnorm.logpdf(sizes), step)
    events = below("size", 0.5, shares[sizes < 0.5].sum())
    return Adversary(model, log_ml, events | below("walk", limit, shares @ lasts, n - 1))


def linear_trend(y: np.ndarray) -> Adversary:
    """A level and a slope that are random walks, centred, all three deviations unknown.

    Quadrature over the deviations; given them the data are jointly normal.
    """
    n = len(y)
    with pm.Model() as model:
        level_step, slope_step = pm.HalfNormal("level_step", 1), pm.HalfNormal("slope_step", 1)
        noise = pm.HalfNormal("noise", 1)
        start = pm.Normal.dist(0, 5), pm.Normal.dist(0, 1)
        walk = pm.GaussianRandomWalk("walk", sigma=level_step, init_dist=start[0], shape=n)
        slope = pm.GaussianRandomWalk("slope", sigma=slope_step, init_dist=start[1], shape=n - 1)
        level = walk + pt.concatenate([np.zeros(1), pt.cumsum(slope)])
        pm.Normal("y", level, noise, observed=y)
    step = 0.1
    # Even functions of each deviation, as above.
    grid = np.arange(step / 2, 5, step)
    steps, time = np.minimum.outer(np.arange(n), np.arange(n)), np.arange(n)
    add = np.tri(n, n - 1, -1)  # the level at t has the slopes before t in it
    parts = np.stack([steps, add @ steps[:-1, :-1] @ add.T, np.eye(n)])
    starts = 25 + np.outer(time, time)
    squares = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1) ** 2
    logs = stats.halfnorm.logpdf(np.sqrt(squares)).sum(axis=-1)
    for k, rows in enumerate(squares):
        factor = np.linalg.cholesky(np.tensordot(rows, parts, 1) + starts)
        diagonal = np.diagonal(factor, axis1=-2, axis2=-1)
        scaled = np.linalg.solve(factor, y[:, None])[..., 0]
        logs[k] -= 0.5 * (scaled**2).sum(axis=-1) + np.log(diagonal).sum(axis=-1)
        logs[k] -= 0.5 * n * np.log(2 * np.pi)
    log_ml, shares = summed(logs, step, step, step)
    events = {}
    for axis, name in enumerate(("level_step", "slope_step", "noise")):
        of_one = shares.sum(axis=tuple({0, 1, 2} - {axis}))
        events |= below(name, 0.3, of_one[grid < 0.3].sum())
    return Adversary(model, log_ml, events)


def capture_recapture(counts: np.ndarray, trials: int = 4) -> Adversary:
    """How many animals there are, of which some were never seen: an indicator for each.

    Both chances have uniform priors and integrate to beta functions given how many are real.
    """
    size, seen, total = len(counts), np.sum(counts > 0), np.sum(counts)
    with pm.Model() as model:
        included = pm.Beta("included", 1, 1)
        caught = pm.Beta("caught", 1, 1)
        real = pm.Bernoulli("real", included, shape=size)
        pm.Binomial("y", trials, real * caught, observed=counts)

    def choose(n, k):
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    number = np.arange(seen, size + 1)
    log_ml, shares = summed(
        choose(size - seen, number - seen)
        + betaln(number + 1, size - number + 1)
        + choose(trials, counts).sum()
        + betaln(total + 1, number * trials - total + 1)
    )
    limit = seen + 3

    def few(draws):
        return draws["real"].sum(draws["real"].dims[-1]) < limit

    return Adversary(
        model, log_ml, {f"fewer than {limit} animals": Event(few, shares[number < limit].sum())}
    )


def change_point(y: np.ndarray) -> Adversary:
    """One change of a rate, where the data show two: up, and down again.

    Both rates integrate to gamma functions given where the change is.
    """
    n = len(y)
    with pm.Model() as model:
        early, late = pm.Exponential("early", 0.5), pm.Exponential("late", 0.5)
        change = pm.DiscreteUniform("change", 1, n - 1)
        pm.Poisson("y", pm.math.where(np.arange(n) < change, early, late), observed=y)
    places = np.arange(1, n)
    first = np.cumsum(y)[:-1]
    log_ml, shares = summed(
        sum(
            np.log(0.5) + gammaln(s + 1) - (s + 1) * np.log(0.5 + m)
            for s, m in ((first, places), (y.sum() - first, n - places))
        )
        - gammaln(y + 1).sum()
        - np.log(n - 1)
    )
    middle = n // 2 + 1
    return Adversary(model, log_ml, below("change", middle, shares[places < middle].sum()))


def two_modes(y: np.ndarray, share: float = 0.75, width: float = 0.3) -> Adversary:
    """An instrument of unknown sign: modes at y and −y, many of their deviations apart."""
    d, variance = len(y), 25 + width**2
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5, shape=d)
        either = [pm.MvNormal.dist(sign * x, cov=width**2 * np.eye(d)) for sign in (1, -1)]
        pm.Mixture("y", [share, 1 - share], either, observed=y)
    log_ml = stats.norm.logpdf(y, 0, np.sqrt(variance)).sum()
    # Along y each mode is a normal; the chance that one crosses the middle counts too.
    crossing = stats.norm.cdf(-np.linalg.norm(y) * 5 / np.sqrt(variance) / width)
    right = share * (1 - crossing) + (1 - share) * crossing

    def positive(draws):
        return (draws["x"] * y).sum(draws["x"].dims[-1]) > 0

    return Adversary(model, float(log_ml), {"x on the side of y": Event(positive, float(right))})


def cauchy_locations(y: np.ndarray) -> Adversary:
    """Independent locations far out in the tail of a Cauchy prior; quadrature over each."""
    with pm.Model() as model:
        x = pm.Cauchy("x", 0, 1, shape=len(y))
        pm.Normal("y", x, 1, observed=y)
    step = 0.001
    around = np.arange(-12 + step / 2, 12, step)
    log_ml, events = 0.0, {}
    for k, each in enumerate(y):
        grid = each + around
        logs, shares = summed(stats.cauchy.logpdf(grid) + stats.norm.logpdf(each, grid, 1), step)
        log_ml += logs
        events |= below("x", float(each), shares[around < 0].sum(), k)
    return Adversary(model, log_ml, events)


def product(heads: int, tosses: int) -> Adversary:
    """A coin whose chance is p·q with uniform p and q: the data fix their product alone.

    The product r has the density −log r, so log ML is a difference of digamma functions; given r,
    log p is uniform from log r to 0.
    """
    with pm.Model() as model:
        p, q = pm.Uniform("p"), pm.Uniform("q")
        pm.Binomial("y", tosses, p * q, observed=heads)
    log_ml = np.log(digamma(tosses + 2) - digamma(heads + 1)) - np.log(tosses + 1)
    n = 200_000
    r = (np.arange(n) + 0.5) / n
    _, shares = summed(stats.binom.logpmf(heads, tosses, r) + np.log(-np.log(r)))
    limit = 0.6
    with np.errstate(divide="ignore"):
        chance = np.clip(1 - np.log(limit) / np.log(r), 0, 1)
    return Adversary(model, float(log_ml), below("p", limit, shares @ chance))


def schools() -> Adversary:
    """Eight schools, non-centred, which is easy: what is said of it shows what praise is worth."""
    step = 0.01
    logs = np.arange(-20, 15, step)
    tau = np.exp(logs)
    covariance = np.eye(8) * SD_SCHOOLS**2 + 25 + np.eye(8) * tau[:, None, None] ** 2
    _, determinant = np.linalg.slogdet(covariance)
    square = Y_SCHOOLS @ np.linalg.solve(covariance, Y_SCHOOLS[:, None])[..., 0].T
    log_ml, shares = summed(
        stats.halfcauchy.logpdf(tau, scale=5) + logs
        - 0.5 * (8 * np.log(2 * np.pi) + determinant + square),
        step,
    )  # fmt: skip
    events = [below("tau", limit, shares[tau < limit].sum()) for limit in (1.0, 3.0)]
    return Adversary(eight_schools(centred=False), log_ml, events[0] | events[1])


def torn_location(y: np.ndarray) -> Adversary:
    """Cauchy noise about a location: two groups of data, and a mode at each."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 10)
        pm.Cauchy("y", x, 0.1, observed=y)
    step = 0.0005
    grid = np.arange(-60, 60, step)
    logs = stats.norm.logpdf(grid, 0, 10) + stats.cauchy.logpdf(y[:, None], grid, 0.1).sum(axis=0)
    log_ml, shares = summed(logs, step)
    return Adversary(model, log_ml, below("x", y.mean(), shares[grid < y.mean()].sum()))


def funnel(y: np.ndarray) -> Adversary:
    """Neal's funnel with one observation of each element. Given the scale these are normal."""
    with pm.Model() as model:
        scale = pm.Normal("scale", 0, 3)
        x = pm.Normal("x", 0, pm.math.exp(scale / 2), shape=len(y))
        pm.Normal("y", x, 1, observed=y)
    step = 0.002
    grid = np.arange(-30, 30, step)
    sd = np.sqrt(1 + np.exp(grid))
    logs = stats.norm.logpdf(grid, 0, 3) + stats.norm.logpdf(y[:, None], 0, sd).sum(axis=0)
    log_ml, shares = summed(logs, step)
    events = [below("scale", limit, shares[grid < limit].sum()) for limit in (-3.0, 0.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def inflated_zeros(y: np.ndarray) -> Adversary:
    """Counts that are nearly all zero: the rate is small, or zeros are of another kind."""
    with pm.Model() as model:
        kept = pm.Uniform("kept")
        rate = pm.Gamma("rate", 2, 0.2)
        pm.ZeroInflatedPoisson("y", kept, rate, observed=y)
    step_of_kept, step = 0.002, 0.005
    kept, logs_of_rate = np.meshgrid(
        np.arange(0.5 * step_of_kept, 1, step_of_kept), np.arange(-12, 6, step), indexing="ij"
    )
    rate, zeros = np.exp(logs_of_rate), int(np.sum(y == 0))
    logs = stats.gamma.logpdf(rate, 2, scale=5) + logs_of_rate
    logs += zeros * np.log1p(kept * np.expm1(-rate))
    for count in y[y > 0]:
        logs += np.log(kept) + stats.poisson.logpmf(count, rate)
    log_ml, shares = summed(logs, step_of_kept, step)
    events = [below("rate", limit, shares[rate < limit].sum()) for limit in (0.5, 2.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def parabola(y: np.ndarray, noise: float = 0.1) -> Adversary:
    """Only a + b² is observed: a thin curved ridge with two arms. Given b the rest is normal."""
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
        pm.Normal("y", a + b**2, noise, observed=y)
    step, n, variance = 0.001, len(y), noise**2
    grid = np.arange(-30, 30, step)
    total = variance + n * 25
    square = ((y - y.mean()) ** 2).sum() / variance + n * (y.mean() - grid**2) ** 2 / total
    logs = stats.norm.logpdf(grid, 0, 5) - 0.5 * (
        n * np.log(2 * np.pi) + (n - 1) * np.log(variance) + np.log(total) + square
    )
    log_ml, shares = summed(logs, step)
    events = [below("b", limit, shares[grid < limit].sum()) for limit in (-2.0, 0.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def separated(x: np.ndarray) -> Adversary:
    """Logistic regression whose outcomes a line separates, so that only the prior bounds it."""
    y = (x > 0).astype(int)
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0, 10), pm.Normal("slope", 0, 10)
        pm.Bernoulli("y", logit_p=intercept + slope * x, observed=y)
    step = 0.1
    a, b = np.meshgrid(*2 * [np.arange(-60, 60, step)], indexing="ij")
    logs = stats.norm.logpdf(a, 0, 10) + stats.norm.logpdf(b, 0, 10)
    for one, outcome in zip(x, y, strict=True):
        logs += log_expit((2 * outcome - 1) * (a + b * one))
    log_ml, shares = summed(logs, step, step)
    events = [below("slope", at + step / 2, shares[b < at + step / 2].sum()) for at in (5.0, 10.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def lost_signs(y: np.ndarray, noise: float = 0.1) -> Adversary:
    """Only sizes are observed, so that each sign is free: 2^d modes, all alike."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3, shape=len(y))
        pm.Normal("y", pm.math.abs(x), noise, observed=y)
    precision = 1 / 9 + noise**-2
    centre = y / noise**2 / precision
    positive = stats.norm.logcdf(centre * np.sqrt(precision))
    log_ml = np.sum(np.log(2) + stats.norm.logpdf(y, 0, np.sqrt(9 + noise**2)) + positive)
    return Adversary(model, float(log_ml), below("x", 0.0, 0.5, 0) | below("x", 0.0, 0.5, 1))


def observed_car(y: np.ndarray, precision: float = 2.0) -> Adversary:
    """Neighbours on a line, observed: PyMC leaves a constant out of their density.

    Quadrature over the one parameter, how strongly neighbours depend on each other.
    """
    n = len(y)
    line = np.eye(n, k=1) + np.eye(n, k=-1)
    with pm.Model() as model:
        alpha = pm.Uniform("alpha")
        pm.CAR("y", np.zeros(n), line, alpha, precision, observed=y)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    grid = (nodes + 1) / 2
    inverse = precision * (np.diag(line.sum(axis=0)) - grid[:, None, None] * line)
    logs = 0.5 * (np.linalg.slogdet(inverse)[1] - n * np.log(2 * np.pi) - y @ (inverse @ y).T)
    log_ml, shares = summed(logs + np.log(weights / 2))
    limit = 1 - 1 / n
    return Adversary(model, log_ml, below("alpha", limit, shares[grid < limit].sum()))


def groups_alike(y: np.ndarray, sd: float) -> Adversary:
    """Centred groups that differ by no more than their errors: the posterior reaches a neck.

    Quadrature over the log of the deviation between groups; given it the data are jointly normal.
    """
    n = len(y)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 10), pm.HalfNormal("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=n)
        pm.Normal("y", theta, sd, observed=y)
    step = 0.001
    logs_of_tau = np.arange(-25, 4, step)
    tau = np.exp(logs_of_tau)
    variance = tau**2 + sd**2
    total = variance + n * 100
    square = ((y - y.mean()) ** 2).sum() / variance + n * y.mean() ** 2 / total
    log_ml, shares = summed(
        stats.halfnorm.logpdf(tau, scale=5) + logs_of_tau
        - 0.5 * (n * np.log(2 * np.pi) + (n - 1) * np.log(variance) + np.log(total) + square),
        step,
    )  # fmt: skip
    events = [below("tau", limit, shares[tau < limit].sum()) for limit in (sd / 10, sd / 2)]
    return Adversary(model, log_ml, events[0] | events[1])


def correlated_slopes(x: np.ndarray, y: np.ndarray) -> Adversary:
    """Intercepts and slopes of groups that are alike, correlated and centred. Rows of y are groups.

    Quadrature over both deviations, the correlation and the noise. Given them the least squares of
    every group are jointly normal.
    """
    groups, n = y.shape
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 6, 1)
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
        effects = pm.MvNormal("effects", np.zeros(2), chol=chol, shape=(groups, 2))
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", intercept + effects[:, :1] + effects[:, 1:] * x, sigma, observed=y)
    design = np.stack([np.ones(n), x], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    fits = y @ design @ inverse
    rest = ((y - fits @ design.T) ** 2).sum()
    centre, spread = fits.mean(axis=0), np.cov(fits.T, ddof=0)
    step, step_of_log = 0.04, 0.05
    nodes, weights = np.polynomial.legendre.leggauss(24)
    rho = nodes[:, None, None]
    # Even functions of each deviation once the correlation is summed over.
    grid = np.arange(step / 2, 4, step)
    first, second = grid[:, None], grid
    prior = stats.halfnorm.logpdf(first) + stats.halfnorm.logpdf(second)
    prior = prior + np.log(0.75 * (1 - rho**2) * weights[:, None, None])
    sigmas = np.exp(np.arange(-3, 2, step_of_log))
    logs = np.empty((len(sigmas), *prior.shape))
    for k, each in enumerate(sigmas):
        # The covariance of a group's least squares, and that of their mean over groups.
        a, d = first**2 + each**2 * inverse[0, 0], second**2 + each**2 * inverse[1, 1]
        b = rho * first * second + each**2 * inverse[0, 1]
        determinant = a * d - b**2
        wide = 1 + a / groups
        determinant_of_mean = wide * d / groups - (b / groups) ** 2
        u, v = centre - [6, 0]
        within = d * spread[0, 0] + a * spread[1, 1] - 2 * b * spread[0, 1]
        between = d * u**2 / groups + wide * v**2 - 2 * b * u * v / groups
        logs[k] = prior + stats.halfnorm.logpdf(each) + np.log(each) - 0.5 * (
            (groups - 1) * np.log(determinant) + groups * within / determinant
            + np.log(determinant_of_mean) + between / determinant_of_mean
            + groups * (n * np.log(2 * np.pi) + (n - 2) * 2 * np.log(each))
            + rest / each**2 - groups * np.linalg.slogdet(inverse)[1] + 2 * np.log(groups)
        )  # fmt: skip
    log_ml, shares = summed(logs, step_of_log, step, step)
    limit = 2 * step
    return Adversary(model, log_ml, below("chol", limit, shares[:, :, grid < limit].sum(), 0))


def thin_ridge(width: float, scale: float, steepness: float) -> Adversary:
    """Rosenbrock's curved ridge on a square. Given x the rest is normal."""
    with pm.Model() as model:
        x, y = pm.Uniform("x", -width, width), pm.Uniform("y", -width, width)
        pm.Potential("ridge", -scale * ((1 - x) ** 2 + steepness * (y - x**2) ** 2))
    step = width / 200_000
    grid = np.arange(-width + step / 2, width, step)
    root = np.sqrt(2 * scale * steepness)
    inside = stats.norm.cdf(root * (width - grid**2)) - stats.norm.cdf(root * (-width - grid**2))
    with np.errstate(divide="ignore"):
        logs = np.log(inside) - scale * (1 - grid) ** 2
    logs += 0.5 * np.log(2 * np.pi) - np.log(root) - 2 * np.log(2 * width)
    log_ml, shares = summed(logs, step)
    events = [below("x", limit, shares[grid < limit].sum()) for limit in (0.0, 1.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def heavy_tails(x: np.ndarray) -> Adversary:
    """Separated outcomes with Cauchy coefficients: in some directions only the prior falls.

    Quadrature over inverse hyperbolic sines of both coefficients.
    """
    y = (x > 0).astype(int)
    with pm.Model() as model:
        intercept, slope = pm.Cauchy("intercept", 0, 2.5), pm.Cauchy("slope", 0, 2.5)
        pm.Bernoulli("y", logit_p=intercept + slope * x, observed=y)
    step = 0.03
    logs_of_size = np.arange(-17 + step / 2, 17, step)
    each = stats.cauchy.logpdf(np.sinh(logs_of_size), scale=2.5) + np.log(np.cosh(logs_of_size))
    a, b = np.meshgrid(*2 * [np.sinh(logs_of_size)], indexing="ij")
    logs = each[:, None] + each
    for one, outcome in zip(x, y, strict=True):
        logs += log_expit((2 * outcome - 1) * (a + b * one))
    log_ml, shares = summed(logs, step, step)
    events = [below("slope", limit, shares[b < limit].sum()) for limit in (5.0, 20.0)]
    return Adversary(model, log_ml, events[0] | events[1])


def conflict(y: np.ndarray) -> Adversary:
    """Close observations far from where a t prior expects them: near them, or with much noise.

    A t variable is normal given its precision. Quadrature over the logs of this and of the noise.
    """
    n = len(y)
    with pm.Model() as model:
        mu, sigma = pm.StudentT("mu", 3, mu=0, sigma=1), pm.HalfNormal("sigma", 5)
        pm.Normal("y", mu, sigma, observed=y)
    step = 0.02
    precision = np.exp(np.arange(-40, 6, step))[:, None]
    logs_of_sigma = np.arange(-20, 6, step)
    variance = np.exp(2 * logs_of_sigma)
    total = variance + n / precision
    square = ((y - y.mean()) ** 2).sum() / variance + n * y.mean() ** 2 / total
    log_ml, shares = summed(
        stats.gamma.logpdf(precision, 1.5, scale=2 / 3) + np.log(precision)
        + stats.halfnorm.logpdf(np.sqrt(variance), scale=5) + logs_of_sigma
        - 0.5 * (n * np.log(2 * np.pi) + (n - 1) * np.log(variance) + np.log(total) + square),
        step,
        step,
    )  # fmt: skip
    limit = 1.0
    near = shares[:, logs_of_sigma < np.log(limit)].sum()
    return Adversary(model, log_ml, below("sigma", limit, near))


def errors_in_variables(measured: np.ndarray, y: np.ndarray) -> Adversary:
    """A slope times values that are measured with an error: as the noise falls, they are fixed.

    Quadrature over the slope and the log of the noise; given them a pair of data is normal.
    """
    n, error = len(y), 0.5
    with pm.Model() as model:
        slope, sigma = pm.Normal("slope", 0, 2), pm.HalfNormal("sigma", 1)
        x = pm.Normal("x", 0, 1, shape=n)
        pm.Normal("measured", x, error, observed=measured)
        pm.Normal("y", slope * x, sigma, observed=y)
    step = 0.01
    slopes, logs_of_sigma = np.arange(-10, 10, step)[:, None], np.arange(-12, 2, step)
    variances = error**2 + 1, slopes**2 + np.exp(2 * logs_of_sigma)
    determinant = variances[0] * variances[1] - slopes**2
    square = variances[1] * (measured @ measured) - 2 * slopes * (measured @ y)
    square += variances[0] * (y @ y)
    log_ml, shares = summed(
        stats.norm.logpdf(slopes, 0, 2) + stats.halfnorm.logpdf(np.exp(logs_of_sigma))
        + logs_of_sigma - square / determinant / 2
        - n / 2 * np.log(determinant) - n * np.log(2 * np.pi),
        step,
        step,
    )  # fmt: skip
    events = [
        below("sigma", limit, shares[:, logs_of_sigma < np.log(limit)].sum())
        for limit in (0.05, 0.15)
    ]
    return Adversary(model, log_ml, events[0] | events[1])


def two_way_layout(y: np.ndarray, wide: float, noise: float) -> Adversary:
    """A mean and effects of rows and columns with wide priors, of which data see only sums.

    Quadrature over the log of the noise. Means of all, of rows and of columns, and the rest are
    independent given it.
    """
    rows, columns = y.shape
    with pm.Model() as model:
        sigma, mean = pm.HalfNormal("sigma", noise), pm.Normal("mean", 0, wide)
        row, column = (
            pm.Normal("row", 0, wide, shape=(rows, 1)),
            pm.Normal("column", 0, wide, shape=columns),
        )
        pm.Normal("y", mean + row + column, sigma, observed=y)
    of_row, of_column = (y.mean(axis=axis) - y.mean() for axis in (1, 0))
    rest = y - y.mean() - of_row[:, None] - of_column
    squares = y.size * y.mean() ** 2, columns * (of_row**2).sum(), rows * (of_column**2).sum()
    counts = 1, rows - 1, columns - 1, (rows - 1) * (columns - 1)
    factors = y.size + columns + rows, columns, rows, 0
    step = 0.005
    sigma = noise * np.exp(np.arange(-8, 2.5, step))
    logs = stats.halfnorm.logpdf(sigma, scale=noise) + np.log(sigma)
    for square, count, factor in zip((*squares, (rest**2).sum()), counts, factors, strict=True):
        variance = factor * wide**2 + sigma**2
        logs -= (square / variance + count * np.log(2 * np.pi * variance)) / 2
    log_ml, shares = summed(logs, step)
    return Adversary(model, log_ml, below("sigma", noise, shares[sigma < noise].sum()))


def heavy_noise(y: np.ndarray, scale: float) -> Adversary:
    """Effects observed with heavy-tailed noise: each may be near its observation or near 0.

    Quadrature over the log of the spread of effects, and over each effect given it.
    """
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        effect = pm.Normal("effect", 0, spread, shape=len(y))
        pm.StudentT("y", 2, mu=effect, sigma=scale, observed=y)
    step, step_of_log = 0.0025, 0.05
    grid, logs_of_spread = np.arange(-20, 20, step), np.arange(-7, 2.2, step_of_log)
    each = stats.t.logpdf((y[:, None] - grid) / scale, 2) - np.log(scale)
    spreads = np.exp(logs_of_spread)
    logs = stats.halfnorm.logpdf(spreads) + logs_of_spread
    for k, spread in enumerate(spreads):
        prior = stats.norm.logpdf(grid, 0, spread)
        logs[k] += (logsumexp(each + prior, axis=1) + np.log(step)).sum()
    log_ml, shares = summed(logs, step_of_log)
    return Adversary(model, log_ml, below("spread", 1.0, shares[spreads < 1.0].sum()))


def hinge(y: np.ndarray, noise: float) -> Adversary:
    """Effects of which the data show the positive part: normal near their modes, and not beyond 0.

    Quadrature over the log of the spread. Given it, an effect is below 0, where its observation
    says nothing more, or above, where it is normal.
    """
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 5)
        effect = pm.Normal("effect", 2, spread, shape=len(y))
        pm.Normal("y", pt.maximum(effect, 0), noise, observed=y)
    step = 0.002
    log_spread = np.arange(-10, 4.5, step)
    spread = np.exp(log_spread)
    logs = stats.halfnorm.logpdf(spread, scale=5) + log_spread
    variance = 1 / (1 / noise**2 + 1 / spread**2)
    for each in y:
        mean = variance * (each / noise**2 + 2 / spread**2)
        below_0 = stats.norm.logpdf(each, 0, noise) + log_ndtr(-2 / spread)
        above = stats.norm.logpdf(each, 2, np.hypot(noise, spread))
        logs += np.logaddexp(below_0, above + log_ndtr(mean / np.sqrt(variance)))
    log_ml, shares = summed(logs, step)
    middle = np.searchsorted(np.cumsum(shares), 0.5)
    return Adversary(model, log_ml, below("spread", spread[middle], shares[:middle].sum()))


def of_amplitudes(t: np.ndarray, y: np.ndarray, noise: float, grid: np.ndarray) -> np.ndarray:
    """Log density of a tone with noise by frequency, given which the two amplitudes are N(0, 1)."""
    logs = []
    for part in np.array_split(grid, 200):
        cosine, sine = np.cos(np.outer(part, t)) / noise, np.sin(np.outer(part, t)) / noise
        aa, bb = 1 + (cosine**2).sum(axis=1), 1 + (sine**2).sum(axis=1)
        ab, ya, yb = (cosine * sine).sum(axis=1), cosine @ y / noise, sine @ y / noise
        determinant = aa * bb - ab**2
        square = (bb * ya**2 - 2 * ab * ya * yb + aa * yb**2) / determinant
        logs.append((square - np.log(determinant)) / 2)
    return np.concatenate(logs) + stats.norm.logpdf(y, 0, noise).sum()


def one_tone(t: np.ndarray, y: np.ndarray) -> Adversary:
    """A tone in noise, whose frequency has a prior without an end, and many low modes.

    Quadrature over the frequency; given it the amplitudes are normal.
    """
    with pm.Model() as model:
        frequency = pm.Gamma("frequency", 2, 2)
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Normal("y", a * pt.sin(frequency * t) + b * pt.cos(frequency * t), 0.5, observed=y)
    step = 5e-4
    grid = np.arange(step / 2, 20, step)
    logs = of_amplitudes(t, y, 0.5, grid) + stats.gamma.logpdf(grid, 2, scale=0.5)
    log_ml, shares = summed(logs, step)
    middle = np.searchsorted(np.cumsum(shares), 0.5)
    return Adversary(model, log_ml, below("frequency", grid[middle], shares[:middle].sum()))


def contaminated(y: np.ndarray) -> Adversary:
    """Groups of readings, 30 % of which are thirty times as noisy, so that effects have two modes.

    Quadrature over mean and log spread; a group is a mixture over which of its readings are noisy.
    """
    groups, n = y.shape
    noise, share = np.array([0.2, 6.0]), np.array([0.7, 0.3])
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 3), pm.HalfNormal("spread", 2)
        effect = pm.Normal("effect", mean, spread, shape=(groups, 1))
        parts = [pm.Normal.dist(effect, each, shape=y.shape) for each in noise]
        pm.Mixture("y", share, parts, observed=y)
    steps = 0.04, 0.03
    means, log_spreads = np.arange(-4, 6, steps[0])[:, None], np.arange(-5, 2.5, steps[1])
    spreads = np.exp(log_spreads)
    logs = stats.norm.logpdf(means, 0, 3) + stats.halfnorm.logpdf(spreads, scale=2) + log_spreads
    for row in y:
        of_group = []
        for which in np.ndindex((2,) * n):
            sd = noise[list(which)]
            precision = (sd**-2).sum()
            best = (row / sd**2).sum() / precision
            height = np.log(share[list(which)]).sum() + stats.norm.logpdf(row, best, sd).sum()
            height += np.log(2 * np.pi / precision) / 2
            far = stats.norm.logpdf(best, means, np.sqrt(1 / precision + spreads**2))
            of_group.append(height + far)
        logs = logs + logsumexp(of_group, axis=0)
    log_ml, shares = summed(logs, *steps)
    limit = 1.01  # between two points of the grid
    return Adversary(model, log_ml, below("mean", limit, shares[means[:, 0] < limit].sum()))


def vague_precisions(y: np.ndarray, a: float = 0.001, width: float = 1000) -> Adversary:
    """Groups with the priors of many published models: Gamma(.001, .001) precisions, N(0, 1000).

    Most prior draws underflow. Quadrature over the logs of both precisions; the rest is normal.
    """
    groups, n = y.shape
    with pm.Model() as model:
        between, within = pm.Gamma("between", a, a), pm.Gamma("within", a, a)
        mean = pm.Normal("mean", 0, width)
        effect = pm.Normal("effect", mean, 1 / pt.sqrt(between), shape=(groups, 1))
        pm.Normal("y", effect, 1 / pt.sqrt(within), observed=y)
    steps = 0.1, 0.05
    logs_b, logs_w = np.arange(-25, 14, steps[0])[:, None], np.arange(-4, 6, steps[1])
    b, w = np.exp(logs_b), np.exp(logs_w)
    logs = sum(
        stats.gamma.logpdf(each, a, scale=1 / a) + log_of
        for each, log_of in ((b, logs_b), (w, logs_w))
    )
    means = y.mean(axis=1)
    squares, variance = ((y - means[:, None]) ** 2).sum(), 1 / (n * w) + 1 / b
    logs = logs + groups * n / 2 * np.log(w / (2 * np.pi)) - w * squares / 2
    logs += groups / 2 * np.log(2 * np.pi / (n * w)) - groups / 2 * np.log(2 * np.pi * variance)
    precision = groups / variance + width**-2.0
    logs += (means.sum() / variance) ** 2 / precision / 2 - (means**2).sum() / variance / 2
    log_ml, shares = summed(logs - np.log(precision) / 2 - np.log(width), *steps)
    limit = np.exp(1.375)  # between two points of the grid
    return Adversary(model, log_ml, below("within", limit, shares[:, w < limit].sum()))


def vague_rates(
    times: np.ndarray, y: np.ndarray, a: float = 0.01, width: float = 1000
) -> Adversary:
    """Counts whose rates, a priori, may be 1e-200, times a level of which even less is known.

    Quadrature over the log of the level, given which the counts are negative binomial.
    """
    with pm.Model() as model:
        level, rate = pm.Normal("level", 0, width), pm.Gamma("rate", a, a, shape=len(y))
        pm.Poisson("y", times * pt.exp(level) * rate, observed=y)
    step = 0.05
    grid = np.arange(-1000 - step / 2, 4000, step)
    logs = stats.norm.logpdf(grid, 0, width)
    for time, n in zip(times, y, strict=True):
        log_mean = np.log(time) + grid
        logs += gammaln(a + n) - gammaln(a) - gammaln(n + 1) + a * np.log(a) + n * log_mean
        logs -= (a + n) * np.logaddexp(np.log(a), log_mean)
    log_ml, shares = summed(logs, step)
    middle = np.searchsorted(np.cumsum(shares), 0.5)
    return Adversary(model, log_ml, below("level", grid[middle], shares[:middle].sum()))


def two_tones(t: np.ndarray, y: np.ndarray) -> Adversary:
    """Two tones and noise, of which the model has one: the frequency may be that of either.

    Quadrature over the frequency; given it the amplitudes are normal.
    """
    with pm.Model() as model:
        frequency = pm.Uniform("frequency", 0.1, 3)
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Normal("y", a * pt.cos(frequency * t) + b * pt.sin(frequency * t), 1, observed=y)
    step = 2e-5
    grid = np.arange(0.1 + step / 2, 3, step)
    log_ml, shares = summed(of_amplitudes(t, y, 1.0, grid) - np.log(2.9), step)
    limit = 1.5  # between the tones
    return Adversary(model, log_ml, below("frequency", limit, shares[grid < limit].sum()))


def shell(d: int, share: float, wide: float) -> Adversary:
    """Noise of two levels, summed out: a wide normal without a maximum around a narrow one.

    The wide one has this share of the posterior.
    """
    y = np.random.default_rng(20).normal(size=d)
    noise = np.array([1.0, wide])
    variance = 100 + noise**2
    log_marginal = stats.norm.logpdf(y[:, None], 0, np.sqrt(variance)).sum(axis=0)
    log_shares = np.log([1 - share, share]) - log_marginal
    log_shares -= logsumexp(log_shares)

    def logp(y, x):
        square = ((y - x) ** 2).sum()
        each = log_shares - 0.5 * square / noise**2 - d * np.log(noise)
        return pt.logaddexp(each[0], each[1]) - 0.5 * d * np.log(2 * np.pi)

    def draw(x, rng=None, size=None):
        return x + noise[int(np.log(rng.random()) < log_shares[1])] * rng.normal(size=np.shape(x))

    with pm.Model() as model:
        x = pm.Normal("x", 0, 10, shape=d)
        pm.CustomDist("y", x, logp=logp, random=draw, signature="(d)->(d)", observed=y)
    # Given the level, x is normal around a multiple of y.
    sd, centre = 10 * noise / np.sqrt(variance), 100 / variance
    radius = 1.5 * np.sqrt(d)
    within = [
        stats.ncx2.cdf((radius / s) ** 2, d, (((c - 1) * y) ** 2).sum() / s**2)
        for s, c in zip(sd, centre, strict=True)
    ]

    def near(draws):
        return ((draws["x"] - y) ** 2).sum(draws["x"].dims[-1]) < radius**2

    probability = float(np.dot([1 - share, share], within))
    log_ml = float(logsumexp(log_shares + log_marginal))
    return Adversary(model, log_ml, {"x near y": Event(near, probability)})


def neck(family: str, y: np.ndarray) -> Adversary:
    """Centred effects of another family than the normal, all alike.

    Quadrature over the log of the scale, and over each effect given it.
    """
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2)
        effect = getattr(pm, family)("effect", 0, scale, shape=len(y))
        pm.Normal("y", effect, 1, observed=y)
    density = {"Laplace": stats.laplace, "Logistic": stats.logistic, "Gumbel": stats.gumbel_r}
    step = 0.02
    scales = np.exp(np.arange(-9, 2.5, step))
    near, far = np.sinh(np.linspace(-12, 12, 2001)), np.linspace(-30, 30, 2001)
    logs = stats.halfnorm.logpdf(scales, scale=2) + np.log(scales)
    for k, each in enumerate(scales):
        grid = np.unique(np.concatenate([each * near, far]))
        grid = grid[np.abs(grid) <= 30]
        with np.errstate(over="ignore"):  # of a density that is 0
            prior = density[family].logpdf(grid, scale=each) + np.log(np.gradient(grid))
        logs[k] += logsumexp(stats.norm.logpdf(y[:, None], grid) + prior, axis=1).sum()
    log_ml, shares = summed(logs, step)
    return Adversary(model, log_ml, below("scale", 0.3, shares[scales < 0.3].sum()))


def waves(y: np.ndarray) -> Adversary:
    """Latent variables whose sines are observed: given the others each has several modes.

    Quadrature over the mean and the log of the spread, and over each variable given them.
    """
    with pm.Model() as model:
        mean, spread = pm.Normal("mean"), pm.HalfNormal("spread", 2)
        x = pm.Normal("x", mean, spread, shape=len(y))
        pm.Normal("y", pt.sin(x), 0.2, observed=y)
    step, step_of_log = 0.1, 0.05
    means, spreads = np.arange(-5, 5, step), np.exp(np.arange(-7, 2.5, step_of_log))
    z = np.linspace(-8, 8, 2001)
    weight = stats.norm.logpdf(z) + np.log(z[1] - z[0])
    logs = np.empty((len(means), len(spreads)))
    for i, at in enumerate(means):
        for k, width in enumerate(spreads):
            each = stats.norm.logpdf(y[:, None], np.sin(at + width * z), 0.2)
            logs[i, k] = logsumexp(each + weight, axis=1).sum()
    logs += stats.norm.logpdf(means)[:, None]
    logs += stats.halfnorm.logpdf(spreads, scale=2) + np.log(spreads)
    log_ml, shares = summed(logs, step, step_of_log)
    return Adversary(model, log_ml, below("spread", 1.0, shares[:, spreads < 1.0].sum()))


def misfit(
    likelihood: Callable[[pt.TensorVariable], object],
    log_likelihood: Callable[[np.ndarray, np.ndarray], np.ndarray],
    events: list[tuple[int, float]],
    scale: float = 3.0,
    widths: tuple[float, float] = (12.0, 12.0),
    steps: tuple[float, float] = (0.02, 0.02),
) -> Adversary:
    """Data that a model of two normal parameters would not make; the sum is over a grid.

    Parameters
    ----------
    likelihood : callable
        Adds the observed variable, given the vector of both.
    log_likelihood : callable
        The same on a grid of both, data summed.
    events : list of (int, float)
        Element of the vector, and a limit that it lies below.
    scale, widths, steps : float
        Standard deviation of the prior; half the width of the grid and its step, a direction each.
    """
    with pm.Model() as model:
        likelihood(pm.Normal("b", 0, scale, shape=2))
    first, second = (np.arange(-w, w, s) for w, s in zip(widths, steps, strict=True))
    logs = log_likelihood(first[:, None], second[None])
    logs = logs + stats.norm.logpdf(first, 0, scale)[:, None] + stats.norm.logpdf(second, 0, scale)
    log_ml, shares = summed(logs, *steps)
    grids = first, second
    found: dict[str, Event] = {}
    for element, limit in events:
        inside = shares.sum(axis=1 - element)[grids[element] < limit].sum()
        found |= below("b", limit, inside, element)
    return Adversary(model, log_ml, found)


def crossing_lines(x: np.ndarray, slope: float, sd: float) -> Adversary:
    """Half of the rows rise and half of them fall; t noise about one line has a mode for each."""
    y = np.where(np.arange(len(x)) % 2, slope, -slope) * x

    def add(b):
        pm.StudentT("y", 4, mu=b[0] + b[1] * x, sigma=sd, observed=y)

    def log_likelihood(b0, b1):
        return sum(stats.t.logpdf(v, 4, b0 + b1 * u, sd) for u, v in zip(x, y, strict=True))

    return misfit(add, log_likelihood, [(1, 0.0), (0, 0.0)])


def cluster_of_outliers(y: np.ndarray) -> Adversary:
    """A third of the data lie far off: they are outliers, or the scale is large."""

    def add(b):
        pm.StudentT("y", 2, mu=b[0], sigma=pm.math.exp(b[1]), observed=y)

    def log_likelihood(b0, b1):
        return sum(stats.t.logpdf(v, 2, b0, np.exp(b1)) for v in y)

    return misfit(add, log_likelihood, [(0, 0.0), (1, 0.0)])


def wrong_link(x: np.ndarray) -> Adversary:
    """Chances rise and fall again, and a logistic regression rises or falls only."""
    y = (np.abs(x) < 1).astype(int)

    def add(b):
        pm.Bernoulli("y", logit_p=b[0] + b[1] * x, observed=y)

    def log_likelihood(b0, b1):
        signs = 2 * y - 1
        return sum(log_expit(s * (b0 + b1 * u)) for u, s in zip(x, signs, strict=True))

    return misfit(add, log_likelihood, [(1, 0.0), (0, 0.0)])


def missing_covariate(x: np.ndarray) -> Adversary:
    """Counts of two kinds, small and large, and nothing in the model says of which kind one is."""
    y = np.where(np.arange(len(x)) % 2, 1, 30)

    def add(b):
        pm.Poisson("y", pm.math.exp(b[0] + b[1] * x), observed=y)

    def log_likelihood(b0, b1):
        return sum(stats.poisson.logpmf(v, np.exp(b0 + b1 * u)) for u, v in zip(x, y, strict=True))

    return misfit(
        add, log_likelihood, [(1, 0.0), (0, 2.7)], widths=(4, 2),
        steps=(0.002, 0.002),
    )  # fmt: skip


def three_clusters_for_two(y: np.ndarray, sd: float) -> Adversary:
    """Three groups of data, and a mixture of two: one mean has two groups, in several ways."""

    def add(b):
        pm.NormalMixture("y", [0.5, 0.5], b, sd, observed=y)

    def log_likelihood(b0, b1):
        return sum(
            np.logaddexp(stats.norm.logpdf(v, b0, sd), stats.norm.logpdf(v, b1, sd)) - np.log(2)
            for v in y
        )

    return misfit(add, log_likelihood, [(0, 0.0), (1, 2.0)])


def noise(d: int) -> np.ndarray:
    return np.sqrt(1 + 0.05**2) * np.random.default_rng(3).normal(size=d)


def few_many_few() -> np.ndarray:
    rng = np.random.default_rng(11)
    return np.concatenate([rng.normal(10, 0.5, 3), rng.normal(21, 2, 18), rng.normal(33, 1, 2)])


def far_modes() -> np.ndarray:
    return np.random.default_rng(12).normal(0, 5, 10)


def returns() -> np.ndarray:
    rng = np.random.default_rng(13)
    return np.exp(np.cumsum(rng.normal(0, 0.6, 15)) / 2) * rng.normal(size=15)


def trend() -> np.ndarray:
    rng = np.random.default_rng(14)
    level = np.cumsum(0.5 + np.cumsum(rng.normal(0, 0.3, 10)) + rng.normal(0, 0.2, 10))
    return level + rng.normal(0, 0.4, 10)


def walk_of_a_line(n: int) -> np.ndarray:
    return np.cumsum(np.random.default_rng(15).normal(0, 0.5, n))


def alike(groups: int, sd: float) -> np.ndarray:
    return 1 + sd * np.random.default_rng(16).normal(size=groups)


def no_slopes(groups: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.linspace(-1, 1, 8)
    return x, 6 + 0.4 * np.random.default_rng(17).normal(size=(groups, len(x)))


def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(19)
    x = rng.normal(size=15)
    return x + 0.5 * rng.normal(size=15), 1.5 * x + 0.3 * rng.normal(size=15)


def tones(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(21)
    t = np.sort(rng.uniform(0, 100, n))
    return t, np.cos(0.8 * t + 1) + 0.95 * np.cos(2.1 * t + 2) + rng.normal(size=n)


def sines(n: int) -> np.ndarray:
    rng = np.random.default_rng(22)
    return np.sin(2 * rng.normal(size=n)) + 0.2 * rng.normal(size=n)


def hinged(n: int) -> np.ndarray:
    rng = np.random.default_rng(24)
    return np.maximum(rng.normal(2, 1, n), 0) + 0.3 * rng.normal(size=n)


def tone(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(25)
    t = np.sort(rng.uniform(0, 10, n))
    return t, np.sin(4 * t) + 0.5 * rng.normal(size=n)


def readings(n: int) -> np.ndarray:
    rng = np.random.default_rng(26)
    noise = np.where(rng.random((n, 3)) < 0.3, 6.0, 0.2)
    return rng.normal(1, 1, (n, 1)) + noise * rng.normal(size=(n, 3))


def grouped(n: int) -> np.ndarray:
    rng = np.random.default_rng(27)
    return 3 + 0.7 * rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 4))


AGREED = 5 + 1e-3 * np.array([0.3, -1, 0.5, 1.2])
TORN = np.concatenate([
    -8 + np.array([[-0.5, 0.0, 0.6], [-0.8, 0.1, 0.5], [-0.4, 0.2, 0.3], [-0.9, 0.0, 0.7]]).T,
    8 + np.array([[-0.6, 0.1, 0.5], [-0.4, 0.0, 0.6], [-0.8, -0.1, 0.9], [-0.5, 0.1, 0.4]]).T,
])  # fmt: skip
"""Six observations of four elements."""
SIGNAL = np.array([0.3, -0.8, 0.1, 0.6, -0.2, 5.0])
CAUGHT = np.array([3, 2, 1, 1, 1, 2] + [0] * 7)
FALLS = np.array([2, 1, 0, 2, 1, 1, 3, 0, 6, 5, 8, 4, 7, 5, 6, 1, 2, 0, 1, 3, 1, 2, 1])
THREE_NORMALS = (-67.429, 0.001, 0.2050, 0.001)
"""By `three_normals_by_gibbs`."""
FAR_OUT = np.array([0.0, 4.0, 40.0, 4000.0])
ALIKE = np.random.default_rng(23).normal(size=8)
CAR = np.array([0.5, 1.1, 0.3, -0.4, 0.2, 0.9])

ADVERSARIES: dict[str, Callable[[], Adversary]] = {
    "spike in slab, d = 2": lambda: spike_in_slab(noise(2)),
    "spike in slab, d = 10": lambda: spike_in_slab(noise(10)),
    "spike in slab, d = 25": lambda: spike_in_slab(noise(25)),
    "tight scale": lambda: tight_scale(AGREED),
    "three normals": lambda: three_normals(few_many_few(), *THREE_NORMALS),
    "odd data": lambda: odd_data(TORN),
    "horseshoe, centred": lambda: horseshoe(SIGNAL),
    "stochastic volatility, centred": lambda: volatility(returns()),
    "local linear trend": lambda: linear_trend(trend()),
    "capture-recapture": lambda: capture_recapture(CAUGHT),
    "two changes, one modelled": lambda: change_point(FALLS),
    "two modes, 75 : 25": lambda: two_modes(far_modes()),
    "far tail of a Cauchy": lambda: cauchy_locations(FAR_OUT),
    "product of two chances": lambda: product(5_000, 10_000),
    "eight schools, non-centred": schools,
    "torn location": lambda: torn_location(np.array([-4.1, -4.0, -3.8, 5.9, 6.0, 6.2])),
    "funnel": lambda: funnel(np.linspace(-2, 2, 9)),
    "inflated zeros": lambda: inflated_zeros(np.array([0] * 10 + [2])),
    "parabola": lambda: parabola(np.array([8.9, 9.0, 9.2])),
    "separated outcomes": lambda: separated(np.linspace(-2, 2, 12)),
    "lost signs": lambda: lost_signs(np.array([0.3, 1.0, 2.0, 4.0, 5.0, 3.0, 0.1, 7.0])),
}
ADVERSARIES |= {
    "observed CAR, n = 6": lambda: observed_car(CAR),
    **{
        f"observed CAR, n = {n}": partial(lambda n: observed_car(walk_of_a_line(n)), n)
        for n in (20, 60)
    },
    **{
        f"groups alike, J = {n}, s = {sd:g}": partial(
            lambda n, sd: groups_alike(alike(n, sd), sd), n, sd
        )
        for n in (5, 10, 20)
        for sd in (1.0, 0.1, 0.01)
    },
    **{
        f"correlated slopes, J = {n}": partial(lambda n: correlated_slopes(*no_slopes(n)), n)
        for n in (8, 20, 40)
    },
    "thin ridge, width 5": lambda: thin_ridge(5, scale=1, steepness=100),
    "thin ridge, width 10": lambda: thin_ridge(10, scale=0.5, steepness=100),
    "thinner ridge, width 10": lambda: thin_ridge(10, scale=0.5, steepness=1000),
    **{
        f"heavy tails, n = {n}": partial(lambda n: heavy_tails(np.linspace(-2, 2, n)), n)
        for n in (6, 10, 40)
    },
    **{
        f"conflict, {at} ± {apart:g}": partial(
            lambda at, apart: conflict(at + apart * np.array([-1, 0, 1])), at, apart
        )
        for at, apart in ((5, 0.3), (5, 0.03), (20, 0.03))
    },
}
ADVERSARIES |= {
    "misfit, crossing lines": lambda: crossing_lines(np.linspace(-1, 1, 24), 1, 0.3),
    "misfit, outliers": lambda: cluster_of_outliers(
        np.r_[np.linspace(-0.2, 0.2, 12), [7.5, 8, 8.1]]
    ),
    "misfit, wrong link": lambda: wrong_link(np.linspace(-2.5, 2.3, 40)),
    "misfit, missing covariate": lambda: missing_covariate(np.linspace(-1, 1, 30)),
    "misfit, three clusters": lambda: three_clusters_for_two(
        np.r_[-3.0, -2.9, -3.1, 0.1, 0.0, -0.1, 3.2, 3.0, 3.1, 3.3], 1.0
    ),
}
ADVERSARIES |= {
    "errors in variables": lambda: errors_in_variables(*pairs()),
    "two-way layout, wide priors": lambda: two_way_layout(
        100 + 0.01 * np.random.default_rng(18).normal(size=(3, 4)), 1000, 0.01
    ),
    "effects with heavy noise": lambda: heavy_noise(
        np.array([0.3, -0.5, 1.1, 0.2, -1.3, 0.8, 3.8, -3.9, 4.1, -0.1]), 0.25
    ),
}
ADVERSARIES |= {
    "hinged effects, J = 4": lambda: hinge(np.array([0.75, 2.4, 4.1, 6.0]), 0.3),
    "hinged effects, J = 40": lambda: hinge(hinged(40), 0.3),
    **{f"one tone, n = {n}": partial(lambda n: one_tone(*tone(n)), n) for n in (25, 60)},
    **{
        f"contaminated readings, J = {n}": partial(lambda n: contaminated(readings(n)), n)
        for n in (12, 40)
    },
    **{
        f"vague precisions, J = {n}": partial(lambda n: vague_precisions(grouped(n)), n)
        for n in (6, 24)
    },
    "vague rates, J = 3": lambda: vague_rates(np.array([3.0, 3, 2]), np.array([0, 1, 2])),
    "vague rates, J = 10": lambda: vague_rates(
        np.linspace(1, 4, 10), np.array([0, 0, 3, 0, 1, 0, 0, 12, 0, 2])
    ),
}
SOUGHT = {
    **{f"two tones, n = {n}": partial(lambda n: two_tones(*tones(n)), n) for n in (40, 80, 160)},
    **{f"shell, d = {d}": partial(shell, d, 0.2, 3.0) for d in (10, 30, 80)},
    **{
        f"neck, {family}": partial(
            lambda f: neck(f, np.random.default_rng(23).normal(size=8)), family
        )
        for family in ("Laplace", "Logistic", "Gumbel")
    },
    **{f"waves, n = {n}": partial(lambda n: waves(sines(n)), n) for n in (3, 6, 10)},
    **{
        f"narrow mode, width {width}": partial(spike_in_slab, noise(2), 0.15, width)
        for width in (0.05, 0.02, 0.01)
    },
}
"""Models whose posterior is hard to find; the rules for a search were made in view of others of
these kinds, with other data."""
ADVERSARIES |= SOUGHT
MODELS: dict[str, Callable[[], pm.Model]] = {
    name: lambda make=make: make().model for name, make in ADVERSARIES.items()
}
