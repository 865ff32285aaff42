"""Check the order of the sides: the mean gap of a correct sampler is not below zero."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.model.simulations import Given
from pymc_bdmc.results.checks.chance import MAX_CHANCE, half_interval
from pymc_bdmc.results.checks.sandwich import gap_of, independent_gaps
from pymc_bdmc.results.finding import NOTHING, Finding, message
from pymc_bdmc.results.reading import Reading


def order(read: Reading) -> Iterator[Finding]:
    """Report the mean gap (as in BREAD, without a confidence), and whether it is below zero."""
    row, n = gap_of(read, "simulated"), independent_gaps(read)
    value, error = row["value"], row["error"]
    if not n:
        yield Finding("Jeffreys bound", "open", (message("one direction only"),))
    elif value + half_interval(error, n, 1 - 2 * MAX_CHANCE) < 0:
        told = message("reverse below forward", value=value, error=error)
        if read.upper_bound == "burned-in":
            otherwise = message("or longer burn-in")
        else:
            otherwise = message("or draw the pair") if read.simulate == Given.name else NOTHING
        remedy = message("test the step", otherwise=otherwise)
        yield Finding("Jeffreys bound", "bad", (told,), remedy, value, error)
    elif value == np.inf:
        yield Finding("Jeffreys bound", "open", (message("probability zero"),), value=value)
    else:
        spread = NOTHING
        if n > 1 and np.isfinite(row.get("q25", np.nan)):
            spread = message("quartiles", low=row["q25"], high=row["q75"])
        told = message("gap", value=value, error=error, spread=spread)
        yield Finding("Jeffreys bound", None, (told,) * row["valid"], None, value, error)
