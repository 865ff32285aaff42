"""Evaluate the density of a model at many states of the unconstrained scale."""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from pymc_bdmc.density.approximation import Layout
from pymc_bdmc.density.compiled import NotJittable
from pymc_bdmc.density.tempered import TemperedDensity


class Unconstrained:
    """log p(θ, y) of rows θ, with the Jacobians of transforms, by the fastest functions there are.

    Parameters
    ----------
    density : TemperedDensity
    """

    def __init__(self, density: TemperedDensity):
        self.layout, self._density = Layout(density), density
        with suppress(NotJittable):  # else PyTensor evaluates the density, more slowly
            _ = density.jitted.without_gradient

    def rows(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return θ of values of the free variables on the model's own scale, one draw a row.

        Elements are infinite or NaN at the edge of the support.
        """
        points = [
            self._density.unconstrain(dict(zip(values, each, strict=True)))
            for each in zip(*values.values(), strict=True)
        ]
        return np.array([np.concatenate([v.ravel() for v in p.values()]) for p in points])

    def log_joint(self, theta: np.ndarray) -> np.ndarray:
        """Return log p(θ, y) of rows in nats, NaN for rows that are not finite."""
        found = np.full(len(theta), np.nan)
        finite = np.flatnonzero(np.isfinite(theta).all(axis=1))
        points = self.layout.unravel(theta[finite])
        for row, place in enumerate(finite):
            found[place] = self._density.log_joint({k: v[row] for k, v in points.items()})
        return found
