"""Estimate posterior means from the weighted runs on the real data."""

import xarray as xr

from pymc_bdmc.estimators import weighted_average
from pymc_bdmc.results.reading import Reading


def expectation(dt: xr.DataTree, name: str) -> xr.Dataset:
    """Estimate the posterior mean of a variable from the weighted runs on the real data.

    The last states of forward runs only approximate the posterior, but their average weighted by w
    estimates its mean for any schedule, by Crooks' relation (Favaro et al. 2015, Eq. 11).

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, with runs on the real data.
    name : str
        A variable of the group ``particles``.

    Returns
    -------
    Dataset
        ``mean`` and ``error``, one standard error, with the dimensions and coordinates of the
        variable and in its units; attributes ``effective_sample_size``, ``valid``, whether the
        weights pass the check of `evidence`, and ``reason``, what it found. NaN if every weight is
        zero.

    Raises
    ------
    ValueError
        If there are no runs on the real data, or no such variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> states = ("chain", "particle", "day"), np.array([[[0.0, 2.0]], [[1.0, 4.0]]])
    >>> weights = ("chain", "particle"), np.array([[0.25], [0.75]])
    >>> particles = xr.Dataset(dict(x=states), coords=dict(bdmc_weight=weights))
    >>> dt = xr.DataTree.from_dict(dict(particles=particles))
    >>> bdmc.expectation(dt, "x")["mean"].values
    array([0.75, 3.5 ])
    """
    last = Reading.of(dt).last_particles
    if name not in last.states:
        known = sorted(map(str, last.states.data_vars))
        raise ValueError(f"{name!r} is not among the variables of the posterior: {known}.")
    states = last.states[name]
    shares, log_weights = last.within_runs
    within = xr.DataArray(shares, dims=("chain", "particle"))
    # Each run counts as one value, since its particles are not independent.
    means = states.where(within > 0, 0.0).weighted(within).mean("particle")
    average = weighted_average(log_weights, means.values)
    like = states.isel(chain=0, particle=0, drop=True)
    return xr.Dataset(
        {"mean": like.copy(data=average.value), "error": like.copy(data=average.error)},
        attrs={
            "effective_sample_size": average.effective_sample_size,
            "valid": average.valid,
            "reason": average.reason,
        },
    )
