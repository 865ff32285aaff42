"""Check whether the posterior lies next to values at which its density is NaN."""

from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.reading import Reading

MOST_UNDEFINED = 1e-3
"""Largest share of moves from posterior states that may end where the density is NaN; chosen."""


def no_density(read: Reading, *, near: bool) -> Message | None:
    """Tell where the density is NaN, if the posterior lies next to it or, else, if it does not."""
    if not read.undefined or near != (read.undefined_posterior > MOST_UNDEFINED):
        return None
    shares = {"prior": read.undefined_prior, "posterior": read.undefined_posterior}
    return message("undefined near" if near else "undefined", names=read.undefined, **shares)
