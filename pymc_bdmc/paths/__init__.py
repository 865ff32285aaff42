"""Paths of densities, which start at the prior or at a reference near the posterior."""

from pymc_bdmc.kernels.reference import make_reference
from pymc_bdmc.paths.contract import Path, PathEngine
from pymc_bdmc.paths.data import DataPath
from pymc_bdmc.paths.fitted import FittedPath
from pymc_bdmc.paths.prior import PriorPath
from pymc_bdmc.paths.reference import ReferencePath
from pymc_bdmc.paths.registry import PATHS, make_path

__all__ = [
    "PATHS",
    "DataPath",
    "FittedPath",
    "Path",
    "PathEngine",
    "PriorPath",
    "ReferencePath",
    "make_path",
    "make_reference",
]
