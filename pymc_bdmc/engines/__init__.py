"""Engines: a density with its kernels, which runs tasks; compiled, or by PyMC's step methods."""

from collections.abc import Mapping

import numpy as np

from pymc_bdmc.base import logger
from pymc_bdmc.density.compiled import NoGradient, NotJittable
from pymc_bdmc.density.support import check_prior
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.compiled import CompiledEngine as CompiledEngine
from pymc_bdmc.engines.steps import StepEngine as StepEngine
from pymc_bdmc.kernels import NamedKernel, Step
from pymc_bdmc.run.loop import anneal as anneal
from pymc_bdmc.run.recorder import Recorder as Recorder
from pymc_bdmc.run.tasks import AnnealTask as AnnealTask
from pymc_bdmc.run.tasks import PilotTask as PilotTask
from pymc_bdmc.run.tasks import RefitTask as RefitTask
from pymc_bdmc.run.workers import open_workers as open_workers

_log = logger(__name__)


def make_engine(
    density: TemperedDensity,
    betas: np.ndarray,
    step: Step,
    backend: str | None = None,
    compile_kwargs: Mapping | None = None,
    in_turn: bool | tuple[int, ...] = False,
) -> CompiledEngine | StepEngine:
    """Return the compiled engine if it supports the model and options, else PyMC's step methods.

    ``betas`` is the schedule of step methods, unless a task has its own; ``in_turn`` is the order
    of observations on a path of the data.
    """
    numba = backend in (None, "numba") and "mode" not in (compile_kwargs or {})
    if numba and (step is None or isinstance(step, str | NamedKernel)):
        try:
            engine = _compiled(density, step, in_turn)
        except NotJittable as reason:
            _log.warning(
                f"This model cannot be compiled ({reason}): PyMC's step methods are used, which "
                "are much slower."
            )
        else:
            if compile_kwargs:
                raise ValueError(
                    "compile_kwargs: the compiled chains have no use for it. Leave it out, or "
                    "choose PyMC's step methods: by step, by another backend, or by a mode in it."
                )
            check_prior(density, engine.jitted if engine.moves.needs_gradient else None)
            return engine
    check_prior(density)
    return StepEngine(density, betas, step, density.compile_kwargs)


def _compiled(
    density: TemperedDensity, step: str | NamedKernel | None, in_turn: bool | tuple[int, ...]
) -> CompiledEngine:
    """Return the compiled engine; by default with a kernel that the density allows."""
    try:
        return CompiledEngine(density, step, in_turn)
    except NoGradient as reason:
        if step is not None:
            raise
        _log.info(f"This model has no gradient ({reason}): nothing in this call needs one.")
        return CompiledEngine(density, "metropolis", in_turn)
