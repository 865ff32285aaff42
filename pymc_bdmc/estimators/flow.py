"""Measure how chains of simulated tempering move between temperatures."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.simulated_tempering import checked_draws, place_probabilities


@dataclass(frozen=True)
class TemperatureFlow:
    """Flow of chains between the temperatures of simulated tempering.

    Attributes
    ----------
    transition : ndarray of shape (K, K)
        Estimated probability that place k is followed by l. A row without visits is NaN.
    symmetric_difference : float
        SD, the total variation distance between the flow k → l and the flow l → k, from 0 to 1.
    relative : float
        RSD, the SD divided by the flow of all moves to another place.
    conductance : ndarray of shape (K − 1,)
        Flow across the cut between k and k + 1, averaged over both directions, as a share of the
        visits on the side with fewer visits. It is NaN if a side has none. Few chains pass the cut
        with the smallest conductance.
    """

    transition: np.ndarray
    symmetric_difference: float
    relative: float
    conductance: np.ndarray


def count_passages(places: ArrayLike, n_places: int) -> np.ndarray:
    """Count how often each chain went from one end of the temperatures to the other.

    Parameters
    ----------
    places : array_like of shape (chains, draws)
        Index of the temperature of every draw.
    n_places : int
        K.

    Returns
    -------
    ndarray of int, shape (chains,)

    Examples
    --------
    >>> from pymc_bdmc.estimators import count_passages
    >>> count_passages([[0, 1, 0, 1, 2, 1, 2, 0]], 3)
    array([2])
    """
    rows = [row[(row == 0) | (row == n_places - 1)] for row in np.asarray(places)]
    return np.array([np.count_nonzero(np.diff(row)) for row in rows])


def temperature_flow(
    log_likelihood: ArrayLike, places: ArrayLike, betas: ArrayLike, log_z: ArrayLike
) -> TemperatureFlow:
    """Estimate the transition matrix between temperatures, and whether flows are balanced.

    The flow F_kl is the sum of q(β_l | x) over the states x drawn at β_k, divided by the number of
    all draws. In equilibrium it equals r_k ∫ π_k(x) q(β_l | x) dx, which is symmetric for any
    kernel. So a difference between F and its transpose is noise, or shows chains that drift or are
    stuck. It is measured by SD = ½ Σ_kl abs(F_kl − F_lk) and RSD = SD/Σ_{k≠l} F_kl. These are this
    package's definitions of the measures in Carlson et al. (2016), Appendix G.

    Parameters
    ----------
    log_likelihood, places : array_like of shape (chains, draws)
        ℓ, nats, and the index of the temperature at which the state was drawn.
    betas, log_z : array_like of shape (K,)
        The ladder and the guess log Ẑ_k.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import temperature_flow
    >>> flow = temperature_flow(np.zeros((1, 4)), [[0, 1, 0, 1]], [0, 1], [0, 0])
    >>> flow.transition
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    ell, places = checked_draws(log_likelihood), np.asarray(places)
    K = len(np.asarray(betas))
    flow = np.zeros((K, K))
    for row, here in zip(ell, places, strict=True):
        np.add.at(flow, here, place_probabilities(row, betas, log_z))
    flow /= ell.size
    visits = flow.sum(axis=1)
    balanced = (flow + flow.T) / 2
    crossing = np.array([balanced[:k, k:].sum() for k in range(1, K)])
    below = np.cumsum(balanced.sum(axis=1))[:-1]
    difference = float(np.abs(flow - flow.T).sum() / 2)
    moving = float(flow.sum() - np.trace(flow))
    with np.errstate(invalid="ignore", divide="ignore"):
        return TemperatureFlow(
            flow / visits[:, None],
            difference,
            float(np.divide(difference, moving)),
            crossing / np.minimum(below, 1 - below),
        )
