"""Check that states of one model are states of another, before runs are reweighed to it."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType

from pymc_bdmc.base.types import Point
from pymc_bdmc.density.families import unknown_family
from pymc_bdmc.density.identity import structure
from pymc_bdmc.density.joint import log_joint_of
from pymc_bdmc.density.posterior import shape_of
from pymc_bdmc.density.tempered import TemperedDensity

DRAWS = 500
"""Prior draws that are tested."""
EXTREME_DRAWS = 50
"""Prior draws of which one variable at a time is moved to the edges of its support."""
EDGE = 20.0
"""Distance from zero on the unconstrained scale that counts as an edge: a bounded variable is then
within a share of 2·10⁻⁹ of its range from a bound."""
REACH = 100
"""An element of a discrete variable is moved by every distance up to this one."""


def different_variables(old: pm.Model, new: pm.Model) -> str:
    """Say which free variables differ in name, shape, type or transform; empty if none does.

    Bounds count where a transform sets them, such as ``Interval(0, 1)``. Those that it takes from
    the distribution do not: `support_beyond` tests these.
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
    edges of its support. A state is beyond the old support if its density there is zero, or if it
    has no unconstrained value under the old transforms.

    Parameters
    ----------
    old, new : TemperedDensity
        Models with the same free variables.
    rng : numpy.random.Generator
        Generator of the draws.
    """
    names = [rv.name for rv in new.model.free_RVs]
    points = _test_points(new, rng)
    if not len(next(iter(points.values()))):
        return f"none of {DRAWS} prior draws lies in its support, which cannot be tested then"
    free = new.constrain(points)
    values = {name: free[name] for name in names}
    possible = np.isfinite(log_joint_of(new, values))
    impossible = ~np.isfinite(log_joint_of(old, values)) | ~_is_inside(old, values)
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
    drawn = density.prior.draw_many(DRAWS, rng)
    inside = np.all(
        [np.isfinite(v.reshape(len(v), -1)).all(axis=1) for v in drawn.values()], axis=0
    )
    drawn = {name: value[inside] for name, value in drawn.items()}
    if not inside.any():
        return drawn
    parts = [drawn]
    for name, value in drawn.items():
        is_continuous = value.dtype in continuous_types
        n = EXTREME_DRAWS if is_continuous else 2 * REACH + 1
        some = {each: v[np.arange(n) % len(v)] for each, v in drawn.items()}
        moved = some[name].reshape(n, -1)
        if is_continuous:
            moved = EDGE * rng.choice([-1.0, 1.0], size=moved.shape)
        elif moved.size:
            elements = rng.integers(moved.shape[1], size=n)
            moved[np.arange(n), elements] += np.arange(-REACH, REACH + 1).astype(value.dtype)
        parts.append(some | {name: moved.reshape(some[name].shape).astype(value.dtype)})
    return {name: np.concatenate([part[name] for part in parts]) for name in drawn}


def _is_inside(density: TemperedDensity, values: dict[str, np.ndarray]) -> np.ndarray:
    """Return whether states on the model's own scale have unconstrained values, row by row."""
    rows = (dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True))
    return np.array([_has_no_nan(density.unconstrain(row)) for row in rows])


def _has_no_nan(point: Point) -> bool:
    """Return whether a state is inside the support; at its edge, by rounding, it is infinite."""
    return not any(np.isnan(value).any() for value in point.values())
