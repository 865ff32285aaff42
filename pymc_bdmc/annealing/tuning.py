"""Before the weighted runs: pilots and scouts on every data set, and the path they speak for."""

import logging
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from scipy.special import log_softmax, logsumexp

from pymc_bdmc.annealing.compiled.engine import CompiledEngine
from pymc_bdmc.annealing.compiled.pilot import PathTuning
from pymc_bdmc.annealing.paths import FittedPath, Path, PriorPath, no_reference_for
from pymc_bdmc.annealing.pools import Pool
from pymc_bdmc.annealing.tasks import AnnealTask, Engine, PilotTask
from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.interrupts import NOTHING_FINISHED
from pymc_bdmc.kernels.reference import Reference
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.schedules import adaptive, linear, thermodynamic_length
from pymc_bdmc.streams import Entropy, Purpose, stream
from pymc_bdmc.types import MAX_RHAT, Direction, Run, Tuning

__all__ = ["IDEAL_GAP", "MOST_TEMPERATURES", "DataSets", "Preparation"]

_log = logging.getLogger("pymc.bdmc")

DataSets = Mapping[int, Mapping[str, np.ndarray]]
"""By number; 0 is the real data."""
Tunings = Mapping[int, Tuning]

IDEAL_GAP = 0.15
"""Nats to which perfectly mixed runs would close, where T is not given."""
MOST_TEMPERATURES = 2000
FEWEST_TEMPERATURES, FEWEST_FROM_REFERENCE = 100, 30
"""However short the path: kernels mix less than perfectly, the more so the further they go."""
FEWEST_PARTICLES = 4
"""Where a gap is asked for and no N: at the same cost four close it as far as one does, and leave
behind a far draw, which would ruin the mean of logarithms (docs/particles.md)."""
STEPS_A_ROW = 10
"""On a path of the data, whose length a pilot does not know. On a regression of 20 coefficients and
100 rows runs are then 0.3 nats short of log ML, with three steps a row 1.6."""

SCOUTS = 4
"""Forward runs from the prior on each data set, by which the path is chosen."""
WORTHWHILE = 0.5
"""Ratio of Λ² from the fit to Λ² from the prior, up to which the fitted path is taken."""
MAX_SURPLUS = 5.0
"""Nats by which log p + ℓ − log r of a scout may exceed all that the pilot of the fit saw."""
MAX_DISAGREEMENT = 2.0
"""Nats beyond 4 errors between what scouts and the pilot of the fit make of log ML."""
MAX_SPREAD = 2.0
"""Nats between scouts up to which they are believed where they say less than the fit: beyond, the
best of them weighs seven times the worst, and others may have missed what it came upon."""
NOTABLE_WEIGHT = 1e-3
"""Share of all weight that a scout's particle must have to be heard."""


class Preparation:
    """What is found out about each data set before the weighted runs, once.

    Parameters
    ----------
    pool : Pool
    engine : Engine
    entropy : int or sequence of int
        Pilots and scouts have streams that no weighted run uses, and never see θ*.
    progressbar : bool
    """

    def __init__(self, pool: Pool, engine: Engine, entropy: Entropy, progressbar: bool):
        self._pool, self._engine, self._entropy = pool, engine, entropy
        self._progressbar = progressbar
        self._tunings: dict[int, Tuning] = {}
        self._scouts: dict[int, list[Run]] = {}

    def tunings(self, data: DataSets) -> Tunings:
        """Of the kernel on the path from the prior.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        new = {d: data[d] for d in data if d not in self._tunings}
        self._tunings |= self._pilots(new, {})
        return {d: self._tunings[d] for d in data}

    def scouts(self, data: DataSets) -> Mapping[int, Sequence[Run]]:
        """A few forward runs from the prior on each data set.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        tunings = self.tunings(data)
        keys = [(d, chain) for d in data if d not in self._scouts for chain in range(SCOUTS)]
        tasks = [self._scout(d, data[d], tunings[d], chain) for d, chain in keys]
        if tasks:
            _log.info("Scouts: a few runs from the prior, to see where the posterior lies")
        found: dict[tuple[int, int], Run] = {}
        with ChainProgress({"scouts": len(tasks)}, self._progressbar and bool(tasks)) as progress:
            for i, run in self._pool.run(tasks):
                found[keys[i]] = run
                progress.finished("scouts", run.log_weight)
        if len(found) < len(tasks):
            raise KeyboardInterrupt(NOTHING_FINISHED)
        self._scouts |= {d: [found[d, chain] for chain in range(SCOUTS)] for d, _ in keys}
        return {d: self._scouts[d] for d in data}

    def choose(self, data: DataSets, path: Path | None) -> tuple[Tunings, Path, str]:
        """The path that is asked for, or else the better one; its tunings; and why it was taken.

        The fitted path is the better one where it is shorter by far, or knows a narrow peak, and
        sees all that pilots and scouts from the prior saw. All data sets go the same way.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        tunings = self.tunings(data)
        if path is None and (reason := _against_a_fit(self._engine, tunings)):
            return tunings, PriorPath(), reason
        if isinstance(path, PriorPath):
            return tunings, path, "as asked for"
        wanted, engine = path or FittedPath(), cast(CompiledEngine, self._engine)
        references = {
            d: wanted.reference(cast(PathTuning, tuning), engine) for d, tuning in tunings.items()
        }
        if isinstance(wanted, FittedPath):
            for d, fit in references.items():
                seed = stream(self._entropy, Purpose.FIT, d, SCOUTS + 1)
                references[d] = engine.with_peaks(cast(Reference, fit), data[d], seed)
        try:
            found = self._pilots(data, references)
        except FloatingPointError:
            if path:
                raise
            return tunings, PriorPath(), "log p is no number at some draws from a fit"
        if path:
            return found, path, "as asked for"
        if any(tuning.accepted_draws > 1 for tuning in found.values()):
            return tunings, PriorPath(), "part of what a fit covers is ruled out"
        before, after = squared_length(tunings), squared_length(found)
        reason = (
            f"Λ² is {before:.3g} nats from the prior and {after:.3g} from a fit; the gap is "
            "proportional to it"
        )
        peaked = {d for d, r in references.items() if r is not None and len(r.locations) > 1}
        if peaked:
            reason = "the posterior has a narrow peak, which runs from the prior would miss"
        elif after > WORTHWHILE * before:
            return tunings, PriorPath(), reason
        scouts = self.scouts(data)
        for d, tuning in found.items():
            surplus = self._surplus(d, data[d], cast(PathTuning, tuning), scouts[d])
            if surplus > MAX_SURPLUS:
                against = f"a fit misses, by {surplus:.2g} nats, where a run from the prior came to"
                return tunings, PriorPath(), against
            apart = _disagreement(tuning, scouts[d])
            if d not in peaked and apart > MAX_DISAGREEMENT:
                against = f"log ML from the prior and from a fit are {apart:.2g} nats apart"
                return tunings, PriorPath(), against
        return found, wanted, reason

    def enough_particles(self, tunings: Tunings, gap: float, path: Path) -> int:
        """N with which the fewest temperatures have an ideal gap of ``gap`` nats, within limits."""
        most = self._engine.default_particles
        if self._rows:
            return most
        needed = np.ceil(squared_length(tunings) / (_fewest_temperatures(path) * gap))
        return int(np.clip(needed, min(FEWEST_PARTICLES, most), most))

    def enough_temperatures(self, tunings: Tunings, particles: int, gap: float, path: Path) -> int:
        """T with which the ideal gap Λ²/(T·N) is no more than ``gap`` nats, within limits."""
        if self._rows:
            needed = STEPS_A_ROW * self._rows
        else:
            needed = int(np.ceil(squared_length(tunings) / (particles * gap)))
        return int(np.clip(needed, _fewest_temperatures(path), MOST_TEMPERATURES))

    @property
    def _rows(self) -> int:
        """Number of observations on a path of the data, else 0; there a pilot knows no Λ."""
        return self._engine.jitted.rows if isinstance(self._engine, CompiledEngine) else 0

    def _pilots(
        self, data: DataSets, references: Mapping[int, Reference | None]
    ) -> dict[int, Tuning]:
        stage = 1 if references else 0
        n = self._engine.pilots
        keys = [(dataset, pilot) for dataset in data for pilot in range(n)]
        tasks = [
            PilotTask(data[d], stream(self._entropy, Purpose.PILOT, d, stage, c), references.get(d))
            for d, c in keys
        ]
        found = {keys[i]: tuning for i, tuning in self._pool.run(tasks)}
        if len(found) < len(tasks):
            raise KeyboardInterrupt(NOTHING_FINISHED)
        return {d: self._engine.combine([found[d, c] for c in range(n)]) for d in data}

    def _scout(self, dataset: int, data: Mapping, tuning: Tuning, chain: int) -> AnnealTask:
        particles = self._engine.default_particles
        n = self.enough_temperatures({dataset: tuning}, particles, IDEAL_GAP, PriorPath())
        grid = tuning.path_betas, tuning.mean_log_likelihood
        betas = (linear(n) if self._rows else adaptive(*grid, n)).betas
        seed = stream(self._entropy, Purpose.FIT, dataset, chain)
        return AnnealTask(Direction.FORWARD, data, betas, tuning, seed, particles=particles)

    def _surplus(
        self, dataset: int, data: Mapping, tuning: PathTuning, scouts: Sequence[Run]
    ) -> float:
        """How far log p + ℓ − log r near the scouts' ends exceeds what the pilot from r saw.

        Where the posterior has a mode that r does not cover, or a peak within, it stays large. A
        state in the tail of a mode that r does cover is led back by the kernel, and counts no more.
        """
        engine = cast(CompiledEngine, self._engine)
        shares = np.exp(log_softmax([run.log_weight for run in scouts]))
        weights = np.concatenate(
            [share * run.weights for share, run in zip(shares, scouts, strict=True)]
        )
        thetas = np.concatenate([engine.jitted.ravel_many(run.ends) for run in scouts])
        heard = weights > NOTABLE_WEIGHT
        if not heard.any():  # no scout came to where the data are possible
            return np.inf
        seen = np.max(tuning.last_log_likelihood)
        found = engine.log_likelihoods(thetas[heard], data, tuning.reference)
        beyond = found > seen + MAX_SURPLUS
        if beyond.any():
            seed = stream(self._entropy, Purpose.FIT, dataset, SCOUTS)
            found[beyond] = engine.settled(thetas[heard][beyond], data, tuning, seed)
        return float(np.max(found) - seen)


def _fewest_temperatures(path: Path) -> int:
    return FEWEST_TEMPERATURES if isinstance(path, PriorPath) else FEWEST_FROM_REFERENCE


def _against_a_fit(engine: Engine, tunings: Tunings) -> str:
    """Why not to fit a reference; empty where nothing speaks against it."""
    if reason := no_reference_for(engine):
        return reason
    rhat = max(cast(PathTuning, tuning).rhat for tuning in tunings.values())
    if rhat > MAX_RHAT:
        return (
            f"the pilot's R̂ is {rhat:.2g}: the posterior may have several modes, or it mixes slowly"
        )
    return ""


def _disagreement(tuning: Tuning, scouts: Sequence[Run]) -> float:
    """Distance of log Ẑ of the scouts from ∫ E_β[g] dβ of the pilot from r, less 4 errors; nats.

    A log p that is not normalised shifts the latter only. Scouts that differ among themselves and
    say less speak against nothing: some did not come to where the posterior lies.
    """
    found = np.array([run.log_weight for run in scouts])
    error = found.std(ddof=1) / np.sqrt(len(found))
    mass = log_prior_mass(np.array([run.prior_draws for run in scouts]))
    value = logsumexp(found) - np.log(len(found)) + mass.estimate
    expected = np.trapezoid(tuning.mean_log_likelihood, tuning.path_betas)
    if value < expected and np.ptp(found) > MAX_SPREAD:
        return 0.0
    return float(abs(value - expected) - 4 * np.hypot(error, mass.error))


def squared_length(tunings: Tunings) -> float:
    """Λ², mean over data sets, nats."""
    lengths = [
        thermodynamic_length(tuning.path_betas, tuning.mean_log_likelihood)
        for tuning in tunings.values()
    ]
    return float(np.mean(np.square(lengths)))
