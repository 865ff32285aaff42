"""Compare prior draws, supports and undefined states of models with their densities."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_bdmc.base import logger
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.draws import shape_of
from pymc_bdmc.density.identity import structure
from pymc_bdmc.density.refuse import angles, explain_atoms
from pymc_bdmc.density.structure import unknown_family
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators.exchangeability import LEARNING, LogDensity, exchangeability

_log = logger(__name__)

FALSE_ALARMS = 1e-3
"""Largest probability of a warning for a model with right draws."""
DRAWS = LEARNING + 512
"""Prior draws that `check_prior` compares with the density."""
MOVES = 4000
"""Moves from posterior states by which `undefined` looks for NaN and +∞; chosen."""


def different_variables(old: pm.Model, new: pm.Model) -> str:
    """Say which free variables differ in name, shape, type or transform; empty if none does.

    Bounds count if a transform sets them, such as ``Interval(0, 1)``. For bounds from the
    distribution, `support_beyond` is the test.
    """
    for model in (old, new):
        for rv in model.free_RVs:
            if family := unknown_family(rv, model):
                return f"the density of {rv.name}, a {family}, need not integrate to 1"
    first, second = ({rv.name: rv for rv in model.free_RVs} for model in (old, new))
    if other := sorted(first.keys() ^ second.keys()):
        return f"the free variables {other} are in one of the models only"
    for name in first:
        kinds = [
            (shape_of(rv), rv.dtype, _computation(rv, model.rvs_to_transforms[rv]))
            for model, rv in ((old, first[name]), (new, second[name]))
        ]
        if kinds[0] != kinds[1]:
            return f"{name} has another shape, type or transform"
    return ""


def _computation(rv: Variable, transform: Transform | None) -> tuple:
    """Return what a transform computes, with the parameters of the distribution left open."""
    if transform is None:
        return ()
    value, parameters = rv.type(), [_placeholder(each) for each in rv.owner.inputs]
    computed = transform.forward(value, *parameters)
    used = set(ancestors([computed]))
    return structure([value, *(each for each in parameters if each in used)], [computed])


def _placeholder(parameter: Variable) -> Variable:
    """Return a variable for a parameter, of one type whether its constant is 1 or 1.5."""
    if isinstance(parameter.type, TensorType):
        return pt.tensor(dtype="float64", shape=(None,) * parameter.type.ndim)
    return parameter.type()


def support_beyond(old: TemperedDensity, new: TemperedDensity, rng: np.random.Generator) -> str:
    """Say where the new model has support that the old one lacks; empty if nowhere that was tested.

    Tested are draws from the prior of the new model, and such draws with one variable moved to the
    edges of its support. A state is beyond the old support if it has no density there, or no
    unconstrained value under the old transforms.
    """
    names = [rv.name for rv in new.model.free_RVs]
    points = _test_points(new, rng)
    if not len(next(iter(points.values()))):
        return "none of 500 prior draws lies in its support, which cannot be tested then"
    free = new.constrain(points)
    values = {name: free[name] for name in names}
    possible = np.isfinite(new.joint_density(values))
    impossible = ~np.isfinite(old.joint_density(values)) | ~_is_inside(old, values)
    beyond = np.flatnonzero(possible & impossible)
    if not beyond.size:
        return ""
    state = ", ".join(
        f"{name} = {np.array2string(values[name][beyond[0]], threshold=6, precision=4)}"
        for name in names
    )
    return f"the support grows: {state} is possible here, and impossible in the model of the runs"


def _test_points(density: TemperedDensity, rng: np.random.Generator) -> Point:
    """Return unconstrained prior draws, and some with one variable at the edges of its support."""
    drawn = density.prior.draw_many(500, rng)
    inside = _supported(drawn)
    drawn = {name: value[inside] for name, value in drawn.items()}
    if not inside.any():
        return drawn
    parts = [drawn]
    for name, value in drawn.items():
        is_continuous = value.dtype in continuous_types
        # An element of a discrete variable is moved by every distance up to 100.
        distances = np.arange(-100, 101)
        n = 50 if is_continuous else len(distances)
        some = {each: v[np.arange(n) % len(v)] for each, v in drawn.items()}
        moved = some[name].reshape(n, -1)
        if is_continuous:
            # At ± 20, a bounded variable is within 2e-9 of its range from a bound.
            moved = 20.0 * rng.choice([-1.0, 1.0], size=moved.shape)
        elif moved.size:
            elements = rng.integers(moved.shape[1], size=n)
            moved[np.arange(n), elements] += distances.astype(value.dtype)
        parts.append(some | {name: moved.reshape(some[name].shape).astype(value.dtype)})
    return {name: np.concatenate([part[name] for part in parts]) for name in drawn}


def _supported(drawn: Point) -> np.ndarray:
    """Return which prior draws, one a row, lie in the support of the transforms."""
    finite = [np.isfinite(each.reshape(len(each), -1)).all(axis=1) for each in drawn.values()]
    return np.all(finite, axis=0)


def _is_inside(density: TemperedDensity, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return whether states on the model's own scale have unconstrained values, row by row."""
    rows = (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
    states = map(density.unconstrain, rows)  # infinite at the edge, by rounding
    return np.array([not any(np.isnan(v).any() for v in state.values()) for state in states])


class Undefined(NamedTuple):
    """Variables whose log density is NaN or +∞ at some states, and how frequent these are."""

    names: list[str]
    prior: float
    """Share of the prior draws."""
    error: str
    """An exception that the density raises there, in a line; empty if none."""
    posterior: float
    """Probability that a move from a posterior state would end there; see `undefined`."""


def undefined(
    density: TemperedDensity,
    states: Mapping[str, np.ndarray],
    weights: np.ndarray,
    rng: np.random.Generator,
) -> Undefined:
    """Return where log p is NaN or +∞ on the real data, from weighted posterior states, one a row.

    No posterior state has such a density, since runs reject it. So states are moved by the
    differences of two others, as in Metropolis moves by differential evolution (ter Braak, 2006, A
    Markov chain Monte Carlo version of the genetic algorithm differential evolution). If the
    density is so at the end of a move, it is taken to be what it is at the last state on the way
    that has one. The probability that such a move is accepted is then at most the share of the
    posterior that is lost, by detailed balance.
    """
    n, data = 1000, density.data
    drawn = density.draw_priors(n, rng, data)
    draws: list[Point] = [
        {name: np.asarray(each[k]) for name, each in drawn.items()}
        for k in np.flatnonzero(_supported(drawn))
    ]
    with np.errstate(all="ignore"):
        lost = [each for each in draws if density.is_undefined(each, data)]
        share, n_prior = 0.0, len(lost)
        moving = {v.name for v in density.model.value_vars if v.dtype in continuous_types}
        for place, plus, minus in rng.choice(len(weights), (MOVES, 3), p=weights):
            state = {name: np.asarray(each[place]) for name, each in states.items()}
            step = {name: states[name][plus] - states[name][minus] for name in moving}
            end = _moved(state, step, 1.0)
            if density.is_undefined(end, data):
                share += np.exp(min(_height_at_the_edge(density, state, step), 0.0)) / MOVES
                lost.append(end)
        lost = lost[:20] + lost[-20:]
        names = [
            name
            for each in lost
            for name, value in density.factors(each, data)
            if not (value < np.inf).all()
        ]
        error = next(filter(None, (density.error_at(each, data) for each in lost)), "")
    return Undefined(list(dict.fromkeys(names)), n_prior / n, error, float(share))


def _moved(state: Point, step: Point, size: float) -> Point:
    """Return the state after part of a step in the continuous variables."""
    moved = {name: np.asarray(state[name] + size * each) for name, each in step.items()}
    return {**state, **moved}


def _height_at_the_edge(density: TemperedDensity, state: Point, step: Point) -> float:
    """Return log p + ℓ at the last state of a step that has a density, less its value before."""
    low, high = 0.0, 1.0
    for _ in range(40):  # halvings of the step
        middle = (low + high) / 2
        if density.is_undefined(_moved(state, step, middle), density.data):
            high = middle
        else:
            low = middle
    last = density.log_joint(_moved(state, step, low), density.data)
    return last - density.log_joint(state, density.data)


def check_prior(density: TemperedDensity, jitted: JittedDensity | None = None) -> None:
    """Raise an error for repeated values; warn if prior draws and density disagree.

    A separate random stream gives a model the same result always. The density compiled with its
    gradient gives the check more power.
    """
    rng = np.random.default_rng(0)
    draws = density.prior.draw_many(DRAWS, rng)
    for name in repeated_elements(density, draws):
        raise ValueError(explain_atoms(name, "its prior draws repeat a value"))
    names = suspicious_variables(density, draws, rng, jitted)
    if names:
        _log.warning(
            f"Prior draws of {', '.join(names)} disagree with the log density (false-alarm rate "
            f"{FALSE_ALARMS:g}): the results are wrong. Compare draws and density of "
            f"{names[0]} first; a wrong variable affects those that depend on it."
        )


def repeated_elements(density: TemperedDensity, draws: dict[str, np.ndarray]) -> Iterator[str]:
    """Yield the names of continuous variables with an element that repeats a value."""
    for value in density.model.value_vars:
        rows = draws[value.name].reshape(len(draws[value.name]), -1)
        if value.dtype in continuous_types and any(map(repeats, rows.T)):
            yield density.model.values_to_rvs[value].name


def repeats(values: np.ndarray) -> bool:
    """Return whether too many values are equal for a continuous variable."""
    finite = values[np.isfinite(values)]
    return len(finite) - len(np.unique(finite)) > 2  # ties occur in float32


def suspicious_variables(
    density: TemperedDensity,
    draws: dict[str, np.ndarray],
    rng: np.random.Generator,
    jitted: JittedDensity | None = None,
) -> list[str]:
    """Return the continuous variables whose draws fail `exchangeability`; all if log p does.

    Draws outside the support that transforms impose are left out, as in `draw_supported`.
    """
    flat = density.jitted
    groups = {
        title: flat.parts[name] for name, title in flat.titles.items() if title in flat.names[0]
    }
    if not flat.n_continuous:
        return []
    thetas = flat.ravel_many(draws)
    log_density = _with_gradient(density, jitted) if jitted else _values(density)
    if circles := [groups[rv.name] for rv in angles(density.model)]:
        log_density = _in_one_period(log_density, np.r_[*circles])
    usable = (np.abs(thetas) < 1e150).all(axis=1)  # squares of larger ones overflow
    pvalues = exchangeability(thetas[usable], log_density, groups, rng)
    failed = [name for name in groups if pvalues.get(name, 1.0) < FALSE_ALARMS]
    return failed or (list(groups) if pvalues.get("", 1.0) < FALSE_ALARMS else [])


def _in_one_period(log_density: LogDensity, angles: np.ndarray) -> LogDensity:
    """Return the log density with −∞ where one of some elements is not in (−π, π)."""

    def restricted(thetas):
        values, gradients = log_density(thetas)
        return np.where((np.abs(thetas[:, angles]) > np.pi).any(axis=1), -np.inf, values), gradients

    return restricted


def _with_gradient(density: TemperedDensity, jitted: JittedDensity) -> LogDensity:
    data, interval = jitted.ravel_data(density.data), np.array([0.0, 1.0])

    def log_density(thetas):
        values, gradients = np.empty(len(thetas)), np.empty((len(thetas), jitted.n_continuous))
        rows = np.ascontiguousarray(thetas)
        _fill(jitted.with_gradient, rows, data, interval, values, gradients)
        return values, gradients

    return log_density


@njit(cache=True)
def _fill(function, thetas, data, interval, values, gradients):
    """Write the log prior and its gradient at every row."""
    unused = np.empty(gradients.shape[1])
    for j in range(len(thetas)):
        values[j], _ = function(thetas[j], data, interval, gradients[j], unused)


def _values(density: TemperedDensity) -> LogDensity:
    data = density.present_data

    def log_prior(theta):
        try:
            return density.log_prior(density.jitted.unravel(theta), data)
        except (ValueError, ArithmeticError):  # a move may leave a parameter's domain
            return np.nan

    return lambda thetas: (np.array([log_prior(theta) for theta in thetas], float), None)
