"""Estimators of log ML with a common interface, from a problem and a budget of transitions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from factor_models.annealing import run, sequential_harmonic_mean
from factor_models.features import features_of
from factor_models.kernels import constrained_sweep, sweep
from factor_models.models import Problem
from factor_models.rows import log_row_marginals
from factor_models.variational import variational_bound
from pymc_bdmc.base.schedules import linear, sigmoid
from pymc_bdmc.base.types import Direction
from pymc_bdmc.estimators import bar, log_mean_exp

LIVE, MORE_LIVE = 10, 30
"""Numbers of particles of nested sampling, as in the paper and larger."""

INFORMATION = 200
"""Information in nats for which the budget of nested sampling is planned."""

PARTICLES, STEPS = 32, 600
"""Largest number of particles of an annealed population, and smallest number of its steps."""


def harmonic(log_z: ArrayLike) -> float:
    """Return the logarithm of the harmonic mean.

    Examples
    --------
    >>> import numpy as np
    >>> from factor_models import harmonic
    >>> round(float(np.exp(harmonic(np.log([1.0, 3.0])))), 6)
    1.5
    """
    return -log_mean_exp(-np.asarray(log_z))


@dataclass(frozen=True)
class Estimator:
    """Estimator of log ML.

    Attributes
    ----------
    estimate : callable
        ``estimate(problem, budget, rng) -> (log_ml, transitions)``, which returns log Ẑ in nats and
        the number of sweeps used, about ``budget``.
    combine : callable
        Function that combines independent estimates. It is `estimators.log_mean_exp` if the mean of
        Ẑ is Z, and `harmonic` if the mean of 1/Ẑ is 1/Z.
    exact : bool
        Whether the estimator uses the rows from which the observations were simulated.
    """

    estimate: Callable[[Problem, int, np.random.Generator], tuple[float, int]]
    combine: Callable[[np.ndarray], float]
    exact: bool = False


def likelihood_weighting(problem, budget, rng):
    """Estimate log ML by the mean of p(y | L) over the prior."""
    rows = problem.model.draw_rows(rng, budget)
    return log_mean_exp([problem.model.log_likelihood(each, problem.y) for each in rows]), budget


def chain(problem, rows, n, rng, backwards=False):
    """Return the states of a Gibbs chain of n sweeps, starting with the first."""
    model, ones = problem.model.factors, np.ones(problem.model.n)
    states = [rows]
    for _ in range(n):
        states.append(states[-1].copy())
        sweep(model, states[-1], problem.y, ones, backwards, rows[:0], rng)
    return states


def posterior_chain(problem: Problem, budget: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the rows in the second half of a Gibbs chain of ``budget`` sweeps from the prior.

    Examples
    --------
    >>> import numpy as np
    >>> from factor_models import Clustering, posterior_chain
    >>> problem = Clustering(2, n=6, size=2).simulate(random_seed=1)
    >>> len(posterior_chain(problem, 10, np.random.default_rng(1)))
    5
    """
    (rows,) = problem.model.draw_rows(rng)
    return chain(problem, rows, budget, rng)[budget // 2 + 1 :]


def harmonic_mean(problem, budget, rng):
    """Estimate log ML by the harmonic mean over the posterior (Newton and Raftery 1994)."""
    states = posterior_chain(problem, budget, rng)
    return harmonic([problem.model.log_likelihood(rows, problem.y) for rows in states]), budget


def bic(problem, budget, rng):
    """Estimate log ML by the Bayesian information criterion (Schwarz 1978).

    The parameters are the features at the best state of a Gibbs chain.
    """
    model, y = problem.model, problem.y
    states = posterior_chain(problem, budget, rng)
    best = max(states, key=lambda rows: model.log_joint(rows, y))
    features = features_of(model.factors, best, y, np.ones(model.n))[0].mean
    found = log_row_marginals(model.factors, features, y, rng)
    return found - features.size / 2 * np.log(model.n), budget


def chib_murray_salakhutdinov(problem, budget, rng):
    """Estimate log ML by the Chib-style estimator of Murray and Salakhutdinov (2008).

    L* is the end of a Gibbs chain, and the estimate is f(L*) divided by the mean density of
    transitions to L*. The transitions start from the states of a second chain. Its state at a
    random position is drawn from L* by the reversal, which makes the mean of Ẑ equal to Z. For
    normal rows the density of a transition is known only given newly drawn features, so the mean
    of Ẑ is only approximately Z.
    """
    model, y, ones = problem.model, problem.y, np.ones(problem.model.n)
    half = max(budget // 2, 1)
    target = posterior_chain(problem, half, rng)[-1]
    before = int(rng.integers(half))
    states = chain(problem, target, before + 1, rng, backwards=True)[1:]
    states += chain(problem, states[0], half - before - 1, rng)[1:]
    log_p = [sweep(model.factors, rows.copy(), y, ones, False, target, rng) for rows in states]
    return model.log_joint(target, y) - log_mean_exp(log_p), 3 * half


def nested_sampling(live):
    """Return nested sampling (Skilling 2006), with prior moves above the last likelihood.

    Each particle is moved by at least one sweep, for any budget.
    """

    def estimate(problem, budget, rng):
        model, y = problem.model, problem.y
        states = model.draw_rows(rng, live)
        log_likelihoods = np.array([model.log_likelihood(rows, y) for rows in states])
        sweeps = max(1, budget // (live * INFORMATION))
        log_z, log_volume, step = -np.inf, 0.0, np.log(-np.expm1(-1 / live))
        transitions = 0
        while log_likelihoods.max() + log_volume > log_z - 7:
            worst = log_likelihoods.argmin()
            floor = log_likelihoods[worst]
            log_z = np.logaddexp(log_z, floor + log_volume + step)
            log_volume -= 1 / live
            states[worst] = states[(worst + rng.integers(1, live)) % live]
            for candidates in model.draw_rows(rng, sweeps):
                log_likelihoods[worst] = constrained_sweep(
                    model.factors, states[worst], y, candidates, floor, rng
                )
            transitions += sweeps
        return np.logaddexp(log_z, log_mean_exp(log_likelihoods) + log_volume), transitions

    return estimate


def variational(problem, budget, rng):
    """Estimate log ML by mean-field variational Bayes."""
    return variational_bound(problem, budget, rng), budget


def variational_symmetric(problem, budget, rng):
    """Estimate log ML by variational Bayes, plus log K! for permutations of the features."""
    return variational(problem, budget, rng)[0] + gammaln(problem.model.n_features + 1), budget


def single(direction, path="prior", schedule=sigmoid):
    """Return annealing of a single particle, by default AIS with δ = 4 or its reverse."""

    def estimate(problem, budget, rng):
        return run(problem, direction, path, schedule(budget).betas, 1, rng)[0], budget

    return estimate


def particle_learning(problem, budget, rng):
    """Estimate log ML by sequential Monte Carlo over observations."""
    n = problem.model.n
    particles = max(1, budget // n)
    found = run(problem, Direction.FORWARD, "data", linear(n).betas, particles, rng)[0]
    return found, particles * n


def sequential_harmonic(problem, budget, rng):
    """Estimate log ML by removing observations in turn: Algorithm 3 of Grosse et al. (2015)."""
    n = problem.model.n
    particles = max(1, budget // n)
    return sequential_harmonic_mean(problem, linear(n).betas, particles, rng), particles * n


def population(direction):
    """Return annealing of a population, which in reverse is a conditional one."""

    def estimate(problem, budget, rng):
        particles = min(max(1, budget // STEPS), PARTICLES)
        steps = linear(max(1, budget // particles))
        found = run(problem, direction, "prior", steps.betas, particles, rng)[0]
        return found, particles * steps.n_temperatures

    return estimate


def populations_bar(problem, budget, rng):
    """Estimate log ML by Bennett's acceptance ratio of a population in each direction."""
    forward, reverse = (population(direction)(problem, budget // 2, rng) for direction in Direction)
    return bar([forward[0]], [reverse[0]]).value, forward[1] + reverse[1]


ESTIMATORS: dict[str, Estimator] = {
    "likelihood weighting": Estimator(likelihood_weighting, log_mean_exp),
    "harmonic mean": Estimator(harmonic_mean, harmonic),
    "BIC": Estimator(bic, np.max),
    "AIS": Estimator(single(Direction.FORWARD), log_mean_exp),
    "reverse AIS": Estimator(single(Direction.REVERSE), harmonic, exact=True),
    "SMC": Estimator(particle_learning, log_mean_exp),
    "SMC, one particle": Estimator(single(Direction.FORWARD, "data", linear), log_mean_exp),
    "sequential harmonic mean": Estimator(sequential_harmonic, harmonic, exact=True),
    "Chib-Murray-Salakhutdinov": Estimator(chib_murray_salakhutdinov, log_mean_exp),
    "nested sampling": Estimator(nested_sampling(LIVE), np.mean),
    "nested sampling, 30 particles": Estimator(nested_sampling(MORE_LIVE), np.mean),
    "variational Bayes": Estimator(variational, np.max),
    "variational Bayes, K!": Estimator(variational_symmetric, np.max),
    "population": Estimator(population(Direction.FORWARD), log_mean_exp),
    "reverse population": Estimator(population(Direction.REVERSE), harmonic, exact=True),
    "populations, BAR": Estimator(populations_bar, np.mean, exact=True),
}
"""The estimators of the paper, followed by populations. Histogram estimates equal those of BAR."""
