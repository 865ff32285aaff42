"""Transition kernels along the path, their reversal, and their tuning by temperature."""

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Kernel, Move
from pymc_bdmc.kernels.adaptations import Adaptation, adaptation
from pymc_bdmc.kernels.registry import KERNELS, compiled_kernel
from pymc_bdmc.kernels.steps import Step, StepFactory, StepKernel, build_steps
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.kernels.tuning import StepTuning

__all__ = [
    "KERNELS",
    "Adaptation",
    "Kernel",
    "Move",
    "NamedKernel",
    "Step",
    "StepFactory",
    "StepKernel",
    "StepTuning",
    "adaptation",
    "build_steps",
    "compiled_kernel",
    "njit",
    "transitions",
]
