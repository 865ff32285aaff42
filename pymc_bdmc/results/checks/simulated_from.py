"""Check the posterior draws that data sets were simulated from, by an e-value."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.estimators import log_mean_exp
from pymc_bdmc.results.checks.chance import MAX_CHANCE
from pymc_bdmc.results.finding import Finding, message
from pymc_bdmc.results.reading import Reading


def simulated_from(read: Reading) -> Iterator[Finding]:
    """Report the e-value against the draws as a sample of the posterior.

    The draws are those of one posterior, so data sets are dependent and their e-values are
    averaged.
    """
    if not read.contains_real or "log_e_value" not in read.side("reverse").run:
        return
    found = read.side("reverse").rows("log_e_value")
    value = float(log_mean_exp(found[~np.isnan(found)]))
    if value < -np.log(MAX_CHANCE):
        yield Finding("e-value", None, value=value)
        return
    told, remedy = message("not from posterior", value=np.exp(value)), message("compare sources")
    yield Finding("e-value", "bad", (told,), remedy, value)
