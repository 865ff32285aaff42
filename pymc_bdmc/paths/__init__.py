"""Paths of densities, which start at the prior or at a reference near the posterior."""

from pymc_bdmc.paths.contract import Path as Path
from pymc_bdmc.paths.contract import PathEngine as PathEngine
from pymc_bdmc.paths.data import DataPath as DataPath
from pymc_bdmc.paths.fitted import FittedPath as FittedPath
from pymc_bdmc.paths.prior import PriorPath as PriorPath
from pymc_bdmc.paths.reference import ReferencePath as ReferencePath
from pymc_bdmc.paths.registry import PATHS as PATHS
from pymc_bdmc.paths.registry import make_path as make_path
from pymc_bdmc.reference.student import make_reference as make_reference
