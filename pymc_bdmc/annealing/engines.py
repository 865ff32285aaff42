"""What an engine is, and which of the two runs."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from pymc.pytensorf import resolve_backend_compile_kwargs

from pymc_bdmc.annealing.compiled.engine import CompiledEngine
from pymc_bdmc.annealing.steps.engine import StepEngine
from pymc_bdmc.annealing.tasks import AnnealTask, PilotTask
from pymc_bdmc.kernels import STEP_NAMES, StepFactory
from pymc_bdmc.model.jitted import NotJittable
from pymc_bdmc.model.prior_check import check_prior
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.types import Chain

__all__ = ["Engine", "make_engine"]

_log = logging.getLogger("pymc.bdmc")


class Engine(Protocol):
    """Tunes kernels and runs chains on the data of a task. Its tunings are its own affair."""

    density: TemperedDensity
    description: str
    """The kernels and their variables, in the order of application."""
    pilots: int
    """Independent pilots on a data set."""

    def pool(self, cores: int, stop: np.ndarray) -> AbstractContextManager:
        """Where tasks run on copies of the engine, or share it, until ``stop`` is set."""

    def run_pilot(self, task: PilotTask) -> Any:
        """Return the tuning that one pilot finds."""

    def combine(self, tunings: Sequence[Any]) -> Any:
        """Join the findings of the pilots on one data set."""

    def run_chain(self, task: AnnealTask) -> Chain | None:
        """One annealing chain from its own start; None if it was stopped."""


def make_engine(
    density: TemperedDensity,
    betas: np.ndarray,
    step: str | StepFactory | Sequence[StepFactory] | None,
    backend: str | None = None,
    compile_kwargs: Mapping | None = None,
) -> CompiledEngine | StepEngine:
    """The compiled engine where it can do what is asked for, else PyMC's step methods.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities.
    betas : ndarray of shape (T + 1,)
        The schedule of step methods, unless a chain brings another.
    step, backend, compile_kwargs
        See `sample_bdmc`.
    """
    numba = backend in (None, "numba") and "mode" not in (compile_kwargs or {})
    if numba and (step is None or (isinstance(step, str) and step in STEP_NAMES)):
        try:
            engine = CompiledEngine(density, step)
            check_prior(density, None if step == "metropolis" else engine.jitted)
            return engine
        except NotJittable as reason:
            _log.info(f"No compiled chains for this model ({reason}): PyMC's step methods run.")
    options = resolve_backend_compile_kwargs(backend, compile_kwargs)
    check_prior(density)
    return StepEngine(density, betas, step, options)
