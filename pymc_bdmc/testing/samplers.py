"""Check samplers on data simulated from a model, by bets that are fair for a correct sampler."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.base.schedules import make_schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.testing.bets import (
    SHAPES,
    Trial,
    fair_bets,
    order_bets,
    tilted_bets,
    unit_bets,
    waves,
)
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, BUDGET, Sampler, Subject


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
    counts = {"temperatures": temperatures, "steps": steps}
    trial = Trial("check_sampler", model, alpha, budget, random_seed, counts)
    features, density, rng = trial.features, trial.density, trial.rng
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
        weights, changes = np.exp(-rises), _changes(features(states)).reshape(n, -1)
        pays = [unit_bets(np.exp(-chains)), unit_bets(weights)]
        pays += [tilted_bets(weights, ends, starts), fair_bets(changes)]
        if not subject.says_reversal:
            return [*pays, 0.0, 0.0]
        differences = np.column_stack([rises, ends - starts])
        return [*pays, order_bets(chains, chains), order_bets(rises, differences)]

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
    return trial.run(step, betas, blocks, observe, 3 * temperatures + steps, _noise(steps))


def _log_likelihoods(density: TemperedDensity, points: Sequence[Point]) -> np.ndarray:
    """Return ℓ of each point, nats, with −∞ in place of NaN."""
    data = density.present_data
    found = np.array([density.terms(point, data)[1] for point in points], float)
    return np.where(np.isnan(found), -np.inf, found)


def _changes(states: np.ndarray) -> np.ndarray:
    """Return half the changes from the first state to the mean of the others, along axis 1."""
    return (states[:, 1:].mean(axis=1) - states[:, 0]) / 2


def _noise(n: int) -> float:
    """Return the standard deviation of half such a change of a feature, for n other states."""
    return np.sqrt((1 + 1 / n) / 2)


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

    θ is drawn together with its data y, so it is an exact posterior sample [1]_ [2]_. If the
    sampler is correct, every state of a chain that starts at θ is one too. The state after one step
    and the mean over several steps are compared with θ. The mean shows faults that build up along a
    chain.

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
    h(θ))/2 has mean 0, and it lies in [−1, 1]. So a stake of λ on d is a fair bet [3]_, and the
    mean capital of all bettors reaches 1/alpha with a probability of at most alpha
    (`pymc_bdmc.testing.bets`). Comparing θ′ with its own θ removes the variance between the θ.

    References
    ----------
    .. [1] Geweke (2004), Getting it right: joint distribution tests of posterior simulators.
       https://doi.org/10.1198/016214504000001132
    .. [2] Gandy and Scott (2020), Unit testing for MCMC and other Monte Carlo methods, Section 3.
       https://doi.org/10.48550/arXiv.2001.06465
    .. [3] Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting.
       https://doi.org/10.1093/jrsssb/qkad009

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
    trial = Trial("check_invariance", model, alpha, budget, random_seed, {"steps": steps})
    features = trial.features

    def values(subject: Subject) -> np.ndarray:
        start = trial.draw()
        return features.values([start, *islice(subject.chain(start, trial.rng), steps)])

    def observe(subject: Subject, n: int) -> list[np.ndarray]:
        states = features(np.array([values(subject) for _ in range(n)]))
        changes = np.stack([_changes(states[:, :2]), _changes(states)], axis=1)
        return [fair_bets(changes.reshape(n, -1))]

    times = ("after 1 step", f"over {steps} steps")
    names = [f"{time}: {title}" for time in times for title in features.titles]
    return trial.run(step, np.array([0.0, 1.0]), [names], observe, steps, _noise(steps))


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
    original test [1]_ runs both samplers once and compares their means by standard errors, so its
    false-alarm rate is right only asymptotically. Restarting from exact draws makes this rate exact
    ([2]_, Section 3).

    References
    ----------
    .. [1] Geweke (2004), Getting it right: joint distribution tests of posterior simulators.
       https://doi.org/10.1198/016214504000001132
    .. [2] Gandy and Scott (2020), Unit testing for MCMC and other Monte Carlo methods.
       https://doi.org/10.48550/arXiv.2001.06465

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
    trial = Trial("check_geweke", model, alpha, budget, random_seed, {"rounds": rounds}, True)
    features = trial.features

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
        return [fair_bets(_changes(states).reshape(n, -1))]

    names = [f"over {rounds} rounds: {title}" for title in features.titles]
    return trial.run(step, np.array([0.0, 1.0]), [names], observe, rounds, _noise(rounds))


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

    θ is drawn together with its data y. It becomes the state at a random position of a chain [1]_
    [2]_, whose later states are made by the sampler and whose earlier states are made by its
    reversal. If the sampler is correct, the rank of θ among all states is uniform for every
    function of θ and y.

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
    .. [1] Gandy and Scott (2020), Unit testing for MCMC and other Monte Carlo methods, Section 3.2.
       https://doi.org/10.48550/arXiv.2001.06465
    .. [2] Besag and Clifford (1989), Generalized Monte Carlo significance tests.
       https://doi.org/10.1093/biomet/76.4.633

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
    trial = Trial("check_exact_rank", model, alpha, budget, random_seed, {"steps": steps})
    features = trial.features

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
    return trial.run(step, np.array([0.0, 1.0]), [names], observe, steps, np.sqrt(0.5))
