"""The preparation of runs without annealing: importance sampling from a fit to each data set."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Never, cast

import numpy as np

from pymc_bdmc.base import logger
from pymc_bdmc.base.schedules import linear
from pymc_bdmc.base.streams import Fitting, Piloting, Purpose
from pymc_bdmc.base.types import Point, Run, Tuning
from pymc_bdmc.call.options import CHAINS
from pymc_bdmc.call.preparation import MIN_DRAWS, UNREACHED, DataSets, Preparation, Tunings
from pymc_bdmc.call.session import ModelSession
from pymc_bdmc.fits import limits
from pymc_bdmc.fits.fit import Fit
from pymc_bdmc.paths import FittedPath, Path
from pymc_bdmc.run.tasks import FitTask

_log = logger(__name__)

GAP = 0.02
"""Mean gap in nats that N is chosen for. Chosen."""
WEIGHED, ANNEALED = 3e3, 1e5
"""Evaluations of a density without gradient for a data set, search and runs, without annealing and
with it. Measured: 2,600 and 2,900 for models of five parameters, and 93,567 for one of four."""
MIN_PARTICLES, FEWEST = 64, 16
"""Least N, and least N of draws that take several evaluations each: `MOST_EVALUATIONS` together.
Chosen."""
MOST_EVALUATIONS = 256


class Refusal(NamedTuple):
    """Why fits to the data sets are no good for importance sampling, so that runs anneal."""

    reason: str
    misses: bool = False
    """Whether a fit misses part of the posterior, or the search for it is not finished."""
    log_weights: np.ndarray = np.empty(0)
    """log Ẑ of importance sampling from a fit that misses a part, nats."""
    of_given: bool = False
    """Whether what was given is no fit either: draws, or names of latent variables."""


class ImportanceSampling(Preparation):
    """Fits to all data sets, whose draws get importance weights: T = 1, and no kernel."""

    kernel = "none (importance sampling of draws from a fit)"

    def __init__(self, session: ModelSession, states_from_prior: Callable[[DataSets], Point]):
        super().__init__(session)
        self._states_from_prior = states_from_prior
        self._fits: dict[int, Fit] = {}
        self._scouts: list[Run] = []

    def refusal(
        self, fitted: DataSets, all_data: Callable[[Path], DataSets], asked: Path | None
    ) -> Refusal | None:
        """Fit to every data set, those in ``fitted`` first; return why annealing is needed, if so.

        ``all_data`` returns the real and the simulated data. The fit to the first of them decides.
        If it will do, so must fits to the others: what they miss shows in the runs on these data.
        """
        path = asked or FittedPath()
        if forecast := self._forecast("The call", WEIGHED):
            _log.info(forecast)
        if refused := self._fit_first(fitted, path):
            return refused
        if self.unreached and not asked:
            return Refusal(UNREACHED.format(", ".join(self.unreached)))
        data = all_data(path)
        if 0 not in data and (refused := self._fit_first({1: data[1]}, path)):
            return refused
        return self._fit_others(data)

    def _fit_first(self, data: DataSets, path: Path) -> Refusal | None:
        """Fit to the data set that decides, if there is one.

        Given draws or latent variables are refused too if no fit will do: a distribution that is
        made of them misses part of the posterior.
        """
        for dataset, observed in data.items():
            given = path.idata is not None
            reference = path.reference(self._engine, dataset, _no_pilot) if given else None
            seed = self._seed(Purpose.PILOT, dataset, Piloting.WEIGHING_FIT)
            task = FitTask(observed, seed, None, reference, path.degrees_of_freedom, path.latent)
            fit = self._run({0: task}, "fit")[0]
            if fit.misses:
                _log.info(f"Runs from the prior look for what a fit misses: {fit.reason}")
                seed = self._seed(Purpose.PILOT, dataset, Piloting.SECOND_WEIGHING_FIT)
                states = self._states_from_prior({dataset: observed})
                again = self._run({0: replace(task, seed=seed, reached=states)}, "fit")[0]
                fit = again if again.tuning else fit
            self._fits[dataset] = fit
            if fit.tuning is None:
                reason = fit.reason + self._forecast("; annealing", ANNEALED)
                return Refusal(reason, fit.misses, fit.log_weights, fit.refuses_given)
            if fit.tuning.is_nested:
                self.reached = self._engine.jitted.names_of(fit.tuning.reference.core.latent)
            self.knows_tails = fit.tuning.reference.knows_tails
        return None

    def _fit_others(self, data: DataSets) -> Refusal | None:
        """Fit to the other data sets; refuse if no number of draws makes the mean gap small."""
        known = cast(Tuning, next(iter(self._fits.values())).tuning)
        tasks = {
            d: FitTask(data[d], self._seed(Purpose.PILOT, d, Piloting.WEIGHING_FIT), known)
            for d in data
            if d not in self._fits
        }
        found = self._run(tasks, "fit")
        self._fits |= found
        if lacking := [fit.reason for fit in found.values() if fit.tuning is None]:
            where = f"on {len(lacking)} of {len(tasks)} simulated data sets"
            return Refusal(f"{where} {lacking[0]}")
        variances = np.array([self._fits[d].variance for d in data])
        least = np.clip(MOST_EVALUATIONS // known.gradients_a_move, FEWEST, MIN_PARTICLES)
        needed = int(np.clip(np.ceil(variances.mean() / GAP), least, 1024))
        self._particles = self._session.options.particles or needed
        if np.minimum(variances / self._particles, 1).mean() <= limits.LARGEST_GAP:
            return None
        return Refusal(
            f"weights of draws from fits have relative variances up to {variances.max():.2g}"
        )

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Return the path from a fit to one data set, and how it was found."""
        return path or FittedPath(), self._fits[next(iter(data))].reason

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return the tunings on every data set."""
        return {d: tuning for d in data if (tuning := self._fits[d].tuning)}

    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few runs on one data set."""
        if not self._scouts:
            (tuning,) = self.tunings(data, path).values()
            key = Fitting.WEIGHING_SCOUTS
            tasks = self._forward_tasks(data, tuning, linear(1).betas, MIN_PARTICLES, key)
            self._scouts = list(self._run(tasks, "scouts").values())
        return self._scouts

    def size(self, tunings: Tunings, path: Path) -> tuple[int, int]:
        """Return T = 1, and the fewest N with which the gap is small on average."""
        return 1, self._particles

    def real_runs(
        self, tunings: Tunings, path: Path, n_temperatures: int, particles: int
    ) -> tuple[float, int, int]:
        """Return the runs that together have `MIN_DRAWS` particles, unless draws are expensive."""
        variance = self._fits[next(iter(tunings))].variance / particles
        enough = max(CHAINS, -(-MIN_DRAWS // particles))
        return variance, enough if self._engine.has_gradient else CHAINS, 0

    def _forecast(self, act: str, of_each: float) -> str:
        """Say how long all data sets take without gradients; empty if there are some."""
        # A density without a gradient is likely to call a solver, so that evaluations are slow.
        if self._engine.has_gradient:
            return ""
        options, density = self._session.options, self._engine.density
        n, clock = of_each * (options.real_data + options.datasets), [time.thread_time()]
        for _ in range(9):
            density.terms(density.prior.draw_supported()[0], density.data)
            clock.append(time.thread_time())
        return (
            f"{act} takes about {n:.2g} evaluations of the density on all data sets, "
            f"{n * np.median(np.diff(clock)):.2g} s of one core besides compiling"
        )


def _no_pilot() -> Never:
    raise ValueError("path: its reference for given draws needs a pilot; pass temperatures.")
