"""Check that a sampler leaves the joint distribution of parameters and data as it is."""

from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.testing.bets import fair_bets
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, BUDGET, Sampler, Subject
from pymc_bdmc.testing.trial import Trial


def check_invariance(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = BUDGET,
    random_seed: RandomSeed = None,
    steps: int = 5,
) -> Report:
    r"""Check that a sampler leaves the joint distribution of parameters and data as it is.

    θ is drawn together with its data y, so it is an exact posterior sample. If the sampler is
    correct, every state of a chain that starts at θ is one too. The state after one step and the
    mean over several steps are compared with θ. The mean shows faults that build up along a chain.

    Parameters
    ----------
    step, model, alpha, random_seed
        As in `check_sampler`.
    budget : int, default 100000
        Number of transitions, not counting those of the pilot. The check ends earlier if the
        sampler fails.
    steps : int, default 5
        Number of transitions on each data set.

    Returns
    -------
    Report

    Raises
    ------
    ValueError, TypeError
        As in `check_sampler`.

    Notes
    -----
    Every feature in `Features` is a function h of θ and y with values in [−1, 1]. If the sampler
    leaves the posterior invariant, with or without detailed balance, the difference d = (h(θ′) −
    h(θ))/2 has mean 0, and it lies in [−1, 1]. So a stake of λ on d is a fair bet, and the mean
    capital of all bettors reaches 1/alpha with a probability of at most alpha
    (`pymc_bdmc.testing.bets`). Comparing θ′ with its own θ removes the variance between the θ.

    References
    ----------
    Geweke (2004), Getting it right; Gandy and Scott (2020), Unit testing for MCMC and other Monte
    Carlo methods, arXiv:2001.06465, Section 3; Waudby-Smith and Ramdas (2024), Estimating means of
    bounded random variables by betting.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=0.5)
    >>> def walk(point, target, rng, corrected=True):
    ...     new = {"mu": point["mu"] + rng.normal()}
    ...     log_ratio = target(new) - target(point)
    ...     return new if not corrected or np.log(rng.random()) < log_ratio else point
    >>> bdmc.testing.check_invariance(walk, model, random_seed=1, budget=1000).passed
    True
    >>> def always(point, target, rng):
    ...     return walk(point, target, rng, corrected=False)
    >>> report = bdmc.testing.check_invariance(always, model, random_seed=1)
    >>> report.passed, "over 5 steps: spread of mu" in report.findings
    (False, True)
    """
    trial = Trial("check_invariance", model, alpha, budget, random_seed)
    check_counts(steps=steps)
    features = trial.features()
    times = ("after 1 step", f"over {steps} steps")
    names = [f"{time}: {title}" for time in times for title in features.titles]

    def values(subject: Subject) -> np.ndarray:
        start = trial.draw()
        return features.values([start, *islice(subject.chain(start, trial.rng), steps)])

    def observe(subject: Subject, n: int) -> list[np.ndarray]:
        states = features(np.array([values(subject) for _ in range(n)]))
        before, after = states[:, 0], states[:, 1:]
        changes = np.stack([after[:, 0] - before, after.mean(axis=1) - before], axis=1)
        return [fair_bets(changes.reshape(n, -1) / 2)]

    noise = np.sqrt((1 + 1 / steps) / 2)
    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, steps, noise)
