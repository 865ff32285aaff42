"""Register compiled kernels by name. A new one is a file in this folder and an entry here."""

from pymc_bdmc.kernels.autostep import AUTOSTEP
from pymc_bdmc.kernels.hmc import HMC, METROPOLIS
from pymc_bdmc.kernels.nuts import NUTS
from pymc_bdmc.kernels.transition import NamedKernel

KERNELS = {"nuts": NUTS, "hmc": HMC, "autostep": AUTOSTEP, "metropolis": METROPOLIS}
"""Kernels by the name that ``step`` takes."""


def compiled_kernel(step: str | NamedKernel | None) -> NamedKernel:
    """Return the kernel of a name, by default HMC; a kernel object is returned unchanged."""
    if isinstance(step, NamedKernel):
        return step
    name = "hmc" if step is None else step  # among step methods PyMC chooses
    if name not in KERNELS:
        raise ValueError(f"step: unknown name {step!r}; choose one of {list(KERNELS)}.")
    return KERNELS[name]
