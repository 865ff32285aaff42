"""Whether forward runs on the real data agree with the posterior draws where reverse ones start."""

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import stdtr

from pymc_bdmc.estimators import effective_sample_size
from pymc_bdmc.results.expectation import expectation
from pymc_bdmc.results.groups import SIDES, data_sets

__all__ = ["Agreement", "agreement"]

MIN_SHARE = 0.5
"""Of the forward runs that their weights must be worth to predict a variable of the model."""


class Agreement(NamedTuple):
    """Where forward runs and posterior draws are furthest apart.

    Attributes
    ----------
    quantity : str
    forward, reverse : float
        What the forward runs predict of its mean over the reverse ones, and that mean; of a
        variable over their starts. In its units.
    pvalue : float
        Of a difference this large in any quantity, if both are right.
    """

    quantity: str
    forward: float
    reverse: float
    pvalue: float


def agreement(dt: xr.DataTree) -> Agreement | None:
    """Compare forward runs on the real data with the posterior draws from which reverse ones start.

    By Crooks' relation the forward runs predict the reverse ones, E_r[x] = E_f[w x]/E_f[w] for
    every x of a run. The variables of the model at β = 1 disagree where the draws or the forward
    runs miss a mode. Log w disagrees where the runs miss a transition; its prediction is that of
    normal log weights, ⟨log w⟩_f + Var_f(log w), for rare heavy weights are what may be missing.
    Student's t, with a run less one as degrees of freedom; Bonferroni over the quantities.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.

    Returns
    -------
    Agreement or None
        None without ``posterior`` draws, and with infinite weights. Variables are left out where
        the forward weights are too uneven to predict them.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.agreement import agreement
    >>> rng, groups = np.random.default_rng(0), {}
    >>> for name, mean in [("real", -2.0), ("real_reverse", 2.0)]:
    ...     columns = dict(log_weight=("chain", rng.normal(mean, 0.1, 20)))
    ...     groups[name] = xr.Dataset(columns | dict(prior_draws=("chain", np.ones(20))))
    >>> found = agreement(xr.DataTree.from_dict(groups))
    >>> found.quantity, found.pvalue < 1e-3
    ('log weight', True)
    """
    if not {*SIDES["real"]} <= set(dt.children):
        return None
    for data, _, forward, reverse, _ in data_sets(dt):
        if data == "real" and np.isfinite([*forward, *reverse]).all():
            found = [("log weight", *_expected_reverse(forward), reverse)]
            trusted = effective_sample_size(forward) >= MIN_SHARE * len(forward)
            if trusted and "real_starts" in dt.children:
                started = dt["real_reverse"]["log_weight"].notnull()
                starts = dt["real_starts"].dataset.isel(chain=started.values)
                for name, values in starts.data_vars.items():
                    mean = expectation(dt, str(name))
                    found.append((name, mean["mean"].values, mean["error"].values, values.values))
            return _furthest(found, min(len(forward), len(reverse)) - 1)
    return None


def _expected_reverse(forward: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean reverse log weight that normal forward ones predict, and its error."""
    variance = forward.var(ddof=1)
    squared_error = variance / len(forward) + 2 * variance**2 / (len(forward) - 1)
    return np.array(forward.mean() + variance), np.sqrt(squared_error)


def _furthest(found: list[tuple], degrees_of_freedom: int) -> Agreement:
    """Of (name, predicted mean, its error, values), arrays of any shape."""
    worst, highest, size = ("", np.nan, np.nan), -1.0, 0
    for name, predicted, error, values in found:
        mean, own = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        least = 1e-9 * np.maximum(np.abs(predicted), np.abs(mean)) + 1e-300  # rounding
        scores = np.nan_to_num(np.abs(mean - predicted) / np.maximum(np.hypot(error, own), least))
        place = np.unravel_index(np.argmax(scores), scores.shape)
        size += scores.size
        if scores[place] > highest:
            label = f"{name}{[int(i) for i in place] if place else ''}"
            highest, worst = scores[place], (label, float(predicted[place]), float(mean[place]))
    pvalue = 2 * size * float(stdtr(degrees_of_freedom, -highest))
    return Agreement(*worst, min(1.0, pvalue))
