"""Anneal a problem in one call, forward and in reverse."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

import pymc_bdmc as bdmc
from factor_models import loops
from factor_models.kernels import MOVES
from factor_models.loops import PATHS, Record, observation_weights
from factor_models.models import Problem
from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.compiling import load_numba
from pymc_bdmc.base.streams import Purpose, beside
from pymc_bdmc.base.types import Direction, Run

_RUNNING = np.zeros(1, np.uint8)


def anneal(
    problem: Problem,
    *,
    path: Literal["prior", "data"] = "prior",
    chains: int = 8,
    particles: int = 32,
    temperatures: int | ArrayLike = 200,
    schedule: str | bdmc.Schedule = "sigmoid",
    **options: Any,
) -> xr.DataTree:
    """Sandwich log ML of simulated observations between forward and reverse populations.

    Parameters
    ----------
    problem : Problem
        From `FactorModel.simulate`.
    path : {"prior", "data"}, default "prior"
        Whether all observations gain weight together or enter one after another.
    chains : int, default 8
        Number of runs per direction, at least 2.
    particles : int, default 32
        Number of states of a run. In reverse runs the path of the exact sample is one of them.
    temperatures : int or array_like of shape (T + 1,), default 200
        T, the number of transitions of a state, or the inverse temperatures themselves.
    schedule : {"sigmoid", "linear", "power", "cubic"} or Schedule, default "sigmoid"
        Spacing of the inverse temperatures.
    **options
        The further options of `pymc_bdmc.anneal`: ``target_gap``, ``max_temperatures`` and
        ``max_time`` for rounds; ``random_seed``, ``cores``, ``executor``, ``progressbar``,
        ``store`` and ``callback``.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. In place of ℓ the path has the mean slope of log f along β.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    KeyboardInterrupt
        If Ctrl-C comes before any run is finished, or is pressed a second time.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> from factor_models import Clustering, anneal
    >>> problem = Clustering(3, n=6, size=2).simulate(random_seed=1)
    >>> dt = anneal(problem, temperatures=20, random_seed=1, progressbar=False)
    >>> bdmc.summary(dt).loc[("simulated", "upper bound"), "kind"]
    'mean log weight, exact start'
    """
    runs = ProblemRuns(problem, path, particles)
    return bdmc.anneal(runs, chains=chains, temperatures=temperatures, schedule=schedule, **options)


def run(
    problem: Problem,
    direction: Direction,
    path: str,
    betas: np.ndarray,
    particles: int,
    rng: np.random.Generator,
    stop: np.ndarray = _RUNNING,
) -> tuple[float, np.ndarray]:
    """Run one population.

    Returns
    -------
    log_weight : float
        log Ẑ, nats; NaN if the run was stopped.
    rises : ndarray of shape (T + 1,)
        Mean log weight of the step to every β.
    """
    load_numba()  # a worker of an executor has made no model
    model, y = problem.model.factors, problem.y
    way = observation_weights(path, betas, len(y))
    states, rises = problem.model.draw_rows(rng, particles), np.zeros(len(betas))
    record = Record(rises, states[:0])
    if direction is Direction.REVERSE:
        record = Record(rises, np.empty((len(betas), *problem.rows.shape)))
        back, samples = way._replace(backwards=True), problem.rows[None].copy()
        log_weight = loops.anneal(MOVES, model, y, back, samples, rng, stop, record)
    if direction is Direction.FORWARD or (particles > 1 and not stop[0]):
        log_weight = loops.anneal(MOVES, model, y, way, states, rng, stop, record)
    return log_weight, rises


def sequential_harmonic_mean(
    problem: Problem, betas: np.ndarray, particles: int, rng: np.random.Generator
) -> float:
    """Return log Ẑ, nats, from particles that start at the exact sample and lose observations."""
    y = problem.y
    states = np.repeat(problem.rows[None], particles, axis=0)
    way = observation_weights("data", betas, len(y))._replace(backwards=True)
    model = problem.model.factors
    record = Record(np.zeros(len(betas)), states[:0])
    return loops.anneal(MOVES, model, y, way, states, rng, _RUNNING, record)


@dataclass(frozen=True)
class ProblemRuns:
    """Populations of a problem on one path.

    The fields are the arguments of `anneal`.

    Raises
    ------
    ValueError
        Names the field and the remedy.
    """

    problem: Problem
    path: Literal["prior", "data"] = "prior"
    particles: int = 32
    block_size: ClassVar[int] = 1
    defaults: ClassVar[tuple[int, str]] = 200, "sigmoid"
    description: ClassVar[str] = "Gibbs"

    def __post_init__(self):
        problem = self.problem
        if not isinstance(problem, Problem):
            raise ValueError(
                f"problem: a Problem is needed, as `simulate` returns, got {problem!r}."
            )
        if not problem.rows.size:
            raise ValueError("problem: reverse runs need the rows it was simulated from.")
        check_choice("path", self.path, PATHS)
        check_counts(particles=self.particles)

    @property
    def attributes(self) -> dict[str, object]:
        """Return the attributes that describe the problem in a result."""
        return {
            "system": repr(self.problem.model),
            "path": self.path,
            "particles": self.particles,
            "upper_bound": "exact",
            "burn_in": 0,
        }

    def run_block(self, task, stop: np.ndarray) -> Run:
        """Anneal a population, whose log weight is NaN if ``stop`` is set."""
        rng = np.random.default_rng(beside(task.seed, Purpose.ANNEAL))
        log_weight, rises = run(
            self.problem, task.direction, self.path, task.betas, self.particles, rng, stop
        )
        slopes = np.append(rises[1:] / np.diff(task.betas), np.nan)
        return Run.of_block(task.direction, np.array([log_weight]), slopes, np.zeros(slopes.size))
