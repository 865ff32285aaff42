"""What the questions that need several calls of `sample_bdmc` have in common."""

from collections.abc import Iterable, Mapping
from typing import Any

import pymc as pm
import xarray as xr

from pymc_bdmc.results.reading import Reading
from pymc_bdmc.sampling import sample_bdmc


def real_run(model: pm.Model, **options: Any) -> xr.DataTree:
    """Run a model on its data alone; raise KeyboardInterrupt if Ctrl-C left some of it undone."""
    dt = sample_bdmc(model, simulate=None, **options)
    if Reading.of(dt).interrupted:
        raise KeyboardInterrupt
    return dt


def refuse(options: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Raise an error if one of these options of `sample_bdmc` is given."""
    for name in names:
        if name in options:
            raise ValueError(f"{name}: {reason}; leave it out.")
