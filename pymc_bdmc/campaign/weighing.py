"""The preparation of runs without annealing: importance sampling from a fit to each data set."""

import logging

import numpy as np

from pymc_bdmc.base.schedules import linear
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Direction, Run, Tuning
from pymc_bdmc.campaign.preparation import DRAWN, SCOUTS, DataSets, Preparation, Tunings
from pymc_bdmc.campaign.request import CHAINS
from pymc_bdmc.engines.pools import Pool
from pymc_bdmc.engines.tasks import AnnealTask, Fit, FitTask, ModelEngine
from pymc_bdmc.model.latent import latent_variables
from pymc_bdmc.paths import FittedPath, Path

__all__ = ["NoFit", "NotNear", "Weighing"]

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


class NotNear(Exception):
    """No fit is so near the posterior that draws from it need no annealing; the text says why.

    Attributes
    ----------
    dataset : int
        A data set on which it is so; 0 is the real one.
    misses : bool
        Whether weighted prior draws find a part of the posterior that a fit misses.
    """

    def __init__(self, reason: str, dataset: int = 0, misses: bool = False):
        super().__init__(reason)
        self.dataset, self.misses = dataset, misses


class NoFit(NotNear):
    """Nor is what was given: a fit to draws, or one with latent variables that were named."""


class Weighing(Preparation):
    """The fits to all data sets whose draws the runs weigh, with T = 1 and no kernel."""

    kernel: str = "none (importance sampling of draws from a fit)"

    def __init__(self, pool: Pool, engine: ModelEngine, entropy: Entropy):
        super().__init__(pool, engine, entropy)
        self._fits: dict[int, Fit] = {}
        self._scouts: list[Run] = []

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Return the path from a fit to one data set, and how it was found.

        Raises
        ------
        NotNear
            If draws from the fit need to be annealed. `NoFit` if draws or latent variables were
            given: a distribution that is made of them misses part of the posterior.
        """
        ((dataset, observed),) = data.items()
        path, reference = path or FittedPath(), None
        if path.idata is not None:
            reference = path.reference(self._engine, dataset, self._no_pilot)
        seed = stream(self._entropy, Purpose.PILOT, dataset, 3)
        task = FitTask(observed, seed, None, reference, path.degrees_of_freedom, path.latent)
        fit = self._all([task])[0]
        self.gradients["fit"] += fit.gradient_evaluations
        self._fits[dataset] = fit
        if fit.tuning is None:
            raise (NoFit if fit.refuses_given else NotNear)(
                fit.reason + self._forecast("; annealing", ANNEALED, fit.seconds),
                dataset,
                fit.misses,
            )
        named = None if fit.refuses_given else path.latent
        if fit.tuning.is_nested:
            self.reached = latent_variables(self._engine.density.model) if named is None else named
        self.knows_tails = fit.tuning.knows_tails
        if forecast := self._forecast("Weighing", WEIGHED, fit.seconds):
            _log.info(forecast)
        return path, fit.reason

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return the tunings on every data set.

        Raises
        ------
        NotNear
            If draws from the fits to some data sets need to be annealed.
        KeyboardInterrupt
            If the pool was stopped.
        """
        if next(iter(data)) not in self._fits:  # the real data of a call without runs on them
            self.choose({d: data[d] for d in list(data)[:1]}, path)
        known = next(iter(self._fits.values())).tuning
        new = {d: data[d] for d in data if d not in self._fits}
        seeds = {d: stream(self._entropy, Purpose.PILOT, d, 3) for d in new}
        tasks = [FitTask(new[d], seed, known) for d, seed in seeds.items()]
        found = dict(zip(new, self._all(tasks), strict=True))
        self.gradients["fit"] += sum(fit.gradient_evaluations for fit in found.values())
        lacking = [d for d, fit in found.items() if fit.tuning is None]
        if lacking:
            raise NotNear(
                f"on {len(lacking)} of {len(new)} simulated data sets {found[lacking[0]].reason}",
                lacking[0],
            )
        self._fits |= found
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
            tuning = self.tunings(data, path)[dataset]
            self._scouts = self._all([
                AnnealTask(
                    Direction.FORWARD, observed, linear(1).betas, tuning,
                    stream(self._entropy, Purpose.FIT, dataset, SCOUTS + chain), particles=FEWEST,
                )
                for chain in range(SCOUTS)
            ])  # fmt: skip
            self.gradients["scouts"] += sum(run.gradient_evaluations for run in self._scouts)
        return self._scouts

    def enough(
        self, tunings: Tunings, path: Path, particles: int | None, target_gap: float | None
    ) -> tuple[int, int]:
        """Return T = 1, and the fewest N with which the gap is small on average.

        Raises
        ------
        NotNear
            If there is none.
        """
        variances = np.array([self._fits[d].variance for d in tunings])
        needed = int(np.clip(np.ceil(variances.mean() / GAP), FEWEST, MOST))
        n = particles or needed
        limits = np.array([self._fits[d].most_variance for d in tunings])
        is_usual = variances <= np.maximum(limits, OUTLYING * np.median(variances))
        if np.minimum(variances / n, 1).mean() <= LARGEST_GAP and is_usual.all():
            return 1, n
        raise NotNear(
            f"weights of draws from fits have relative variances up to {variances.max():.2g}",
            list(tunings)[int(np.argmax(variances))],
        )

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

    def _no_pilot(self) -> Tuning:
        raise NotNear("draws that were given are no fit to these data")
