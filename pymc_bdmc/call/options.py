"""The options of a call, bundled by concern; each is checked before anything is compiled."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import pytensor
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import (
    check_choice,
    check_counts,
    check_flags,
    check_positive,
    number_of_cores,
)
from pymc_bdmc.base.schedules import SCHEDULES, Schedule, make_schedule
from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.kernels.steps import check_step

MOST_TEMPERATURES = 2000
"""Largest T where none is given."""
MOST_DOUBLED = 1_000_000
"""Largest T of a round with a target, unless the caller says otherwise."""

_GIVEN = {"inputs", "outputs", "updates", "givens", "on_unused_input"}
"""Arguments of `pytensor.function` that are not the caller's."""


@dataclass(frozen=True, eq=False)
class Ladder:
    """The temperatures of every round that is planned.

    Parameters
    ----------
    temperatures : int, array_like or None
        T of one round, or of several, or the inverse temperatures, which begin with 0.
    schedule : str or Schedule
    default : int, optional
        Value of ``temperatures`` that may stand beside a `Schedule`.
    default_name : str, default "adaptive"
        Value of ``schedule`` that may stand beside inverse temperatures.

    Raises
    ------
    ValueError
        Names the argument and the remedy; on the first use of `schedules`.
    """

    temperatures: int | ArrayLike | None
    schedule: str | Schedule
    default: int | None = None
    default_name: str = "adaptive"

    @property
    def is_open(self) -> bool:
        """Whether T follows from the pilots."""
        return self.temperatures is None and isinstance(self.schedule, str)

    @property
    def is_adaptive(self) -> bool:
        """Whether the inverse temperatures follow from the pilots."""
        named = isinstance(self.schedule, str) and self.schedule == "adaptive"
        return named and not np.ndim(self._rungs[0])

    @cached_property
    def schedules(self) -> list[Schedule]:
        """The schedule of every round; if they are adaptive or open, those of the pilots."""
        schedule, rungs = self.schedule, self._rungs
        if isinstance(schedule, str):
            check_choice("schedule", schedule, {**SCHEDULES, self.default_name: None})
            if self.temperatures is None:
                rungs = [MOST_TEMPERATURES]
            if self.is_adaptive:
                schedule = "power"
        name = self.default_name
        return [make_schedule(schedule, each, self.default, name) for each in rungs]

    @property
    def _rungs(self) -> list:
        values = np.asarray(self.temperatures)
        numbers = values.ndim and values.size and values.dtype.kind in "iuf"
        if not numbers or values.flat[0] < 1:
            return [self.temperatures]
        whole = np.isfinite(values) & (np.floor(values) == values)
        if values.ndim > 1 or not whole.all() or not (np.diff(values) > 0).all():
            raise ValueError(
                "temperatures: a ladder is a sequence of increasing whole numbers; inverse "
                f"temperatures begin with 0. Got {self.temperatures!r}."
            )
        return values.tolist()


@dataclass(frozen=True)
class Limits:
    """When rounds end: at a target for the gap, or before it."""

    target_gap: float | None = None
    max_temperatures: int | None = None
    max_time: float | None = None

    def check(self, ladder: Ladder, has_gap: bool) -> None:
        """Refuse a target without a gap or beside a ladder, and limits without a target.

        Raises
        ------
        ValueError
            Names the argument and the remedy.
        """
        check_positive(target_gap=self.target_gap, max_time=self.max_time)
        if len(ladder.schedules) > 1:
            for name, value in vars(self).items():
                if value is not None:
                    raise ValueError(
                        f"{name}: every number in temperatures is run, whatever the gap; leave "
                        "it out, or pass the number of the first round alone."
                    )
        if self.target_gap is None:
            for name in ("max_temperatures", "max_time"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: it limits the rounds until target_gap is reached; pass that too."
                    )
            return
        if not has_gap:
            raise ValueError("target_gap: a gap needs simulated data; simulate=None gives none.")
        if self.max_temperatures is not None:
            check_counts(max_temperatures=self.max_temperatures)
            n = ladder.schedules[0].n_temperatures
            if not ladder.is_open and n > self.max_temperatures:
                raise ValueError(
                    f"max_temperatures: the first round has {n} temperatures already, more than "
                    f"{self.max_temperatures}."
                )

    @property
    def most_temperatures(self) -> int:
        """The largest T of a round."""
        return self.max_temperatures or MOST_DOUBLED


@dataclass(frozen=True)
class Resources:
    """Who runs a call, and who hears of it: nothing on which a finished run depends but the seed.

    Raises
    ------
    TypeError, ValueError
        Names the argument.
    """

    random_seed: RandomSeed = None
    cores: int | None = None
    executor: Executor | None = None
    progressbar: bool = True
    store: str | os.PathLike | None = None
    callback: Callable[[xr.DataTree], object] | None = None

    def __post_init__(self):
        check_flags(progressbar=self.progressbar)
        _ = self.n_cores  # looks at them
        if not (self.callback is None or callable(self.callback)):
            raise TypeError(
                f"callback: a function of the result so far is needed, got {self.callback!r}."
            )

    @cached_property
    def n_cores(self) -> int:
        """Number of tasks at once."""
        return number_of_cores(self.cores, self.executor)


@dataclass(frozen=True)
class Compilation:
    """The step methods of a model, and options of its compilation."""

    step: Any = None
    backend: str | None = None
    compile_kwargs: dict | None = None

    def check(self) -> None:
        """Refuse unknown steps and backends, and options that PyTensor does not have.

        Raises
        ------
        TypeError, ValueError
            Names the argument.
        """
        check_step(self.step)
        if self.backend is not None:
            check_choice("backend", self.backend, ["numba", "c", "jax"])
        if not isinstance(self.compile_kwargs, Mapping | None):
            raise TypeError(f"compile_kwargs: a dict is needed, got {self.compile_kwargs!r}.")
        options: Sequence[str] = [
            name for name in signature(pytensor.function).parameters if name not in _GIVEN
        ]
        for name in self.compile_kwargs or {}:
            check_choice("compile_kwargs", name, options)
