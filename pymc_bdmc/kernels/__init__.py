"""Transition kernels along the path, their reversal, and their tuning per temperature."""

from pymc_bdmc.kernels.adaptations import Adaptation, adaptation
from pymc_bdmc.kernels.steps import STEP_NAMES, StepFactory, StepKernel, build_steps
from pymc_bdmc.kernels.tuning import Tuning

__all__ = [
    "STEP_NAMES",
    "Adaptation",
    "StepFactory",
    "StepKernel",
    "Tuning",
    "adaptation",
    "build_steps",
]
