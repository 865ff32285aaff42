"""Add up runs as they finish, with memory for one path only."""

from copy import deepcopy

import numpy as np

from pymc_bdmc.base.types import Annealing, Point, Populations, Run

_MIN_STRETCH = 50


class Recorder:
    """Collector of the runs of one direction on one data set.

    Moments along β are updated in the order of the runs. A run that finishes before an earlier one
    is held back, so the sums do not depend on the order of finishing.

    Parameters
    ----------
    n_runs : int
        Number of expected runs; missing ones get the log weight NaN.
    betas : ndarray of shape (T + 1,)
        The schedule.
    judges_acceptance : bool, default True
        Whether to record the lowest acceptance of each run.

    Attributes
    ----------
    ends : dict of int to tuple
        Last states and their weights by run, for runs that kept them.
    n_finished : int
        Number of runs recorded.
    """

    def __init__(self, n_runs: int, betas: np.ndarray, judges_acceptance: bool = True):
        self._log_weight = np.full(n_runs, np.nan)
        self._prior_draws: dict[int, np.ndarray] = {}
        self._rows: dict[int, np.ndarray] = {}
        self._lowest_acceptance, self._least_size, self._ancestors = np.full((3, n_runs), np.nan)
        self._log_e_value = np.full(n_runs, np.nan)
        self._judges_acceptance = judges_acceptance
        self._moments = _Moments(len(betas))
        self._divergences, self._resamplings = np.zeros((2, len(betas)), dtype=int)
        self._gradients = self._next = self.n_finished = 0
        self._are_populations = False
        self._waiting: dict[int, Run] = {}
        self.ends: dict[int, tuple[Point, np.ndarray]] = {}

    def add(self, first: int, run: Run) -> None:
        """Record a run, or a block of chains, at the index of its first chain."""
        n = np.size(run.log_weight)
        places = slice(first, first + n)
        self._log_weight[places] = run.log_weight
        self._log_e_value[places] = run.log_e_value
        self._prior_draws |= dict.fromkeys(range(first, first + n), np.atleast_1d(run.prior_draws))
        if run.row_log_weight is not None:
            self._rows[first] = run.row_log_weight
        if self._judges_acceptance:
            self._lowest_acceptance[places] = _lowest_acceptance(_known_parts(run))
        self._least_size[places] = run.population.effective_size.min()
        self._ancestors[places] = run.population.ancestors
        self._resamplings += run.population.resampled
        self._divergences += run.divergences
        self._gradients += run.gradient_evaluations
        self._are_populations = run.population.effective_size[0] > 1  # at β = 0 all count
        self.n_finished += n
        if run.ends:
            self.ends[first] = run.ends, run.weights
        self._waiting[first] = run
        while self._next in self._waiting:
            added = self._waiting.pop(self._next)
            self._moments.add(added)
            self._next += np.size(added.log_weight)

    def collected(self, step_size: np.ndarray) -> Annealing:
        """Return everything recorded so far, with the step size of the kernel at every β."""
        moments = deepcopy(self._moments)
        for place in sorted(self._waiting):  # an earlier run is missing
            moments.add(self._waiting[place])
        mean, sd, acceptance, sizes = moments.collected()
        populations = Populations(
            sizes, self._resamplings.copy(), self._least_size.copy(), self._ancestors.copy()
        )
        return Annealing(
            self._log_weight.copy(),
            self._prior_draws_by_run(),
            self._lowest_acceptance.copy(),
            mean,
            sd,
            acceptance,
            step_size,
            self._divergences.copy(),
            self._gradients,
            populations if self._are_populations else None,
            self._weights_by_row(),
            None if np.isnan(self._log_e_value).all() else self._log_e_value.copy(),
        )

    def _weights_by_row(self) -> np.ndarray | None:
        """Return the parts of the log weights by run and row of the data, if they were recorded."""
        if not self._rows:
            return None
        weights = np.full((len(self._log_weight), len(next(iter(self._rows.values())))), np.nan)
        for place, row in self._rows.items():
            weights[place] = row
        return weights

    def _prior_draws_by_run(self) -> np.ndarray:
        """Return prior draws, shape (C,), or (C, A) if a run accepted several; NaN if missing."""
        n_counted = max(map(len, self._prior_draws.values()), default=1)
        draws = np.full((len(self._log_weight), n_counted), np.nan)
        for place, counted in self._prior_draws.items():
            draws[place] = counted
        return draws if n_counted > 1 else draws[:, 0]


class _Moments:
    """Moments along β of runs that are added one by one."""

    def __init__(self, n_betas: int):
        self._n = 0
        self._mean, self._squares, self._acceptance, self._sizes = np.zeros((4, n_betas))

    def add(self, run: Run) -> None:
        """Update the means and sums of squared deviations (Chan, Golub and LeVeque 1979)."""
        n = np.size(run.log_weight)
        self._n += n
        with np.errstate(invalid="ignore", over="ignore"):  # the spread of extreme ℓ may overflow
            deviation = run.log_likelihood - self._mean
            self._mean += deviation * n / self._n
            self._squares += n * (deviation * (run.log_likelihood - self._mean))
            self._squares += n * np.square(run.log_likelihood_sd)
        self._sizes += n * run.population.effective_size
        known = _known_parts(run)
        self._acceptance += n * known.mean(axis=1) if known.size else np.nan

    def collected(self) -> np.ndarray:
        """Return mean and sd of ℓ, mean acceptance and effective size; NaN without runs."""
        if not self._n:
            return np.full((4, len(self._mean)), np.nan)
        n = self._n
        return np.array(
            [self._mean, np.sqrt(self._squares / n), self._acceptance / n, self._sizes / n]
        )


def _known_parts(run: Run) -> np.ndarray:
    """Return the acceptance of the parts of the kernel that have one, shape (T + 1, parts)."""
    return run.acceptance[:, ~np.isnan(run.acceptance[1:]).all(axis=0)]


def _lowest_acceptance(acceptance: np.ndarray) -> float:
    """Return the smallest mean acceptance over stretches of a chain and parts of the kernel.

    A stretch is a quarter of the run, but long enough that a kernel with acceptance 0.1 practically
    never rejects all proposals in it. NaN if no part has an acceptance.
    """
    if not acceptance.size:
        return np.nan
    n_stretches = max(1, min(4, (len(acceptance) - 1) // _MIN_STRETCH))
    stretches = np.array_split(acceptance[1:], n_stretches)
    return float(np.min([stretch.mean(axis=0) for stretch in stretches]))
