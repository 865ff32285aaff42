"""Densities that compile quickly."""

import pymc as pm
from pytensor.compile.mode import Mode

from pymc_bdmc.density.tempered import TemperedDensity

QUICK = {"mode": Mode("py", "fast_run")}


def density_of(make, **options) -> TemperedDensity:
    """Density, evaluated in Python, of a model whose variables a function makes."""
    with pm.Model(**options) as model:
        make()
    return TemperedDensity(model, QUICK)
