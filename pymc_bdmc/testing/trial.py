"""Shared parts of the checks of samplers: exact draws, time, seed and verdict."""

import time
from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.model.checks import check_model, check_simulable
from pymc_bdmc.model.lending import Loan
from pymc_bdmc.testing.bets import Bets, even_chance
from pymc_bdmc.testing.features import Features
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Sampler, Subject, make_subject, name_of

__all__ = ["Trial", "check_level"]

BATCH = 10
"""Number of data sets between two looks at the e-value; any number of looks is allowed."""


def check_level(alpha: float) -> None:
    """Raise an error unless alpha is a probability.

    Raises
    ------
    ValueError
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: must lie between 0 and 1, got {alpha!r}.")


class Trial:
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
        check_level(alpha)
        check_counts(budget=budget)
        check_model(model)
        check_simulable(model)
        self._started, self._check, self._alpha = time.perf_counter(), check, alpha
        self._loan = Loan(model)
        self.density = self._loan.density
        self._entropy = entropy_of(random_seed)
        self._joint = self.density.joint()
        self._joint.seed(self._rng(Purpose.SIMULATE))
        self.rng = self._rng(Purpose.ANNEAL)
        self._budget, self._cost = budget, 0

    def _rng(self, purpose: Purpose) -> np.random.Generator:
        return np.random.default_rng(stream(self._entropy, purpose))

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
        """Return the features to compare, on scales learned from draws that are not tested."""
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
        blind_to: Sequence[str],
    ) -> Report:
        """Settle bets on data sets, one after the other, until there is a verdict.

        Parameters
        ----------
        step : Sampler
            Sampler; a pilot tunes it on the data of another draw.
        betas : ndarray of shape (T + 1,)
            The schedule.
        names : sequence of sequence of str
            Names of the groups of bettors, by block; see `Bets`.
        observe : callable
            Function that draws θ and n data sets, and returns the payoffs of the bets on them.
        cost : int
            Cost of one data set.
        noise : float
            Standard deviation of the bets on features, relative to the mean of a wave that they
            measure.
        blind_to : sequence of str
            See `Report`.
        """
        if cost > self._budget:
            raise ValueError(f"budget: one data set needs {cost}, got {self._budget}.")
        bets, title, impossible = Bets(*names), name_of(step), ""
        _, data, _ = self._joint.draw_supported()
        try:
            seed = stream(self._entropy, Purpose.PILOT)
            with np.errstate(over="ignore"):
                subject = make_subject(step, self.density, betas, data, seed)
            title = subject.title
            while bets.evidence < 1 / self._alpha and self._cost + cost <= self._budget:
                n = min(BATCH, (self._budget - self._cost) // cost)
                with np.errstate(over="ignore"):  # step methods overflow before they reject
                    bets.settle(*observe(subject, n))
                self._cost += n * cost
        except FloatingPointError as error:
            impossible = f"reached a state without a density: {error}"
        evidence = np.inf if impossible else bets.evidence
        passed = evidence < 1 / self._alpha
        self._loan.give_back()
        smallest = noise * even_chance(self._budget // cost, sum(map(len, names)), self._alpha)
        return Report(
            self._check, title, passed, self._alpha, evidence, "e-value", self._cost,
            time.perf_counter() - self._started, self._entropy,
            () if passed else (impossible,) if impossible else bets.findings(self._alpha),
            (*blind_to, self._features.too_small(smallest)),
        )  # fmt: skip
