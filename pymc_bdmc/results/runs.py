"""Runs as a result holds them: by direction and data set, with the names of their variables."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import PriorMass, TailCheck, check_mean_of_logs, log_prior_mass

SIDES = {"simulated": ("forward", "reverse"), "real": ("real", "real_reverse")}
"""Groups of forward and of reverse runs, by kind of data."""

GROUPS = ("forward", "reverse", "real", "real_reverse")
"""All groups of runs."""

RESOLVED = TailCheck(np.nan, True, True, "")
"""Check of the mean of log weights where nothing speaks against it."""

LOST = "which sample_bdmc and lattice.anneal write. Was the result cut, or saved in parts?"


class DataSet(NamedTuple):
    """Finished runs on one data set, nats."""

    data: str
    """``simulated`` or ``real``."""
    dataset: int
    forward: np.ndarray
    reverse: np.ndarray
    """Empty if there are none."""
    prior_draws: np.ndarray

    @property
    def mass(self) -> PriorMass:
        """Return log P(ℓ > −∞) by the prior draws."""
        return log_prior_mass(self.prior_draws)


class LastParticles(NamedTuple):
    """The weighted last states of the runs on the real data."""

    states: xr.Dataset
    """Variables by (chain, particle, …)."""
    weights: np.ndarray
    """Shape (K, N); they add up to 1, or are NaN if every weight is zero."""
    sweeps: int
    """Number of states of each particle: after the last weight, and after each further move."""
    free: list[str]
    """Names of the variables that are not Deterministics."""

    @property
    def within_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights within each run (0 in a run of weight 0), and log weights of the runs."""
        shares = np.nan_to_num(self.weights)
        runs = shares.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(shares / runs[:, None]), np.log(runs)

    @property
    def as_drawn(self) -> "LastParticles":
        """Return the states that were weighed, before they moved on at β = 1."""
        n = self.weights.shape[1] // self.sweeps
        first = self.states.isel(particle=slice(n))
        return self._replace(states=first, weights=self.weights[:, :n] * self.sweeps, sweeps=1)


@dataclass(frozen=True, eq=False)
class Side:
    """Runs in one direction on one kind of data."""

    name: str
    run: xr.Dataset
    particles: int = 1

    def variable(self, name: str) -> xr.DataArray:
        """Return a variable; the error names it if it is missing."""
        if name not in self.run:
            raise ValueError(f"dt: its group {self.name!r} has no variable {name!r}, {LOST}")
        return self.run[name]

    def rows(self, name: str) -> np.ndarray:
        """Return a variable with a row for each data set; the real data have one row."""
        found = self.variable(name)
        return found.values if "dataset" in found.dims else found.values[None]

    @property
    def is_reverse(self) -> bool:
        """Return whether the runs go from the posterior to the start of the path."""
        return self.name in (reverse for _, reverse in SIDES.values())

    @property
    def log_weight(self) -> np.ndarray:
        """Return log weights, shape (D, K), nats; NaN marks a run that was not finished."""
        return self.rows("log_weight")

    @cached_property
    def finished(self) -> list[np.ndarray]:
        """Return log weights of finished runs by data set, reverse ones with the sign changed."""
        signed = -self.log_weight if self.is_reverse else self.log_weight
        return [each for row in signed if (each := finished(row)).size]

    @property
    def n_finished(self) -> int:
        """Return the number of finished runs on all data sets."""
        return sum(row.size for row in self.finished)

    @property
    def chains(self) -> int:
        """Return the number of runs on each data set."""
        return self.run.sizes["chain"]

    @property
    def n_temperatures(self) -> int:
        """Return T; 0 if it is not known."""
        return self.run.sizes.get("beta", 1) - 1

    @property
    def prior_mass(self) -> tuple[np.ndarray, ...]:
        """Return lower and upper estimates of log P(ℓ > −∞) and their error, shape (D, 1)."""
        masses = [log_prior_mass(row) for row in self.rows("prior_draws")]
        return tuple(np.array(each)[:, None] for each in zip(*masses, strict=True))

    @property
    def bounding(self) -> np.ndarray:
        """Return log weights with log P(ℓ > −∞), whose means bound log ML, shape (D, K)."""
        lower, upper, _ = self.prior_mass
        return self.log_weight + (upper if self.is_reverse else lower)

    @cached_property
    def tail(self) -> TailCheck:
        """Check whether the mean of forward log weights exists; the worst case over data sets.

        Results without ℓ of prior draws pass the check.
        """
        if "prior_log_likelihood" not in self.run:
            return RESOLVED
        rows = np.atleast_2d(self.run["prior_log_likelihood"].values)
        checks = [check_mean_of_logs(row, self.particles) for row in rows]
        return min(checks, key=lambda check: (check.exists, check.resolved))

    @property
    def divergent_share(self) -> float:
        """Return the share of transitions that diverged; 0 if they were not counted."""
        n_runs = int(self.run["log_weight"].notnull().sum())
        if "divergences" not in self.run or not n_runs:
            return 0.0
        transitions = n_runs * self.n_temperatures * self.particles
        return float(self.run["divergences"].sum()) / transitions

    @property
    def lengths(self) -> np.ndarray:
        """Return thermodynamic lengths by data set, from the pilots, nats^½; empty if unknown."""
        return self.run.get("thermodynamic_length", xr.DataArray([])).values

    @property
    def pilot_rhat(self) -> float:
        """Return the largest R̂ of the pilots at β = 1; NaN without one."""
        return float(np.max(self.run.get("pilot_rhat", np.nan)))


def finished(values: np.ndarray) -> np.ndarray:
    """Leave out the values of runs that were not finished."""
    return values[~np.isnan(values)]
