"""Register compiled kernels by name. A new one is a file in this folder and an entry here."""

from pymc_bdmc.kernels.autostep import AUTOSTEP
from pymc_bdmc.kernels.hmc import HMC, METROPOLIS
from pymc_bdmc.kernels.nuts import NUTS
from pymc_bdmc.kernels.transition import NamedKernel

KERNELS = {"nuts": NUTS, "hmc": HMC, "autostep": AUTOSTEP, "metropolis": METROPOLIS}
"""Kernels by the name that ``step`` takes."""

DEFAULT_KERNEL = "hmc"
"""Default kernel of compiled chains; among step methods PyMC chooses."""


def compiled_kernel(step: str | NamedKernel | None) -> NamedKernel:
    """Return the compiled kernel of a name; objects are returned unchanged, None is the default.

    Raises
    ------
    ValueError
        For an unknown name.

    Examples
    --------
    >>> from pymc_bdmc.kernels import compiled_kernel
    >>> compiled_kernel("nuts").title
    'NUTS'
    """
    if isinstance(step, NamedKernel):
        return step
    name = DEFAULT_KERNEL if step is None else step
    if name not in KERNELS:
        raise ValueError(f"step: unknown name {step!r}; choose one of {list(KERNELS)}.")
    return KERNELS[name]
