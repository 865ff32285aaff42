"""Before the weighted runs: pilots and scouts on every data set, and the path they speak for."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
from scipy.special import log_softmax

from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import adaptive, linear, thermodynamic_length
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import MAX_RHAT, Direction, Run, Tuning
from pymc_bdmc.campaign.options import MOST_TEMPERATURES
from pymc_bdmc.engines.compiled.engine import CompiledEngine, RefitTask
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.pools import Pool
from pymc_bdmc.engines.tasks import AnnealTask, Engine, PilotTask
from pymc_bdmc.estimators import log_mean_exp, log_prior_mass, refutes
from pymc_bdmc.kernels.reference import Reference
from pymc_bdmc.paths import Fit, FittedPath, Path, PriorPath, no_reference_for

__all__ = ["IDEAL_GAP", "DataSets", "Preparation"]

_log = logging.getLogger("pymc.bdmc")

DataSets = Mapping[int, Mapping[str, np.ndarray]]
"""By number; 0 is the real data."""
Tunings = Mapping[int, Tuning]

IDEAL_GAP = 0.15
"""Nats to which perfectly mixed runs would close, where T is not given."""
FEWEST_PARTICLES = 4
"""Where a gap is asked for and no N: at the same cost four close it as far as one does, and leave
behind a far draw, which would ruin the mean of logarithms (docs/particles.md)."""
STEPS_A_ROW = 10
"""On a path of the data, whose length a pilot does not know. On a regression of 20 coefficients and
100 rows runs are then 0.3 nats short of log ML, with three steps a row 1.6."""

SCOUTS = 4
"""Forward runs on either path, by which it is chosen."""
WORTHWHILE = 0.5
"""Ratio of Λ² from the fit to Λ² from the prior, up to which the fitted path is taken."""
MAX_SURPLUS = 5.0
"""Nats by which log p + ℓ − log r of a scout may exceed all that the pilot of the fit saw."""
MAX_SPREAD = 2.0
"""Nats between scouts up to which they agree."""
NOTABLE_WEIGHT = 1e-3
"""Share of all weight that a scout's particle must have to be heard."""


class Preparation:
    """What is found out before the weighted runs: the path, and the tuning on each data set.

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
        self._tunings: dict[tuple[str, int], Tuning] = {}
        self._scouts: dict[tuple[str, int], list[Run]] = {}

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return tunings of the kernel along a path, one for each data set.

        The pilots of a first data set find where a path from a fit starts, and tune the kernel. All
        others take over its step sizes, and only the fit is made anew (`PathTuning.adapted_to`). On
        other paths every data set has pilots of its own; with ``fits=False`` those after the first
        leave β = 1 before they mix, since nothing is fitted to their last states.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        for new in self._missing(data, path):
            known = self._tunings.get((path.name, next(iter(data))))
            if known and isinstance(path, FittedPath) and not _n_peaks(known):
                found = self._refits(new, cast(PathTuning, known), path)
            else:
                references = {} if isinstance(path, PriorPath) else self._references(new, path)
                is_first = next(iter(data)) in new
                found = self._pilots(new, references, fits or is_first)
            self._tunings |= {(path.name, d): tuning for d, tuning in found.items()}
        return {d: self._tunings[path.name, d] for d in data}

    def _refits(self, data: DataSets, known: PathTuning, path: FittedPath) -> dict[int, Tuning]:
        """Tune the path from a fit on further data; where a quick fit fails pilots make one."""
        seeds = {d: stream(self._entropy, Purpose.PILOT, d, 2) for d in data}
        tasks = [RefitTask(data[d], seed, known) for d, seed in seeds.items()]
        fits: dict[int, PathTuning] = dict(zip(data, self._all(tasks), strict=True))
        failed = {d: data[d] for d, fit in fits.items() if not fit.rhat <= MAX_RHAT}
        fits |= cast(dict[int, PathTuning], self.tunings(failed, PriorPath()) if failed else {})
        return {
            d: replace(known.adapted_to(path.fitted_to(cast(Fit, fit.fit))), rhat=fit.rhat)
            for d, fit in fits.items()
        }

    def _all(self, tasks: Sequence) -> list:
        """Return the results of all tasks.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        found = dict(self._pool.run(tasks))
        if len(found) < len(tasks):
            raise KeyboardInterrupt(NOTHING_FINISHED)
        return [found[i] for i in range(len(tasks))]

    def _missing(self, data: DataSets, path: Path) -> Iterator[DataSets]:
        """Yield the first data set, and then all others, as far as they have no tuning yet."""
        first = next(iter(data))
        for wanted in ([first], [d for d in data if d != first]):
            new = {d: data[d] for d in wanted if (path.name, d) not in self._tunings}
            if new:
                yield new

    def _references(self, data: DataSets, path: Path) -> dict[int, Reference | None]:
        """Return where the path starts on each data set."""
        engine = cast(CompiledEngine, self._engine)

        def from_prior(dataset: int) -> PathTuning:
            return cast(PathTuning, self.tunings(data, PriorPath())[dataset])

        references = {d: path.reference(engine, d, partial(from_prior, d)) for d in data}
        if isinstance(path, FittedPath):
            for d, fit in references.items():
                seed = stream(self._entropy, Purpose.FIT, d, 2 * SCOUTS + 1)
                references[d] = engine.with_peaks(cast(Reference, fit), data[d], seed)
        return references

    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few forward runs along a path on one data set.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        ((dataset, tuning),) = self.tunings(data, path).items()
        if (path.name, dataset) not in self._scouts:
            tasks = [self._scout(data, tuning, path, chain) for chain in range(SCOUTS)]
            _log.info(f"Scouts: {SCOUTS} runs on path {path.name!r}, to see where they arrive")
            found: dict[int, Run] = {}
            with ChainProgress({"scouts": SCOUTS}, self._progressbar) as progress:
                for i, run in self._pool.run(tasks):
                    found[i] = run
                    progress.finished("scouts", run.log_weight)
            if len(found) < SCOUTS:
                raise KeyboardInterrupt(NOTHING_FINISHED)
            self._scouts[path.name, dataset] = [found[chain] for chain in range(SCOUTS)]
        return self._scouts[path.name, dataset]

    def scouted(self, dataset: int) -> dict[str, np.ndarray]:
        """Return log Ẑ of the scouts on a data set by path, log P(ℓ > −∞) included; nats."""
        found = {}
        for (name, d), runs in self._scouts.items():
            if d == dataset:
                mass = log_prior_mass(np.array([run.prior_draws for run in runs])).estimate
                found[name] = np.array([run.log_weight for run in runs]) + mass
        return found

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Choose a path on one data set; return it, and why it was taken.

        A path that is asked for is taken. Else scouts go along the paths from the prior and from a
        fit. Averages of either are unbiased for the same Z, so where one is certain to lie above
        the other, the lower one misses part of the posterior and is out (`refutes`). If neither is
        out, the fitted path is taken where it is shorter by far and its pilots and scouts saw all
        that those from the prior saw.

        Parameters
        ----------
        data : mapping of int to mapping of str to ndarray
            One data set, by its number.
        path : Path or None
            The path that is asked for, if any.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        if path is not None:
            return path, "as asked for"
        prior, fitted = PriorPath(), FittedPath()
        if reason := no_reference_for(self._engine):
            return prior, reason
        (from_prior,) = self.tunings(data, prior).values()
        not_a_number = "log p is no number at some states on the way from a fit"
        try:
            (from_fit,) = self.tunings(data, fitted).values()
        except FloatingPointError:
            return prior, not_a_number
        if from_fit.accepted_draws > 1:
            return prior, "part of what a fit covers is ruled out"
        before, after = (squared_length({0: tuning}) for tuning in (from_prior, from_fit))
        lengths = f"Λ² is {before:.3g} nats from the prior and {after:.3g} from a fit"
        rhat, peaks = cast(PathTuning, from_prior).rhat, _n_peaks(from_fit)
        if after > WORTHWHILE * before and rhat <= MAX_RHAT and not peaks:
            return prior, f"{lengths}: hardly shorter"
        try:
            self.scouts(data, fitted)
        except FloatingPointError:
            return prior, not_a_number
        scouts = self.scouts(data, prior)
        reached = self.scouted(next(iter(data)))
        means = {name: log_mean_exp(found) for name, found in reached.items()}

        def higher(way: Path, other: Path) -> str:
            return (
                f"runs on path {way.name!r} come to a log ML of {means[way.name]:.4g}, those on "
                f"path {other.name!r} to {means[other.name]:.4g}: they miss part of the posterior"
            )

        if refutes(reached[prior.name], reached[fitted.name]):
            return prior, higher(prior, fitted)
        is_higher = refutes(reached[fitted.name], reached[prior.name])
        surplus = self._surplus(data, cast(PathTuning, from_fit), scouts)
        # Scouts that agree tell how little lies where they came to; of others each may lie far off.
        if surplus > MAX_SURPLUS and not (is_higher and np.ptp(reached[prior.name]) <= MAX_SPREAD):
            return prior, f"a fit misses, by {surplus:.2g} nats, where a run from the prior came to"
        if rhat > MAX_RHAT and not is_higher:
            return prior, (
                f"the pilot's R̂ is {rhat:.2g}: the posterior may have several modes, of which a "
                "fit may miss some"
            )
        if peaks:
            return fitted, "the posterior has a narrow peak, which runs from the prior would miss"
        return fitted, higher(fitted, prior) if is_higher else f"{lengths}; the gap follows it"

    def enough_particles(self, tunings: Tunings, gap: float, path: Path) -> int:
        """N with which the fewest temperatures have an ideal gap of ``gap`` nats, within limits."""
        most = self._engine.default_particles
        if self._rows:
            return most
        needed = np.ceil(squared_length(tunings) / (path.fewest_temperatures * gap))
        return int(np.clip(needed, min(FEWEST_PARTICLES, most), most))

    def enough_temperatures(self, tunings: Tunings, particles: int, gap: float, path: Path) -> int:
        """T with which the ideal gap Λ²/(T·N) is no more than ``gap`` nats, within limits."""
        if self._rows:
            needed = STEPS_A_ROW * self._rows
        else:
            needed = int(np.ceil(squared_length(tunings) / (particles * gap)))
        return int(np.clip(needed, path.fewest_temperatures, MOST_TEMPERATURES))

    @property
    def _rows(self) -> int:
        """Number of observations on a path of the data, else 0; there a pilot knows no Λ."""
        return self._engine.jitted.rows if isinstance(self._engine, CompiledEngine) else 0

    def _pilots(
        self, data: DataSets, references: Mapping[int, Reference | None], until_mixed: bool
    ) -> dict[int, Tuning]:
        stage = 1 if references else 0
        n = self._engine.pilots
        keys = [(dataset, pilot) for dataset in data for pilot in range(n)]
        seeds = [stream(self._entropy, Purpose.PILOT, d, stage, c) for d, c in keys]
        tasks = [
            PilotTask(data[d], seed, references.get(d), until_mixed)
            for (d, _), seed in zip(keys, seeds, strict=True)
        ]
        found = dict(zip(keys, self._all(tasks), strict=True))
        return {d: self._engine.combine([found[d, c] for c in range(n)]) for d in data}

    def _scout(self, data: DataSets, tuning: Tuning, path: Path, chain: int) -> AnnealTask:
        ((dataset, observed),) = data.items()
        particles = self._engine.default_particles
        n = self.enough_temperatures({dataset: tuning}, particles, IDEAL_GAP, path)
        grid = tuning.path_betas, tuning.mean_log_likelihood
        betas = (linear(n) if self._rows else adaptive(*grid, n)).betas
        place = chain + SCOUTS * (not isinstance(path, PriorPath))
        seed = stream(self._entropy, Purpose.FIT, dataset, place)
        return AnnealTask(Direction.FORWARD, observed, betas, tuning, seed, particles=particles)

    def _surplus(self, data: DataSets, tuning: PathTuning, scouts: Sequence[Run]) -> float:
        """Return how far log p + ℓ − log r of scouts from the prior exceeds what a fit's pilot saw.

        Where the posterior has a mode that r does not cover, or a peak within, it stays large. A
        state in the tail of a mode that r does cover is led back by the kernel, and counts no more.
        """
        engine, ((dataset, observed),) = cast(CompiledEngine, self._engine), data.items()
        shares = np.exp(log_softmax([run.log_weight for run in scouts]))
        weights = np.concatenate(
            [share * run.weights for share, run in zip(shares, scouts, strict=True)]
        )
        thetas = np.concatenate([engine.jitted.ravel_many(run.ends) for run in scouts])
        heard = weights > NOTABLE_WEIGHT
        if not heard.any():  # no scout came to where the data are possible
            return np.inf
        seen = np.max(tuning.last_log_likelihood)
        found = engine.log_likelihoods(thetas[heard], observed, tuning.reference)
        beyond = found > seen + MAX_SURPLUS
        if beyond.any():
            seed = stream(self._entropy, Purpose.FIT, dataset, 2 * SCOUTS)
            found[beyond] = engine.settled(thetas[heard][beyond], observed, tuning, seed)
        return float(np.max(found) - seen)


def _n_peaks(tuning: Tuning) -> int:
    """Return the number of narrow peaks that a reference has besides its fit."""
    reference = cast(PathTuning, tuning).reference
    return 0 if reference is None else len(reference.locations) - 1


def squared_length(tunings: Tunings) -> float:
    """Λ², mean over data sets, nats."""
    lengths = [
        thermodynamic_length(tuning.path_betas, tuning.mean_log_likelihood)
        for tuning in tunings.values()
    ]
    return float(np.mean(np.square(lengths)))
