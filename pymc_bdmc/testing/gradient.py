"""Check the gradient of a model's log density."""

import numpy as np
import pymc as pm

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Target

STEP = 1e-4
TOLERANCE = 1e-5
"""Largest relative error of the gradient, in addition to the error of the differences."""
BLIND_TO = ("a log density that is wrong itself", "places where prior draws do not come")


def check_gradient(model: pm.Model, *, budget: int = 20, random_seed: RandomSeed = None) -> Report:
    """Compare the gradient that step methods use with differences of the log density.

    The points are draws from the prior. PyMC and PyTensor test their own gradients, so this check
    is for your own operations and for `pymc.CustomDist`.

    Parameters
    ----------
    model : pymc.Model
    budget : int, default 20
        Number of points.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the points.

    Returns
    -------
    Report
        Report with evidence 0 if a derivative is wrong and 1 otherwise. Only the points are random.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", 0, pm.HalfNormal("sigma"), observed=[0.3, -1.2])
    >>> bdmc.testing.check_gradient(model, random_seed=1).passed
    True
    """
    check = Check("check_gradient", budget, random_seed)
    (density,), rng = check.densities(model, simulated=False), check.generator()
    wrong: dict[str, str] = {}
    target = Target(density)
    for _ in range(budget):
        point, _ = density.draw_prior(rng)
        for name, gradient in target.gradient(point).items():
            for place in np.ndindex(gradient.shape):
                fine, coarse = (_slope(target, point, name, place, h) for h in (STEP, 2 * STEP))
                doubt = abs(fine - coarse) + TOLERANCE * (1 + abs(fine))
                if not abs(gradient[place] - fine) <= doubt:
                    wrong.setdefault(
                        density.titles[name] + (str(list(place)) if place else ""),
                        f"the gradient is {gradient[place]:.6g}, differences give {fine:.6g}",
                    )
    findings = [f"{element}: {what}" for element, what in wrong.items()]
    return check.report("log p", budget, findings, BLIND_TO)


def _slope(target: Target, point: Point, name: str, place: tuple[int, ...], step: float) -> float:
    """Return the central difference with respect to one element."""
    change = np.zeros_like(point[name])
    change[place] = step
    above, below = (target({**point, name: point[name] + sign * change}) for sign in (1, -1))
    return (above - below) / (2 * step)
