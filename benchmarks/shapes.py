"""Densities that are hard to integrate and whose log ML is known: shells, an eggbox, a spike."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pymc as pm
from paths import funnel, funnel_log_ml
from scipy import integrate
from scipy.special import gammaln

from tests.systems import SpikeAndSlab

__all__ = ["LOG_ML", "SHAPES"]

CENTRE, RADIUS, WIDTH, EDGE = 3.5, 2.0, 0.1, 6.0
CORRELATION, SD, BOX = 0.8, 0.5, 5.0


def shells(dimension: int) -> pm.Model:
    """Two Gaussian shells side by side in a box (Feroz and Hobson 2008)."""
    with pm.Model() as model:
        x = pm.Uniform("x", -EDGE, EDGE, shape=dimension)
        centre = np.zeros(dimension)
        centre[0] = CENTRE
        shell = [
            -0.5 * ((pm.math.sqrt(pm.math.sum((x - at) ** 2)) - RADIUS) / WIDTH) ** 2
            for at in (-centre, centre)
        ]
        norm = 0.5 * np.log(2 * np.pi * WIDTH**2)
        pm.Potential("shells", pm.math.logaddexp(*shell) - norm)
    return model


def shells_log_ml(dimension: int) -> float:
    """Quadrature over the radius, from centres that a shell's radius separates from the edge."""
    area = np.log(2) + dimension / 2 * np.log(np.pi) - gammaln(dimension / 2)
    radial = integrate.quad(
        lambda r: np.exp(-0.5 * ((r - RADIUS) / WIDTH) ** 2) * r ** (dimension - 1), 1, 3
    )[0]
    return float(
        np.log(2 * radial / WIDTH) + area - np.log(2 * np.pi) / 2 - dimension * np.log(2 * EDGE)
    )


def eggbox() -> pm.Model:
    """Two dimensions and 18 equal modes, ten of them on the edge (Feroz and Hobson 2008)."""
    with pm.Model() as model:
        x = pm.Uniform("x", 0, 10 * np.pi, shape=2)
        pm.Potential("eggs", (2 + pm.math.prod(pm.math.cos(x / 2))) ** 5)
    return model


def eggbox_log_ml() -> float:
    """The mean over whole periods, by the midpoint rule, whose error falls geometrically."""
    cosines = np.cos((np.arange(2000) + 0.5) * np.pi / 2000)
    values = (2 + np.outer(cosines, cosines)) ** 5
    return float(np.log(np.mean(np.exp(values - 243.0))) + 243.0)


def correlated_normal() -> pm.Model:
    """Ten dimensions, all pairs correlated, ten standard deviations to the walls of the box."""
    covariance = SD**2 * ((1 - CORRELATION) * np.eye(10) + CORRELATION)
    normal = pm.MvNormal.dist(np.zeros(10), cov=covariance)
    with pm.Model() as model:
        x = pm.Uniform("x", -BOX, BOX, shape=10)
        pm.Potential("normal", pm.logp(normal, x))
    return model


def correlated_normal_log_ml() -> float:
    return -10 * np.log(2 * BOX)


SHAPES: dict[str, Callable[[], pm.Model]] = {
    "shells, d = 2": partial(shells, 2),
    "shells, d = 10": partial(shells, 10),
    "eggbox": eggbox,
    "correlated normal, d = 10": correlated_normal,
    "funnel": funnel,
    "spike and slab, d = 5": SpikeAndSlab().model,
}
LOG_ML: dict[str, Callable[[], float]] = {
    "shells, d = 2": partial(shells_log_ml, 2),
    "shells, d = 10": partial(shells_log_ml, 10),
    "eggbox": eggbox_log_ml,
    "correlated normal, d = 10": correlated_normal_log_ml,
    "funnel": funnel_log_ml,
    "spike and slab, d = 5": lambda: SpikeAndSlab().log_z,
}
"""In closed form or by quadrature."""
