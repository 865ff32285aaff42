"""Check a sampler by sandwiches of simulated data sets."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.schedules import make_schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.testing.bets import fair_bets, order_bets, tilted_bets, unit_bets
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, BUDGET, Sampler, Subject
from pymc_bdmc.testing.trial import Trial


def check_sampler(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = BUDGET,
    random_seed: RandomSeed = None,
    temperatures: int = 4,
    steps: int = 4,
) -> Report:
    r"""Check a sampler by sandwiches of simulated data sets, and stop if it is refuted.

    θ is drawn together with its data y, and the sampler moves it by a few transitions at β = 1. If
    the sampler is right, the moved θ is still an exact posterior sample. A reverse chain runs from
    there to the prior, and a forward chain starts from the prior. In addition, the kernel of every
    β moves draws from the prior. So the check covers everything on which `sample_bdmc` relies: the
    kernels, the weights, and the reversal if the sampler states one.

    Parameters
    ----------
    step : Sampler
        A name, a step method, a class of kernels or a function. See
        `pymc_bdmc.testing.subjects.Sampler`.
    model : pymc.Model
        Model for the check. Its observed variables are simulated, so their values do not matter.
    alpha : float, default 1e-5
        Largest probability that a correct sampler fails, whenever the check stops.
    budget : int, default 100000
        Number of transitions, not counting those of the pilot. The check ends earlier if the
        sampler fails.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed, which the report contains so that the check can be repeated.
    temperatures : int, default 4
        T of the chains. In long chains a wrong kernel has the same fault in both directions, and
        the bounds close around a wrong value.
    steps : int, default 4
        Number of transitions at β = 1 before the reverse chain.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If the model cannot be simulated, or a step method cannot be built or frozen.
    TypeError
        If ``step`` is not a sampler, or is an instance instead of a class.

    Notes
    -----
    Given all earlier observations, the following bets are fair for any stopping rule
    (`pymc_bdmc.testing.bets`):

    1. The weights w_f and w_r of a forward and a reverse chain are independent given y, so w_f/w_r
       has the mean Z·(1/Z) = 1 (Grosse, Ghahramani and Adams 2015, Eqs 3 and 8). This bet assumes
       only that the kernels of both chains leave their distributions invariant.
    2. A chain from the prior to f_β and back, with one step θ → θ′ by the kernel of β, has the
       weight w = exp(β(ℓ(θ) − ℓ(θ′))), and its Z is 1. So w has the mean 1. For every function h
       with values in [−1, 1], w(1 ± h(θ′)) − (1 ± h(θ)) has mean 0 (Neal 2001, Eq. 13) and is at
       least −2.
    3. If the stated reversal is right, Crooks' relation p_f·w = Z·p_r holds for whole paths. For
       two paths in unknown order, the odds of one order against the other are then w_r to w_f,
       whatever Z is. If a fair coin chooses the kernel of β or its reversal, the odds of the order
       of θ and θ′ are exp(β(ℓ(θ′) − ℓ(θ))). Bettors change these log odds in proportion to
       themselves, which is the effect of a wrong β, or in proportion to h(θ′) − h(θ).
    4. The difference of h between the moved and the first θ\* has mean 0; see `check_invariance`.

    The mean capital of all bettors is a nonnegative martingale that starts at 1, so it reaches
    1/alpha with a probability of at most alpha (Ville 1939).

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=0.5)
    >>> bdmc.testing.check_sampler("metropolis", model, random_seed=1, budget=500).passed
    True
    """
    trial = Trial("check_sampler", model, alpha, budget, random_seed)
    check_counts(temperatures=temperatures, steps=steps)
    features, density, rng = trial.features(), trial.density, trial.rng
    betas = make_schedule("power", temperatures).betas

    def chains_and_moves(subject: Subject) -> tuple:
        """Return log w_r/w_f, increases of β·ℓ of moved prior draws, and values around moves."""
        start = trial.draw()
        kept = list(islice(subject.chain(start, rng), steps))
        forward, reverse = subject.log_weight(None, rng), subject.log_weight(kept[-1], rng)
        drawn = [density.draw_prior(rng)[0] for _ in betas[1:]]
        flips = rng.random(temperatures) < (0.5 if subject.says_reversal else 0)
        moved = [
            next(subject.chain(point, rng, t, reverse=flip))
            for t, (point, flip) in enumerate(zip(drawn, flips, strict=True), start=1)
        ]
        rises = betas[1:] * (_log_likelihoods(density, moved) - _log_likelihoods(density, drawn))
        return reverse - forward, rises, *map(features.values, (drawn, moved, [start, *kept]))

    def observe(subject: Subject, n: int) -> list[np.ndarray | float]:
        log_ratios, rises, drawn, moved, states = map(
            np.array, zip(*[chains_and_moves(subject) for _ in range(n)], strict=True)
        )
        chains, rises = log_ratios[:, None], rises.reshape(-1, 1)
        starts, ends = (features(values).reshape(len(rises), -1) for values in (drawn, moved))
        kept = features(states).reshape(n, steps + 1, -1)
        with np.errstate(over="ignore"):
            ratios, weights = np.exp(-chains), np.exp(-rises)
        orders: tuple[np.ndarray | float, np.ndarray | float] = 0.0, 0.0
        if subject.says_reversal:
            differences = np.column_stack([rises, ends - starts])
            orders = order_bets(chains, chains), order_bets(rises, differences)
        return [
            unit_bets(ratios),
            unit_bets(weights),
            tilted_bets(weights, ends, starts),
            fair_bets((kept[:, 1:].mean(axis=1) - kept[:, 0]) / 2),
            *orders,
        ]

    titles = features.titles
    chains, draws = "forward and reverse chains", "prior draws moved at all β"
    blocks = [
        [f"mean weight of {chains} above 1"],
        [f"mean weight of {draws} above 1"],
        [f"{draws}: {title}" for title in titles],
        [f"over {steps} steps: {title}" for title in titles],
        [f"order of {chains}: weight"],
        [f"order of {draws}: {title}" for title in ["weight", *titles]],
    ]
    noise = np.sqrt((1 + 1 / steps) / 2)
    return trial.hold(step, betas, blocks, observe, 3 * temperatures + steps, noise)


def _log_likelihoods(density: TemperedDensity, points: Sequence[Point]) -> np.ndarray:
    """Return ℓ of each point, nats, with −∞ in place of NaN."""
    data = density.present_data
    found = np.array([density.terms(point, data)[1] for point in points], float)
    return np.where(np.isnan(found), -np.inf, found)
