"""Measure how much of a posterior lies next to states at which its density is NaN."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pymc.vartypes import continuous_types

from pymc_bdmc.base.types import Point
from pymc_bdmc.density.tempered import TemperedDensity

PRIOR_DRAWS, MOVES, NAMED = 1000, 4000, 20
"""Prior draws, moves from posterior states, and states at which variables are named; chosen."""
HALVINGS = 40
"""Halvings of a move that find the last state with a density; chosen."""


class Undefined(NamedTuple):
    """Variables whose log density is NaN at some states, and how frequent these are."""

    names: list[str]
    """Variables and Potentials whose log density is NaN."""
    prior: float
    """Share of the prior draws."""
    posterior: float
    """Probability that a move from a posterior state would end there; see `undefined`."""


def undefined(
    density: TemperedDensity,
    states: Mapping[str, np.ndarray],
    weights: np.ndarray,
    rng: np.random.Generator,
) -> Undefined:
    """Return where log p is NaN, on the data that the density holds.

    No posterior state has a density that is NaN, since runs reject it. So states are moved by the
    differences of two others, as in Metropolis moves by differential evolution. If the density is
    NaN at the end of a move, it is taken to be what it is at the last state on the way that has
    one. The probability that such a move is accepted is then at most the share of the posterior
    that is lost, by detailed balance.

    Parameters
    ----------
    density : TemperedDensity
    states : mapping of str to ndarray
        States of the posterior, one a row.
    weights : ndarray of shape (number of rows,)
        Their normalised weights.
    rng : numpy.random.Generator

    Returns
    -------
    Undefined

    References
    ----------
    ter Braak (2006), A Markov chain Monte Carlo version of the genetic algorithm differential
    evolution.
    """
    drawn = density.prior.draw_many(PRIOR_DRAWS, rng)
    draws: list[Point] = [
        {name: np.asarray(each[k]) for name, each in drawn.items()} for k in range(PRIOR_DRAWS)
    ]
    with np.errstate(all="ignore"):
        lost = [each for each in draws if _is_finite(each) and density.is_undefined(each)]
        share, n_prior = 0.0, len(lost)
        moving = {v.name for v in density.model.value_vars if v.dtype in continuous_types}
        for place, plus, minus in rng.choice(len(weights), (MOVES, 3), p=weights):
            state = {name: np.asarray(each[place]) for name, each in states.items()}
            step = {name: states[name][plus] - states[name][minus] for name in moving}
            end = _moved(state, step, 1.0)
            if density.is_undefined(end):
                share += np.exp(min(_height_at_the_edge(density, state, step), 0.0)) / MOVES
                lost.append(end)
        names = [
            name
            for each in lost[:NAMED] + lost[-NAMED:]
            for name, value in density.factors(each)
            if np.isnan(value).any()
        ]
    return Undefined(list(dict.fromkeys(names)), n_prior / PRIOR_DRAWS, float(share))


def _is_finite(point: Point) -> bool:
    """Return whether a prior draw lies in the support of the transforms."""
    return all(np.isfinite(value).all() for value in point.values())


def _moved(state: Point, step: Point, size: float) -> Point:
    """Return the state after part of a step in the continuous variables."""
    moved = {name: np.asarray(state[name] + size * each) for name, each in step.items()}
    return {**state, **moved}


def _height_at_the_edge(density: TemperedDensity, state: Point, step: Point) -> float:
    """Return log p + ℓ at the last state of a step that has a density, less its value before."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if density.is_undefined(_moved(state, step, middle)):
            high = middle
        else:
            low = middle
    try:
        return density.log_joint(_moved(state, step, low)) - density.log_joint(state)
    except FloatingPointError:  # +∞
        return np.inf
