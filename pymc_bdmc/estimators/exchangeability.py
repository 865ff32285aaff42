"""Test whether draws come from a density, by moves that are reversible with respect to it.

If such a kernel moves θ ~ p to θ′, (θ, θ′) and (θ′, θ) have the same distribution (Stein 1986,
Approximate Computation of Expectations, Chapter I), so h(θ′) − h(θ) is symmetric about 0 for every
h. The test needs no condition on the tails, the edges or the normalisation of p.
"""

from collections.abc import Callable, Mapping

import numpy as np

LogDensity = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""Function from rows θ to log p(θ), nats, and its gradient or None. Outside the support log p is
NaN or −∞."""

LEARNING = 128  # draws that set the scale of the moves and functions, and are not tested


def exchangeability(
    thetas: np.ndarray,
    log_density: LogDensity,
    groups: Mapping[str, slice],
    rng: np.random.Generator,
    whole: np.ndarray | None = None,
) -> dict[str, float]:
    """Test by variable whether independent draws have the stated density; return p-values.

    With a gradient the draws move by Hamiltonian trajectories, and without one by Metropolis steps
    of each variable, which have less power for variables with many elements. The test compares the
    location and spread of every element and of a variable, and log p (the key ``""``).

    ``groups`` are the columns of every variable, together the first m of ``thetas``; others stay
    constant. Columns that are ``whole`` have integer values, without a gradient. p-values are
    multiplied by the number of comparisons. The result is ``{"": 0.0}`` if draws lie outside the
    support, and empty if fewer than twice `LEARNING` draws have a finite log p and gradient.
    """
    values, gradients = log_density(thetas)
    if np.mean(values == -np.inf) > 0.01:  # more than rounding at an edge may explain; chosen
        return {"": 0.0}
    usable = np.isfinite(values)
    if gradients is not None:
        usable &= np.isfinite(gradients).all(axis=1)
    if usable.sum() < 2 * LEARNING or not groups:
        return {}
    learning, before = np.split(thetas[usable], [LEARNING])
    m = max(columns.stop for columns in groups.values())
    centre, spread = np.median(learning[:, :m], axis=0), interquartile_range(learning[:, :m])
    # A composition of transitions is as reversible as each of them; their numbers are chosen.
    if gradients is None:
        blocks, scale, moves = [{name: groups[name]} for name in groups], spread, 10
    else:  # use the geometric mean of a marginal and a conditional width
        conditional = interquartile_range(gradients[usable][:LEARNING])
        blocks, scale, moves = [dict(groups)], np.sqrt(spread / conditional), 2
    compared: list[tuple[str, np.ndarray]] = []
    for block in blocks:
        moving = np.zeros(m)
        for columns in block.values():
            moving[columns] = scale[columns]
        after, log_ratio = before, np.zeros(len(before))
        for _ in range(moves):
            after, rise = moved(after, log_density, moving, rng, whole)
            log_ratio += rise
        changes = np.subtract(*[_functions((x[:, :m] - centre) / spread) for x in (after, before)])
        compared.append(("", log_ratio))
        for name, columns in block.items():
            for change in changes[:, :, columns]:
                together = [change.sum(axis=1)] if change.shape[1] > 1 else []
                compared += [(name, each) for each in (*change.T, *together)]
    names = np.array([name for name, _ in compared])
    differences = np.stack([each for _, each in compared], axis=1)
    pvalues = np.minimum(1.0, symmetry_pvalues(differences) * len(compared))
    return {name: float(pvalues[names == name].min()) for name in ("", *groups)}


def symmetry_pvalues(differences: np.ndarray) -> np.ndarray:
    """Bound the p-value of the mean of each column of independent rows, if symmetric about 0.

    Given the absolute values, signs are independent and fair. So z = Σd/√(Σd²) has P(abs(z) ≥ t) ≤
    2·exp(−t²/2) for any n and any tails (Hoeffding 1963, Theorem 2).
    """
    sizes = np.max(np.abs(differences), axis=0)
    scaled = differences / np.where(sizes > 0, sizes, 1.0)  # no overflow of squares
    squares = np.sum(scaled**2, axis=0)
    z_squared = np.sum(scaled, axis=0) ** 2 / np.where(squares > 0, squares, 1.0)
    return np.minimum(1.0, 2 * np.exp(-0.5 * z_squared))


def moved(
    thetas: np.ndarray,
    log_density: LogDensity,
    scale: np.ndarray,
    rng: np.random.Generator,
    whole: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Make a reversible transition of every row; return the rows, and the increase of log p, nats.

    ``scale`` of shape (m,) is the unit of length of the first m columns, or 0 if one does not move.
    Without a gradient the rows move by a random walk, by integers in the columns of ``whole``.
    """
    n, m = len(thetas), np.count_nonzero(scale)
    before, gradient = log_density(thetas)
    # Step sizes are log-uniform, so that some suit any shape; their limits are chosen.
    if gradient is None:
        limits, unit, leaps = (0.3, 2.4), m**-0.5, 1
    else:
        limits, unit, leaps = (0.1, 0.5), m**-0.25, 6
    steps = scale * np.exp(rng.uniform(*np.log(limits), size=(n, 1))) * unit
    momenta = rng.normal(size=(n, len(scale)))
    end, end_momenta = thetas.copy(), momenta.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # such trajectories are rejected
        for _ in range(leaps):
            if gradient is not None:
                end_momenta += 0.5 * steps * gradient
            jumps = steps * end_momenta
            if whole is not None:
                jumps = np.where(whole, np.rint(jumps), jumps)
            end[:, : len(scale)] += jumps
            value, gradient = log_density(end)
            if gradient is not None:
                end_momenta += 0.5 * steps * gradient
        log_ratio = value - before
        kinetic = 0.5 * np.sum(momenta**2 - end_momenta**2, axis=1)
        accepted = np.log(rng.random(n)) < log_ratio + kinetic
    return np.where(accepted[:, None], end, thetas), np.where(accepted, log_ratio, 0.0)


def interquartile_range(values: np.ndarray) -> np.ndarray:
    """Return the interquartile range by column, with 1 in place of 0."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)


def _functions(u: np.ndarray) -> np.ndarray:
    """Return a bounded function of every element for its location, and one for its spread."""
    return np.stack([np.tanh(u), 1 - 1 / (1 + u**2)])
