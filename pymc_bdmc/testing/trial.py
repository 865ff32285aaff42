"""Shared parts of the checks of samplers: exact draws and bets."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm

from pymc_bdmc.base.streams import Purpose, RandomSeed, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.testing.bets import Bets, even_chance
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.features import Features
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Sampler, Subject, make_subject, name_of

SLOW_MIXING = "slow mixing: a sampler that never moves passes"

BATCH = 10
"""Number of data sets between two looks at the e-value. Any number of looks is allowed."""


class Trial(Check):
    """Running check of a sampler on a model.

    Parameters
    ----------
    check : str
        Name of the check.
    model : pymc.Model
        Model with observed variables, which are simulated.
    alpha, budget, random_seed
        See the checks.

    Attributes
    ----------
    density : TemperedDensity
        Density with the data of the last draw.
    rng : numpy.random.Generator
        Generator of the subject.
    """

    def __init__(
        self, check: str, model: pm.Model, alpha: float, budget: int, random_seed: RandomSeed
    ):
        super().__init__(check, budget, random_seed, alpha)
        (self.density,) = self.densities(model)
        self._joint = self.density.joint()
        self._joint.seed(self.generator())
        self.rng = self.generator(Purpose.ANNEAL)

    def draw(self) -> Point:
        """Draw θ and data jointly, and set the data in the density."""
        point, data, _ = self._joint.draw_supported()
        self.density.set_data(data)
        return point

    def renew_data(self, point: Point) -> None:
        """Set new data in the density, drawn given θ."""
        free = [rv.name for rv in self.density.model.free_RVs]
        rows = {name: value[None] for name, value in point.items()}
        constrained = self.density.constrain(rows)
        simulator = self.density.joint(given=free)
        simulator.seed(self.rng)
        self.density.set_data(simulator.draw(*(constrained[name][0] for name in free))[1])

    def features(self, *, data: bool = False) -> Features:
        """Return the features to compare, with scales from draws that are not tested."""
        self._features = Features(self.density, self.draw, self.rng, data)
        return self._features

    def hold(
        self,
        step: Sampler,
        betas: np.ndarray,
        names: Sequence[Sequence[str]],
        observe: Callable[[Subject, int], Sequence[np.ndarray | float]],
        cost: int,
        noise: float,
        blind_to: Sequence[str] = (SLOW_MIXING,),
    ) -> Report:
        """Settle bets on one data set after another until there is a verdict.

        Parameters
        ----------
        step : Sampler
            Sampler, which a pilot tunes on the data of another draw.
        betas : ndarray of shape (T + 1,)
            The schedule.
        names : sequence of sequence of str
            Names of the groups of bettors by block (see `Bets`).
        observe : callable
            Function that draws θ and n data sets, and returns the payoffs of the bets on them.
        cost : int
            Cost of one data set.
        noise : float
            Standard deviation of a bet on a feature, in units of the mean that the bet measures.
        blind_to : sequence of str
            See `Report`.
        """
        if cost > self.budget:
            raise ValueError(f"budget: one data set takes {cost}, got {self.budget}.")
        bets, title, impossible, spent = Bets(*names), name_of(step), "", 0
        _, data, _ = self._joint.draw_supported()
        try:
            seed = stream(self.entropy, Purpose.PILOT)
            with np.errstate(over="ignore"):
                subject = make_subject(step, self.density, betas, data, seed)
            title = subject.title
            while bets.evidence < 1 / self.alpha and spent + cost <= self.budget:
                n = min(BATCH, (self.budget - spent) // cost)
                with np.errstate(over="ignore"):  # step methods overflow before they reject
                    bets.settle(*observe(subject, n))
                spent += n * cost
        except FloatingPointError as error:
            impossible = f"reached a state without a density: {error}"
        smallest = noise * even_chance(self.budget // cost, sum(map(len, names)), self.alpha)
        return self.report(
            title, spent, [impossible] if impossible else bets.findings(self.alpha),
            [*blind_to, self._features.too_small(smallest)],
            np.inf if impossible else bets.evidence, "e-value",
        )  # fmt: skip
