"""Write finished runs as the groups of an ArviZ DataTree, with the attributes that all have."""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import coords_and_dims_for_inferencedata
from scipy.special import log_softmax

from pymc_bdmc.base import LIBRARY, VERSION, logger
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, recorded
from pymc_bdmc.base.types import Annealing, Point, stack
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import pareto_shape
from pymc_bdmc.run.resampling import systematic
from pymc_bdmc.simulations import Simulated

_log = logger(__name__)

POSTERIOR_CHAINS = 4
"""Number of chains of the group ``posterior``; ArviZ asks for four to compare them."""


def run_attributes(
    schedule: Schedule, entropy: Entropy, started: float, interrupted: bool
) -> dict[Hashable, str | float | int]:
    """Return schedule, seed, seconds since ``started``, whether interrupted, and version."""
    return {
        "schedule": schedule.name,
        "random_seed": recorded(entropy),
        "sampling_time": time.perf_counter() - started,
        "interrupted": int(interrupted),
        "pymc_bdmc_version": VERSION,
    }


def annealing_dataset(runs: Sequence[Annealing], betas: np.ndarray) -> xr.Dataset:
    """Return records of the runs in one direction by (dataset, chain, …) and (dataset, beta).

    ``prior_draws`` are by ``accepted_draw`` too if a chain waited for several, and
    ``row_log_weight`` is by ``row``, on a path of the data.
    """
    data, dims = {}, {}
    for dim in ("chain", "beta"):
        found = [getattr(run, f"by_{dim}") for run in runs]
        for name in dict.fromkeys(name for each in found for name in each):
            known = next(each[name] for each in found if name in each)
            # After Ctrl-C a data set may have no finished run.
            missing = np.full_like(known, np.nan if known.dtype.kind == "f" else 0)
            data[name] = _stacked([each.get(name, missing) for each in found])
            more = "row" if name == "row_log_weight" else "accepted_draw"
            dims[name] = [dim, *[more] * (data[name].ndim - 2)]
    attrs = {
        "infinite_weights": int(np.isinf(data["log_weight"]).sum()),
        "divergences": int(data["divergences"].sum()),
        "gradient_evaluations": sum(run.gradient_evaluations for run in runs),
    }
    options = {"coords": {"beta": betas}, "inference_library": LIBRARY, "attrs": attrs}
    return dict_to_dataset(data, sample_dims=["dataset"], dims=dims, **options)


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays as rows; if the last axes differ in length, shorter rows end in NaN."""
    if len({array.shape for array in arrays}) == 1:
        return np.array(arrays)
    arrays = [array.reshape(len(array), -1) for array in arrays]
    longest = max(array.shape[1] for array in arrays)
    ends = [((0, 0), (0, longest - array.shape[1])) for array in arrays]
    padded = zip(arrays, ends, strict=True)
    return np.array([np.pad(array, end, constant_values=np.nan) for array, end in padded])


def particles_dataset(
    density: TemperedDensity,
    ends: Sequence[tuple[Point, np.ndarray]],
    log_weights: np.ndarray,
    n_particles: int,
) -> xr.Dataset:
    """Return the weighted last states of the runs on the real data, by (chain, particle).

    ``ends`` are the last states of each run by variable, with their weights within the run. States
    after further moves at β = 1 are further particles; ``sweeps`` counts the states of each of the
    N particles. ``pareto_k`` is that of the weights of the runs (Vehtari et al. 2024).
    """
    density.set_data(density.data)  # Deterministics may depend on the observed variables
    shape = len(ends), len(ends[0][1])
    states = {name: np.concatenate([points[name] for points, _ in ends]) for name in ends[0][0]}
    values = {
        name: value.reshape(*shape, *value.shape[1:])
        for name, value in density.constrain(states).items()
    }
    with np.errstate(invalid="ignore"):  # without any finite weight they are NaN
        weights = np.exp(log_softmax(log_weights))
    shares = weights[:, None] * np.array([within for _, within in ends])
    finite, sweeps = log_weights[np.isfinite(log_weights)], shape[1] // n_particles
    attrs = {
        "pareto_k": pareto_shape(np.exp(finite - finite.max(initial=-np.inf))),
        "free_variables": [rv.name for rv in density.model.free_RVs],
        "sweeps": sweeps,
        "autocorrelation_time": _autocorrelation_time(states, shares, sweeps),
    }
    dataset = _labelled(density, values, ["chain", "particle"], attrs)
    return dataset.assign_coords(bdmc_weight=(("chain", "particle"), shares))


def _autocorrelation_time(states: Point, shares: np.ndarray, sweeps: int) -> float:
    """Return 1 + 2 Σ_s (1 − s/S) ρ_s, with ρ_s the largest correlation after s of S moves.

    It is over all elements and their squared deviations, which a reflection about the mean keeps.
    """
    if sweeps == 1 or not np.isfinite(shares).all():
        return 1.0
    runs, found = len(shares), np.zeros(sweeps - 1)
    weight = shares.reshape(runs, sweeps, -1)[:, 0].ravel() * sweeps
    for value in states.values():
        by_run = value.reshape(runs, sweeps, len(weight) // runs, value[0].size).astype(float)
        each = by_run.swapaxes(0, 1).reshape(sweeps, len(weight), value[0].size)
        for _ in range(2):
            each = each - np.einsum("i,sik->sk", weight, each)[:, None]
            first, later = each[0], each[1:]
            product = np.einsum("i,ik,sik->sk", weight, first, later)
            scale = np.sqrt(weight @ first**2 * np.einsum("i,sik->sk", weight, later**2))
            with np.errstate(divide="ignore", invalid="ignore"):  # constant elements say nothing
                found = np.fmax(found, np.nanmax(product / scale, axis=1, initial=0.0))
            each = each**2
    return float(1 + 2 * (1 - np.arange(1, sweeps) / sweeps) @ found)


def posterior_dataset(
    particles: xr.Dataset, ancestors: np.ndarray, rng: np.random.Generator
) -> xr.Dataset:
    """Resample weighted particles to draws of equal weight, assigned at random to four chains.

    There is about one draw per effective particle, so that errors which assume independent draws
    are right: at most one per start from which the particles descend (``ancestors``, by run), and
    more for states after further moves, by their autocorrelation time. Rank plots and R̂ compare
    four parts of one sample; they do not judge the runs.
    """
    weights = particles["bdmc_weight"].values
    runs, sweeps = weights.sum(axis=1), particles.attrs.get("sweeps", 1)
    once = min(1 / np.sum(weights**2) / sweeps, 1 / np.sum(runs**2 / ancestors))
    ess = once * sweeps / particles.attrs.get("autocorrelation_time", 1.0)
    length = max(1, int(round(ess, 6) / POSTERIOR_CHAINS))  # rounding errors do not remove a draw
    n = POSTERIOR_CHAINS * length
    places = rng.permutation(systematic(weights.ravel(), n, rng.random()))
    chains = xr.DataArray(places.reshape(POSTERIOR_CHAINS, length), dims=("chain", "draw"))
    posterior = particles.drop_vars(["bdmc_weight", "chain", "particle"]).isel(
        chain=chains // weights.shape[1], particle=chains % weights.shape[1]
    )
    posterior.attrs["sample_dims"] = ["chain", "draw"]  # ArviZ reduces over these and plots by them
    posterior = posterior.assign_coords(chain=np.arange(POSTERIOR_CHAINS), draw=np.arange(length))
    return posterior.transpose("chain", "draw", ...)


def simulated_dataset(density: TemperedDensity, simulated: Sequence[Simulated]) -> xr.Dataset:
    """Return y* and θ* (constrained) of every simulated data set."""
    points = density.constrain(stack([each.point for each in simulated]))
    free = {rv.name: points[rv.name] for rv in density.model.free_RVs}
    observed = stack([each.data for each in simulated])
    return _labelled(density, free | observed, ["dataset"])


def burn_in_dataset(
    log_weights: Callable[[str], np.ndarray], simulated: Sequence[Simulated]
) -> xr.Dataset:
    """Return reverse log weights, by group, as (burn_in, dataset, chain), the longest last."""
    longest = log_weights("reverse")
    shorter = log_weights("burn_in").reshape(len(longest), -1, longest.shape[1])
    weights = np.concatenate([shorter, longest[:, None]], axis=1).swapaxes(0, 1)
    first = simulated[0]
    return xr.Dataset(
        {"log_weight": (("burn_in", "dataset", "chain"), weights)},
        {"burn_in": [*first.shorter, first.burn_in]},
    )


def starts_dataset(density: TemperedDensity, starts: Sequence[Point]) -> xr.Dataset:
    """Return the start of every reverse run on the real data, as the model's variables."""
    density.set_data(density.data)  # Deterministics may depend on the observed variables
    return _labelled(density, density.constrain(stack(starts)), ["chain"])


def observed_dataset(density: TemperedDensity) -> xr.Dataset:
    """Return the real data in the form that ArviZ uses."""
    return _labelled(density, {name: value.copy() for name, value in density.data.items()}, [])


def _labelled(
    density: TemperedDensity,
    values: Mapping[str, np.ndarray],
    sample_dims: list[str],
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return values by variable with the model's dims and coords, as far as these fit the shapes.

    PyMC lets a Deterministic have dims of other lengths than its own, as in Bambi's ``y ~ 1``.
    """
    coords, dims = coords_and_dims_for_inferencedata(density.model)
    lengths = {dim: int(each.data) for dim, each in density.model.dim_lengths.items()}
    for name, value in values.items():
        shape = value.shape[len(sample_dims) :]
        wanted = dims.get(name, [])
        if any(lengths.get(dim, n) != n for dim, n in zip(wanted, shape, strict=False)):
            _log.debug(f"{name}: its dims {wanted} are left out, since its shape is {shape}")
            del dims[name]
    options = {"coords": coords, "dims": dims, "inference_library": LIBRARY, "attrs": attrs}
    return dict_to_dataset(dict(values), sample_dims=sample_dims, **options)
