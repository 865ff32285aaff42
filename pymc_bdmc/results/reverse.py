"""Whether reverse runs on the real data have the log weights that forward ones predict."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import stdtr

from pymc_bdmc.results.groups import SIDES, data_sets

__all__ = ["BothSides", "both_sides"]


class BothSides(NamedTuple):
    """Mean log weights of reverse runs on the real data.

    Attributes
    ----------
    forward, reverse : float
        What forward runs predict, and what it is; nats.
    pvalue : float
        Of a difference this large, if both are right and log weights are normal.
    """

    forward: float
    reverse: float
    pvalue: float


def both_sides(dt: xr.DataTree) -> BothSides | None:
    """Compare log weights of forward and of reverse runs on the real data.

    By Crooks' relation the mean of reverse log weights is E_f[w log w]/E_f[w]; for normal ones it
    is ⟨log w⟩_f + Var_f(log w). They differ where forward runs miss a transition, since rare heavy
    weights are what may be missing. Student's t with a run less one as degrees of freedom.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.

    Returns
    -------
    BothSides or None
        None without ``posterior`` draws, and with infinite weights.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.reverse import both_sides
    >>> rng, groups = np.random.default_rng(0), {}
    >>> for name, mean in [("real", -2.0), ("real_reverse", 2.0)]:
    ...     columns = dict(log_weight=("chain", rng.normal(mean, 0.1, 20)))
    ...     groups[name] = xr.Dataset(columns | dict(prior_draws=("chain", np.ones(20))))
    >>> both_sides(xr.DataTree.from_dict(groups)).pvalue < 1e-3
    True
    """
    if not {*SIDES["real"]} <= set(dt.children):
        return None
    for data, _, forward, reverse, _ in data_sets(dt):
        if data == "real" and np.isfinite([*forward, *reverse]).all():
            return _compared(forward, reverse)
    return None


def _compared(forward: np.ndarray, reverse: np.ndarray) -> BothSides:
    variance = forward.var(ddof=1)
    predicted = forward.mean() + variance
    squared_error = variance / len(forward) + 2 * variance**2 / (len(forward) - 1)
    squared_error += reverse.var(ddof=1) / len(reverse)
    least = 1e-9 * max(abs(predicted), abs(reverse.mean())) + 1e-300  # rounding
    score = abs(reverse.mean() - predicted) / max(np.sqrt(squared_error), least)
    pvalue = 2 * float(stdtr(min(len(forward), len(reverse)) - 1, -score))
    return BothSides(float(predicted), float(reverse.mean()), pvalue)
