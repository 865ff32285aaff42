"""The preparation of runs that anneal: pilots, scouts, and the choice of the path."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import log_softmax

from pymc_bdmc.base import logger
from pymc_bdmc.base.schedules import adaptive, linear, thermodynamic_length
from pymc_bdmc.base.streams import Fitting, Piloting, Purpose
from pymc_bdmc.base.types import MAX_RHAT, Point, Run, Tuning
from pymc_bdmc.call.options import CHAINS, MAX_NUMBERS, MAX_STATES, MAX_TEMPERATURES
from pymc_bdmc.call.preparation import MIN_DRAWS, SCOUTS, UNREACHED, DataSets, Preparation, Tunings
from pymc_bdmc.call.session import ModelSession
from pymc_bdmc.estimators import log_mean_exp, log_prior_mass, refutes
from pymc_bdmc.estimators.checks import shape_by_states
from pymc_bdmc.fits import limits
from pymc_bdmc.paths import FittedPath, Path, PriorPath
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.tasks import PilotTask, RefitTask

_log = logger(__name__)

References = Mapping[int, Reference | None]
"""Start of the path on each data set; None for the prior."""

MOST_LONGER = 4.0
"""By how much temperatures become more at most if log Ẑ of scouts varies. Chosen."""


class Findings(NamedTuple):
    """Facts that pilots and scouts showed on one data set so far."""

    prior_length: float
    """Λ² of the path from the prior, nats."""
    rhat: float
    """Largest R̂ of the pilot from the prior at β = 1."""
    fitted_length: float | None = None
    """Λ² of the path from a fit, nats; None before there is a fit."""
    prior_scouts: np.ndarray = np.empty(0)
    """log Ẑ of scouts from the prior, nats; empty before there are any."""
    fitted_scouts: np.ndarray = np.empty(0)
    """log Ẑ of scouts from the fit."""
    obstacle: str = ""
    """Why no fitted path can be taken, whatever it looks like."""
    is_cut: bool = False
    """Whether the data rule out part of the region that the fit covers."""
    peaks: int = 0
    """Narrow modes that runs from the prior would miss."""
    surplus: float = -np.inf
    """Nats by which log p + ℓ − log r at the ends of scouts from the prior exceeds all values that
    the pilot of the fitted path saw."""
    heavy_tail: float = 0.0
    """Pareto k of the weights of draws from the fit if it is too large, else 0."""


class Choice(NamedTuple):
    """The path to take and why, or what must be measured first."""

    path: Literal["prior", "fitted", ""] = ""
    reason: str = ""
    needs: Literal["fit", "scouts", ""] = ""


class Annealing(Preparation):
    """The pilots and scouts of a call: they find the path, and tune the kernels along it."""

    def __init__(self, session: ModelSession):
        super().__init__(session)
        self.kernel = session.engine.description
        self._tunings: dict[tuple[str, int], Tuning] = {}
        self._scouts: dict[tuple[str, int], list[Run]] = {}
        self.doubted = np.empty(0)
        """log Ẑ of importance sampling from the fit that the `doubt` is about, nats."""

    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return tunings of the kernel along a path, one for each data set.

        The pilots of a first data set find where a path from a fit starts, and tune the kernel. All
        others take over its step sizes, and only the fit is made anew. On other paths every data
        set has pilots of its own; if not ``fits``, those after the first leave β = 1 before they
        mix, since nothing is fitted to their last states.
        """
        first = next(iter(data))
        for wanted in ([first], [d for d in data if d != first]):
            new = {d: data[d] for d in wanted if (path.name, d) not in self._tunings}
            known, until_mixed = self._tunings.get((path.name, first)), fits or first in new
            if not new:
                continue
            if path.starts_at_prior:
                found = self._pilots(new, {}, until_mixed, Piloting.FROM_PRIOR)
            elif known and path.is_fitted and not known.peaks:
                found = self._refits(new, known, path)
            else:
                found = self._from_references(new, path, until_mixed)
            self._tunings |= {(path.name, d): tuning for d, tuning in found.items()}
        return {d: self._tunings[path.name, d] for d in data}

    def _pilots(
        self, data: DataSets, references: References, until_mixed: bool, key: Piloting
    ) -> dict[int, Tuning]:
        n = self._engine.pilots
        tasks = {}
        for d, observed in data.items():
            for pilot in range(n):
                seed = self._seed(Purpose.PILOT, d, key, pilot)
                tasks[d, pilot] = PilotTask(observed, seed, references.get(d), until_mixed)
        found = self._run(tasks, "fit" if references else "pilot")
        return {d: self._engine.combine([found[d, pilot] for pilot in range(n)]) for d in data}

    def _from_references(
        self, data: DataSets, path: Path, until_mixed: bool = True
    ) -> dict[int, Tuning]:
        """Tune a path from references, found by what pilots from the prior saw."""
        found: dict[int, Reference | None] = {}
        for d, observed in data.items():
            seen = partial(self._from_prior, d, observed)
            found[d] = reference = path.reference(self._engine, d, seen)
            if path.is_fitted and reference is not None:
                seed = self._seed(Purpose.FIT, d, Fitting.PEAKS)
                found[d] = self._engine.with_narrow_modes(reference, observed, seed)
        tunings = self._pilots(data, found, until_mixed, Piloting.FROM_REFERENCE)
        for d, reference in found.items():
            if path.is_fitted and reference is not None and not tunings[d].peaks:
                # As on further data. If scales differ by many orders, a metric between those of
                # two stages of the pilot may fit neither.
                tunings[d] = self._engine.adapted(tunings[d], reference, tunings[d].rhat)
        return tunings

    def _from_prior(self, dataset: int, observed: Mapping[str, np.ndarray]) -> Tuning:
        return self.tunings({dataset: observed}, PriorPath())[dataset]

    def _refits(self, data: DataSets, known: Tuning, path: Path) -> dict[int, Tuning]:
        """Tune the path from a fit on further data; if a quick fit fails, pilots make one."""
        key = Piloting.REFIT
        tasks = {d: RefitTask(data[d], self._seed(Purpose.PILOT, d, key), known) for d in data}
        fits: dict[int, Tuning] = self._run(tasks, "fit")
        failed = {d: data[d] for d, fit in fits.items() if not fit.rhat <= MAX_RHAT}
        fits |= self.tunings(failed, PriorPath()) if failed else {}
        found = {}
        for d, fit in fits.items():
            reference = path.reference(self._engine, d, partial(fits.__getitem__, d))
            assert reference is not None, "a path that is fitted has one"
            found[d] = self._engine.adapted(known, reference, fit.rhat)
        return found

    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few forward runs along a path on one data set."""
        ((dataset, tuning),) = self.tunings(data, path).items()
        if (path.name, dataset) not in self._scouts:
            betas, particles = self._scout_betas(dataset, path), self._engine.default_particles
            key = Fitting.PRIOR_SCOUTS if path.starts_at_prior else Fitting.FITTED_SCOUTS
            tasks = self._forward_tasks(data, tuning, betas, particles, key)
            _log.debug(f"Scouts: {SCOUTS} trial runs on path {path.name!r}")
            self._scouts[path.name, dataset] = list(self._run(tasks, "scouts").values())
        return self._scouts[path.name, dataset]

    def _scout_betas(self, dataset: int, path: Path) -> np.ndarray:
        """Return the inverse temperatures of scouts, those of runs along the path."""
        tuning, fit = (
            self._tunings[path.name, dataset],
            self._tunings.get((FittedPath.name, dataset)),
        )
        particles = self._engine.default_particles
        n = self._temperatures(squared_length(tuning), path, particles)
        of_fit = squared_length(fit) if fit else np.inf
        if path.starts_at_prior and squared_length(tuning) > limits.REMEDY * of_fit:
            # Scouts that can decide nothing cost no more than runs from the fit.
            runs = self._temperatures(of_fit, FittedPath(), particles)
            n = min(n, runs * CHAINS // SCOUTS)
        if self._engine.rows:
            return linear(n).betas
        return adaptive(tuning.path_betas, tuning.mean_log_likelihood, n).betas

    def scouted(self, dataset: int) -> dict[str, np.ndarray]:
        """Return log Ẑ of the scouts on a data set by path, log P(ℓ > −∞) included; nats."""
        found = {}
        for (name, d), runs in self._scouts.items():
            if d == dataset:
                mass = log_prior_mass(np.array([run.prior_draws for run in runs])).estimate
                found[name] = np.array([run.log_weight for run in runs]) + mass
        if dataset == 0 and len(self.doubted):
            found["fit, not annealed"] = self.doubted
        return found

    def states_from_prior(self, data: DataSets) -> Point:
        """Return 64 equally weighted states where scouts from the prior ended, if any."""
        weights, ends = _ends(self.scouts(data, PriorPath()))
        if not weights.sum() > 0:  # NaN, since the data are impossible at all ends
            return {}
        (dataset,) = data
        rng = np.random.default_rng(self._seed(Purpose.FIT, dataset, Fitting.REACHED))
        chosen = rng.choice(len(weights), 64, p=weights / weights.sum())
        return {name: values[chosen] for name, values in ends.items()}

    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Choose a path by one data set; return it, and why it was taken."""
        if path is not None:
            return path, "as asked for"
        seen = self._before_fit(data)
        while (choice := choose(seen)).needs:
            seen = self._with_fit(data, seen, with_scouts=choice.needs == "scouts")
        self.heavy_tail = seen.heavy_tail
        if choice.path == "prior":
            return PriorPath(), choice.reason
        if self.doubt and not fails_from_prior(seen):
            if self._misses_more(data):
                return FittedPath(), f"runs from the prior miss more than a fit; {self.doubt}"
            return PriorPath(), self.doubt
        return FittedPath(), choice.reason

    def _misses_more(self, data: DataSets) -> bool:
        """Return whether runs from the prior miss more than the fit that misses a part."""
        scouts = np.array([run.log_weight for run in self.scouts(data, PriorPath())])
        return len(self.doubted) > 0 and refutes(self.doubted, scouts)

    def _before_fit(self, data: DataSets) -> Findings:
        obstacle = self._engine.no_reference
        if not obstacle and (names := ", ".join(self._engine.heavy_tails)):
            obstacle = f"the prior of {names} has heavy tails, of which a fit has too little"
        if not obstacle and self.unreached:
            obstacle = UNREACHED.format(", ".join(self.unreached))
        if obstacle:
            return Findings(np.nan, np.nan, obstacle=obstacle)
        (tuning,) = self.tunings(data, PriorPath()).values()
        return Findings(squared_length(tuning), tuning.rhat)

    def _with_fit(self, data: DataSets, seen: Findings, with_scouts: bool) -> Findings:
        """Return what is known of one data set with a fit, and with scouts."""
        (tuning,) = self.tunings(data, FittedPath()).values()
        length, is_cut = squared_length(tuning), tuning.accepted_draws > 1
        seen = seen._replace(fitted_length=length, is_cut=is_cut, peaks=tuning.peaks)
        if not with_scouts:
            return seen
        self.scouts(data, FittedPath())
        scouts, reached = self.scouts(data, PriorPath()), self.scouted(next(iter(data)))
        shape, limit = shape_by_states(tuning.last_log_likelihood)
        return seen._replace(
            prior_scouts=reached[PriorPath.name],
            fitted_scouts=reached[FittedPath.name],
            surplus=self._surplus(data, tuning, scouts),
            heavy_tail=shape if shape > limit else 0.0,
        )

    def _surplus(self, data: DataSets, tuning: Tuning, scouts: Sequence[Run]) -> float:
        """Return how far a fit misses where scouts from the prior ended; ∞ if that is nowhere."""
        ((dataset, observed),) = data.items()
        weights, ends = _ends(scouts)
        counts = weights > 1e-3  # less weight is negligible
        if not counts.any():  # no scout came to where the data are possible
            return np.inf
        states = {name: values[counts] for name, values in ends.items()}
        seed = self._seed(Purpose.FIT, dataset, Fitting.SURPLUS)
        return self._engine.surplus(states, observed, tuning, limits.SURPLUS, seed)

    def size(self, tunings: Tunings, path: Path) -> tuple[int, int]:
        """Return T and N, within limits, for an ideal gap Λ²/(T·N) of at most the target."""
        options, default = self._session.options, self._engine.default_particles
        n = options.particles or default
        lengths = {d: squared_length(each) for d, each in tunings.items()}
        longest = self._longest(n)
        if lengths.get(0, min(lengths.values())) > longest:  # 0: the real data
            _log.info(
                f"Not even {MAX_TEMPERATURES} temperatures would do, so runs have the fewest: "
                "narrower priors, or another form of the model, may help. "
                f"temperatures={MAX_TEMPERATURES} makes long runs all the same"
            )
            return path.fewest_temperatures, n
        squares = float(np.mean([min(each, longest) for each in lengths.values()]))
        if not options.particles and options.target_gap and not self._engine.rows:
            # At the same cost four particles close the gap as far as one does, and resampling
            # removes a far prior draw, which would ruin the mean of the logarithms
            # (docs/performance.md).
            needed = np.ceil(squares / (path.fewest_temperatures * options.target_gap))
            n = int(np.clip(needed, min(4, default), default))
        temperatures = self._temperatures(squares, path, n, options.target_gap)
        variance = self._seen_variance(tunings, path, temperatures)
        if variance > limits.UNSTEADY and not (options.target_gap or self._engine.rows):
            temperatures = int(np.ceil(min(variance / limits.UNSTEADY, MOST_LONGER) * temperatures))
        return min(temperatures, MAX_TEMPERATURES), n

    def _seen_variance(self, tunings: Tunings, path: Path, n_temperatures: int) -> float:
        """Return the variance of log Ẑ that scouts on the first data set promise; 0 without any."""
        scouts = self._scouts.get((path.name, next(iter(tunings))), [])
        log_z = np.array([run.log_weight for run in scouts])
        if not (scouts and np.isfinite(log_z).all()):
            return 0.0
        n_scouted = len(scouts[0].log_likelihood) - 1  # temperatures
        return float(np.var(log_z, ddof=1)) * n_scouted / n_temperatures

    def _temperatures(
        self, squares: float, path: Path, particles: int, target_gap: float | None = None
    ) -> int:
        """Return T for a path whose Λ² is given."""
        rows, fewest = self._engine.rows, path.fewest_temperatures
        if 0 < rows <= MAX_TEMPERATURES:
            # Equally many for each row, since pilots do not see how long the path is. On a
            # regression of 20 coefficients and 100 rows runs are 0.3 nats short of log ML with ten
            # steps a row, and 1.6 nats with three.
            return rows * max(min(10, MAX_TEMPERATURES // rows), -(-fewest // rows))
        if squares > self._longest(particles):
            return fewest
        # Without a target the gap of perfectly mixed runs is to be 0.15 nats.
        needed = rows or np.ceil(squares / (particles * (target_gap or 0.15)))
        return int(np.clip(needed, fewest, MAX_TEMPERATURES))

    def _longest(self, particles: int) -> float:
        """Return the Λ² beyond which not even the most temperatures make an average of runs."""
        is_open = self._session.options.target_gap or self._engine.rows
        return np.inf if is_open else limits.HOPELESS * MAX_TEMPERATURES * particles

    def real_runs(
        self, tunings: Tunings, path: Path, n_temperatures: int, particles: int
    ) -> tuple[float, int, int]:
        """Return what is needed of runs: see `Preparation`.

        Their variance is that of scouts, but at least three times that of perfect mixing. Measured:
        1.1 to 3.5 times for three normals, capture-recapture, a parabola, and a product of chances.
        """
        tuning = next(iter(tunings.values()))
        variance = max(
            3 * squared_length(tuning) / (n_temperatures * particles),
            self._seen_variance(tunings, path, n_temperatures),
        )
        moves = self._further_moves(n_temperatures, particles)
        return variance, self._fewest_chains(tuning.rhat, particles, moves), moves

    def _further_moves(self, n_temperatures: int, particles: int) -> int:
        """Return the moves at β = 1 for `MAX_STATES`, at most a third of those before."""
        options = self._session.options
        if not (options.real_data and self._engine.moves_further):
            return 0
        wanted = max(min(MAX_STATES, MAX_NUMBERS // max(self._engine.density.size, 1)), 1)
        needed = -(-wanted // (options.n_real_chains * particles)) - 1
        return min(needed, int(1 / 3 * n_temperatures))

    def _fewest_chains(self, rhat: float, particles: int, further_moves: int) -> int:
        """Return `CHAINS`; if moves at β = 1 mix slowly, as many as have `MIN_DRAWS` particles.

        Few particles, and those that do not move on, are not meant for draws.
        """
        has_few = particles < self._engine.default_particles
        if rhat <= limits.QUICK_RHAT or not further_moves or has_few:
            return CHAINS
        return max(CHAINS, -(-MIN_DRAWS // particles))


def squared_length(tuning: Tuning) -> float:
    """Return Λ² of a path by its pilots, nats."""
    length = thermodynamic_length(tuning.path_betas, tuning.mean_log_likelihood)
    return length * length


def _ends(runs: Sequence[Run]) -> tuple[np.ndarray, Point]:
    """Return the particles of runs, with their weights."""
    shares = np.exp(log_softmax([run.log_weight for run in runs]))
    weights = [share * run.weights for share, run in zip(shares, runs, strict=True)]
    ends = {name: np.concatenate([run.ends[name] for run in runs]) for name in runs[0].ends}
    return np.concatenate(weights), ends


def choose(seen: Findings) -> Choice:
    """Choose between the path from the prior and that from a fit.

    Averages of runs along either are unbiased for the same Z. So if one of them is certain to lie
    above the other, the lower one misses part of the posterior and is out (`refutes`). If neither
    is out, the fitted path is taken if it is shorter by far and its pilots and scouts saw all that
    those from the prior saw.
    """
    if seen.obstacle:
        return Choice("prior", seen.obstacle)
    if seen.fitted_length is None:
        return Choice(needs="fit")
    if seen.is_cut:
        reason = "part of the region that a fit covers is ruled out by the model"
        return Choice("prior", reason)
    before, after = seen.prior_length, seen.fitted_length
    lengths = (
        f"the squared thermodynamic length is {before:.3g} nats from the prior and "
        f"{after:.3g} from a fit"
    )
    not_far = f"{lengths}: not {'far ' if after < before else ''}shorter"
    if after > limits.SCOUTED * before and seen.rhat <= MAX_RHAT and not seen.peaks:
        return Choice("prior", not_far)
    if not seen.fitted_scouts.size:
        return Choice(needs="scouts")
    if missed := missed_by_fit(seen):
        return Choice("prior", missed)
    fitted, prior = seen.fitted_scouts, seen.prior_scouts
    is_higher = refutes(fitted, prior)
    if seen.heavy_tail and before <= limits.REMEDY * after and not is_higher:
        return Choice(
            "prior",
            "a fit has far too little mass in part of the posterior (Pareto k of weights is "
            f"{seen.heavy_tail:.2g})",
        )
    if seen.peaks:
        reason = "the posterior has a narrow peak, which runs from the prior would miss"
        return Choice("fitted", reason)
    if is_higher:
        return Choice("fitted", _say_higher("fitted", fitted, "prior", prior))
    if after > limits.WORTHWHILE * before:
        return Choice("prior", not_far)
    return Choice("fitted", f"{lengths}: far shorter")


def missed_by_fit(seen: Findings) -> str:
    """Say what shows, by scouts, that a fit misses part of the posterior; empty if nothing does."""
    if seen.obstacle:
        return seen.obstacle
    fitted, prior = seen.fitted_scouts, seen.prior_scouts
    if refutes(prior, fitted):
        return _say_higher("prior", prior, "fitted", fitted)
    is_higher = refutes(fitted, prior)  # they show how little mass is where they ended
    if seen.surplus > limits.SURPLUS and not is_higher:
        return (
            f"a fit misses a region that runs from the prior reach (its density there is "
            f"{seen.surplus:.2g} nats too low)"
        )
    if seen.rhat > MAX_RHAT and not is_higher:
        return (
            f"the pilot's R̂ is {seen.rhat:.2g}: the posterior may have several modes, of "
            "which a fit may miss some"
        )
    return ""


def fails_from_prior(seen: Findings) -> bool:
    """Return whether runs from the prior are known to miss part of the posterior."""
    return bool(seen.peaks) or refutes(seen.fitted_scouts, seen.prior_scouts)


def _say_higher(name: str, log_z: np.ndarray, other_name: str, others: np.ndarray) -> str:
    """Say that scouts along one path came higher than those along the other."""
    mean, lower = log_mean_exp(log_z), log_mean_exp(others)
    return (
        f"runs on path {name!r} come to a log ML of {mean:.4g}, those on "
        f"path {other_name!r} to {lower:.4g}: the latter miss part of the posterior"
    )
