"""Estimate E_β[ℓ] between the prior and the posterior, from pilot samples at increasing β."""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import softmax

PRIOR_DRAWS = 512
"""Number of prior draws with finite ℓ, over all pilots on a data set."""
MAX_SPENT = 10 * PRIOR_DRAWS
"""Number of draws after which a pilot accepts fewer, if the data rule out most of them."""

OVERLAP = 0.5
"""Effective sample size at the next β, as a share of the samples of a stage."""
LEAST_RISE, MAX_RISE = 1 + 1e-4, 10.0
"""Ratios of β between successive stages: the largest, and the one below which only differences
between values of ℓ that come from rounding ask for so small a step."""


def collect_starts[S](
    batches: Iterable[tuple[list[S], int]], most: int, least: int = 1
) -> tuple[list[S], int]:
    """Collect prior draws with finite ℓ for a pilot, and count the draws they took.

    Parameters
    ----------
    batches : iterable
        Batches of starts and counts.
    most : int
        Number that is enough; the last batch may exceed it.
    least : int
        Smallest number, for any number of draws, unless ``batches`` end.
    """
    starts: list[S] = []
    spent = 0
    for found, drawn in batches:
        starts += found
        spent += drawn
        if len(starts) >= most or (len(starts) >= least and spent >= MAX_SPENT):
            break
    return starts, spent


class MeanCurve:
    """Stages of a pilot, close enough to estimate E_β[ℓ] between them.

    Parameters
    ----------
    prior_log_likelihood : ndarray of shape (N,)
        ℓ of draws from the prior, nats.

    Examples
    --------
    With ℓ of a normal observation the mean is linear in β while β is small:

    >>> import numpy as np
    >>> from pymc_bdmc.engines.mean_curve import MeanCurve
    >>> ells = np.linspace(-1, 0, 100)
    >>> curve = MeanCurve(ells)
    >>> curve.add(curve.next_beta(), ells + 0.1)
    >>> bool((np.diff(curve.mean_log_likelihood) >= 0).all())
    True
    """

    def __init__(self, prior_log_likelihood: np.ndarray):
        self._beta, self._ells = 0.0, prior_log_likelihood
        self._betas, self._means = [np.zeros(1)], [_mean(prior_log_likelihood)]

    def next_beta(self) -> float:
        """Return the next β that the latest samples allow, at most ten times the present one."""
        spread = max(np.ptp(self._ells), 1.0)
        highest = MAX_RISE * self._beta if self._beta else 1 / spread
        allowed = next_beta(self._ells, self._beta)
        return min(allowed if allowed > LEAST_RISE * self._beta else 1.0, highest)

    def add(self, beta: float, ells: np.ndarray) -> None:
        """Record samples of ℓ, shape (N,), at a higher β; only a wrong kernel gives −∞."""
        ells = ells[ells > -np.inf]
        if not ells.size:
            ells = self._ells
        between = _between(self._beta, beta, self._ells)
        self._betas += [between, np.array([beta])]
        self._means += [_mean_between(between, self._beta, self._ells, beta, ells), _mean(ells)]
        self._beta, self._ells = beta, ells

    @property
    def betas(self) -> np.ndarray:
        """Return β of the stages and between them, increasing from 0."""
        return np.concatenate(self._betas)

    @property
    def mean_log_likelihood(self) -> np.ndarray:
        """Return E_β[ℓ] at `betas`, nats, made monotone in β."""
        return isotonic_regression(np.concatenate(self._means)).x


def next_beta(ells: np.ndarray, beta: float) -> float:
    """Return the β ≤ 1 at which the effective share of the present samples is `OVERLAP`.

    See Del Moral, Doucet and Jasra (2012), Section 3.3.
    """
    if np.ptp(ells) == 0:
        return 1.0

    def surplus(log_increment):
        weights = softmax(np.exp(log_increment) * ells)
        return 1 / np.sum(weights**2) - OVERLAP * len(ells)

    top = np.log(1 - beta)
    if surplus(top) >= 0:
        return 1.0
    bottom = np.log(1e-3 / np.ptp(ells))
    return beta + np.exp(brentq(surplus, min(bottom, top - 1), top, xtol=1e-6))


def _mean(ells: np.ndarray) -> np.ndarray:
    """Return the mean of ℓ, shape (1,), without overflow of the sum."""
    return np.sum(ells / len(ells), keepdims=True)


def _between(below: float, beta: float, ells_below: np.ndarray) -> np.ndarray:
    """Return temperatures at which to estimate E[ℓ] between two stages.

    After the prior they start at the smallest β that matters, even for a heavy tail.
    """
    if below > 0:
        return np.linspace(below, beta, 7)[1:-1]
    return np.geomspace(min(beta / 2, 0.1 / max(np.ptp(ells_below), 1e-300)), beta, 80)[:-1]


def _mean_between(betas, below, ells_below, above, ells_above) -> np.ndarray:
    """Estimate E_β[ℓ] from the samples on both sides, weighted by nearness."""
    means = []
    for beta in betas:
        near = (beta - below) / (above - below)
        from_below = softmax((beta - below) * ells_below) @ ells_below
        from_above = softmax((beta - above) * ells_above) @ ells_above
        means.append((1 - near) * from_below + near * from_above)
    return np.array(means)
