"""Estimate log ML from draws of a posterior that one has, by bridge sampling."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import xarray as xr
from numpy import ndarray
from pymc.vartypes import continuous_types

from pymc_bdmc.density.draws import check_observed, posterior_draws
from pymc_bdmc.density.refuse import constraints, no_reference_for
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import Estimate, copies, log_mean_exp
from pymc_bdmc.estimators.bar import log_acceptances, solve_bar
from pymc_bdmc.reference.metric import estimate_metric
from pymc_bdmc.reference.student import make_reference
from pymc_bdmc.results.finding import MAX_CHANCE
from pymc_bdmc.results.labels import one_labelling
from pymc_bdmc.results.particles import Unconstrained
from pymc_bdmc.results.score import BLOCKS, beyond_chance, score_of_states

LEAST_EFFECTIVE = 400
"""Least effective sample size of draws that are believed, by Vehtari et al. (2021),
Rank-normalization, folding, and localization. It is small if blocks of draws disagree too."""
FEWEST_CROSSING = 100.0
"""Least effective number of draws on either side that cross to the other. Chosen: errors then hold
for exact draws of funnels, curved ridges, spikes, modes apart and Cauchy tails. Acceptances are at
most 1, so Pareto k of their tail is small wherever so many cross."""


def bridge_sampling(
    idata: xr.DataTree, model: pm.Model, rng: np.random.Generator
) -> tuple[Estimate, list[str]]:
    """Estimate log ML from posterior draws of a model; also return notes on what it is.

    A t distribution is fitted to one half of the draws, and Bennett's acceptance ratio compares the
    other half with as many draws from it; then the halves change places, and the two estimates are
    averaged. Blocks of draws go to the two halves in turn.
    """
    density = TemperedDensity(model).check()
    for rv in density.model.free_RVs:
        if rv.dtype not in continuous_types:
            raise ValueError(
                f"model: {rv.name} is discrete, and bridge sampling needs densities. Sum it out, "
                "or anneal: bdmc.log_ml(pm.sample_bdmc(model, simulate=None))."
            )
    if reason := no_reference_for(density.model):
        raise ValueError(
            f"model: there is no bridge to its posterior, {reason}. Anneal from the prior: "
            "bdmc.log_ml(pm.sample_bdmc(model, simulate=None))."
        )
    check_observed("idata", idata, density.data)
    names, space = [rv.name for rv in density.model.free_RVs], Unconstrained(density)
    draws = posterior_draws("idata", idata, names, density.model)
    thetas = space.rows(dict(zip(names, draws, strict=True)))
    least = max(LEAST_EFFECTIVE, 4 * thetas.shape[1])
    if len(thetas) < least:
        raise ValueError(
            f"idata: {len(thetas)} draws are too few to fit a reference to one half of them; "
            f"{least} are needed."
        )
    blocks = np.array(np.split(thetas[: len(thetas) // BLOCKS * BLOCKS], BLOCKS))
    if (still := (np.ptp(blocks, axis=1) == 0).any(axis=0)).any():
        raise ValueError(
            f"idata: {space.labels[still][0]} is the same in {blocks.shape[1]} successive draws. "
            "Leave out chains that do not move, or sample again by another step method."
        )
    if not (space.log_joint(thetas) > -np.inf).all():
        raise ValueError(
            "idata: at some of its draws the model and its data are impossible. Is it a fit of "
            "another model, or to other data?"
        )
    repeated = copies(blocks)
    halves = np.concatenate(blocks[::2]), np.concatenate(blocks[1::2])
    found = [_bridge(space.log_joint, *pair, repeated, rng) for pair in (halves, halves[::-1])]
    apart, error = found[0].value - found[1].value, np.hypot(found[0].error, found[1].error)
    size, score = _least_effective_size(blocks) / repeated, score_of_states(space, thetas)
    few = f"an effective sample size of {size:.0f} draws, {LEAST_EFFECTIVE} are needed"
    doubts = [score.text.rstrip(".")] * (score.status == "bad")
    doubts += [few] * (size < LEAST_EFFECTIVE)
    doubts += [each.reason for each in found if not each.valid]
    if abs(apart) > 3 * error:
        doubts.append(f"two halves of the draws give log ML {abs(apart):.2g} nats apart")
    notes = [
        f"It rests on these {len(thetas)} draws alone: if they miss part of the posterior, it is "
        "too low, and nothing shows it. pm.sample_bdmc(model, posterior=idata) looks for what they "
        "miss.",
        *one_labelling(space, dict(zip(names, draws, strict=True))),
        *constraints(density.model)["constraints"].split("\n"),
    ]
    value, reason = (found[0].value + found[1].value) / 2, [*doubts, found[0].reason][0]
    return Estimate(value, float(error / 2), "bridge sampling", not doubts, reason), notes


def _bridge(
    log_joint: Callable[[ndarray], ndarray],
    seen: ndarray,
    unseen: ndarray,
    repeated: float,
    rng: np.random.Generator,
) -> Estimate:
    """Compare unseen draws with as many from a t distribution that is fitted to seen ones.

    With its centre m, the density (f(θ) + f(2m − θ))/2 has the same integral as f and no skewness,
    so that it is nearer to the t distribution (Meng and Schilling 2002, warp bridge sampling). The
    weights of the draws from the t distribution have the mean Z whatever the given draws are.
    """
    centre = seen.mean(axis=0)
    reference = make_reference(centre, estimate_metric(seen, np.zeros_like(seen), for_moves=False))

    def log_weights(thetas: ndarray) -> ndarray:
        both = np.logaddexp(log_joint(thetas), log_joint(2 * centre - thetas)) - np.log(2)
        return np.nan_to_num(both, nan=-np.inf, neginf=-np.inf) - reference.log_density(thetas)

    weights = log_weights(reference.draw(len(unseen), rng)), log_weights(unseen)
    log_z = solve_bar(*weights)
    sides = [_variance_of_mean(each) for each in log_acceptances(*weights, log_z)]
    error = float(np.sqrt(sides[0][0] + repeated * sides[1][0]))
    effective = min(sides[0][1], sides[1][1] / repeated)
    reason = f"{effective:.0f} effective draws cross, {FEWEST_CROSSING:.0f} are needed"
    if valid := effective >= FEWEST_CROSSING:
        beyond, _ = beyond_chance(np.exp(weights[0] - log_z), 1.0, MAX_CHANCE, of_expected=error)
        if beyond > 1:
            valid, mean = False, log_mean_exp(weights[0])
            reason = (
                f"importance sampling from a fit to the draws gives {mean:.2f}, not {log_z:.2f}"
            )
    return Estimate(log_z, error, "bridge sampling", valid, reason)


def _least_effective_size(chains: ndarray) -> float:
    """Return the least effective sample size of an element of θ, in its bulk or its tails."""
    from arviz_stats.base import array_stats

    elements = np.moveaxis(chains, -1, 0)
    bulk = array_stats.ess(elements, method="bulk")
    tails = array_stats.ess(elements, method="tail", prob=(0.05, 0.95))
    return float(np.minimum(bulk, tails).min())


def _variance_of_mean(logs: ndarray) -> tuple[float, float]:
    """Return the squared relative error of a mean of successive values, and an effective size.

    Given are their logarithms. Autocorrelation counts in both. The effective size is 1/variance for
    values of 0 and 1 that are rarely 1.
    """
    from arviz_stats.base import array_stats

    values = np.exp(logs - logs.max())
    relative, n = values / values.mean(), len(values)
    size = min(float(array_stats.ess(relative[None], method="mean")), n)
    variance = float(relative.var(ddof=1)) / size
    return variance, 1 / (variance + 1 / n)
