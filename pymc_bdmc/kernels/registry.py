"""Look up kernels by name, for both engines."""

from dataclasses import dataclass

from pymc.step_methods import HamiltonianMC, Metropolis
from pymc.step_methods.compound import BlockedStep
from pymc.step_methods.hmc import NUTS as PyMCNUTS

from pymc_bdmc.kernels.transition import TRANSITIONS, CompiledKernel

__all__ = ["DEFAULT_KERNEL", "KERNELS", "NamedKernel"]


@dataclass(frozen=True)
class NamedKernel:
    """Kernel that ``step`` can name."""

    title: str
    compiled: CompiledKernel
    step_method: type[BlockedStep]
    """PyMC's step method, used if chains cannot be compiled."""


KERNELS = {
    "nuts": NamedKernel("NUTS", TRANSITIONS["nuts"], PyMCNUTS),
    "hmc": NamedKernel("HMC", TRANSITIONS["hmc"], HamiltonianMC),
    # PyMC's HamiltonianMC has no local step size.
    "autostep": NamedKernel("AutoStep HMC", TRANSITIONS["autostep"], HamiltonianMC),
    "metropolis": NamedKernel("Metropolis", TRANSITIONS["metropolis"], Metropolis),
}

DEFAULT_KERNEL = "hmc"
"""Default kernel of compiled chains; among step methods PyMC chooses."""
