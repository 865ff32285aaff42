"""Simulate data with hyperparameters that fit the real data."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pymc as pm
import xarray as xr
from pymc.vartypes import discrete_types
from pytensor.graph.traversal import ancestors

from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.base.upstream import LKJ
from pymc_bdmc.density.draws import as_idata, posterior_draws
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import rank_among, spread_and_tails
from pymc_bdmc.simulations.contract import (
    DATASETS,
    Fit,
    Simulated,
    Simulation,
    Status,
    check_drawable,
    chosen_draws,
    joint_draws,
)
from pymc_bdmc.simulations.posterior import FromPosterior
from pymc_bdmc.simulations.prior import FromPrior

_log = logging.getLogger("pymc.bdmc")


@dataclass(frozen=True, eq=False)
class FromHyperparameters(Simulation):
    r"""Hold the hyperparameters at values that fit the real data, and simulate everything else.

    Such data resemble the real ones. But θ\* is only close to a posterior sample, since the
    hyperparameters were not drawn from their prior, so reverse chains start after a burn-in.

    Parameters
    ----------
    names : str or sequence of str, optional
        Variables held at fitted values. Default: the free variables without random parents that
        are scalars or have an LKJ prior. If there are none, data are simulated as by
        `FromPosterior`.
    at : {"draw", "mean"}
        Hold them at a posterior draw (a different one for every data set if there are enough), or
        at the posterior mean.
    idata : DataTree, Dataset or InferenceData, optional
        Your own fit to the real data. Default: the ``posterior`` of `sample_bdmc`; without it,
        particles of a few forward runs on them.
    burn_in : int or sequence of int, default 100
        Transitions at β = 1 before a reverse chain starts; with 0 the upper bound is heuristic.
        If runs weigh draws from a fit, transitions are Metropolis moves to independent draws; if
        the weights are even, fewer are made, which forget the start but for 0.1 %. With several,
        in increasing order, the result has the last one. Reverse chains after each of them, on the
        same data with the same tuning, show whether it is long enough: see `burn_in_effect` and
        `plot_burn_in`.
    datasets : int, default 20
        Number D of simulated data sets. With 20 the total variation between the sampler's posterior
        and the true one can be certified to be at most 0.14, with 60 at most 0.05; with one, errors
        of the gap are conditional on it and next to nothing is certified.

    References
    ----------
    Grosse, Ancha and Roy (2016), Section 4.2.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, pm.HalfNormal("scale")), observed=0.5)
    >>> simulate = bdmc.FromHyperparameters("scale", burn_in=20)
    >>> simulate.names
    ('scale',)
    """

    names: str | Sequence[str] | None = None
    at: Literal["draw", "mean"] = "draw"
    idata: xr.DataTree | None = None
    burn_in: int | Sequence[int] = 100
    datasets: int = DATASETS
    name = "hyperparameters"

    def __post_init__(self):
        if self.names is not None:
            names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
            object.__setattr__(self, "names", names)
        check_choice("at", self.at, ["draw", "mean"])
        check_counts(datasets=self.datasets)
        for burn_in in self._burn_ins:
            check_counts(burn_in=burn_in)
        if not self._burn_ins or any(np.diff(self._burn_ins) <= 0):
            raise ValueError(f"burn_in: several of them must increase, got {self.burn_in!r}.")
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))

    @property
    def _burn_ins(self) -> list[int]:
        return list(self.burn_in) if isinstance(self.burn_in, Sequence) else [self.burn_in]

    @property
    def needs_fit(self) -> bool:
        """Whether no posterior draws were given."""
        return self.idata is None

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Return another simulation for a model without hyperparameters."""
        if self._names(model):
            return self
        return FromPosterior(self.idata, self.datasets) if stacks_data else FromPrior(self.datasets)

    def _names(self, model: pm.Model) -> tuple[str, ...]:
        return tuple(default_hyperparameters(model) if self.names is None else self.names)

    def check(self, density: TemperedDensity) -> None:
        """Raise an error also for wrong names, means of discrete variables, or a wrong fit."""
        model = density.model
        names = self._names(model)
        if self.names == ():
            raise ValueError("names: give at least one variable, or use FromPrior().")
        free = [rv.name for rv in model.free_RVs]
        unknown = [name for name in names if name not in free]
        if unknown:
            raise ValueError(f"names: {unknown} are not among the free variables {free}.")
        discrete = [name for name in names if model[name].dtype in discrete_types]
        if discrete and self.at == "mean":
            raise ValueError(f"at: the discrete {discrete} cannot be held at a mean.")
        if self.idata is not None:
            posterior_draws("idata", self.idata, names, model)
        check_drawable(density)

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw from the model given the hyperparameters."""
        names = self._names(density.model)
        fitted = fit() if self.idata is None else self.idata
        draws = posterior_draws("idata", fitted, names, density.model)
        _log.debug(f"Hyperparameters held at a posterior {self.at}: {', '.join(names)}")
        values = self._values(draws, entropy, first)
        *shorter, burn_in = self._burn_ins
        status: Status = "burned-in" if burn_in else "heuristic"
        return [
            Simulated(*pair, status, burn_in, names, tuple(shorter))
            for place, held in enumerate(values, start=first)
            for pair in joint_draws(
                density, entropy, place, held=dict(zip(names, held, strict=True))
            )
        ]

    def _values(
        self, draws: list[np.ndarray], entropy: Entropy, first: int
    ) -> list[list[np.ndarray]]:
        """Return the hyperparameters of every data set, from all posterior draws of each."""
        if self.at == "mean":
            return [[each.mean(axis=0) for each in draws]] * self.datasets
        chosen = chosen_draws(entropy, first, len(draws[0]), self.datasets)
        return [[each[i] for each in draws] for i in chosen]


@dataclass(frozen=True, eq=False)
class HyperparametersIfAlike(FromHyperparameters):
    """Hold the hyperparameters, unless the real data stand out among the data that these give.

    Then the model does not fit, and results on its data need not apply to the real ones. Data that
    contain the real ones are simulated in their place.
    """

    def suited(self, model: pm.Model, stacks_data: bool) -> Simulation:
        """Return another one without hyperparameters, or if runs are on one data set."""
        suited = super().suited(model, stacks_data)
        return suited if stacks_data or suited is not self else FromHyperparameters()

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit: Fit, first: int = 0
    ) -> list[Simulated]:
        """Draw from the model given the hyperparameters, or given posterior draws.

        The first data sets decide, so all that follow are simulated in the same way.
        """
        alike = super().simulate(density, entropy, fit)
        odd = [
            name
            for name, real in density.data.items()
            if _stands_out(real, [each.data[name] for each in alike])
        ]
        if not odd:
            return super().simulate(density, entropy, fit, first) if first else alike
        _log.info(f"Simulated data contain the real ones, since no others are like {odd[0]}")
        return FromPosterior(self.idata, self.datasets).simulate(density, entropy, fit, first)


def _stands_out(real: np.ndarray, simulated: Sequence[np.ndarray]) -> bool:
    """Return whether the real data are the most extreme of all, by their spread or their tails.

    For each observed variable this happens with one right model in twenty, or more often if many
    hyperparameters are held, since the data are then close to the fit. It does no harm there.
    """
    features = spread_and_tails(np.stack([real, *simulated]))
    return rank_among(features).p_value <= 1 / len(features)


def default_hyperparameters(model: pm.Model) -> list[str]:
    """Return the names of the hyperparameters: free variables without random parents.

    They are scalars, and covariance or correlation matrices with an LKJ prior. Vectors, such as
    regression weights or non-centred effects, are simulated from their prior with everything else,
    which is exact; so is the missing part of a partly observed variable.
    """
    basic = set(model.basic_RVs)
    return [
        rv.name
        for rv in model.free_RVs
        if (not rv.type.ndim or isinstance(rv.owner.op, LKJ))
        and not basic.intersection(ancestors(rv.owner.inputs))
        and not (rv.name.endswith("_unobserved") and rv.name[:-10] + "observed" in model.named_vars)
    ]
