"""Simulate data with posterior draws, for runs on data that contain the real ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.density.draws import as_idata, check_observed, posterior_draws
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations.contract import (
    DATASETS,
    Fit,
    Simulated,
    Simulation,
    check_drawable,
    chosen_draws,
    joint_draws,
)


@dataclass(frozen=True, eq=False)
class FromPosterior(Simulation):
    r"""Simulate data y′ from draws θ′ of the posterior, and run on the real data and y′ together.

    Runs target :math:`p(\theta)\,p(y \mid \theta)\,p(y' \mid \theta)`. If θ′ is a draw of the
    posterior given the real data y, and y′ is drawn from the model given θ′, then θ′ is an exact
    sample of the posterior given y and y′, so reverse runs need no burn-in. Every data set contains
    the real one, with its outliers and its conflict with the prior. All that rests on the draws: a
    part of the posterior that they miss is never a θ′.

    All variables are held, latent ones too, so y′ is a second data set of the same groups or of the
    same path of a time series.

    Parameters
    ----------
    idata : DataTree, Dataset or InferenceData, optional
        Your own draws from the posterior on the real data. Default: the ``posterior`` of
        `sample_bdmc`; without it, particles of a few forward runs.
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05.

    References
    ----------
    Säilynoja, Schmitt, Bürkner and Vehtari (2025), Posterior SBC: simulation-based calibration
    checking conditional on data.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> dt = pm.sample_bdmc(model, simulate=bdmc.FromPosterior(datasets=2), chains=4,
    ...                     temperatures=10, random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["upper_bound"], dt["simulated"].sizes["dataset"]
    ('posterior draw', 2)
    """

    idata: xr.DataTree | None = None
    datasets: int = DATASETS
    name = "posterior"

    def __post_init__(self):
        check_counts(datasets=self.datasets)
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Raise an error if runs cannot be on the real and on simulated data together."""
        if not stacks_data:
            raise ValueError(
                "simulate: runs on the real and on simulated data together need compiled kernels, "
                "and a path on which all observations come at once. Pass simulate='prior', or "
                "leave step, backend and path out."
            )
        return self

    @property
    def needs_fit(self) -> bool:
        """Whether no posterior draws were given."""
        return self.idata is None

    def check(self, density: TemperedDensity) -> None:
        """Raise an error also for draws that do not fit the model."""
        check_drawable(density)
        if self.idata is not None:
            check_observed("idata", self.idata, density.data)
            self._draws(density, self.idata)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw a data set for each of several posterior draws."""
        draws = self._draws(density, fit() if self.idata is None else self.idata)
        size = len(next(iter(draws.values())))
        chosen = chosen_draws(entropy, first, size, self.datasets)
        return [
            Simulated(*pair, "posterior draw", real=density.data)
            for place, row in enumerate(chosen, start=first)
            for pair in joint_draws(
                density, entropy, place, held={name: each[row] for name, each in draws.items()}
            )
        ]

    def _draws(self, density: TemperedDensity, idata: xr.DataTree) -> Mapping[str, np.ndarray]:
        names = [rv.name for rv in density.model.free_RVs]
        found = posterior_draws("idata", idata, names, density.model)
        return dict(zip(names, found, strict=True))
