"""Compute exact partition functions of finite periodic lattices."""

from itertools import product

import numpy as np
from scipy.special import gammaln

_MAX_ROW_STATES = 2_000_000
_MAX_STATES = 2_000_000
_ROUNDING_K = 100.0


def kaufman_log_z(side: int, interaction: float) -> float:
    """Compute the log partition function of the periodic Ising model (Kaufman 1949).

    Parameters
    ----------
    side : int
        Side of the lattice, at least 2.
    interaction : float
        K = β J ≥ 0.

    Returns
    -------
    float
        log Σ exp(K Σ s_i s_j), nats.

    Raises
    ------
    ValueError
        For a side below 2 or a negative interaction.

    Notes
    -----
    Let cosh γ_r = cosh²(2K)/sinh(2K) − cos(πr/n) for r ≥ 1, and γ_0 = 2K + ln tanh K, which is
    negative above the critical temperature. Then

        Z = ½ (2 sinh 2K)^(n²/2) [Π 2cosh(nγ_{2r+1}/2) + Π 2sinh(nγ_{2r+1}/2)
                                  + Π 2cosh(nγ_{2r}/2) + Π 2sinh(nγ_{2r}/2)].

    Products are taken as sums of logarithms, so neither a large n nor a large K overflows.

    Examples
    --------
    >>> from pymc_bdmc.lattice import kaufman_log_z
    >>> round(kaufman_log_z(4, 1.0) - 16 * 0.6931471805599453, 7)
    21.6083665
    """
    if side < 2:
        raise ValueError(f"side: must be at least 2, got {side!r}.")
    if not 0 <= interaction < np.inf:
        raise ValueError(f"interaction: must not be negative, got {interaction!r}.")
    if interaction == 0:
        return side**2 * np.log(2)
    double = 2 * interaction
    angles = np.arange(2 * side)
    if interaction > _ROUNDING_K:  # the terms left out are below rounding, exp(−4K)
        gamma = np.full(2 * side, double)
        log_prefactor = double
    else:
        sinh = np.sinh(double)
        gamma = np.arccosh(sinh + 1 / sinh - np.cos(np.pi * angles / side))
        log_prefactor = np.log(2 * sinh)
    gamma[0] = double + np.log(np.tanh(interaction))
    terms, signs = [], []
    for part in (gamma[1::2], gamma[0::2]):
        x = side * np.abs(part) / 2
        with np.errstate(divide="ignore"):  # at the critical point γ_0 may be zero
            terms += [np.sum(x + np.log1p(np.exp(-2 * x))), np.sum(x + np.log(-np.expm1(-2 * x)))]
        signs += [1.0, np.prod(np.sign(part))]
    largest = max(terms)
    bracket = largest + np.log(np.dot(signs, np.exp(np.subtract(terms, largest))))
    return float(side**2 / 2 * log_prefactor + bracket - np.log(2))


def transfer_matrix_log_z(side: int, n_colours: int, interaction: float) -> float:
    """Compute the log partition function of a small periodic Potts model.

    The result is the log of the trace of T^side. The transfer matrix T is applied to the q^side
    states of a row site by site and is never stored. The diagonal of T^side is computed from one
    start per partition of a row into colours, rather than one per state.

    Parameters
    ----------
    side, n_colours : int
        Side and number of colours q; q^side must not exceed two million.
    interaction : float
        K = β J ≥ 0.

    Returns
    -------
    float
        log Σ exp(K Σ δ(s_i, s_j)), nats.

    Raises
    ------
    ValueError
        If the lattice is too large.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.lattice import transfer_matrix_log_z
    >>> round(float(np.exp(transfer_matrix_log_z(2, n_colours=3, interaction=0.0))))
    81
    """
    if n_colours**side > _MAX_ROW_STATES:
        raise ValueError(
            f"L: the transfer matrix of L = {side}, q = {n_colours} acts on {n_colours}^{side} "
            f"states, more than {_MAX_ROW_STATES}. Use a smaller lattice, or `anneal`."
        )
    shape = (n_colours,) * side
    rows = np.indices(shape, dtype=np.int16)
    broken = sum((rows[i] != rows[i - 1]).astype(np.int64) for i in range(side))
    within = np.exp(-interaction * broken)  # relative to all bonds satisfied, so no overflow
    between = np.exp(-interaction)
    total = 0.0
    for row in product(range(min(side, n_colours)), repeat=side):
        if not _first_come_first_numbered(row):
            continue
        vector = np.zeros(shape)
        vector[row] = 1.0
        for _ in range(side):
            for axis in range(side):
                vector = (1 - between) * vector + between * vector.sum(axis, keepdims=True)
            vector *= within
        used = max(row) + 1
        renamings = np.exp(gammaln(n_colours + 1) - gammaln(n_colours - used + 1))
        total += renamings * vector[row]
    return float(2 * side**2 * interaction + np.log(total))


def _first_come_first_numbered(row: tuple[int, ...]) -> bool:
    """Return whether new colours appear in order, as they do in one row of each partition."""
    return all(colour <= max(row[:i], default=-1) + 1 for i, colour in enumerate(row))


def density_of_states(side: int, n_colours: int) -> np.ndarray:
    """Count states by their number of satisfied bonds, by listing all states.

    Parameters
    ----------
    side, n_colours : int
        Side and number of colours q. There may be at most two million states, q^(side²).

    Returns
    -------
    ndarray of int, shape (2 side² + 1,)

    Raises
    ------
    ValueError
        If there are too many states.

    Examples
    --------
    >>> from pymc_bdmc.lattice import density_of_states
    >>> density_of_states(2, n_colours=2).tolist()  # ferro- and antiferromagnet at the ends
    [2, 0, 0, 0, 12, 0, 0, 0, 2]
    """
    n_sites = side**2
    if n_colours**n_sites > _MAX_STATES:
        raise ValueError(
            f"L: {n_colours}^{n_sites} states cannot be listed; at most {_MAX_STATES} can."
        )
    states = np.indices((n_colours,) * n_sites, dtype=np.int16).reshape(side, side, -1)
    satisfied = sum((states == np.roll(states, 1, axis)).sum(axis=(0, 1)) for axis in (0, 1))
    return np.bincount(satisfied, minlength=2 * n_sites + 1)
