"""Posterior means by the weights of the chains on the real data."""

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import weighted_average

__all__ = ["expectation"]


def expectation(dt: xr.DataTree, name: str) -> xr.Dataset:
    """Posterior mean of a variable of the model, by the weights of the chains on the real data.

    The last states of the forward chains are near the posterior only; weighted by w they average
    to its mean whatever the schedule, by Crooks' relation (Favaro et al. 2015, Eq. 11).

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`, with the chains on the real data.
    name : str
        A variable of the group ``posterior``.

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
        If there are no chains on the real data, or no such variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> draws = ("chain", "draw", "day"), np.array([[[0.0, 2.0], [1.0, 4.0]]])
    >>> weights = ("chain", "draw"), np.array([[0.25, 0.75]])
    >>> posterior = xr.Dataset(dict(x=draws), coords=dict(bdmc_weight=weights))
    >>> dt = xr.DataTree.from_dict(dict(posterior=posterior))
    >>> bdmc.expectation(dt, "x")["mean"].values
    array([0.75, 3.5 ])
    """
    if "posterior" not in dt.children:
        raise ValueError("There is no posterior: run sample_bdmc with real_data=True.")
    posterior = dt["posterior"].dataset
    if name not in posterior.data_vars:
        known = sorted(map(str, posterior.data_vars))
        raise ValueError(f"{name!r} is not among the variables of the posterior: {known}.")
    if "bdmc_weight" not in posterior.coords:
        raise ValueError(
            "The posterior has no coordinate 'bdmc_weight', which sample_bdmc writes; is it that "
            "of another sampler?"
        )
    draws = posterior[name].transpose("chain", "draw", ...)
    weights = posterior["bdmc_weight"].transpose("chain", "draw").values
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.nan_to_num(weights)).ravel()
    average = weighted_average(log_weights, draws.values.reshape(-1, *draws.shape[2:]))
    like = draws.isel(chain=0, draw=0, drop=True).drop_vars("bdmc_weight", errors="ignore")
    return xr.Dataset(
        {"mean": like.copy(data=average.value), "error": like.copy(data=average.error)},
        attrs={
            "effective_sample_size": average.effective_sample_size,
            "valid": average.valid,
            "reason": average.reason,
        },
    )
