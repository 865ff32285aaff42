"""Simulate everything from the model."""

from dataclasses import dataclass

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations.contract import (
    DATASETS,
    Fit,
    Simulated,
    Simulation,
    check_drawable,
    joint_draws,
)


@dataclass(frozen=True)
class FromPrior(Simulation):
    r"""Draw parameters and data together from the model: θ\* is an exact posterior sample.

    Parameters
    ----------
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    Grosse, Ghahramani and Adams (2015), Section 4.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> dt = pm.sample_bdmc(model, simulate=bdmc.FromPrior(datasets=2), chains=4, temperatures=10,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"], dt["simulated"].sizes["dataset"]
    ('exact', 2)
    """

    datasets: int = DATASETS
    name = "prior"

    def __post_init__(self):
        check_counts(datasets=self.datasets)

    def check(self, density: TemperedDensity) -> None:
        """Raise an error for Potentials, and observed variables that cannot be drawn."""
        check_drawable(density)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit | None = None, first: int = 0
    ) -> list[Simulated]:
        """Draw parameters and data from the joint distribution."""
        return [
            Simulated(*pair, "exact")
            for place in range(first, first + self.datasets)
            for pair in joint_draws(density, entropy, place)
        ]
