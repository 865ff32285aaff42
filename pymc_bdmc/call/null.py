"""The result for a model without free variables: its log ML is its log density."""

import time

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.version import VERSION
from pymc_bdmc.call.request import CHAINS
from pymc_bdmc.density.graph import INTERPRETED, TemperedModel
from pymc_bdmc.density.refuse import constraints
from pymc_bdmc.results.log_ml import write_log_ml


def null_result(model: pm.Model) -> xr.DataTree:
    """Return the log density of the data as `sample_bdmc` returns log ML, with error 0.

    The group ``real`` has equal log weights, as of runs along a path on which nothing changes.

    Raises
    ------
    ValueError
        If the density is no density of the data, or if the model makes them impossible.
    """
    started = time.perf_counter()
    tempered = TemperedModel.from_model(model)
    log_p = float(tempered.datalogp.eval(mode=INTERPRETED))
    if not np.isfinite(log_p):
        raise ValueError(
            f"model: without free variables its log density is {log_p:g}. Check the data and the "
            "constants of their distributions."
        )
    runs = {"log_weight": np.full(CHAINS, log_p), "prior_draws": np.ones(CHAINS)}
    real = xr.Dataset(
        {name: ("chain", values) for name, values in runs.items()}, {"beta": [0.0, 1.0]}
    )
    observed = {name: data.get_value() for name, data in tempered.observed.items()}
    dt = xr.DataTree.from_dict({
        "real": real.assign_attrs(gradient_evaluations=0, sample_dims=[]),
        "observed_data": xr.Dataset(
            {
                name: ([f"{name}_dim_{i}" for i in range(values.ndim)], values)
                for name, values in observed.items()
            }
        ),
    })  # fmt: skip
    seconds = time.perf_counter() - started
    dt.attrs |= constraints(model) | {
        "path": "none", "path_reason": "the model has no free variables", "particles": 1,
        "simulate": "none", "upper_bound": "none", "interrupted": 0, "sampling_time": seconds,
        "preparation_time": 0.0, "pymc_bdmc_version": VERSION, "pymc_version": pm.__version__,
    }  # fmt: skip
    write_log_ml(dt)
    return dt
