"""What the checks of samplers share: exact draws of parameters and data, and settled bets."""

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

__all__ = ["Trial"]

SLOW_MIXING = "slow mixing: a sampler that never moves passes"

BATCH = 10
"""Data sets between two looks at the e-value; Ville's inequality allows for any number of looks."""


class Trial(Check):
    """A check of a sampler on a model while it goes on.

    Parameters
    ----------
    check : str
        Name of the check.
    model : pymc.Model
        With observed variables, which are simulated.
    alpha, budget, random_seed
        See the checks.

    Attributes
    ----------
    density : TemperedDensity
        It holds the data of the last draw.
    rng : numpy.random.Generator
        Of the subject.
    """

    def __init__(
        self, check: str, model: pm.Model, alpha: float, budget: int, random_seed: RandomSeed
    ):
        super().__init__(check, budget, random_seed, alpha)
        (self.density,) = self.borrow(model)
        self._joint = self.density.joint()
        self._joint.seed(self.generator())
        self.rng = self.generator(Purpose.ANNEAL)

    def draw(self) -> Point:
        """Exact posterior sample θ for data that the density holds from now on."""
        point, data, _ = self._joint.draw_supported()
        self.density.set_data(data)
        return point

    def renew_data(self, point: Point) -> None:
        """Give the density new data, drawn given θ."""
        free = [rv.name for rv in self.density.model.free_RVs]
        rows = {name: value[None] for name, value in point.items()}
        constrained = self.density.constrain(rows)
        simulator = self.density.joint(given=free)
        simulator.seed(self.rng)
        self.density.set_data(simulator.draw(*(constrained[name][0] for name in free))[1])

    def features(self, *, data: bool = False) -> Features:
        """What is compared, on scales learned from draws that are not tested."""
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
        """Settle bets on one data set after the other, until there is a verdict.

        Parameters
        ----------
        step : Sampler
            A pilot tunes it on data of another draw.
        betas : ndarray of shape (T + 1,)
            The schedule.
        names : sequence of sequence of str
            Of the groups of bettors, by block; see `Bets`.
        observe : callable
            Draws θ and so many data sets, and returns what the bets on them pay together.
        cost : int
            Of one data set.
        noise : float
            Standard deviation of the bets on features, by what they win of a wave's mean.
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
                with np.errstate(over="ignore"):  # of step methods, before they reject
                    bets.settle(*observe(subject, n))
                spent += n * cost
        except FloatingPointError as error:
            impossible = f"came to a state that has no density: {error}"
        smallest = noise * even_chance(self.budget // cost, sum(map(len, names)), self.alpha)
        return self.report(
            title, spent, [impossible] if impossible else bets.findings(self.alpha),
            [*blind_to, self._features.too_small(smallest)],
            np.inf if impossible else bets.evidence, "e-value",
        )  # fmt: skip
