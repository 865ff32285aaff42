"""Choose one of the two engines."""

import logging
from collections.abc import Mapping

import numpy as np

from pymc_bdmc.density.compiled import NoGradient, NotJittable
from pymc_bdmc.density.support import check_prior
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.compiled.engine import CompiledEngine
from pymc_bdmc.engines.steps.engine import StepEngine
from pymc_bdmc.kernels import NamedKernel, Step

_log = logging.getLogger("pymc.bdmc")

WITHOUT_GRADIENT = "metropolis"
"""Default kernel of a density without a gradient, such as one that calls a solver in Python."""


def make_engine(
    density: TemperedDensity,
    betas: np.ndarray,
    step: Step,
    backend: str | None = None,
    compile_kwargs: Mapping | None = None,
    in_turn: bool | tuple[int, ...] = False,
) -> CompiledEngine | StepEngine:
    """Return the compiled engine if it supports the model and options, else PyMC's step methods.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities, with the options for the compilation of step methods.
    betas : ndarray of shape (T + 1,)
        The schedule of step methods, unless a task has its own.
    step, backend, compile_kwargs
        See `sample_bdmc`.
    in_turn : bool or tuple of int, default False
        Whether compiled runs use a path of the data, or the order of its observations.
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
        return CompiledEngine(density, WITHOUT_GRADIENT, in_turn)
