"""Whether the log weights of reverse runs depend on their burn-in."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtr

from pymc_bdmc.estimators import clustered_mean, jeffreys_bound
from pymc_bdmc.results.groups import variable

__all__ = ["burn_in_effect"]


def burn_in_effect(dt: xr.DataTree) -> pd.DataFrame:
    """How the upper bound changes with the burn-in S of reverse runs; nats.

    With fitted hyperparameters θ* is no posterior sample, and reverse runs are burned in. That is
    enough where more of it changes nothing; what S steps cannot reach it does not show.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc` with ``simulate=FromHyperparameters(burn_in=[10, 100, 1000])``, say.

    Returns
    -------
    DataFrame
        Indexed by ``burn_in``. Columns: ``upper_bound``, the mean log weight of the reverse runs;
        ``difference``, how far it lies above the one after the longest burn-in, and its standard
        error ``error``; ``pvalue`` of so large a difference if there is none, by Student's t. In
        ``attrs["pvalue"]`` the one for all together (Bonferroni). With several data sets they are
        clustered by data set; with one they are conditional on θ*, from which runs of a short
        burn-in cannot have gone far even if θ* is an exact sample.

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
    if "burn_in" not in dt.children:
        raise ValueError(
            "dt: it has reverse runs after one burn-in only; pass several to FromHyperparameters."
        )
    weights = variable(dt, "burn_in", "log_weight").transpose("burn_in", "dataset", "chain")
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
