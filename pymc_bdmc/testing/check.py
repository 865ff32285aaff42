"""Shared parts of all checks: arguments, seed, time, densities and report."""

import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.testing.report import Report


class Check:
    """Running check.

    Parameters
    ----------
    name : str
        Name of the check.
    budget : int
        Largest cost, such as a number of transitions.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of everything random in the check.
    alpha : float, optional
        Largest probability of a false alarm; None for a deterministic check.

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
        self._name, self._started = name, time.perf_counter()

    def generator(self, purpose: Purpose = Purpose.SIMULATE) -> np.random.Generator:
        """Return a new generator for this purpose."""
        return np.random.default_rng(stream(self.entropy, purpose))

    def densities(self, *models: pm.Model, simulated: bool = True) -> list[TemperedDensity]:
        """Return the densities of models.

        Raises
        ------
        TypeError, ValueError
            If a model cannot be annealed, or cannot be simulated and ``simulated`` is true. The
            message names the variable.
        """
        plain = [checked_model(model) for model in models]
        for model in plain if simulated else []:
            check_simulable(model)
        return [TemperedDensity(model).check() for model in plain]

    def report(
        self,
        subject: str,
        cost: int,
        findings: Sequence[str],
        blind_to: Sequence[str],
        evidence: float | None = None,
        kind: Literal["e-value", "p-value"] = "p-value",
    ) -> Report:
        """Return the verdict, which an e-value decides if there is one, and else the findings.

        Parameters
        ----------
        subject, cost, findings, blind_to, kind
            See `Report`.
        evidence : float, optional
            E-value or p-value; None for a deterministic check.
        """
        evidence = float(not findings) if evidence is None else evidence
        passed = evidence < 1 / self.alpha if kind == "e-value" else not findings
        return Report(
            self._name, subject, passed, self.alpha, evidence, kind, cost,
            time.perf_counter() - self._started, self.entropy,
            () if passed else tuple(findings), tuple(blind_to),
        )  # fmt: skip
