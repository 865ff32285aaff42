"""Check by R̂ whether the runs on the real data end in the same places."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.results.finding import Finding, message
from pymc_bdmc.results.reading import Reading, once

FEWEST = np.array([4, 8])
"""Fewest runs and particles for R̂; with fewer, means of good runs differ as much as states."""

ROUNDING = 1e-9
"""Relative standard deviation up to which a quantity counts as constant."""


def ends(read: Reading) -> Iterator[Finding]:
    """Check whether the runs on the real data end alike."""
    name, rhat = rhat_of_runs(read)
    if rhat > MAX_RHAT:
        told = message("different ends", name=name, rhat=rhat)
        yield Finding("ends", "open", (told,), message("reach all ends"), rhat, upper=MAX_RHAT)


@once
def rhat_of_runs(read: Reading) -> tuple[str, float]:
    """Return the variable whose means differ most between the final runs, and its R̂.

    Every run is a weighted population, and runs are weighted by their share of the total. With W
    the mean variance within runs and B the variance of their means, R̂ is √(1 + B/W): 1 if the runs
    agree, 1.4 if each of them has collapsed to a single ancestor, and far more if they end in
    different modes. A single run with all the weight hides what the others found.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`, with the group ``particles``.

    Returns
    -------
    str, float
        Name of the variable, with the index of its element, and R̂. R̂ is NaN if there are too few
        particles or runs (`FEWEST`), or if every weight is zero.

    References
    ----------
    Gelman and Rubin (1992), Inference from iterative simulation using multiple sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.checks.ends import rhat_of_runs
    >>> x = np.repeat([0.0, 0.0, 10.0, 10.0], 8).reshape(4, 8) + np.arange(8) / 7
    >>> weights = (("chain", "particle"), np.full((4, 8), 1 / 32))
    >>> particles = xr.Dataset(dict(x=(("chain", "particle"), x)), dict(bdmc_weight=weights))
    >>> name, rhat = rhat_of_runs(xr.DataTree.from_dict(dict(particles=particles)))
    >>> name, round(rhat, 1)
    ('x', 15.3)
    """
    worst, highest = "", np.nan
    if not read.has("particles"):
        return worst, highest
    last = read.last_particles
    weights = xr.DataArray(last.weights, dims=("chain", "particle"))
    of_runs = weights.sum("particle")
    at_once = weights.sizes["particle"] // last.sweeps
    if not np.isfinite(of_runs).all() or (np.array([len(of_runs), at_once]) < FEWEST).any():
        return worst, highest
    within = weights / of_runs.where(of_runs > 0)
    for name, values in last.states.data_vars.items():
        means = (values * within).sum("particle")
        spread = (((values - means) ** 2 * within).sum("particle") * of_runs).sum("chain")
        between = ((means - (means * of_runs).sum("chain")) ** 2 * of_runs).sum("chain")
        size = abs(values).max(("chain", "particle")).values
        moves = (spread + between).values > (ROUNDING * size) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):  # constant elements say nothing
            rhat = np.where(moves, np.sqrt(1 + between.values / spread.values), np.nan)
        if not np.isnan(rhat).all() and not np.nanmax(rhat) <= highest:
            place = np.unravel_index(np.nanargmax(rhat), rhat.shape)
            worst = f"{name}{[int(i) for i in place] if place else ''}"
            highest = float(rhat[place])
    return worst, highest
