"""Check whether reverse runs on the real data have the log weights that forward runs predict."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from pymc_bdmc.results.reading import Reading, once


class BothSides(NamedTuple):
    """Mean log weights of reverse runs on the real data.

    Attributes
    ----------
    forward, reverse : float
        Mean that forward runs predict, and mean of the reverse runs; nats.
    pvalue : float
        P-value of the difference, for normal log weights.
    """

    forward: float
    reverse: float
    pvalue: float


@once
def both_sides(read: Reading) -> BothSides | None:
    """Compare log weights of forward and of reverse runs on the real data.

    By Crooks' relation the mean of reverse log weights is E_f[w log w]/E_f[w]; for normal ones it
    is ⟨log w⟩_f + Var_f(log w). The two differ if forward runs miss part of the posterior, since
    then rare large weights are missing. The test is Student's t with one degree of freedom less
    than there are runs.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`.

    Returns
    -------
    BothSides or None
        None without ``posterior`` draws, or if a log weight is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.checks.both_sides import both_sides
    >>> rng, groups = np.random.default_rng(0), {}
    >>> for name, mean in [("real", -2.0), ("real_reverse", 2.0)]:
    ...     columns = dict(log_weight=("chain", rng.normal(mean, 0.1, 20)))
    ...     groups[name] = xr.Dataset(columns | dict(prior_draws=("chain", np.ones(20))))
    >>> both_sides(xr.DataTree.from_dict(groups)).pvalue < 1e-3
    True
    """
    for each in read.sets_of("real"):
        if each.reverse.size and np.isfinite([*each.forward, *each.reverse]).all():
            return _compared(each.forward, each.reverse)
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
