"""Estimate E_β[ℓ] between the prior and the posterior, from pilot samples at increasing β."""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import softmax

PRIOR_DRAWS = 512
"""Number of prior draws with finite ℓ, over all pilots on a data set."""


def collect_starts[S](
    batches: Iterable[tuple[list[S], int]], most: int, least: int = 1
) -> tuple[list[S], int]:
    """Collect prior draws with finite ℓ for a pilot; return them and the number of draws they took.

    Each batch has some starts and the number of draws they took. ``most`` starts are enough;
    ``least`` are collected for any number of draws, unless the ``batches`` end.
    """
    starts: list[S] = []
    spent = 0
    for found, drawn in batches:
        starts += found
        spent += drawn
        # If the data rule out most draws, a pilot accepts fewer.
        if len(starts) >= most or (len(starts) >= least and spent >= 10 * PRIOR_DRAWS):
            break
    return starts, spent


class MeanCurve:
    """Stages of a pilot, close enough to estimate E_β[ℓ] between them; begins with ℓ of the prior.

    Examples
    --------
    With ℓ of a normal observation the mean is linear in β while β is small:

    >>> import numpy as np
    >>> from pymc_bdmc.pilots.mean_curve import MeanCurve
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
        highest = 10 * self._beta if self._beta else 1 / spread
        allowed = next_beta(self._ells, self._beta)
        # Only values of ℓ that differ by rounding ask for so small a step.
        return min(allowed if allowed > (1 + 1e-4) * self._beta else 1.0, highest)

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
    """Return the β ≤ 1 at which the effective size of the present samples is half their number.

    See Del Moral, Doucet and Jasra (2012), Section 3.3.
    """
    if np.ptp(ells) == 0:
        return 1.0

    def surplus(log_increment):
        weights = softmax(np.exp(log_increment) * ells)
        return 1 / np.sum(weights**2) - 0.5 * len(ells)

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
