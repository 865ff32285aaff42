"""Attributes of a result: their names and what they default to, and those that all results have."""

import re
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, recorded
from pymc_bdmc.base.types import Moves
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.results.runs import LOST
from pymc_bdmc.simulations import FromPosterior

CERTAIN = ("exact", "posterior draw", "burned-in")
"""Starts of reverse runs with which a total variation is certified, on what each presupposes."""


def run_attributes(
    schedule: Schedule, entropy: Entropy, started: float, interrupted: bool
) -> dict[Hashable, str | float | int]:
    """Return schedule, seed, seconds since ``started``, whether interrupted, and version."""
    return {
        "schedule": schedule.name,
        "random_seed": recorded(entropy),
        "sampling_time": time.perf_counter() - started,
        "interrupted": int(interrupted),
        "pymc_bdmc_version": VERSION,
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class Attributes:
    """A field for every attribute that is read, with its value for a result that lacks it."""

    path: str = ""
    schedule: str = "unknown"
    step: str = "unknown"
    kernels: str | None = None
    """Names of the moves, in order; `step` names their variables too."""
    is_compiled: int = 0
    particles: int | None = None
    """N; None for a system whose runs are single chains."""
    simulate: str = ""
    hyperparameters: str = ""
    upper_bound: str | None = None
    """Start of the reverse runs on simulated data, one of `CERTAIN` or heuristic."""
    independent_starts: int = 0
    rounds: int = 0
    """Number of rounds whose gap was looked at, in a call with a target."""
    interrupted: int = 0
    system: str | None = None
    model: str = "{}"
    """A hash of every variable of the model, as JSON."""
    random_seed: Any = None
    sampling_time: float = np.nan
    preparation_time: float = np.nan
    pymc_version: str = ""
    pymc_bdmc_version: str = ""
    constraints: str = ""
    finite_variables: str = ""
    discrete_variables: str = ""
    centred_effects: str = ""
    unreached: str = ""
    """Centred effects whose small scales the fit does not reach."""
    undefined: str = ""
    """Variables whose log density is NaN at some θ on the real data."""
    undefined_prior: float = 0.0
    """Share of prior draws at which it is."""
    undefined_posterior: float = 0.0
    """Share of moves from posterior states that end there; see `pymc_bdmc.density.support`."""
    knows_tails: int = 0
    weighs_real: int = 0
    """Whether a fit needs no annealing on the real data, but does on simulated data."""
    heavy_tail: float = 0.0
    """Pareto k of the weights of the pilot's last states under the fit."""
    doubt: str = ""
    """Why the fit where the runs on the real data start misses part of the posterior."""
    peaks: int = 0
    row_order: Any = ()
    critical_beta: float = np.nan
    flatness: float = 0.0
    """Largest unevenness of the visits to temperatures, of a result of `temper`."""
    log_prior_mass: float | None = None
    log_prior_mass_error: float | None = None
    pilot_gradients: int = 0

    @classmethod
    def known(cls, attrs: Mapping[Hashable, Any]) -> dict[str, Any]:
        """Return the attributes that are read, by field."""
        names = [each.name for each in fields(Attributes)]
        pilots = sum(int(n) for name, n in attrs.items() if str(name).startswith("gradients_"))
        return {name: attrs[name] for name in names if name in attrs} | {"pilot_gradients": pilots}

    @property
    def source(self) -> str:
        """Return the model or the system, for results on one of them to be told."""
        return str(self.system) if self.model == "{}" else self.model

    @property
    def is_null(self) -> bool:
        """Return whether this is the result for a model without free variables, which is exact."""
        return self.path == "none"

    @property
    def n_particles(self) -> int:
        """Return N."""
        return int(self.particles or 1)

    @property
    def moves(self) -> Moves:
        """Return the kernels of a transition; of an older result they are read from `step`."""
        if self.kernels is not None:
            return Moves(bool(self.is_compiled), tuple(self.kernels.split(", ")))
        names = re.findall(r"(?:^|> )([^(>]+)\(", self.step.removeprefix("compiled "))
        return Moves(self.step.startswith("compiled"), tuple(names))

    def start(self, data: str) -> str:
        """Return the kind of start of the reverse runs; see `upper_bound`."""
        return "heuristic" if data == "real" else self.upper_bound or "unknown"

    @property
    def contains_real(self) -> bool:
        """Return whether runs on simulated data are on the real data too."""
        return self.simulate == FromPosterior.name

    @property
    def needs_other_data(self) -> bool:
        """Return whether runs on simulated data are hard, but those on the real data are not."""
        return bool(self.weighs_real) and not self.contains_real

    @property
    def order(self) -> list[int]:
        """Return the numbers of the observations in the order that was given, if one was."""
        return np.atleast_1d(self.row_order).astype(int).tolist()

    def required(self, name: str) -> Any:
        """Return an attribute; the error names it if it is missing."""
        if (found := getattr(self, name)) is None:
            raise ValueError(f"dt: it has no attribute {name!r}, {LOST}")
        return found
