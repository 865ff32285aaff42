"""Convert a PyMC model to a system for simulated tempering, for any engine."""

import numpy as np

from pymc_bdmc.base.types import Point
from pymc_bdmc.density.tempered import TemperedDensity


class ModelSystem:
    """Part of a system that is common to all engines: prior draws.

    Parameters
    ----------
    density : TemperedDensity
    description : str
        The kernels and their variables, in the order of application.

    Attributes
    ----------
    trials : list of int
        Numbers of prior draws until one had ℓ > −∞, for each requested draw.
    """

    def __init__(self, density: TemperedDensity, description: str):
        self._density, self.description = density, description
        self.trials: list[int] = []

    def _prior_points(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        drawn = [self._density.draw_prior(each) for each in rng.spawn(chains)]
        self.trials += [trials for _, trials in drawn]
        return [point for point, _ in drawn]
