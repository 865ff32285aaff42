"""Report what the weights of the runs on the real data show, without a certificate."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.estimators import log_mean_exp
from pymc_bdmc.results.finding import Finding, message
from pymc_bdmc.results.reading import Reading


def real_weights(read: Reading) -> Iterator[Finding]:
    """Report E_f[(1 − w/Z)₊] on the real data, with the mean of w for Z, and its jackknife error.

    It is an estimate without a certificate: runs that all miss a part have even weights.
    """
    log_weights = read.real.forward if read.sets_of("real") else np.empty(0)
    n = log_weights.size
    if n < 2 or not np.isfinite(log_mean_exp(log_weights)):
        return
    value = mean_lack(log_weights)
    left_out = np.array([mean_lack(np.delete(log_weights, i)) for i in range(n)])
    error = float(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
    told = message("real weights", value=value, error=error)
    yield Finding("real weights", None, (told,), value=value, error=error)


def mean_lack(log_weights: np.ndarray) -> float:
    """Return the mean of (1 − w/Z)₊, with the mean of w for Z; NaN without finite weights."""
    if not log_weights.size or not np.isfinite(log_mean_exp(log_weights)):
        return np.nan
    lack = -np.expm1(log_weights - log_mean_exp(log_weights))
    return float(np.maximum(lack, 0.0).mean())
