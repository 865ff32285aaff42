"""Transition kernels along the path, their reversal, and their tuning by temperature."""

from pymc_bdmc.base.compiling import njit as njit
from pymc_bdmc.base.types import Kernel as Kernel
from pymc_bdmc.base.types import Move as Move
from pymc_bdmc.kernels.adaptations import Adaptation as Adaptation
from pymc_bdmc.kernels.adaptations import adaptation as adaptation
from pymc_bdmc.kernels.moves import KERNELS as KERNELS
from pymc_bdmc.kernels.moves import compiled_kernel as compiled_kernel
from pymc_bdmc.kernels.steps import Step as Step
from pymc_bdmc.kernels.steps import StepFactory as StepFactory
from pymc_bdmc.kernels.steps import StepKernel as StepKernel
from pymc_bdmc.kernels.steps import build_steps as build_steps
from pymc_bdmc.kernels.transition import NamedKernel as NamedKernel
from pymc_bdmc.kernels.transition import transitions as transitions
