"""Finished chains as the groups of an ArviZ DataTree."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import dict_to_dataset
from arviz_stats.base import array_stats
from pymc.backends.arviz import coords_and_dims_for_inferencedata
from scipy.special import log_softmax

from pymc_bdmc.simulation import Simulated
from pymc_bdmc.tempering import TemperedDensity
from pymc_bdmc.types import Chain

__all__ = ["annealing_dataset", "posterior_dataset", "simulated_dataset"]

_MIN_DRAWS_FOR_PARETO_K = 25
_MIN_STRETCH = 50


def annealing_dataset(
    runs: Sequence[Sequence[Chain | None]], betas: np.ndarray, step_sizes: Sequence[np.ndarray]
) -> xr.Dataset:
    """Log weights by chain, and what happened along β.

    Parameters
    ----------
    runs : sequence (dataset) of sequence (chain) of Chain or None
        None for a chain that was not finished: its log weight is NaN.
    betas : ndarray of shape (T + 1,)
        The schedule.
    step_sizes : sequence (dataset) of ndarray of shape (T + 1,)
        Step size of the Hamiltonian steps at each temperature, NaN without any.

    Returns
    -------
    Dataset
        ``log_weight``, ``prior_draws`` and ``lowest_acceptance`` by (dataset, chain);
        ``log_likelihood_path``, ``log_likelihood_sd`` (over chains), ``acceptance``,
        ``divergences`` and ``step_size`` by (dataset, beta).
    """

    def by_chain(value) -> np.ndarray:
        return np.array(
            [[np.nan if chain is None else value(chain) for chain in run] for run in runs]
        )

    def by_beta(field, reduce) -> np.ndarray:
        blank = np.full((1, len(betas)), np.nan)
        with np.errstate(invalid="ignore"):  # the spread of an impossible ℓ is NaN
            return np.array(
                [reduce([getattr(c, field) for c in run if c is not None] or blank) for run in runs]
            )

    finished = [chain for run in runs for chain in run if chain is not None]
    log_weight = by_chain(lambda chain: chain.log_weight)
    data = {
        "log_weight": log_weight,
        "prior_draws": by_chain(lambda chain: chain.prior_draws),
        "lowest_acceptance": by_chain(_lowest_acceptance),
        "log_likelihood_path": by_beta("log_likelihood", lambda x: np.mean(x, axis=0)),
        "log_likelihood_sd": by_beta("log_likelihood", lambda x: np.std(x, axis=0)),
        "acceptance": by_beta("acceptance", lambda x: np.mean(x, axis=0)),
        "divergences": by_beta("diverging", lambda x: np.sum(x, axis=0)),
        "step_size": np.array(step_sizes),
    }
    along = {name: ["beta"] for name in list(data)[3:]}
    return dict_to_dataset(
        data,
        sample_dims=["dataset"],
        dims={"log_weight": ["chain"], "prior_draws": ["chain"], "lowest_acceptance": ["chain"]}
        | along,
        coords={"beta": betas},
        inference_library=pm,
        attrs={
            "infinite_weights": int(np.isinf(log_weight).sum()),
            "divergences": int(sum(chain.diverging.sum() for chain in finished)),
            "gradient_evaluations": sum(chain.gradient_evaluations for chain in finished),
        },
    )


def _lowest_acceptance(chain: Chain) -> float:
    """Smallest mean acceptance over stretches of a chain; NaN where the kernel has none.

    A stretch is a quarter of the chain but long enough that a kernel that accepts every tenth
    proposal practically never rejects all of it.
    """
    n_stretches = max(1, min(4, (len(chain.acceptance) - 1) // _MIN_STRETCH))
    stretches = np.array_split(chain.acceptance[1:], n_stretches)
    return float(np.min([np.mean(stretch) for stretch in stretches]))


def posterior_dataset(
    density: TemperedDensity, model: pm.Model, chains: Sequence[Chain]
) -> xr.Dataset:
    """Last states of forward chains on the real data, as one chain of weighted draws.

    The normalised weights are the coordinate ``bdmc_weight``, Pareto k of their tail the attribute
    ``pareto_k``: above 0.7 weighted averages cannot be trusted (Vehtari et al. 2024).
    """
    coords, dims = coords_and_dims_for_inferencedata(model)
    density.set_data(density.data)  # Deterministics may depend on the observed variables
    values = {
        name: value[None] for name, value in density.constrain([c.end for c in chains]).items()
    }
    log_weights = np.array([chain.log_weight for chain in chains])
    dataset = dict_to_dataset(
        values,
        coords=coords,
        dims=dims,
        inference_library=pm,
        attrs={"pareto_k": pareto_k(log_weights)},
    )
    with np.errstate(invalid="ignore"):  # without any finite weight they are NaN
        weights = np.exp(log_softmax(log_weights))
    return dataset.assign_coords(bdmc_weight=(("chain", "draw"), weights[None]))


def pareto_k(log_weights: np.ndarray) -> float:
    """Shape of the generalised Pareto tail of importance weights; NaN for too few of them."""
    log_weights = log_weights[np.isfinite(log_weights)]
    tail = np.sort(log_weights)[-_MIN_DRAWS_FOR_PARETO_K // 5 :]
    if len(log_weights) < _MIN_DRAWS_FOR_PARETO_K or np.ptp(tail) == 0:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the value is reported instead
        # ArviZ takes log likelihoods, whose reciprocals are the weights of leave-one-out.
        return float(array_stats.psislw(-log_weights)[1])


def simulated_dataset(
    density: TemperedDensity, model: pm.Model, simulated: Sequence[Simulated]
) -> xr.Dataset:
    """y* and θ* (constrained) of every simulated data set."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    points = density.constrain([each.point for each in simulated])
    free = {rv.name: points[rv.name] for rv in density.model.free_RVs}
    observed = {
        name: np.stack([each.data[name] for each in simulated]) for name in simulated[0].data
    }
    return dict_to_dataset(
        free | observed,
        coords=coords,
        dims=dims,
        sample_dims=["dataset"],
        inference_library=pm,
    )


def observed_dataset(density: TemperedDensity, model: pm.Model) -> xr.Dataset:
    """The real data, as ArviZ keeps them."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    data: Mapping[str, np.ndarray] = density.data
    return dict_to_dataset(data, coords=coords, dims=dims, sample_dims=[], inference_library=pm)
