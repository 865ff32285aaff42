"""Check that conditional densities written by hand belong to a joint density."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pymc as pm
from pymc.model.transform.conditioning import remove_value_transforms

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.report import Report

LogDensity = Callable[[Point], float]

TOLERANCE = 1e-8
BLIND_TO = (
    "draws: whether a step draws from the density that it says",
    "values between the points",
)


def check_conditionals(
    conditional_logp: LogDensity,
    joint: pm.Model | LogDensity,
    name: str,
    *,
    points: Sequence[Point] | None = None,
    budget: int = 100,
    random_seed: RandomSeed = None,
) -> Report:
    r"""Check that ``log p(x|u)``, for one variable x, agrees with ``log p(x, u)``.

    For any two values x and x′, ``p(x|u) / p(x′|u) = p(x, u) / p(x′, u)`` up to rounding, whether
    or not the densities are normalised. One pair of points shows a missing factor or a wrong sign
    (Grosse and Duvenaud 2014, Testing MCMC code, Section 3).

    Parameters
    ----------
    conditional_logp : callable
        Function from a point to log p(x|u), nats, up to a constant that may depend on u.
    joint : pymc.Model or callable
        A model, or a function from a point to log p(x, u). The points of a model map the names of
        all variables, including the observed ones, to values on the model's own scale, without
        transforms.
    name : str
        Name of x in a point.
    points : sequence of mappings, optional
        Points to compare if ``joint`` is a function. The x′ of a point is the x of the next point.
        With a model the points are drawn.
    budget : int, default 100
        Number of pairs of points that are drawn from a model. Given points are all used.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the points.

    Returns
    -------
    Report
        Report with evidence 0 if a ratio is wrong and 1 otherwise. Only the points are random.

    Raises
    ------
    ValueError
        If ``points`` are missing or superfluous or lack the name, or if log p is −∞ at all of them.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 2, 2)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    >>> def conditional(point):  # Beta(2 + y, 12 − y), not normalised
    ...     p, y = point["p"], point["y"]
    ...     return (1 + y) * np.log(p) + (11 - y) * np.log1p(-p)
    >>> bdmc.testing.check_conditionals(conditional, model, "p", random_seed=1).passed
    True
    """
    check = Check("check_conditionals", budget, random_seed)
    if isinstance(joint, pm.Model):
        if points is not None:
            raise ValueError("points: they are drawn from the model; leave them out.")
        points, joint_logp = _of_model(joint, budget + 1, check.generator())
    elif points is None:
        raise ValueError("points: they are needed if joint is a function.")
    else:
        joint_logp = joint
    if any(name not in point for point in points):
        raise ValueError(f"name: there is no {name!r} in the points, which have {list(points[0])}.")
    findings: list[str] = []
    compared = 0
    for point, following in pairwise(points):
        other = {**point, name: following[name]}
        ours, theirs = (
            np.array([density(point), density(other)]) for density in (conditional_logp, joint_logp)
        )
        if theirs[0] == -np.inf:
            continue
        compared += 1
        if theirs[1] == -np.inf == ours[1] and np.isfinite(ours[0]):
            continue
        rise, expected = np.diff(ours)[0], np.diff(theirs)[0]
        size = 1 + np.abs([*ours, *theirs]).max()
        if not abs(rise - expected) <= TOLERANCE * size and not findings:
            findings.append(
                f"from {name} = {point[name]} to {other[name]} log p({name}|…) rises by {rise:.9g},"
                f" log p of all by {expected:.9g}"
            )
    if not compared:
        raise ValueError("points: log p is −inf at all of them; pass at least two possible points.")
    return check.report(name, compared, findings, BLIND_TO)


def _of_model(model: pm.Model, n: int, rng: np.random.Generator) -> tuple[list[Point], LogDensity]:
    """Return draws of all variables on the model's own scale, and their joint log density."""
    model = checked_model(model)
    check_simulable(model)
    density = TemperedDensity(remove_value_transforms(model))
    sampler = density.joint()
    sampler.seed(rng)
    drawn = [sampler.draw_supported() for _ in range(n)]

    def joint_logp(point: Point) -> float:
        return sum(density.terms(point, {name: point[name] for name in density.data}))

    return [{**point, **data} for point, data, _ in drawn], joint_logp
