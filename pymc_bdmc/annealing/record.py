"""Chains added up as they finish: memory for one path, however many chains there are."""

import numpy as np

from pymc_bdmc.types import AnnealingRun, Chain, Point

__all__ = ["Recorder"]

_MIN_STRETCH = 50


class Recorder:
    """Collects the chains of one direction on one data set.

    Moments along β are updated in the order of the chains. A chain that finishes before an earlier
    one waits, so the sums do not depend on who was first.

    Parameters
    ----------
    n_chains : int
        Chains that are awaited; those that never come have the log weight NaN.
    betas : ndarray of shape (T + 1,)
        The schedule.

    Attributes
    ----------
    ends : dict of int to Point
        Last state by chain.
    """

    def __init__(self, n_chains: int, betas: np.ndarray):
        self._log_weight = np.full(n_chains, np.nan)
        self._prior_draws: dict[int, np.ndarray] = {}
        self._lowest_acceptance = np.full(n_chains, np.nan)
        self._mean, self._squares, self._acceptance = np.zeros((3, len(betas)))
        self._divergences = np.zeros(len(betas), dtype=int)
        self._gradients = self._n_added = self._next = 0
        self._waiting: dict[int, Chain] = {}
        self.ends: dict[int, Point] = {}

    def add(self, place: int, chain: Chain) -> None:
        """Record the chain of that number."""
        self._log_weight[place] = chain.log_weight
        self._prior_draws[place] = np.atleast_1d(chain.prior_draws)
        self._lowest_acceptance[place] = _lowest_acceptance(_known_parts(chain))
        self._divergences += chain.diverging
        self._gradients += chain.gradient_evaluations
        self.ends[place] = chain.end
        self._waiting[place] = chain
        while self._next in self._waiting:
            self._add_path(self._waiting.pop(self._next))
            self._next += 1

    def _add_path(self, chain: Chain) -> None:
        """Running mean and sum of squared deviations. Welford (1962)."""
        self._n_added += 1
        with np.errstate(invalid="ignore", over="ignore"):  # the spread of extreme ℓ is lost
            deviation = chain.log_likelihood - self._mean
            self._mean += deviation / self._n_added
            self._squares += deviation * (chain.log_likelihood - self._mean)
        known = _known_parts(chain)
        self._acceptance += known.mean(axis=1) if known.size else np.nan

    @property
    def n_finished(self) -> int:
        """Number of chains recorded."""
        return len(self.ends)

    def collected(self, step_size: np.ndarray) -> AnnealingRun:
        """Everything recorded, with the step size of the kernel at every β."""
        for place in sorted(self._waiting):  # interrupted: some earlier chain will never come
            self._add_path(self._waiting.pop(place))
        n = self._n_added
        blank = np.full(len(self._mean), np.nan)
        return AnnealingRun(
            self._log_weight,
            self._prior_draws_by_chain(),
            self._lowest_acceptance,
            self._mean if n else blank,
            np.sqrt(self._squares / n) if n else blank,
            self._acceptance / n if n else blank,
            step_size,
            self._divergences,
            self._gradients,
        )

    def _prior_draws_by_chain(self) -> np.ndarray:
        """Shape (C,), or (C, A) where a chain accepted several; NaN for what never came."""
        n_counted = max(map(len, self._prior_draws.values()), default=1)
        draws = np.full((len(self._log_weight), n_counted), np.nan)
        for place, counted in self._prior_draws.items():
            draws[place] = counted
        return draws if n_counted > 1 else draws[:, 0]


def _known_parts(chain: Chain) -> np.ndarray:
    """Acceptance of those parts of the kernel that have one, shape (T + 1, number of them)."""
    return chain.acceptance[:, ~np.isnan(chain.acceptance[1:]).all(axis=0)]


def _lowest_acceptance(acceptance: np.ndarray) -> float:
    """Smallest mean acceptance over stretches of a chain and parts of the kernel; NaN without any.

    A stretch is a quarter of the chain but long enough that a kernel that accepts every tenth
    proposal practically never rejects all of it.
    """
    if not acceptance.size:
        return np.nan
    n_stretches = max(1, min(4, (len(acceptance) - 1) // _MIN_STRETCH))
    stretches = np.array_split(acceptance[1:], n_stretches)
    return float(np.min([stretch.mean(axis=0) for stretch in stretches]))
