"""The annealing loop: one for both directions, whatever the kernel is."""

from collections.abc import Callable

import numpy as np

from pymc_bdmc.types import Chain, Direction, Kernel, Move, Point

__all__ = ["anneal"]


def anneal(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    betas: np.ndarray,
    start: Point,
    direction: Direction,
) -> Chain:
    r"""Run one chain along β and return its log weight.

    Forward, θ_0 comes from the prior and θ_t ~ K_t(·|θ_{t−1}). In reverse, θ_T comes from the
    posterior and θ_{t−1} ~ K_t†(·|θ_t), with ``kernel`` the reversal. Either way

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1}),

    so E_f[w] = Z and E_r[1/w] = 1/Z (Neal 2001; Grosse, Ghahramani and Adams 2015, Eqs 3 and 8).

    Parameters
    ----------
    kernel : Kernel
        K_t forward, K_t† in reverse; already reset to the chain's stream.
    log_likelihood : callable
        ℓ of a point, nats.
    betas : ndarray of shape (T + 1,)
        The schedule.
    start : Point
        θ_0 or θ_T.
    direction : Direction
        Which of the two.

    Returns
    -------
    Chain
        Log weight and what happened along β.

    Examples
    --------
    With a single temperature the weight is importance sampling from the prior:

    >>> import numpy as np
    >>> from pymc_bdmc.annealing import anneal
    >>> from pymc_bdmc.types import Direction, Move
    >>> class Stay:
    ...     def step(self, t, point):
    ...         return point, Move(1.0, False, 0)
    >>> start = dict(x=np.array(2.0))
    >>> chain = anneal(Stay(), lambda p: -float(p["x"]), np.array([0, 1]), start, Direction.FORWARD)
    >>> chain.log_weight
    -2.0
    """
    n_temperatures = len(betas) - 1
    path = np.empty(n_temperatures + 1)
    moves: dict[int, Move] = {}
    point = start
    path[direction.start(n_temperatures)] = log_likelihood(point)
    for t, arrival in direction.moves(n_temperatures):
        point, moves[t] = kernel.step(t, point)
        path[arrival] = log_likelihood(point)
    reports = [moves[t] for t in range(1, n_temperatures + 1)]
    acceptance = np.array([np.atleast_1d(move.acceptance) for move in reports])
    return Chain(
        float(np.diff(betas) @ path[:-1]),
        path,
        np.pad(acceptance, ((1, 0), (0, 0)), constant_values=np.nan),
        np.array([False, *(move.diverging for move in reports)]),
        sum(move.gradient_evaluations for move in reports),
        point,
    )
