"""Check the gradient of a model's log density."""

import time

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.model.checks import check_model
from pymc_bdmc.model.lending import Loan
from pymc_bdmc.testing.report import Report, exact_report
from pymc_bdmc.testing.subjects import Target

__all__ = ["check_gradient"]

STEP = 1e-4
TOLERANCE = 1e-5
"""Largest relative error of the gradient, in addition to the error of the differences."""
BLIND_TO = ("a log density that is wrong itself", "places where prior draws do not come")


def check_gradient(model: pm.Model, *, budget: int = 20, random_seed: RandomSeed = None) -> Report:
    """Compare the gradient that step methods use with differences of the log density.

    The points are draws from the prior. PyMC and PyTensor test their own gradients; this check is
    for your own operations and `pymc.CustomDist`.

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
        Report with evidence 0 if a derivative is wrong, else 1; only the points are random.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", 0, pm.HalfNormal("sigma"), observed=[0.3, -1.2])
    >>> bdmc.testing.check_gradient(model, random_seed=1).passed
    True
    """
    check_counts(budget=budget)
    check_model(model)
    started, entropy = time.perf_counter(), entropy_of(random_seed)
    loan = Loan(model)
    density, rng = loan.density, np.random.default_rng(stream(entropy, Purpose.SIMULATE))
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
    loan.give_back()
    findings = [f"{element}: {what}" for element, what in wrong.items()]
    return exact_report("check_gradient", "log p", findings, budget, started, entropy, BLIND_TO)


def _slope(target: Target, point: Point, name: str, place: tuple[int, ...], step: float) -> float:
    """Return the central difference with respect to one element."""
    ends = []
    for sign in (1, -1):
        moved = np.array(point[name])
        moved[place] += sign * step
        ends.append(target({**point, name: moved}))
    return (ends[0] - ends[1]) / (2 * step)
