"""Test whether the log weights of reverse runs depend on their burn-in."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtr

from pymc_bdmc.estimators import clustered_mean, jeffreys_bound
from pymc_bdmc.results.reading import Reading, once


def burn_in_effect(dt: xr.DataTree) -> pd.DataFrame:
    """Compare the upper bounds after several burn-ins S of the reverse runs; nats.

    With fitted hyperparameters θ* is no exact posterior sample, so reverse runs start after a
    burn-in. The burn-in is long enough if a longer one changes nothing. Regions that no burn-in
    reaches are not seen by this comparison.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` with several burn-ins, such as
        ``simulate=FromHyperparameters(burn_in=[10, 100, 1000])``.

    Returns
    -------
    DataFrame
        Indexed by ``burn_in``. Columns: ``upper_bound``, the mean log weight of the reverse runs;
        ``difference``, how far it lies above the mean after the longest burn-in, and ``error``, the
        standard error of the difference; ``pvalue`` of the difference by Student's t. The p-value
        for all rows together is in ``attrs["pvalue"]`` (Bonferroni). Errors are clustered by data
        set. With a single data set they are conditional on θ*: a short burn-in stays near θ* even
        if θ* is an exact sample.

    Raises
    ------
    ValueError
        If there was only one burn-in.

    References
    ----------
    Grosse, Ancha and Roy (2016), Section 4.2 and Fig. 6.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights = np.random.default_rng(0).normal(size=(2, 3, 16)) + [[[0.0]], [[5.0]]]
    >>> variables = dict(log_weight=(("burn_in", "dataset", "chain"), weights))
    >>> group = xr.Dataset(variables, coords=dict(burn_in=[10, 1000]))
    >>> table = bdmc.burn_in_effect(xr.DataTree.from_dict(dict(burn_in=group)))
    >>> table.attrs["pvalue"] < 0.05
    True
    """
    return burn_in_of(Reading.of(dt))


@once
def burn_in_of(read: Reading) -> pd.DataFrame:
    """Return the table of `burn_in_effect`."""
    if not read.has("burn_in"):
        raise ValueError(
            "dt: it has reverse runs after one burn-in only; pass several to FromHyperparameters."
        )
    weights = read.burn_ins
    rows = {}
    for burn_in, found in zip(weights["burn_in"].values, weights.values, strict=True):
        difference, error = jeffreys_bound(weights.values[-1], found)
        sample = found.shape[0] if found.shape[0] > 1 else np.isfinite(found).sum()
        pvalue = 2 * stdtr(sample - 1, -abs(difference) / error) if error > 0 else np.nan
        rows[burn_in] = {
            "upper_bound": clustered_mean(found)[0],
            "difference": difference,
            "error": error,
            "pvalue": float(pvalue),
        }
    last = rows[int(weights["burn_in"][-1])]
    last["error"] = last["pvalue"] = np.nan  # it is the reference
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "burn_in"
    table.attrs["pvalue"] = min(1.0, (len(table) - 1) * float(table["pvalue"].min()))
    return table
