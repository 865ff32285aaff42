"""Simulate data that resemble the real ones, with an exact posterior sample θ*."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pymc_bdmc.base.arguments import check_counts, check_memory
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations.contract import (
    Fit,
    Simulated,
    Simulation,
    check_drawable,
    joint_draws,
)

_log = logging.getLogger("pymc.bdmc")

Data = Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Matched(Simulation):
    r"""Choose, of many draws from the model, the one whose data are most like the real ones.

    The choice depends on y\* only, so θ\* is still an exact sample of the posterior given y\*, and
    the upper bound is certified. The log, and the attributes ``distance`` and ``median_distance``
    (over all draws) of the group ``simulated``, give the distance from the real data by data set.
    If the two differ little, the real data are unlike any data from the prior.

    Parameters
    ----------
    draws : int, default 1000
        Number of draws from the joint distribution, new ones for each data set.
    distance : callable, optional
        ``distance(simulated, real) -> float`` of two mappings from the names of the observed
        variables to arrays; draws with NaN or infinity are chosen last. Default: the Euclidean
        distance of summaries of every observed variable, each in units of its median absolute
        deviation over the draws. They are the mean (the inverse hyperbolic sine of its ratio to the
        real data's standard deviation), the logarithm of the standard deviation, skewness (the
        median of the standardised values), and the autocorrelation at lag 1 along the first
        dimension.
    datasets : int, default 1
        Number of simulated data sets. Errors of the gap are clustered by data set; with one data
        set they are conditional on it.

    Raises
    ------
    ValueError
        If no distance is finite; raised by `sample_bdmc`.

    References
    ----------
    The choice by a distance of summaries is as in approximate Bayesian computation: Beaumont, Zhang
    and Balding (2002), Approximate Bayesian computation in population genetics. It is exact here,
    since θ\* is a posterior sample given y\*, not given the real data.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 10), observed=[6.0, 7.0])
    >>> dt = pm.sample_bdmc(model, simulate=bdmc.Matched(draws=500), chains=4, temperatures=10,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"], bool(abs(dt["simulated"]["y"].mean() - 6.5) < 1)
    ('exact', True)
    """

    draws: int = 1000
    distance: Callable[[Data, Data], float] | None = None
    datasets: int = 1
    name = "matched"

    def __post_init__(self):
        check_counts(draws=self.draws, datasets=self.datasets)
        if self.distance is not None and not callable(self.distance):
            raise TypeError(f"distance: must be a function of two mappings, not {self.distance!r}.")

    def check(self, density: TemperedDensity) -> None:
        """Raise an error for Potentials, variables that cannot be drawn, or too many draws."""
        check_drawable(density)
        size = density.size + sum(prod(each.shape) for each in density.data.values())
        check_memory(lambda draws: 8 * size * draws, draws=self.draws)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit | None = None, first: int = 0
    ) -> list[Simulated]:
        """Return the nearest of the draws, for each data set."""
        return [
            self._nearest(density, entropy, place) for place in range(first, first + self.datasets)
        ]

    def _nearest(self, density: TemperedDensity, entropy: Entropy, place: int) -> Simulated:
        pairs = joint_draws(density, entropy, place, self.draws)
        simulated = [data for _, data in pairs]
        if self.distance is None:
            distances = _distances(simulated, density.data)
        else:
            distances = np.array([float(self.distance(y, density.data)) for y in simulated])
        distances[~np.isfinite(distances)] = np.inf
        best, median = int(np.argmin(distances)), float(np.median(distances))
        if distances[best] == np.inf:
            raise ValueError(
                f"distance: it is not finite at any of {self.draws} draws, so data from the prior "
                "are very unlike the real ones. Pass your own distance, or use "
                "FromHyperparameters."
            )
        _log.info(
            f"Matched data: distance {distances[best]:.3g}, the nearest of {self.draws} draws "
            f"(their median is {median:.3g})"
        )
        found = {"distance": float(distances[best]), "median_distance": median}
        return Simulated(*pairs[best], "exact", attrs=found)


def _distances(simulated: Sequence[Data], real: Data) -> np.ndarray:
    """Return the distance of every simulated data set from the real one, in robust units."""
    squares = np.zeros(len(simulated))
    for name, values in real.items():
        unit = np.std(values) or 1.0
        wanted = _summaries(values, unit)
        found = np.array([_summaries(data[name], unit) for data in simulated])
        known = np.isfinite(wanted)  # a single number has no spread
        found, wanted = found[:, known], wanted[known]
        found[~np.isfinite(found).all(axis=1)] = np.nan
        spread = np.nanmedian(np.abs(found - np.nanmedian(found, axis=0)), axis=0)
        squares += np.sum(((found - wanted) / np.where(spread > 0, spread, 1.0)) ** 2, axis=1)
    return np.sqrt(squares)


def _summaries(values: np.ndarray, unit: float) -> np.ndarray:
    """Return location, log scale, skewness and autocorrelation; NaN if not defined."""
    values = np.atleast_1d(np.asarray(values, dtype=float))
    with np.errstate(all="ignore"):  # draws from a wide prior may overflow
        mean, scale = values.mean(), values.std()
        standard = (values - mean) / scale
        lag = np.mean(standard[1:] * standard[:-1]) if len(values) > 1 else np.nan
        return np.array([np.arcsinh(mean / unit), np.log(scale), np.median(standard), lag])
