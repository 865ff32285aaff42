"""Check a sampler together with the simulator of the data, by letting them take turns."""

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.testing.bets import fair_bets
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial


def check_geweke(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    rounds: int = 10,
) -> Report:
    r"""Check a sampler together with the simulator of the data, by letting them take turns.

    Starting from a joint draw of θ and y, transitions of θ given y alternate with new data given θ.
    If sampler and simulator are right, the joint distribution does not change. Small faults add up
    over the rounds, and the check also finds faults of the simulator and of the likelihood.

    Parameters
    ----------
    step, model, alpha, random_seed
        As in `check_sampler`.
    budget : int, default 20000
        Number of transitions, not counting those of the pilot. The check ends earlier if the
        sampler fails.
    rounds : int, default 10
        Number of transitions before a new joint draw.

    Returns
    -------
    Report

    Raises
    ------
    ValueError, TypeError
        As in `check_sampler`.

    Notes
    -----
    Features of θ and y, averaged over the rounds, are compared with those of the joint draw from
    which the rounds started. The difference has mean 0 and is bounded (see `check_invariance`). The
    original test runs both samplers once and compares their means by standard errors, so its
    false-alarm rate is right only asymptotically. Restarting from exact draws makes this rate exact
    (Gandy and Scott 2020, Section 3).

    References
    ----------
    Geweke (2004), Getting it right: joint distribution tests of posterior simulators; Gandy and
    Scott (2020), arXiv:2001.06465.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=0.5)
    >>> def walk(point, target, rng):
    ...     new = {"mu": point["mu"] + rng.normal()}
    ...     return new if np.log(rng.random()) < target(new) - target(point) else point
    >>> bdmc.testing.check_geweke(walk, model, random_seed=1, budget=500).passed
    True
    """
    trial = Trial("check_geweke", model, alpha, budget, random_seed)
    check_counts(rounds=rounds)
    features = trial.features(data=True)

    def values(subject: Subject) -> np.ndarray:
        point = trial.draw()
        found = [features.values([point])]
        for _ in range(rounds):
            point = next(subject.chain(point, trial.rng))
            trial.renew_data(point)
            found.append(features.values([point]))
        return np.concatenate(found)

    def observe(subject: Subject, n: int) -> list[np.ndarray]:
        states = features(np.array([values(subject) for _ in range(n)]))
        changes = states[:, 1:].mean(axis=1) - states[:, 0]
        return [fair_bets(changes.reshape(n, -1) / 2)]

    names = [f"over {rounds} rounds: {title}" for title in features.titles]
    noise = np.sqrt((1 + 1 / rounds) / 2)
    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, rounds, noise)
