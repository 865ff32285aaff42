"""Read, set and restart what each kind of PyMC step method adapts.

A pilot lets step methods adapt at a few temperatures; while weights accumulate, values interpolated
between these are set before every step. Values are on scales on which averages are valid.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch

import numpy as np
from pymc.step_methods.hmc.base_hmc import BaseHMC
from pymc.step_methods.hmc.quadpotential import QuadPotentialDiagAdapt
from pymc.step_methods.metropolis import (
    BinaryGibbsMetropolis,
    BinaryMetropolis,
    CategoricalGibbsMetropolis,
    DEMetropolisZ,
    Metropolis,
)
from pymc.step_methods.slicer import Slice

from pymc_bdmc.base import upstream

Values = dict[str, np.ndarray | float]


class Adaptation:
    """Access to the adapted parameters of one kind of step method; this base class has none."""

    def __init__(self, *bookkeeping: str):
        self.bookkeeping = frozenset(bookkeeping)
        """Attributes that change during sampling but affect no transition."""

    def read(self, step) -> Values:
        """Return the current values of the adapted parameters."""
        return {}

    def write(self, step, values: Values) -> None:
        """Set the adapted parameters."""

    def restart(self, step) -> None:
        """Start a new stage of adaptation from the current values."""

    def merge(self, chains: Sequence[Values]) -> Values:
        """Combine the values of independent pilot chains at one temperature."""
        return {name: np.mean([values[name] for values in chains], axis=0) for name in chains[0]}


class _Hamiltonian(Adaptation):
    """Access to the log step size and to the standard deviations of the diagonal metric."""

    def read(self, step) -> Values:
        values: Values = {"step_size": upstream.log_step_size_of(step)}
        if isinstance(step.potential, QuadPotentialDiagAdapt):  # else the metric is the user's
            values["stds"] = upstream.deviations_of(step.potential)
        return values

    def write(self, step, values) -> None:
        upstream.set_log_step_size(step, values["step_size"])
        if "stds" in values:
            upstream.set_deviations(step.potential, values["stds"])

    def restart(self, step) -> None:
        upstream.restart_step_size(step)


class _Scale(Adaptation):
    """Access to the logarithm of one positive scale; a new stage starts from other attributes."""

    def __init__(self, attribute: str, at_start: Mapping[str, float], *bookkeeping: str):
        super().__init__(*bookkeeping)
        self.attribute, self.at_start = attribute, at_start

    def read(self, step) -> Values:
        return {self.attribute: np.log(getattr(step, self.attribute))}

    def write(self, step, values) -> None:
        setattr(step, self.attribute, np.exp(values[self.attribute]))

    def restart(self, step) -> None:
        for name, value in self.at_start.items():
            setattr(step, name, value)


class _DifferentialEvolution(_Scale):
    """Access to the scale and the past states; the kernel is invariant if no state is added."""

    def read(self, step) -> Values:
        return super().read(step) | {"history": np.array(upstream.history_of(step)[-64:])}

    def write(self, step, values) -> None:
        super().write(step, values)
        upstream.set_history(step, _FixedHistory(values["history"]))

    def merge(self, chains: Sequence[Values]) -> Values:
        # Differences of averaged states would be too short, so keep those of one chain.
        return super().merge(chains) | {"history": chains[0]["history"]}


class _FixedHistory(list):
    """Fixed past states from which DEMetropolisZ draws; it cannot add to them."""

    def append(self, state):
        pass


@singledispatch
def adaptation(step) -> Adaptation:
    """Return the access to the adapted parameters of a step method.

    Register the class of your own step method to have it tuned by temperature:
    ``adaptation.register(MyStep, lambda step: MyAdaptation())``.
    """
    return Adaptation()


_OFTEN = {"tune_interval": 25, "steps_until_tune": 25}
"""Metropolis adapts every 25 steps, where PyMC waits for 100."""

for _class, _access in {
    BaseHMC: _Hamiltonian("step_size", "iter_count", "divergences", upstream.DIVERGENCES),
    Metropolis: _Scale(
        "scaling",
        _OFTEN,
        "accept_rate_iter",
        "accepted_iter",
        "accepted_sum",
        "enum_dims",
        "steps_until_tune",
    ),
    # Otherwise the running mean would include the other temperatures.
    Slice: _Scale("w", {"n_tunes": 0.0}),
    DEMetropolisZ: _DifferentialEvolution(
        "scaling", _OFTEN, "accepted", "steps_until_tune", upstream.HISTORY
    ),
    BinaryMetropolis: Adaptation("accepted"),
    BinaryGibbsMetropolis: Adaptation("order"),
    CategoricalGibbsMetropolis: Adaptation("dimcats"),
}.items():
    adaptation.register(_class, lambda step, access=_access: access)


@dataclass(frozen=True, eq=False)
class StepParameters:
    """Parameters of every step method as piecewise linear functions of β."""

    betas: np.ndarray
    """Temperatures of the pilot, increasing, shape (G,)."""
    values: list[list[Values]]
    """``values[g][i]`` are the adapted values of step method i, as `Adaptation` reads them."""

    @cached_property
    def _temperatures(self) -> list[float]:
        return self.betas.tolist()  # plain floats compare faster than NumPy's

    def at(self, beta: float) -> list[Values]:
        """Return the parameters of every step method at β."""
        betas = self._temperatures
        above = bisect_left(betas, beta)
        if above == 0 or above == len(betas):
            return self.values[min(above, len(betas) - 1)]
        span, before = betas[above] - betas[above - 1], beta - betas[above - 1]
        return [
            {name: low[name] + before * ((high[name] - low[name]) / span) for name in low}
            for low, high in zip(*self.values[above - 1 : above + 1], strict=True)
        ]

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the Hamiltonian step size by temperature; NaN at β = 0 or without such steps."""
        sizes = np.full(len(betas), np.nan)
        for t in range(1, len(betas)):
            for values in self.at(betas[t]):
                if "step_size" in values:
                    sizes[t] = np.exp(values["step_size"])
        return sizes
