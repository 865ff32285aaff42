"""Whether draws come from a density: a reversible move makes exchangeable pairs of such draws.

If θ is drawn from p and a kernel that is reversible with respect to p moves it to θ′, then (θ, θ′)
and (θ′, θ) have one law (Stein 1986, Approximate Computation of Expectations, Chapter I), so that
h(θ′) − h(θ) is symmetric about 0 for every h. In the limit of short moves its mean is Stein's
identity. Nothing is asked of the tails of p, of its edges or of its normalisation.
"""

from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["LEARNING", "LogDensity", "exchangeability", "moved", "symmetry_pvalues"]

LogDensity = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From rows θ to log p(θ), nats, and its gradient; NaN or −∞ where there is none."""

LEARNING = 128
"""Draws that choose the scale of the moves and of the functions, and are not tested."""
LEAPFROG_STEPS = 6
STEP_SIZES = (0.1, 0.5)
"""Between these, in units of d^(−1/4) times the scale, so that some fit whatever the shape."""


def exchangeability(
    thetas: np.ndarray,
    log_density: LogDensity,
    groups: Mapping[str, slice],
    rng: np.random.Generator,
) -> dict[str, float]:
    """Test by variable whether independent draws have the density that is said of them.

    The draws are moved by one Hamiltonian trajectory. Compared are location and spread of every
    element, of all elements of a group together, and log p.

    Parameters
    ----------
    thetas : ndarray of shape (n, d)
        Draws; columns of no group are held fixed, last in θ.
    log_density : callable
        From an array like ``thetas`` to log p, shape (n,) nats, and its gradient with respect to
        the columns of the groups, shape (n, m).
    groups : mapping of str to slice
        Columns of every variable; together the first m.
    rng : numpy.random.Generator
        For the moves.

    Returns
    -------
    dict of str to float
        p-values by group, valid for any n (see `symmetry_pvalues`) and multiplied by the number
        of comparisons, so that with right draws any of them is below α with a probability of at
        most α. The key ``""`` is for log p. Empty if fewer than twice `LEARNING` draws have a
        finite log p and gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators.exchangeability import exchangeability
    >>> normal = lambda x: (-0.5 * (x**2).sum(axis=1), -x)
    >>> rng = np.random.default_rng(1)
    >>> right, wide = rng.normal(size=(600, 1)), rng.normal(scale=1.5, size=(600, 1))
    >>> exchangeability(right, normal, {"x": slice(1)}, rng)["x"] > 1e-3
    True
    >>> exchangeability(wide, normal, {"x": slice(1)}, rng)["x"] < 1e-3
    True
    """
    values, gradients = log_density(thetas)
    usable = np.isfinite(values) & np.isfinite(gradients).all(axis=1)
    if usable.sum() < 2 * LEARNING:
        return {}
    thetas, gradients = thetas[usable], gradients[usable]
    m = gradients.shape[1]
    learning = thetas[:LEARNING, :m]
    spread, slopes = _interquartile_range(learning), _interquartile_range(gradients[:LEARNING])
    ratio = np.divide(spread, slopes, out=spread**2, where=slopes > 0)
    before = thetas[LEARNING:]
    after, log_ratio = moved(before, log_density, np.sqrt(ratio), rng)
    change = _functions(after[:, :m], learning, spread) - _functions(before[:, :m], learning, spread)
    compared, names = [log_ratio], [""]
    for name, columns in groups.items():
        for part in change[:, :, columns]:
            compared += [*part.T, part.sum(axis=1)] if part.shape[1] > 1 else [*part.T]
        names += [name] * (len(compared) - len(names))
    pvalues = symmetry_pvalues(np.stack(compared, axis=1)) * len(compared)
    return {name: float(pvalues[np.array(names) == name].min()) for name in ("", *groups)}


def symmetry_pvalues(differences: np.ndarray) -> np.ndarray:
    """Bound the probability of such a mean, where the columns are symmetric about 0.

    Given their sizes the signs are fair coins, so that z = Σd/√(Σd²) has
    P(\\|z\\| ≥ t) ≤ 2·exp(−t²/2) for any n and any tails. Hoeffding (1963), Theorem 2.

    Parameters
    ----------
    differences : ndarray of shape (n, k)
        Independent rows.

    Returns
    -------
    ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators.exchangeability import symmetry_pvalues
    >>> symmetry_pvalues(np.array([[1.0, 1.0], [1.0, -1.0]])).round(3).tolist()
    [0.736, 1.0]
    """
    sizes = np.max(np.abs(differences), axis=0)
    scaled = differences / np.where(sizes > 0, sizes, 1.0)  # squares neither overflow nor vanish
    squares = np.sum(scaled**2, axis=0)
    z_squared = np.sum(scaled, axis=0) ** 2 / np.where(squares > 0, squares, 1.0)
    return np.minimum(1.0, 2 * np.exp(-0.5 * z_squared))


def moved(
    thetas: np.ndarray, log_density: LogDensity, scale: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """One Hamiltonian Monte Carlo transition of every row, with a step size of its own.

    Parameters
    ----------
    thetas : ndarray of shape (n, d)
        Of finite log density and gradient.
    log_density : callable
        See `exchangeability`.
    scale : ndarray of shape (m,)
        Unit of length of the columns that move, the first m.
    rng : numpy.random.Generator

    Returns
    -------
    thetas : ndarray of shape (n, d)
    log_ratio : ndarray of shape (n,)
        By how much log p rose, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators.exchangeability import moved
    >>> normal = lambda x: (-0.5 * (x**2).sum(axis=1), -x)
    >>> after, rise = moved(np.zeros((3, 1)), normal, np.ones(1), np.random.default_rng(1))
    >>> bool(np.all(after != 0)), bool(np.all(rise < 0))
    (True, True)
    """
    n, m = len(thetas), len(scale)
    steps = m**-0.25 * np.exp(rng.uniform(*np.log(STEP_SIZES), size=(n, 1)))
    momenta = rng.normal(size=(n, m))
    end, end_momenta = thetas.copy(), momenta.copy()
    start_value, gradient = log_density(thetas)
    with np.errstate(over="ignore", invalid="ignore"):  # such trajectories are refused
        for _ in range(LEAPFROG_STEPS):
            end_momenta += 0.5 * steps * scale * gradient
            end[:, :m] += steps * scale * end_momenta
            value, gradient = log_density(end)
            end_momenta += 0.5 * steps * scale * gradient
        log_ratio = value - start_value
        kinetic = 0.5 * np.sum(momenta**2 - end_momenta**2, axis=1)
        accepted = np.log(rng.random(n)) < log_ratio + kinetic
    return np.where(accepted[:, None], end, thetas), np.where(accepted, log_ratio, 0.0)


def _interquartile_range(values: np.ndarray) -> np.ndarray:
    """By column; 1 where it is 0."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)


def _functions(thetas: np.ndarray, learning: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Bounded functions of every element, for its location and for its spread."""
    u = (thetas - np.median(learning, axis=0)) / spread
    return np.stack([np.tanh(u), 1 - 1 / (1 + u**2)])
