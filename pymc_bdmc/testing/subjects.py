"""What can be put on trial: names, step methods, kernels and plain functions, in one form."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.types import Kernel, Point

__all__ = ["Sampler", "Target", "Transition"]

ALPHA = 1e-5
"""Probability, at most, that a check fails what is correct, unless the caller says otherwise."""


class Target(Protocol):
    """What a `Transition` is told about: f_β on the data of the moment."""

    beta: float
    """Inverse temperature; 1 in all checks but `check_sampler`."""
    data: dict[str, np.ndarray]
    """The observed variables."""

    def __call__(self, point: Point) -> float:
        """Log f_β, nats."""

    def gradient(self, point: Point) -> dict[str, np.ndarray]:
        """Of log f_β with respect to the continuous variables."""


Transition = Callable[[Point, Target, np.random.Generator], Point]
"""One step of a sampler of any origin, ``transition(point, target, rng) -> point``.

A point maps the names of the model's value variables (``mu``, ``sigma_log__``) to arrays on the
unconstrained scale. It must leave exp(target) invariant.
"""

Sampler = str | StepFactory | Sequence[StepFactory] | Kernel | Transition
"""What a check of samplers takes.

The name of a compiled kernel ("hmc", "nuts", "autostep", "metropolis"); a class of PyMC step
methods, a `functools.partial` of one, or several; an object with ``step(t, point)``; or a plain
function, see `Transition`.
"""
