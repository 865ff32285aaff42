"""Blocks of chains of a finite model, joined to the result of one call."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_bdmc.annealing.blocks import is_finished, pool_blocks
from pymc_bdmc.results.convert import annealing_dataset, package_version
from pymc_bdmc.results.diagnose import warn
from pymc_bdmc.types import AnnealingRun, Direction

__all__ = ["to_datatree"]


def to_datatree(
    directions: Sequence[Direction], runs: Sequence[AnnealingRun], betas: np.ndarray, attrs: dict
) -> xr.DataTree:
    """Groups ``forward`` and ``reverse`` of all blocks; what to doubt in them is logged."""
    groups = {
        direction.value: annealing_dataset(
            [pool_blocks([run for d, run in zip(directions, runs, strict=True) if d is direction])],
            betas,
        )
        for direction in Direction
    }
    dt = xr.DataTree.from_dict(groups)
    dt.attrs.update(attrs)
    dt.attrs["interrupted"] = int(not all(map(is_finished, runs)))
    dt.attrs["pymc_bdmc_version"] = package_version()
    warn(dt)
    return dt
