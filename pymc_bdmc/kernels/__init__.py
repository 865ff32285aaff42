"""Transition kernels along the path, their reversal, and their tuning by temperature."""

from pymc_bdmc.kernels.adaptations import Adaptation, adaptation
from pymc_bdmc.kernels.registry import KERNELS
from pymc_bdmc.kernels.steps import StepFactory, StepKernel, build_steps
from pymc_bdmc.kernels.tuning import StepTuning

__all__ = [
    "KERNELS",
    "Adaptation",
    "StepFactory",
    "StepKernel",
    "StepTuning",
    "adaptation",
    "build_steps",
]
