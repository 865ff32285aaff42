"""Say which observations speak for which model, from runs that take one after the other."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import predictive_densities
from pymc_bdmc.results.compare import check_comparable
from pymc_bdmc.results.evidence import annealed_estimates
from pymc_bdmc.results.groups import check_annealed, variable
from pymc_bdmc.results.missed import short_on_simulated

__all__ = ["pointwise"]


def pointwise(dt: xr.DataTree, other: xr.DataTree | None = None) -> pd.DataFrame:
    """Return log p(y_i | y_<i), the predictive density of every observation given those before.

    It reads a run that took one observation after the other: ``pm.sample_bdmc(path="data",
    simulate=None)``, which is another run than the default.

    With ``other``, the differences of two models: the log Bayes factor that each observation adds.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` with ``path="data"``.
    other : DataTree, optional
        Another model of the same data, by the same path.

    Returns
    -------
    DataFrame
        A row for each observation, in the order in which they came, named by their coordinates. In
        nats: ``value`` and ``error``, one standard error over the independent runs; ``cumulative``
        and ``cumulative_error``, of the sum up to there, log p(y_1, …, y_i). ``valid``: whether the
        check of averages holds up to there and for log ML; errors are left out if not.
        ``attrs["reason"]`` has what the check of log ML found.

    Raises
    ------
    ValueError
        If the runs took another path, if their temperatures do not end with each observation, if
        some prior draws make the data impossible (so that log P(ℓ > −∞) is part of log ML), or if
        the data of two models differ.

    Notes
    -----
    The sum over all observations is log ML, as its forward average estimates it. The numbers depend
    on the order of the observations, the sum does not: early ones are predicted from little more
    than the prior. `pymc_bdmc.pointwise_orders` takes several orders. Where runs on simulated
    data show that averages fall short of log ML, this is added to the errors of the sums, as in
    `evidence`, but not to those of single observations.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    >>> dt = pm.sample_bdmc(model, path="data", simulate=None, random_seed=1, cores=1,
    ...                     progressbar=False)
    >>> table = bdmc.pointwise(dt)
    >>> int(table["value"].idxmin())  # the third observation is a surprise
    2
    >>> bool(abs(table["value"].sum() - bdmc.log_ml(dt).value) < 1e-9)
    True
    """
    if other is not None:
        check_comparable({"dt": dt, "other": other})
        if list(_order(dt)) != list(_order(other)):
            raise ValueError("other: its observations came in another order than those of dt.")
        first, second = pointwise(dt), pointwise(other)
        table = first[["value", "cumulative"]] - second[["value", "cumulative"]]
        for name in ("error", "cumulative_error"):
            table[name] = np.hypot(first[name], second[name])
        table = table.assign(valid=first["valid"] & second["valid"])[list(first)]
        table.attrs["reason"] = f"{first.attrs['reason']}; {second.attrs['reason']}"
        return table
    check_annealed(dt, "pointwise")
    parts, draws = _row_weights(dt), variable(dt, "real", "prior_draws").values
    if np.nanmax(draws) > 1:
        raise ValueError(
            "dt: some prior draws make the data impossible, so a part of log ML, log P(ℓ > −∞), "
            "belongs to no single observation."
        )
    found = predictive_densities(parts[~np.isnan(parts).any(axis=1)])
    check = annealed_estimates(dt, "real")["real", 0, "forward average"]
    valid = found.valid & check["valid"]
    table = pd.DataFrame(
        {
            "value": found.value,
            "error": np.where(valid, found.error, np.nan),
            "cumulative": found.cumulative,
            "cumulative_error": np.where(
                valid, np.hypot(found.cumulative_error, short_on_simulated(dt)), np.nan
            ),
            "valid": valid,
        },
        index=_labels(dt, parts.shape[1])[_order(dt) or slice(None)],
    )
    table.attrs["reason"] = check["reason"]
    return table


def _row_weights(dt: xr.DataTree) -> np.ndarray:
    """Return the parts of the log weights by run and observation, shape (K, N)."""
    if dt.attrs.get("path") != "data":
        raise ValueError(
            "dt: its runs did not take one observation after the other. Run the model again with "
            'pm.sample_bdmc(path="data", simulate=None).'
        )
    if "real" in dt.children and "row_log_weight" not in dt["real"]:
        raise ValueError(
            "dt: its temperatures do not end with each observation. Let their number be a multiple "
            "of that of the observations, or leave temperatures and schedule out."
        )
    return variable(dt, "real", "row_log_weight").values


def _order(dt: xr.DataTree) -> list[int]:
    """Return the numbers of the observations in the order that was given; empty for their own."""
    return np.atleast_1d(dt.attrs.get("row_order", [])).astype(int).tolist()


def _labels(dt: xr.DataTree, n: int) -> pd.Index:
    """Return the coordinates of the observations, or their numbers."""
    for observed in dt["observed_data"].dataset.data_vars.values():
        if observed.sizes and observed.shape[0] == n:
            return observed[observed.dims[0]].to_index()
    return pd.RangeIndex(n, name="observation")
