"""Read the weighted particles of the runs on the real data, with the model that they are of."""

import json

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.version import VERSION
from pymc_bdmc.model.lending import Loan
from pymc_bdmc.model.posterior import check_observed, posterior_draws
from pymc_bdmc.results.groups import check_annealed, data_sets

__all__ = ["as_drawn", "check_model_of_runs", "particle_values", "particle_weights"]


def check_model_of_runs(dt: xr.DataTree, loan: Loan, reader: str) -> None:
    """Raise an error for results without real data, or of another model or other data.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`.
    loan : Loan
        The density of the model of ``dt``.
    reader : str
        Name of the function that reads ``dt``.

    Raises
    ------
    ValueError
        Names the variable and the remedy.
    """
    check_annealed(dt, reader)
    if not {"real", "particles"} <= set(dt.children):
        raise ValueError(
            f"dt: it has no runs on the real data, and {reader} reads the posterior on these; "
            "leave out real_data=False."
        )
    if not any(data == "real" for data, *_ in data_sets(dt)):
        raise ValueError("dt: no run on the real data was finished; run it again.")
    density = loan.density
    known = {rv.name for rv in density.model.unobserved_RVs}
    if unknown := sorted(set(map(str, dt["particles"].data_vars)) - known):
        raise ValueError(f"dt: the model lacks its variables {unknown}. Is it a result of another?")
    check_observed("dt", dt, density.data)
    versions = {"pymc_bdmc_version": VERSION, "pymc_version": pm.__version__}
    if versions.items() <= dt.attrs.items():
        then, now = json.loads(dt.attrs.get("model", "{}")), loan.fingerprint
        other = sorted(name for name in then if now and then[name] != now.get(name))
        if other:
            raise ValueError(
                "dt: it is a result of another model: the distribution, a parent, the transform or "
                f"the data of {other} differ. Pass the model of the run."
            )


def as_drawn(dt: xr.DataTree) -> xr.DataTree:
    """Return a result whose particles are those that were weighed, before they moved on at β = 1.

    With T = 1 they are draws from a wide fit. So they reach further into the tails, which another
    model may need, than states that have moved do.
    """
    particles = dt["particles"]
    sweeps = particles.attrs.get("sweeps", 1)
    if sweeps == 1 or dt["real"].sizes["beta"] > 2:
        return dt
    first = particles.dataset.isel(particle=slice(particles.sizes["particle"] // sweeps))
    weighed = first.assign(bdmc_weight=first["bdmc_weight"] * sweeps)
    return xr.DataTree.from_dict(
        {name: child.dataset for name, child in dt.children.items() if name != "particles"}
        | {"particles": weighed, "/": dt.dataset}
    )


def particle_values(dt: xr.DataTree, model: pm.Model) -> dict[str, np.ndarray]:
    """Return the free variables of all particles on the model's own scale, run after run."""
    particles = dt["particles"].dataset.transpose("chain", "particle", ...)
    as_draws = particles.drop_vars("bdmc_weight").rename(particle="draw")
    names = [rv.name for rv in model.free_RVs]
    values = posterior_draws("dt", xr.DataTree.from_dict({"posterior": as_draws}), names, model)
    return dict(zip(names, values, strict=True))


def particle_weights(dt: xr.DataTree) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of the particles within each run, and the log weights of the runs.

    Returns
    -------
    shares : ndarray of shape (K, N)
        They add up to 1 in each run; 0 in a run of weight zero.
    log_weights : ndarray of shape (K,)
        Nats, up to a common constant.
    """
    weights = dt["particles"].dataset["bdmc_weight"].transpose("chain", "particle")
    shares = np.nan_to_num(weights.values)
    runs = shares.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(shares / runs[:, None]), np.log(runs)
