"""Add up runs as they finish, with memory for one path only."""

import numpy as np

from pymc_bdmc.base.types import Annealing, Point, Run


class Recorder:
    """Collector of the runs of one direction on one data set; missing ones have log weight NaN.

    Moments along β are updated in the order of the runs, so the sums do not depend on the order of
    finishing. ``ends`` are the last states and their weights, for runs that kept them.
    """

    def __init__(self, n_runs: int, betas: np.ndarray, judges_acceptance: bool = True):
        self._missing = np.full(n_runs, np.nan)
        names = "log_weight", "lowest_acceptance", "least_effective_size", "ancestors"
        self._by_run = {name: self._missing.copy() for name in names}
        self._prior_draws: dict[int, np.ndarray] = {}
        self._rows: dict[int, np.ndarray] = {}
        self._judges_acceptance = judges_acceptance
        self._moments = (0, *np.zeros((4, len(betas))))
        self._divergences, self._resamplings = np.zeros((2, len(betas)), dtype=int)
        self._gradients = self._next = self.n_finished = 0
        self._are_populations = False
        self._waiting: dict[int, Run] = {}  # runs that finished before an earlier one
        self.ends: dict[int, tuple[Point, np.ndarray]] = {}

    def add(self, first: int, run: Run) -> None:
        """Record a run, or a block of chains, at the index of its first chain."""
        n = np.size(run.log_weight)
        places = slice(first, first + n)
        found = {
            "log_weight": run.log_weight,
            "least_effective_size": run.effective_size.min(),
            "ancestors": run.ancestors,
            **run.of_start,
        }
        if self._judges_acceptance:
            found["lowest_acceptance"] = _lowest_acceptance(_known_parts(run))
        for name, value in found.items():
            self._by_run.setdefault(name, self._missing.copy())[places] = value
        self._prior_draws |= dict.fromkeys(range(first, first + n), np.atleast_1d(run.prior_draws))
        if run.row_log_weight is not None:
            self._rows[first] = run.row_log_weight
        self._resamplings += run.resampled
        self._divergences += run.divergences
        self._gradients += run.gradient_evaluations
        self._are_populations = run.effective_size[0] > 1  # at β = 0 all count
        self.n_finished += n
        if run.ends:
            self.ends[first] = run.ends, run.weights
        self._waiting[first] = run
        while self._next in self._waiting:
            added = self._waiting.pop(self._next)
            self._moments = _with_run(self._moments, added)
            self._next += np.size(added.log_weight)

    def collected(self, step_size: np.ndarray) -> Annealing:
        """Return everything recorded so far, with the step size of the kernel at every β."""
        moments = self._moments
        for place in sorted(self._waiting):  # an earlier run is missing
            moments = _with_run(moments, self._waiting[place])
        n, mean, squares, acceptance, sizes = moments
        n = n or np.nan
        by_chain = {name: values.copy() for name, values in self._by_run.items()}
        by_chain["prior_draws"] = self._in_order(self._prior_draws)
        if self._rows:
            by_chain["row_log_weight"] = self._in_order(self._rows)
        by_beta = {
            "log_likelihood_path": np.where(n > 0, mean, np.nan),
            "log_likelihood_sd": np.sqrt(squares / n),
            "acceptance": acceptance / n,
            "effective_size": sizes / n,
            "step_size": step_size,
            "divergences": self._divergences.copy(),
            "resamplings": self._resamplings.copy(),
        }
        if not self._are_populations:
            for name in ("least_effective_size", "ancestors", "effective_size", "resamplings"):
                (by_chain if name in by_chain else by_beta).pop(name)
        return Annealing(by_chain, by_beta, self._gradients)

    def _in_order(self, by_run: dict[int, np.ndarray]) -> np.ndarray:
        """Return values by run, shape (C, n), or (C,) if n = 1; NaN if missing."""
        n_runs, n = len(self._by_run["log_weight"]), max(map(len, by_run.values()), default=1)
        values = np.full((n_runs, n), np.nan)
        for place, value in by_run.items():
            values[place] = value
        return values if n > 1 else values[:, 0]


def _with_run(moments: tuple, run: Run) -> tuple:
    """Return the number of runs and their moments along β after one more run.

    They are the mean of ℓ, its sum of squared deviations (Chan, Golub and LeVeque 1979), and the
    sums of acceptances and effective sizes.
    """
    n_before, mean, squares, acceptance, sizes = moments
    n = np.size(run.log_weight)
    with np.errstate(invalid="ignore", over="ignore"):  # the spread of extreme ℓ may overflow
        deviation = run.log_likelihood - mean
        mean = mean + deviation * n / (n_before + n)
        squares = squares + n * (deviation * (run.log_likelihood - mean))
        squares = squares + n * np.square(run.log_likelihood_sd)
    known = _known_parts(run)
    acceptance = acceptance + (n * known.mean(axis=1) if known.size else np.nan)
    return n_before + n, mean, squares, acceptance, sizes + n * run.effective_size


def _known_parts(run: Run) -> np.ndarray:
    """Return the acceptance of the parts of the kernel that have one, shape (T + 1, parts)."""
    return run.acceptance[:, ~np.isnan(run.acceptance[1:]).all(axis=0)]


def _lowest_acceptance(acceptance: np.ndarray) -> float:
    """Return the smallest mean acceptance over stretches of a chain and parts of the kernel.

    A stretch is a quarter of the run, but at least 50 temperatures, so that a kernel with
    acceptance 0.1 practically never rejects all proposals in it. NaN if no part has an acceptance.
    """
    if not acceptance.size:
        return np.nan
    n_stretches = max(1, min(4, (len(acceptance) - 1) // 50))
    stretches = np.array_split(acceptance[1:], n_stretches)
    return float(np.min([stretch.mean(axis=0) for stretch in stretches]))
