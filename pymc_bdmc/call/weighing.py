"""The preparation of runs without annealing: importance sampling from a fit to each data set."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Never

import numpy as np

from pymc_bdmc.base.schedules import linear
from pymc_bdmc.base.streams import Entropy, Fitting, Piloting, Purpose, stream
from pymc_bdmc.base.types import Direction, Point, Run
from pymc_bdmc.call.choice import Refusal
from pymc_bdmc.call.preparation import DRAWN, SCOUTS, UNREACHED, DataSets, Preparation, Tunings
from pymc_bdmc.call.request import CHAINS
from pymc_bdmc.call.sets import Sets
from pymc_bdmc.density.structure import latent_variables
from pymc_bdmc.engines.tasks import AnnealTask, Fit, FitTask, ModelEngine
from pymc_bdmc.engines.workers import Pool
from pymc_bdmc.estimators.tails import shape_of_weights
from pymc_bdmc.paths import FittedPath, Path
from pymc_bdmc.results.checks.missed import HEAVY_TAIL, KNOWN_TAIL

_log = logging.getLogger("pymc.bdmc")

GAP, LARGEST_GAP = 0.02, 0.05
"""Mean gap in nats that N is chosen for, and up to which runs are not annealed: with 0.05 nats 20
data sets can still certify a total variation of 0.25."""
FEWEST, MOST = 64, 1024
"""Limits of N."""
WEIGHED, ANNEALED = 1.5e3, 1e5
"""Evaluations for a data set without gradients, to be expected of runs that weigh draws and of runs
that anneal. For a model of four parameters 1,200 to 2,600 and 93,567 were measured."""
OUTLYING = 5.0
"""Ratio of the variance of the weights on one data set to the median over data sets, from which it
is a sign that the fit misses part of the posterior there, if it is above that of `Fit` too."""

NOISE_OF_TAIL = 0.1
"""Standard deviation of Pareto k of 1536 weights; measured."""


class Weighing(Preparation):
    """The fits to all data sets whose draws the runs weigh, with T = 1 and no kernel.

    Parameters
    ----------
    pool, engine, entropy
        See `Preparation`.
    states_from_prior : callable
        Returns states that runs from the prior come to on one data set.
    """

    kernel: str = "none (importance sampling of draws from a fit)"

    def __init__(
        self,
        pool: Pool,
        engine: ModelEngine,
        entropy: Entropy,
        states_from_prior: Callable[[DataSets], Point],
    ):
        super().__init__(pool, engine, entropy)
        self._states_from_prior = states_from_prior
        self._fits: dict[int, Fit] = {}
        self._scouts: list[Run] = []

    def refusal(self, sets: Sets, asked: Path | None, particles: int | None) -> Refusal | None:
        """Fit to every data set; return why draws from these fits are not weighed, if so."""
        path = asked or FittedPath()
        if refused := self._fit_first(sets.fitted, path):
            return refused
        if self.unreached and not asked:
            return Refusal(UNREACHED.format(", ".join(self.unreached)))
        simulated = sets.simulate(path)
        data = sets.all(simulated)
        if not sets.real and (refused := self._fit_first({1: data[1]}, path)):
            return refused
        return self._fit_others(data) or self._too_uneven(data, particles)

    def would_do(self, real: DataSets) -> bool:
        """Return whether nothing speaks against log ML of the real data by draws from their fit.

        These are the signs by which log ML of a call with ``simulate=None`` is not valid.
        """
        tuning = self._fits[0].tuning
        if tuning is None or self.unreached:
            return False
        seed = stream(self._entropy, Purpose.FIT, 0, Fitting.WEIGHTS)
        task = AnnealTask(
            Direction.FORWARD, real[0], linear(1).betas, tuning, seed, particles=DRAWN
        )  # fmt: skip
        (run,) = self._all([task], "scouts")
        limit = KNOWN_TAIL if self.knows_tails else HEAVY_TAIL
        return shape_of_weights(run.weights) <= limit - NOISE_OF_TAIL

    def _fit_first(self, data: DataSets, path: Path) -> Refusal | None:
        """Fit to the data set that decides, if it is given.

        Given draws or latent variables are refused too if no fit will do: a distribution that is
        made of them misses part of the posterior.
        """
        for dataset, observed in data.items():
            given = path.idata is not None
            reference = path.reference(self._engine, dataset, _no_pilot) if given else None
            seed = stream(self._entropy, Purpose.PILOT, dataset, Piloting.WEIGHING_FIT)
            task = FitTask(observed, seed, None, reference, path.degrees_of_freedom, path.latent)
            (fit,) = self._all([task], "fit")
            if fit.misses:
                _log.info(f"Runs from the prior look for what a fit misses: {fit.reason}")
                seed = stream(self._entropy, Purpose.PILOT, dataset, Piloting.SECOND_WEIGHING_FIT)
                states = self._states_from_prior({dataset: observed})
                task = replace(task, seed=seed, reached=states)
                (again,) = self._all([task], "fit")
                fit = again if again.tuning else fit
            self._fits[dataset] = fit
            if fit.tuning is None:
                reason = fit.reason + self._forecast("; annealing", ANNEALED, fit.seconds)
                return Refusal(reason, dataset, fit.misses, fit.log_weights, fit.refuses_given)
            named = None if fit.refuses_given else path.latent
            if fit.tuning.is_nested:
                latent = latent_variables(self._engine.density.model)
                self.reached = latent if named is None else named
            self.knows_tails = fit.tuning.knows_tails
            if forecast := self._forecast("Weighing", WEIGHED, fit.seconds):
                _log.info(forecast)
        return None

    def _fit_others(self, data: DataSets) -> Refusal | None:
        """Fit to the other data sets, from what is known of the first one."""
        known = next(iter(self._fits.values())).tuning
        new = {d: data[d] for d in data if d not in self._fits}
        key = Piloting.WEIGHING_FIT
        seeds = {d: stream(self._entropy, Purpose.PILOT, d, key) for d in new}
        tasks = [FitTask(new[d], seed, known) for d, seed in seeds.items()]
        found = dict(zip(new, self._all(tasks, "fit"), strict=True))
        self._fits |= found
        if lacking := [d for d, fit in found.items() if fit.tuning is None]:
            told = f"on {len(lacking)} of {len(new)} simulated data sets"
            return Refusal(f"{told} {found[lacking[0]].reason}", lacking[0])
        return None

    def _too_uneven(self, data: Iterable[int], particles: int | None) -> Refusal | None:
        """Return whether no number of draws makes the gap small on all data sets."""
        variances = np.array([self._fits[d].variance for d in data])
        limits = np.array([self._fits[d].most_variance for d in data])
        is_usual = (variances <= limits) | (variances <= OUTLYING * np.median(variances))
        needed = int(np.clip(np.ceil(variances.mean() / GAP), FEWEST, MOST))
        self._particles = particles or needed
        if np.minimum(variances / self._particles, 1).mean() <= LARGEST_GAP and is_usual.all():
            return None
        return Refusal(
            f"weights of draws from fits have relative variances up to {variances.max():.2g}",
            list(data)[int(np.argmax(variances))],
        )

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Return the path from a fit to one data set, and how it was found."""
        return path or FittedPath(), self._fits[next(iter(data))].reason

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return the tunings on every data set."""
        return {d: tuning for d in data if (tuning := self._fits[d].tuning)}

    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few runs on one data set.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        ((dataset, observed),) = data.items()
        if not self._scouts:
            tuning, betas = self.tunings(data, path)[dataset], linear(1).betas
            seeds = [
                stream(self._entropy, Purpose.FIT, dataset, Fitting.WEIGHING_SCOUTS + chain)
                for chain in range(SCOUTS)
            ]
            tasks = [
                AnnealTask(Direction.FORWARD, observed, betas, tuning, seed, particles=FEWEST)
                for seed in seeds
            ]
            self._scouts = self._all(tasks, "scouts")
        return self._scouts

    def enough(
        self, tunings: Tunings, path: Path, particles: int | None, target_gap: float | None
    ) -> tuple[int, int]:
        """Return T = 1, and the fewest N with which the gap is small on average."""
        return 1, self._particles

    def fewest_chains(self, tunings: Tunings, particles: int, further_moves: int) -> int:
        """Return so many runs on the real data that they have `DRAWN` particles; few if dear."""
        return max(CHAINS, -(-DRAWN // particles)) if self._engine.has_gradient else CHAINS

    def variance(self, tunings: Tunings, path: Path, n_temperatures: int, particles: int) -> float:
        """Return the variance of log Ẑ to expect of a run on the first data set, nats²."""
        return self._fits[next(iter(tunings))].variance / particles

    def further(self, n_temperatures: int) -> tuple[int, int]:
        """Return the draws that are weighed, which do not move on."""
        return DRAWN, 0

    def _forecast(self, act: str, evaluations: float, seconds: float) -> str:
        """Say how long a data set takes without gradients; empty if there are some."""
        if self._engine.has_gradient:
            return ""
        return (
            f"{act} takes about {evaluations:.2g} evaluations of the density on each data set, "
            f"{evaluations * seconds:.2g} s of one core"
        )


def _no_pilot() -> Never:
    raise ValueError("path: its reference for given draws needs a pilot; pass temperatures.")
