"""Check the rank of an exact draw in a chain that runs through it both ways."""

from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.testing.bets import fair_bets
from pymc_bdmc.testing.features import SHAPES, waves
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial


def check_exact_rank(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    steps: int = 9,
) -> Report:
    r"""Check the rank of an exact draw in a chain that runs through it both ways.

    θ is drawn together with its data y. It becomes the state at a random position of a chain, whose
    later states are made by the sampler and whose earlier states are made by its reversal. If the
    sampler is correct, the rank of θ among all states is uniform for every function of θ and y.

    Parameters
    ----------
    step, model, alpha, random_seed
        As in `check_sampler`.
    budget : int, default 20000
        Number of transitions, not counting those of the pilot. The check ends earlier if the
        sampler fails.
    steps : int, default 9
        Number of transitions on each data set, which give ``steps + 1`` possible ranks.

    Returns
    -------
    Report

    Raises
    ------
    ValueError, TypeError
        As in `check_sampler`, and if the reversal of the sampler is not known. It is known for
        PyMC's own step methods and for the compiled kernels of continuous variables.

    Notes
    -----
    Ties are broken at random, which turns the rank into a number u that is exactly uniform on
    (0, 1). Then cos(πju) has mean 0, and bets on it are fair (`pymc_bdmc.testing.bets`).

    References
    ----------
    Gandy and Scott (2020), Unit testing for MCMC and other Monte Carlo methods, arXiv:2001.06465,
    Section 3.2; Besag and Clifford (1989), Generalized Monte Carlo significance tests.

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
    >>> walk.reversal = walk
    >>> bdmc.testing.check_exact_rank(walk, model, random_seed=1, budget=500).passed
    True
    """
    trial = Trial("check_exact_rank", model, alpha, budget, random_seed)
    check_counts(steps=steps)
    features = trial.features()

    def ranks(subject: Subject) -> np.ndarray:
        if not subject.says_reversal:
            raise ValueError(
                f"step: the reversal of {subject.title} is not known, and this check needs it. "
                "Give it an attribute `reversal` (for a step method, a method that returns one); "
                "with detailed balance it is the sampler itself. Or use check_invariance."
            )
        start = trial.draw()
        place = int(trial.rng.integers(steps + 1))
        after = islice(subject.chain(start, trial.rng), steps - place)
        before = islice(subject.chain(start, trial.rng, reverse=True), place)
        values = features.values([start, *before, *after])
        less, equal = np.sum(values < values[0], axis=0), np.sum(values == values[0], axis=0)
        return (less + equal * trial.rng.random(less.shape)) / len(values)

    def observe(subject: Subject, n: int) -> list[np.ndarray]:
        return [fair_bets(waves(np.array([ranks(subject) for _ in range(n)])).reshape(n, -1))]

    names = [f"{shape} of the rank of {name}" for name in features.names for shape in SHAPES]
    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, steps, np.sqrt(0.5))
