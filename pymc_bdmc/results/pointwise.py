"""Say which observations speak for which model, from runs that take one after the other."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import predictive_densities
from pymc_bdmc.results.checks.missed import short_on_simulated
from pymc_bdmc.results.compare import check_comparable
from pymc_bdmc.results.evidence import estimates_of
from pymc_bdmc.results.reading import Reading


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
        if Reading.of(dt).order != Reading.of(other).order:
            raise ValueError("other: its observations came in another order than those of dt.")
        first, second = pointwise(dt), pointwise(other)
        table = first[["value", "cumulative"]] - second[["value", "cumulative"]]
        for name in ("error", "cumulative_error"):
            table[name] = np.hypot(first[name], second[name])
        table = table.assign(valid=first["valid"] & second["valid"])[list(first)]
        table.attrs["reason"] = f"{first.attrs['reason']}; {second.attrs['reason']}"
        return table
    read = Reading.annealed(dt, "pointwise")
    parts, draws = _row_weights(read), read.side("real").variable("prior_draws").values
    if np.nanmax(draws) > 1:
        raise ValueError(
            "dt: some prior draws make the data impossible, so a part of log ML, log P(ℓ > −∞), "
            "belongs to no single observation."
        )
    found = predictive_densities(parts[~np.isnan(parts).any(axis=1)])
    check = estimates_of(read, "real")["real", 0, "forward average"]
    valid = found.valid & check.valid
    table = pd.DataFrame(
        {
            "value": found.value,
            "error": np.where(valid, found.error, np.nan),
            "cumulative": found.cumulative,
            "cumulative_error": np.where(
                valid, np.hypot(found.cumulative_error, short_on_simulated(read)), np.nan
            ),
            "valid": valid,
        },
        index=read.labels(parts.shape[1])[read.order or slice(None)],
    )
    table.attrs["reason"] = check.reason
    return table


def _row_weights(read: Reading) -> np.ndarray:
    """Return the parts of the log weights by run and observation, shape (K, N)."""
    if read.path != "data":
        raise ValueError(
            "dt: its runs did not take one observation after the other. Run the model again with "
            'pm.sample_bdmc(path="data", simulate=None).'
        )
    if "real" in read.sides and "row_log_weight" not in read.side("real").run:
        raise ValueError(
            "dt: its temperatures do not end with each observation. Let their number be a multiple "
            "of that of the observations, or leave temperatures and schedule out."
        )
    return read.side("real").variable("row_log_weight").values
