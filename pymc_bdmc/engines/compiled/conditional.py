"""Checks of the normal distribution of latent variables, given the few others."""

import numpy as np
from scipy.integrate import trapezoid

from pymc_bdmc.engines.compiled.counted import Counted
from pymc_bdmc.reference.nested import Conditional, NestedReference
from pymc_bdmc.reference.sparse import times_root
from pymc_bdmc.reference.student import log_reference

NEAR, NOTABLE = 1.0, 7.0
"""Two modes are the same if they are within this many standard deviations: Newton's method ends
nearer than that to a mode. Another mode matters if its Laplace approximation is at most this many
nats lower."""
LONGER, RESOLVED = 1.5, 0.1
"""Steps this many times as long show whether pivots of a precision depend on them. Rounding hides
the precision if it may take more than the second share of a pivot. Measured: of six effects whose
sum is known to 1e-5 … 3e-4, log ML is right up to there, and with 0.12 it was 0.14 nats off."""
REMOTE = np.array([5, 6, 8, 12, 16, 24, 32, 48, 64])
"""Conditional deviations from the mode at which tails of single latent variables are probed. Draws
show what is nearer. Measured: log ML falls short by about the share that is found."""
MOST_PROBED, MOST_RISE = 64, 99.0
"""Most latent variables that are probed alone, and most nats by which tails exceed the mode."""
NORMAL = 1e-5
"""Largest difference from a density that is normal in x, nats, if it counts as normal."""


def wrong_modes(
    found: NestedReference, density: Counted, psis: np.ndarray, prior: np.ndarray
) -> str:
    """Say whether x has no mode given the first ψ, or several given one of them.

    Newton's method starts at prior draws of x, at each ψ in turn. If many elements have two modes,
    each end is far below the highest mode. So the search goes on from states in which only one
    element is that of an end.
    """
    centres = found.given(psis, density)
    if not centres.is_mode[0]:
        return "no mode given the others"
    at, starts = np.resize(np.arange(len(psis)), len(prior)), prior[:, found.latent]
    for _ in range(2):
        ends = found.given(psis[at], density, starts)
        distances = ends.modes - centres.modes[at]
        is_apart = np.abs(distances) > NEAR * deviations(found, centres)[at]
        times_root(found.sparsity, centres.factors[at], distances)
        is_other = ends.is_mode & ((distances**2).sum(axis=1) > NEAR**2)
        n = int((is_other & (ends.log_marginal > centres.log_marginal[at] - NOTABLE)).sum())
        if n:
            told = f"{n} of {len(starts)} searches ended at a further one"
            return f"several modes given the others ({told})"
        row, element = np.nonzero(is_apart & is_other[:, None])
        row, element = row[:MOST_PROBED], element[:MOST_PROBED]
        at, alone = at[row], np.arange(len(row))
        starts = centres.modes[at]
        starts[alone, element] = ends.modes[row, element]
    return ""


def lost_by_rounding(found: NestedReference, density: Counted, psis: np.ndarray) -> float:
    """Return the largest share of a pivot of the precision of x that rounding may take.

    A pivot p_j is a squared diagonal entry of the Cholesky factor: what is left of H_jj after the
    elimination of other elements. H_jj is a difference of gradients over a step h_j. Rounding of
    x_j by ε|x_j| alone changes it by ε|x_j| H_jj/h_j, which is a share of ε|x_j| H_jj/(h_j p_j) of
    the pivot, and half as many nats of the log volume. h_j √H_jj is about `STEP`, so this share
    grows like the 3/2 power of the condition number. Errors of this size may cancel at some ψ, and
    what they leave of a pivot is then right. Otherwise pivots are wrong, and depend on the steps.
    """
    references = found, found._replace(steps=LONGER * found.steps)
    first, second = (each.given(psis, density) for each in references)
    if not (first.is_mode & second.is_mode).all():
        return np.inf
    order, diagonal = found.sparsity.order, found.sparsity.starts[:-1]
    pivots, others = first.factors[:, diagonal] ** 2, second.factors[:, diagonal] ** 2
    moved = np.finfo(float).eps * np.abs(first.modes) / found.steps
    rounded = moved[:, order] * _diagonals(found, first) / pivots
    return float(np.maximum(rounded, np.abs(others / pivots - 1)).max())


def is_exact(found: NestedReference, density: Counted, rng: np.random.Generator) -> bool:
    """Return whether the density is normal in x given ψ, by a few draws."""
    thetas, log_r = found.sample(8, rng, density)
    phis = found.to_units(thetas[:, found.others])
    log_x = log_r - log_reference(found.marginal, phis)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        misses = density.slopes(thetas)[0] - found.log_laplace(phis, density) - log_x
    return bool(np.abs(misses).max() < NORMAL)


def share_in_tails(
    found: NestedReference, density: Counted, rare: float, rng: np.random.Generator
) -> float:
    """Estimate the share of the posterior in tails of single latent variables that r(x | ψ) lacks.

    Noise with heavy tails gives each latent variable a long shoulder from the mode near its
    observation towards its prior. No draws from a normal distribution reach it, also if they are
    annealed, so their weights may be even. So log p + ℓ is integrated along some of the variables,
    at the mode of ψ, where it exceeds the normal density by more than ``rare`` nats.
    """
    psi = found.from_units(found.tops[:1])
    centre = found.given(psi, density)
    probed = rng.permutation(len(found.latent))[:MOST_PROBED]
    z = np.append(-REMOTE[::-1], REMOTE)
    theta = found.join(psi, centre, np.zeros_like(centre.modes))
    thetas = np.tile(theta, (len(probed), len(z), 1))
    moves = z * deviations(found, centre)[0, probed, None]
    thetas[np.arange(len(probed))[:, None], np.arange(len(z)), found.latent[probed, None]] += moves
    heights = density.terms(np.concatenate([theta, thetas.reshape(-1, theta.size)])).sum(axis=1)
    drops = (heights[1:] - heights[0]).reshape(len(probed), -1)
    densities = np.exp(np.minimum(drops, MOST_RISE)) / np.sqrt(2 * np.pi)
    densities = np.where(drops + z**2 / 2 > rare, densities, 0.0)
    sides = trapezoid(densities.reshape(len(probed), 2, -1), z.reshape(2, -1), axis=2)
    missed = sides.sum(axis=1).mean() * len(found.latent)
    return float(missed / (1 + missed))


def deviations(found: NestedReference, centres: Conditional) -> np.ndarray:
    """Return the standard deviations of latent variables given all others, shape (n, d)."""
    conditional = np.empty_like(centres.modes)
    conditional[:, found.sparsity.order] = 1 / np.sqrt(_diagonals(found, centres))
    return conditional


def _diagonals(found: NestedReference, centres: Conditional) -> np.ndarray:
    """Return the diagonals of the precisions L Lᵀ in the order of elimination, shape (n, d)."""
    indices, d = found.sparsity.indices, len(found.latent)
    return np.array([np.bincount(indices, factor**2, d) for factor in centres.factors])
