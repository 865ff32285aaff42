"""Runs on real data and refused options, shared by the questions of several runs."""

from collections.abc import Iterable, Mapping
from typing import Any

import pymc as pm
import xarray as xr

from pymc_bdmc.results.reading import Reading
from pymc_bdmc.sampling import sample_bdmc


def real_run(model: pm.Model, **options: Any) -> xr.DataTree:
    """Return runs on the real data; raise KeyboardInterrupt if Ctrl-C left some of them undone."""
    dt = sample_bdmc(model, simulate=None, **options)
    if Reading.of(dt).interrupted:
        raise KeyboardInterrupt
    return dt


def refuse(options: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Raise an error if one of these options of `sample_bdmc` is given."""
    for name in names:
        if name in options:
            raise ValueError(f"{name}: {reason}; leave it out.")
