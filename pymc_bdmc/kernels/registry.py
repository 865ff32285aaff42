"""What the name of a kernel stands for, in both engines."""

from dataclasses import dataclass

import numpy as np
from pymc.step_methods import HamiltonianMC, Metropolis
from pymc.step_methods.compound import BlockedStep
from pymc.step_methods.hmc import NUTS as PyMCNUTS

from pymc_bdmc.kernels.hmc import TRAJECTORY
from pymc_bdmc.kernels.transition import AUTOSTEP, HMC, METROPOLIS, NUTS, CompiledKernel

__all__ = ["DEFAULT_KERNEL", "KERNELS", "NamedKernel"]


@dataclass(frozen=True)
class NamedKernel:
    """A kernel that ``step`` can name."""

    title: str
    compiled: CompiledKernel
    step_method: type[BlockedStep]
    """PyMC's, for where no compiled chains can run."""


KERNELS = {
    "nuts": NamedKernel("NUTS", CompiledKernel(NUTS, True, 0.8, np.inf), PyMCNUTS),
    # A step longer than the trajectory is cut to it.
    "hmc": NamedKernel("HMC", CompiledKernel(HMC, True, 0.9, TRAJECTORY), HamiltonianMC),
    "autostep": NamedKernel(  # PyMC's has no local step size
        "AutoStep HMC", CompiledKernel(AUTOSTEP, True, 0.9, TRAJECTORY), HamiltonianMC
    ),
    "metropolis": NamedKernel(
        "Metropolis", CompiledKernel(METROPOLIS, False, 0.3, np.inf), Metropolis
    ),
}

DEFAULT_KERNEL = "hmc"
"""For compiled chains; of its step methods PyMC chooses by itself."""
