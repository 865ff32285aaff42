"""Results made of numbers, as calls would have written them."""

import json

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import softmax

from pymc_bdmc import __version__
from pymc_bdmc.density.identity import comparable_fingerprint

BETAS = np.linspace(0, 1, 31)
Y = np.arange(6.0)


def tree(forward=None, reverse=None, real=None, draws=1.0, status="exact", **more):
    """Log weights by (dataset, chain), or by chain on the real data, with more variables."""
    groups = {}
    for name, weights in (("forward", forward), ("reverse", reverse), ("real", real)):
        if weights is not None:
            weights = np.asarray(weights, dtype=float)
            dims = ("dataset", "chain")[-weights.ndim :]
            drawn = dims, np.full(weights.shape, draws)
            groups[name] = xr.Dataset({"log_weight": (dims, weights), "prior_draws": drawn, **more})
    dt = xr.DataTree.from_dict(groups)
    dt.attrs["upper_bound"] = status
    return dt


def runs(sd=0.3, real_sd=0.3, datasets=1, n=40, seed=0, y=None, log_ml=-20.0):
    """Log weights whose spread may differ between real and simulated data, and so may log ML."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(-20, 2, (datasets, 1))
    forward = rng.normal(levels - sd**2 / 2, sd, (datasets, n))
    dt = tree(forward, forward + sd**2, rng.normal(log_ml - real_sd**2 / 2, real_sd, n))
    for group in ("forward", "reverse", "real"):
        dt[group] = dt[group].dataset.assign_coords(beta=BETAS)
    if y is not None:
        dt["observed_data"] = xr.DataTree(xr.Dataset({"y": ("place", y)}))
        simulated = rng.normal(size=(datasets, len(y)))
        dt["simulated"] = xr.DataTree(xr.Dataset({"y": (("dataset", "place"), simulated)}))
    return dt


def result(log_ml=0.0, n=200, sd=0.2, seed=0, **observed):
    """Runs on these real data, and on one simulated data set."""
    dt = runs(sd, sd, n=n, seed=[seed, int(10 * abs(log_ml))], log_ml=log_ml)
    data = {name: (f"{name}_place", value) for name, value in (observed or {"y": Y}).items()}
    dt["observed_data"] = xr.DataTree(xr.Dataset(data))
    return dt


def particles(weights=None, dims=None, **values):
    """Particles by (chain, particle), of equal weights if none are given.

    Other dimensions of a variable are those in `dims`, or have names of their own.
    """
    shape = next(iter(values.values())).shape[:2]
    weights = np.ones(shape) if weights is None else weights
    named = {
        name: (dims or {}).get(name, [f"{name}_dim_{i}" for i in range(x.ndim - 2)])
        for name, x in values.items()
    }
    return xr.Dataset(
        {name: (("chain", "particle", *named[name]), x) for name, x in values.items()},
        {
            "chain": range(shape[0]),
            "particle": range(shape[1]),
            "bdmc_weight": (("chain", "particle"), weights / weights.sum()),
        },
        {"free_variables": list(values)},
    )


def exact_result(model, log_ml, sd=0.02, seed=0, **draws):
    """Sixteen runs on the real data of a model, which ended in these draws from its posterior.

    Their log weights are normal, and their weights have the mean exp(log ML).
    """
    log_weights = np.random.default_rng(seed).normal(log_ml - sd**2 / 2, sd, 16)
    dt = tree(real=log_weights)
    dt["real"] = dt["real"].dataset.assign_coords(beta=BETAS)
    values = {name: x.reshape(16, -1, *x.shape[1:]) for name, x in draws.items()}
    n = next(iter(values.values())).shape[1]
    weights = np.repeat(softmax(log_weights)[:, None], n, axis=1)
    dt["particles"] = particles(weights, **values)
    observed = {rv.name: model.rvs_to_values[rv].data for rv in model.observed_RVs}
    dt["observed_data"] = xr.Dataset(
        {name: ([f"{name}_dim_{i}" for i in range(y.ndim)], y) for name, y in observed.items()}
    )
    dt.attrs |= {"pymc_bdmc_version": __version__, "pymc_version": pm.__version__}
    dt.attrs["model"] = json.dumps(comparable_fingerprint(model))
    return dt
