"""Which groups of a result hold chains, and what the readers of a result take from them."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import PriorMass, log_prior_mass

__all__ = ["check_result", "data_sets", "directions", "log_ml_weights"]


def check_result(dt: xr.DataTree) -> None:
    """Refuse what does not hold annealed chains."""
    if not {"forward", "real"} & set(getattr(dt, "children", ())):
        raise ValueError(
            "dt: it has neither group 'forward' nor 'real'; a result of sample_bdmc or of "
            "lattice.anneal is needed."
        )


def data_sets(dt: xr.DataTree) -> Iterator[tuple]:
    """(data, dataset, forward, reverse or None, prior draws) of the chains that were finished."""
    check_result(dt)
    if "forward" in dt.children:
        rows = (dt[g]["log_weight"].values for g in ("forward", "reverse"))
        draws = dt["forward"]["prior_draws"].values
        for dataset, (forward, reverse, n_draws) in enumerate(zip(*rows, draws, strict=True)):
            found = [_finished(row) for row in (forward, reverse, n_draws)]
            if all(row.size for row in found):
                yield "simulated", dataset, *found
    if "real" in dt.children:
        forward, n_draws = (dt["real"][name].values for name in ("log_weight", "prior_draws"))
        if _finished(forward).size:
            yield "real", 0, _finished(forward), None, _finished(n_draws)


def _finished(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def directions(dt: xr.DataTree) -> tuple[str, ...]:
    """Groups that sandwich one data set: both directions on simulated data, else the real one."""
    check_result(dt)
    return ("forward", "reverse") if "forward" in dt.children else ("real",)


def log_ml_weights(dt: xr.DataTree) -> dict[str, xr.DataArray]:
    """Log weights whose means bound log ML: log w + log P(ℓ > −∞), nats, by direction."""
    draws = dt[directions(dt)[0]]["prior_draws"]
    masses = xr.apply_ufunc(
        lambda row: tuple(log_prior_mass(row)),
        draws,
        input_core_dims=[[dim for dim in draws.dims if dim != "dataset"]],
        output_core_dims=[[], [], []],
        vectorize=True,
    )
    mass = PriorMass(*masses)
    return {
        name: dt[name]["log_weight"] + (mass.upper if name == "reverse" else mass.lower)
        for name in directions(dt)
    }
