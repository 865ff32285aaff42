"""Evidence estimators from log weights: plain arrays in, numbers with errors out, all in nats.

``log_weight`` is log w in both directions, so E_f[w] = Z and E_r[1/w] = 1/Z. The package imports
NumPy and SciPy only.
"""

from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.jarzynski import (
    effective_sample_size,
    jarzynski_forward,
    jarzynski_reverse,
    log_mean_exp,
)
from pymc_bdmc.estimators.sandwich import clustered_mean, jeffreys_bound, log_prior_mass

__all__ = [
    "Estimate",
    "clustered_mean",
    "effective_sample_size",
    "jarzynski_forward",
    "jarzynski_reverse",
    "jeffreys_bound",
    "log_mean_exp",
    "log_prior_mass",
]
