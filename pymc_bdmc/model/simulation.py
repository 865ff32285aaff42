"""Simulated data sets with a posterior sample (θ*, y*): from the joint, or as fitted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr
from pytensor.graph.traversal import ancestors

from pymc_bdmc.model.forward_sampling import INTERPRETED, ForwardSampler
from pymc_bdmc.model.tempered import TemperedDensity, TemperedModel
from pymc_bdmc.types import Point

__all__ = [
    "Simulated",
    "as_simulated",
    "check_drawable",
    "default_hyperparameters",
    "hyperparameter_values",
    "simulate_from_hyperparameters",
    "simulate_from_prior",
]

Status = Literal["exact", "burned-in", "heuristic"]


@dataclass(frozen=True, eq=False)
class Simulated:
    """A data set with one sample θ* of its posterior.

    Attributes
    ----------
    point : Point
        θ*, unconstrained.
    data : mapping of str to ndarray
        y*, by the name of the observed variable.
    status : {"exact", "burned-in", "heuristic"}
        What the upper bound that starts from θ* is worth.
    """

    point: Point
    data: Mapping[str, np.ndarray]
    status: Status


def simulate_from_prior(
    density: TemperedDensity, seeds: Sequence[np.random.SeedSequence]
) -> list[Simulated]:
    """Draw (θ*, y*) from the joint distribution: θ* is an exact posterior sample given y*.

    Grosse, Ghahramani and Adams (2015), Section 4.

    Parameters
    ----------
    density : TemperedDensity
        Of the model.
    seeds : sequence of SeedSequence
        One a data set.
    """
    sampler = ForwardSampler(density.model, observed=True)
    return [_draw(sampler, density, seed, (), "exact") for seed in seeds]


def simulate_from_hyperparameters(
    density: TemperedDensity,
    values: Sequence[Mapping[str, np.ndarray]],
    seeds: Sequence[np.random.SeedSequence],
    status: Status = "burned-in",
) -> list[Simulated]:
    """Fix the hyperparameters at plausible values and simulate everything else from the model.

    Data so simulated resemble the real ones, but θ* is only close to a posterior sample, since
    the hyperparameters were not drawn from their prior: burn it in. Grosse, Ancha and Roy
    (2016), Section 4.2.

    Parameters
    ----------
    density : TemperedDensity
        Of the model.
    values : sequence of mapping of str to ndarray
        Constrained values of the hyperparameters, one mapping a data set.
    seeds : sequence of SeedSequence
        One a data set.
    status : {"burned-in", "heuristic"}
        Whether the reverse chains are burned in.
    """
    names = list(values[0])
    sampler = ForwardSampler(density.model, observed=True, given=names)
    return [
        _draw(sampler, density, seed, [each[name] for name in names], status)
        for seed, each in zip(seeds, values, strict=True)
    ]


def _draw(sampler, density, seed, given, status) -> Simulated:
    sampler.seed(np.random.default_rng(seed))
    point, data, _ = sampler.draw_supported(*given)
    data = {name: np.asarray(value, density.data[name].dtype) for name, value in data.items()}
    return Simulated(point, data, status)


def as_simulated(
    density: TemperedDensity, point: Mapping[str, np.ndarray], data: Mapping[str, np.ndarray]
) -> Simulated:
    """A pair (point, data) of the caller's, whose word is taken that it comes from the joint.

    With the real data the point can only be some sampler's posterior draw, and the upper bound
    is heuristic.

    Parameters
    ----------
    density : TemperedDensity
        Of the model.
    point : mapping of str to array_like
        Constrained values of the free variables, by name.
    data : mapping of str to array_like
        The observed variables.

    Raises
    ------
    ValueError
        If a variable is missing, unknown, of another shape, or outside its support.
    """
    model = density.model
    free = [rv.name for rv in model.free_RVs]
    if set(point) != set(free):
        raise ValueError(f"simulate: the point must give {free}, got {sorted(point)}.")
    density.set_data(data)
    sampler = ForwardSampler(model, given=free)
    sampler.seed(np.random.default_rng(0))  # nothing is left to draw
    given = [_given(rv, point[rv.name]) for rv in model.free_RVs]
    unconstrained, _ = sampler.draw(*given)
    for name, value in zip(free, unconstrained.values(), strict=True):
        if not np.isfinite(value).all():
            raise ValueError(f"simulate: the value of {name} lies outside its support.")
    log_density = sum(density(unconstrained))
    density.set_data(density.data)
    if not np.isfinite(log_density):
        raise ValueError("simulate: the point has zero density under the model with these data.")
    real = all(np.array_equal(np.asarray(data[name]), density.data[name]) for name in density.data)
    data = {name: np.asarray(data[name], density.data[name].dtype) for name in density.data}
    return Simulated(unconstrained, data, "heuristic" if real else "exact")


def _given(rv, value) -> np.ndarray:
    """A caller's value of a free variable, of the right shape and not rounded."""
    given = np.asarray(value).astype(rv.dtype)
    shape = tuple(rv.shape.eval(mode=INTERPRETED))
    if given.shape != shape or not np.array_equal(given, value):
        raise ValueError(
            f"simulate: {rv.name} must be of type {rv.dtype} and shape {shape}, got {value!r}."
        )
    return given


def default_hyperparameters(model: TemperedModel) -> list[str]:
    """Names of the free variables that depend on no other random variable.

    The missing part of a partly observed variable is never one: it is simulated with the rest.
    """
    basic = set(model.basic_RVs)
    return [
        rv.name
        for rv in model.free_RVs
        if not basic.intersection(ancestors(rv.owner.inputs))
        and not (rv.name.endswith("_unobserved") and rv.name[:-10] + "observed" in model.named_vars)
    ]


def check_drawable(density: TemperedDensity) -> None:
    """Refuse models whose observed variables cannot be drawn; names the variable."""
    sampler = ForwardSampler(density.model, observed=True)
    sampler.seed(np.random.default_rng(0))
    sampler.draw()


def hyperparameter_values(
    posterior: xr.Dataset | xr.DataTree,
    names: Sequence[str],
    n: int,
    at: Literal["draw", "mean"],
    rng: np.random.Generator,
) -> list[dict[str, np.ndarray]]:
    """Plausible values of the hyperparameters, from a fit to the real data.

    Parameters
    ----------
    posterior : Dataset or DataTree
        The ``posterior`` group of the fit.
    names : sequence of str
        The hyperparameters.
    n : int
        How many sets of values.
    at : {"draw", "mean"}
        Different joint posterior draws, or the posterior mean ``n`` times.
    rng : numpy.random.Generator
        Chooses the draws.
    """
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(f"idata: its posterior lacks the hyperparameters {missing}.")
    draws = {}
    for name in names:
        values = posterior[name].transpose("chain", "draw", ...).values
        draws[name] = values.reshape(-1, *values.shape[2:])
    if at == "mean":
        return [{name: draws[name].mean(axis=0) for name in names}] * n
    size = len(draws[names[0]])
    chosen = rng.choice(size, size=n, replace=n > size)
    return [{name: draws[name][i] for name in names} for i in chosen]
