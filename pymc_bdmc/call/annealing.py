"""The preparation of runs that anneal: pilots and scouts on every data set, and the path."""

import logging
from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import adaptive, linear
from pymc_bdmc.base.streams import Entropy, Fitting, Purpose, stream
from pymc_bdmc.base.types import Direction, Point, Run, Tuning
from pymc_bdmc.call.choice import (
    MAX_SURPLUS,
    REMEDY,
    Findings,
    Way,
    choose,
    fails_from_prior,
    missed_by_fit,
)
from pymc_bdmc.call.options import MOST_TEMPERATURES
from pymc_bdmc.call.pilots import Piloted, squared_length
from pymc_bdmc.call.preparation import DRAWN, SCOUTS, UNREACHED, DataSets, Tunings
from pymc_bdmc.call.request import CHAINS, DRAWS
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.estimators import log_prior_mass, refutes
from pymc_bdmc.estimators.tails import shape_by_states
from pymc_bdmc.paths import FittedPath, Path, PriorPath
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.run.workers import Pool

_log = logging.getLogger("pymc.bdmc")

IDEAL_GAP = 0.15
"""Gap in nats that perfectly mixed runs would have, if T is not given."""
FEWEST_PARTICLES = 4
"""Least number of particles if a target for the gap is given and N is not. At the same cost four
close the gap as far as one does, and resampling removes a far prior draw, which would ruin the
mean of the logarithms (docs/particles.md)."""
STEPS_A_ROW = 10
"""Temperatures for each observation on a path of the data, whose length a pilot does not know. On a
regression of 20 coefficients and 100 rows runs are then 0.3 nats short of log ML; with three
steps a row they are 1.6 nats short."""

INFINITE = "the log density is +∞ at some states between a fit and the posterior"
FURTHER = 1 / 3
"""Share of the cost of all other moves up to which particles move on at β = 1."""
QUICK_RHAT = 1.25
"""Largest R̂ of the pilot at which a particle's further states at β = 1 count as draws. On eight
schools, where it is mostly below, 11 states of a particle are worth three or four; on centred ones,
where it is above, 16 states are worth 1.1."""
REACHED = 64
"""Number of states that scouts from the prior pass on to a fit."""
DOUBTED = "fit, not annealed"
"""Name, among the paths of scouts, of importance sampling from a fit that misses a part."""
NOTABLE_WEIGHT = 1e-3
"""Least share of all weight with which a particle of a scout counts."""


class Annealing(Piloted):
    """The pilots and scouts of a call: they find the path, and tune the kernels along it.

    Parameters
    ----------
    pool, engine, entropy
        See `Preparation`.
    progressbar : bool
        Whether the scouts have one.

    Attributes
    ----------
    doubted : ndarray of shape (K,)
        log Ẑ of runs that weigh draws from the fit that the `doubt` is about, nats.
    """

    def __init__(self, pool: Pool, engine: CompiledEngine, entropy: Entropy, progressbar: bool):
        super().__init__(pool, engine, entropy)
        self._progressbar = progressbar
        self._scouts: dict[tuple[str, int], list[Run]] = {}
        self.doubted = np.empty(0)

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
            _log.debug(f"Scouts: {SCOUTS} trial runs on path {path.name!r}")
            with ChainProgress({"scouts": SCOUTS}, self._progressbar) as progress:
                runs = self._all(
                    tasks, "scouts", lambda run: progress.finished("scouts", run.log_weight)
                )
            self._scouts[path.name, dataset] = runs
        return self._scouts[path.name, dataset]

    def scouted(self, dataset: int) -> dict[str, np.ndarray]:
        """Return log Ẑ of the scouts on a data set by path, log P(ℓ > −∞) included; nats."""
        found = {}
        for (name, d), runs in self._scouts.items():
            if d == dataset:
                mass = log_prior_mass(np.array([run.prior_draws for run in runs])).estimate
                found[name] = np.array([run.log_weight for run in runs]) + mass
        if dataset == 0 and len(self.doubted):
            found[DOUBTED] = self.doubted
        return found

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Choose a path on the first data set; return it, and why it was taken.

        A path that is asked for is taken. A fitted path is not taken if a fit misses part of the
        posterior of one of the further data sets, unless runs from the prior fail on the first one.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        if path is not None:
            return path, "as asked for"
        first, *others = ({d: observed} for d, observed in data.items())
        seen = self._before_fit(first)
        while (choice := choose(seen)).needs:
            seen = self._with_fit(first, seen, with_scouts=choice.needs == "scouts")
        self.heavy_tail = seen.heavy_tail
        if seen.heavy_tail or (seen.fitted and seen.fitted.log_z.size and missed_by_fit(seen)):
            self.weighs_real = False
        if choice.path == "prior":
            return PriorPath(), choice.reason
        if not fails_from_prior(seen):
            if self.doubt:
                if self._misses_more(first):
                    return FittedPath(), f"runs from the prior miss more than a fit; {self.doubt}"
                return PriorPath(), self.doubt
            for other in others:
                sees = self._with_fit(other, self._before_fit(other), with_scouts=True)
                if missed := missed_by_fit(sees):
                    return PriorPath(), f"on simulated data {missed}"
        return FittedPath(), choice.reason

    def _misses_more(self, data: DataSets) -> bool:
        """Return whether runs from the prior miss more than the fit that misses a part."""
        scouts = np.array([run.log_weight for run in self.scouts(data, PriorPath())])
        return len(self.doubted) > 0 and refutes(self.doubted, scouts)

    def _before_fit(self, data: DataSets) -> Findings:
        """Return what is known of one data set before there is a fit."""
        obstacle = self._engine.no_reference
        if not obstacle and (names := ", ".join(self._engine.heavy_tails)):
            obstacle = f"the prior of {names} has heavy tails, of which a fit has too little"
        if not obstacle and self.unreached:
            obstacle = UNREACHED.format(", ".join(self.unreached))
        if obstacle:
            return Findings(Way(np.nan, np.nan), obstacle=obstacle)
        return Findings(self._way(data, PriorPath()))

    def _with_fit(self, data: DataSets, seen: Findings, with_scouts: bool) -> Findings:
        """Return what is known of one data set with a fit, and with scouts."""
        try:
            (tuning,) = self.tunings(data, FittedPath()).values()
            fitted, is_cut = self._way(data, FittedPath()), tuning.accepted_draws > 1
            if not with_scouts:
                return seen._replace(fitted=fitted, is_cut=is_cut, peaks=tuning.peaks)
            self.scouts(data, FittedPath())
        except FloatingPointError:
            return seen._replace(obstacle=INFINITE)
        scouts, reached = self.scouts(data, PriorPath()), self.scouted(next(iter(data)))
        shape, limit = shape_by_states(tuning.last_log_likelihood)
        return seen._replace(
            prior=seen.prior._replace(log_z=reached[PriorPath.name]),
            fitted=fitted._replace(log_z=reached[FittedPath.name]),
            is_cut=is_cut,
            peaks=tuning.peaks,
            surplus=self._surplus(data, tuning, scouts),
            heavy_tail=shape if shape > limit else 0.0,
        )

    def _way(self, data: DataSets, path: Path) -> Way:
        """Return what the pilots saw along a path."""
        (tuning,) = self.tunings(data, path).values()
        return Way(squared_length({0: tuning}), tuning.rhat)

    def enough(
        self, tunings: Tunings, path: Path, particles: int | None, target_gap: float | None
    ) -> tuple[int, int]:
        """Return T and N, within limits, for an ideal gap Λ²/(T·N) of at most the target."""
        n, default = particles, self._engine.default_particles
        squares = squared_length(tunings)
        if n is None:
            n = default
            if target_gap and not self._engine.rows:
                needed = np.ceil(squares / (path.fewest_temperatures * target_gap))
                n = int(np.clip(needed, min(FEWEST_PARTICLES, default), default))
        if 0 < (rows := self._engine.rows) <= MOST_TEMPERATURES:  # equally many for each
            steps = min(STEPS_A_ROW, MOST_TEMPERATURES // rows)
            return rows * max(steps, -(-path.fewest_temperatures // rows)), n
        needed = rows or np.ceil(squares / (n * (target_gap or IDEAL_GAP)))
        return int(np.clip(needed, path.fewest_temperatures, MOST_TEMPERATURES)), n

    def variance(self, tunings: Tunings, path: Path, n_temperatures: int, particles: int) -> float:
        """Return the variance of log Ẑ to expect of a run on the first data set, nats².

        Scouts show it, where they had as many temperatures; it is at least that of perfect mixing.
        """
        dataset = next(iter(tunings))
        ideal = squared_length({dataset: tunings[dataset]}) / (n_temperatures * particles)
        scouts = self._scouts.get((path.name, dataset), [])
        seen = np.var([run.log_weight for run in scouts], ddof=1) if scouts else 0.0
        return float(max(ideal, seen)) if np.isfinite(seen) else float(ideal)

    def fewest_chains(self, tunings: Tunings, particles: int, further_moves: int) -> int:
        """Return `CHAINS`, or more where moves at β = 1 mix slowly: those with `DRAWN` particles.

        Few particles, and those that do not move on, are not made for draws.
        """
        mixes = next(iter(tunings.values())).rhat <= QUICK_RHAT
        if mixes or not further_moves or particles < self._engine.default_particles:
            return CHAINS
        return max(CHAINS, -(-DRAWN // particles))

    def further(self, n_temperatures: int) -> tuple[int, int]:
        """Return `DRAWS`, and a part of the moves that led to β = 1."""
        return DRAWS, int(FURTHER * n_temperatures)

    def _scout(self, data: DataSets, tuning: Tuning, path: Path, chain: int) -> AnnealTask:
        ((dataset, observed),) = data.items()
        particles = self._engine.default_particles
        n, _ = self.enough({dataset: tuning}, path, particles, None)
        fit = self._tunings.get((FittedPath.name, dataset))
        if (
            path.starts_at_prior
            and fit
            and squared_length({0: tuning}) > REMEDY * squared_length({0: fit})
        ):  # scouts that can decide nothing cost no more than runs from the fit
            runs, _ = self.enough({dataset: fit}, FittedPath(), particles, None)
            n = min(n, runs * CHAINS // SCOUTS)
        grid = tuning.path_betas, tuning.mean_log_likelihood
        betas = (linear(n) if self._engine.rows else adaptive(*grid, n)).betas
        kind = Fitting.PRIOR_SCOUTS if path.starts_at_prior else Fitting.FITTED_SCOUTS
        seed = stream(self._entropy, Purpose.FIT, dataset, kind + chain)
        return AnnealTask(Direction.FORWARD, observed, betas, tuning, seed, particles=particles)

    def _surplus(self, data: DataSets, tuning: Tuning, scouts: Sequence[Run]) -> float:
        """Return how far a fit misses where scouts from the prior came to; ∞ if that is nowhere."""
        ((dataset, observed),) = data.items()
        weights, ends = _ends(scouts)
        heard = weights > NOTABLE_WEIGHT
        if not heard.any():  # no scout came to where the data are possible
            return np.inf
        states = {name: values[heard] for name, values in ends.items()}
        seed = stream(self._entropy, Purpose.FIT, dataset, Fitting.SURPLUS)
        return self._engine.surplus(states, observed, tuning, MAX_SURPLUS, seed)

    def states_from_prior(self, data: DataSets) -> Point:
        """Return `REACHED` equally weighted states that scouts from the prior came to, if any."""
        weights, ends = _ends(self.scouts(data, PriorPath()))
        if not weights.sum() > 0:  # NaN, since the data are impossible at all ends
            return {}
        (dataset,) = data
        rng = np.random.default_rng(stream(self._entropy, Purpose.FIT, dataset, Fitting.REACHED))
        chosen = rng.choice(len(weights), REACHED, p=weights / weights.sum())
        return {name: values[chosen] for name, values in ends.items()}


def _ends(runs: Sequence[Run]) -> tuple[np.ndarray, Point]:
    """Return the particles of runs, with their weights."""
    shares = np.exp(log_softmax([run.log_weight for run in runs]))
    weights = [share * run.weights for share, run in zip(shares, runs, strict=True)]
    ends = {name: np.concatenate([run.ends[name] for run in runs]) for name in runs[0].ends}
    return np.concatenate(weights), ends
