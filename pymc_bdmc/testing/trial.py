"""Run a check: arguments and seed, exact draws, bets on them, and the report."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask
from pymc_bdmc.testing.bets import Bets, even_chance
from pymc_bdmc.testing.features import Features
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Sampler, Subject, make_subject, name_of


class Check:
    """Running check with a budget for its cost; ``alpha`` is None if it is deterministic.

    ``spent`` is the cost so far, and ``findings`` has the first fault of each kind that a
    deterministic check finds.

    Raises
    ------
    TypeError, ValueError
        Names the argument.
    """

    def __init__(self, name: str, budget: int, random_seed: RandomSeed, alpha: float | None = None):
        if alpha is not None and not 0 < alpha < 1:
            raise ValueError(f"alpha: must lie between 0 and 1, got {alpha!r}.")
        check_counts(budget=budget)
        self.budget, self.alpha, self.entropy = budget, alpha or 0.0, entropy_of(random_seed)
        self.spent = 0
        self.findings: dict[str, str] = {}
        self._name, self._started = name, time.perf_counter()

    def generator(self, purpose: Purpose = Purpose.SIMULATE) -> np.random.Generator:
        """Return a new generator for this purpose."""
        return np.random.default_rng(stream(self.entropy, purpose))

    def densities(self, *models: pm.Model, simulated: bool = True) -> list[TemperedDensity]:
        """Return the densities of models.

        Raises
        ------
        TypeError, ValueError
            If a model cannot be annealed, or if it is to be ``simulated`` and cannot be.
        """
        plain = [checked_model(model) for model in models]
        for model in plain if simulated else []:
            check_simulable(model)
        return [TemperedDensity(model).check() for model in plain]

    def settle(
        self, bets: Bets, observe: Callable[[int], Sequence], cost: int = 1, batch: int = 1
    ) -> None:
        """Settle bets on data sets, each at this cost, until there is a verdict.

        ``observe`` returns the payoffs on n data sets. The e-value is looked at after each batch;
        any number of looks is allowed.
        """
        while bets.evidence < 1 / self.alpha and self.spent + cost <= self.budget:
            n = min(batch, (self.budget - self.spent) // cost)
            with np.errstate(over="ignore"):  # step methods overflow before they reject
                bets.settle(*observe(n))
            self.spent += n * cost

    def report(
        self,
        subject: str,
        blind_to: Sequence[str],
        findings: Sequence[str] | None = None,
        evidence: float | None = None,
        kind: Literal["e-value", "p-value"] = "p-value",
    ) -> Report:
        """Return the verdict, which an e-value decides if there is one, and else the findings."""
        findings = list(self.findings.values()) if findings is None else findings
        evidence = float(not findings) if evidence is None else evidence
        passed = evidence < 1 / self.alpha if kind == "e-value" else not findings
        return Report(
            self._name, subject, passed, self.alpha, evidence, kind, self.spent,
            time.perf_counter() - self._started, self.entropy,
            () if passed else tuple(findings), tuple(blind_to),
        )  # fmt: skip


class Trial(Check):
    """Running check of a sampler on a model, whose observed variables are simulated.

    The attribute ``density`` has the data of the last draw, and ``rng`` is the sampler's generator.
    ``features`` are to be compared, with those of the data if ``data`` is true; their scales come
    from draws that are not tested. ``counts`` are further options, positive whole numbers.
    """

    def __init__(
        self,
        name: str,
        model: pm.Model,
        alpha: float,
        budget: int,
        random_seed: RandomSeed,
        counts: Mapping[str, int] | None = None,
        data: bool = False,
    ):
        super().__init__(name, budget, random_seed, alpha)
        check_counts(**counts or {})
        (self.density,) = self.densities(model)
        self._joint = self.density.joint()
        self._joint.seed(self.generator())
        self.rng = self.generator(Purpose.ANNEAL)
        self.features = Features(self.density, self.draw, self.rng, data)

    def draw(self) -> Point:
        """Draw θ and data jointly, and set the data in the density."""
        point, data, _ = self._joint.draw_supported()
        self.density.set_data(data)
        return point

    def renew_data(self, point: Point) -> None:
        """Set new data in the density, drawn given θ."""
        free = [rv.name for rv in self.density.model.free_RVs]
        constrained = self.density.constrain({name: x[None] for name, x in point.items()})
        simulator = self.density.joint(given=free)
        simulator.seed(self.rng)
        self.density.set_data(simulator.draw(*(constrained[name][0] for name in free))[1])

    def run(
        self,
        step: Sampler,
        betas: np.ndarray,
        names: Sequence[Sequence[str]],
        observe: Callable[[Subject, int], Sequence[np.ndarray | float]],
        cost: int,
        noise: float,
        blind_to: Sequence[str] = ("slow mixing: a sampler that never moves passes",),
    ) -> Report:
        """Settle bets on one data set after another until there is a verdict.

        A pilot tunes the sampler on the data of another draw. ``names`` are those of `Bets`, and
        ``observe`` draws θ and n data sets and returns the payoffs of the bets on them. A data set
        costs ``cost``. ``noise`` is the standard deviation of a bet on a feature, in units of the
        mean that the bet measures.
        """
        if cost > self.budget:
            raise ValueError(f"budget: one data set takes {cost}, got {self.budget}.")
        bets, title = Bets(*names), name_of(step)
        _, data, _ = self._joint.draw_supported()
        try:
            with np.errstate(over="ignore"):
                pilot = PilotTask(data, stream(self.entropy, Purpose.PILOT))
                subject = make_subject(step, self.density, betas, pilot)
            title = subject.title
            self.settle(bets, partial(observe, subject), cost, batch=10)
            findings, evidence = bets.findings(self.alpha), bets.evidence
        except FloatingPointError as error:
            findings, evidence = (f"reached a state without a density: {error}",), np.inf
        smallest = noise * even_chance(self.budget // cost, sum(map(len, names)), self.alpha)
        blind_to = [*blind_to, self.features.too_small(smallest)]
        return self.report(title, blind_to, findings, evidence, "e-value")
