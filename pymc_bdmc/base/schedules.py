"""Schedules: frozen, validated sequences of inverse temperatures 0 = β_0 < … < β_T = 1."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator
from scipy.optimize import isotonic_regression

from pymc_bdmc.base.arguments import check_choice, check_memory

__all__ = [
    "SCHEDULES", "Schedule", "adaptive", "cubic", "explicit", "linear", "make_schedule",
    "mean_between", "power", "sigmoid", "thermodynamic_length",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Schedule:
    """Inverse temperatures of an annealing run.

    Parameters
    ----------
    betas : array_like of shape (T + 1,)
        Strictly increasing, from exactly 0 to exactly 1.
    name : str
        Name of the schedule in a result.

    Raises
    ------
    ValueError
        If ``betas`` is not strictly increasing from 0 to 1.

    Examples
    --------
    >>> from pymc_bdmc.base.schedules import Schedule
    >>> Schedule([0, 0.1, 1]).n_temperatures
    2
    """

    betas: np.ndarray
    name: str = "explicit"

    def __post_init__(self):
        betas = np.array(self.betas)
        if betas.dtype.kind not in "iuf":
            raise ValueError(
                f"schedule: inverse temperatures are real numbers, got {self.betas!r}."
            )
        betas = betas.astype(float)
        if betas.ndim != 1 or len(betas) < 2:
            raise ValueError(
                f"temperatures: need at least the values 0 and 1, got shape {betas.shape}."
            )
        if betas[0] != 0 or betas[-1] != 1:
            raise ValueError(
                f"temperatures: must start at exactly 0 and end at exactly 1, "
                f"got {betas[0]:g} … {betas[-1]:g}."
            )
        (bad,) = np.nonzero(~(np.diff(betas) > 0))
        if len(bad):
            raise ValueError(
                f"temperatures: must increase strictly, but β[{bad[0] + 1}] = "
                f"{betas[bad[0] + 1]:g} does not exceed β[{bad[0]}] = {betas[bad[0]]:g}."
            )
        betas.flags.writeable = False
        object.__setattr__(self, "betas", betas)

    @property
    def n_temperatures(self) -> int:
        """Return T, the number of kernels and of weight increments."""
        return len(self.betas) - 1

    def refined(self) -> "Schedule":
        """Return a schedule with twice as many temperatures, by halving every increment."""
        places = np.arange(2 * self.n_temperatures + 1) / 2
        return Schedule(np.interp(places, np.arange(len(self.betas)), self.betas), self.name)

    @property
    def increments(self) -> np.ndarray:
        """Return β_t − β_{t−1} for t = 1 … T, shape (T,)."""
        return np.diff(self.betas)


def _from_curve(
    curve: Callable[[np.ndarray], np.ndarray], n_temperatures: int, name: str
) -> Schedule:
    whole = isinstance(n_temperatures, Real) and n_temperatures % 1 == 0
    if isinstance(n_temperatures, bool) or not whole:
        raise ValueError(f"temperatures: must be a whole number, got {n_temperatures!r}.")
    if n_temperatures < 1:
        raise ValueError(f"temperatures: must be at least 1, got {n_temperatures}.")
    size = int(n_temperatures)
    check_memory(lambda temperatures: 40 * temperatures, temperatures=size)  # bytes of five arrays
    betas = np.asarray(curve(np.linspace(0, 1, size + 1)), dtype=float)
    betas[0], betas[-1] = 0.0, 1.0
    return Schedule(betas, name)


def linear(n_temperatures: int) -> Schedule:
    """Make equal steps, β_t = t/T.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.linear(4).betas
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    return _from_curve(lambda s: s, n_temperatures, "linear")


def sigmoid(n_temperatures: int, delta: float = 4.0) -> Schedule:
    """Make small steps at both ends, by a logistic curve on [−δ, δ] rescaled to [0, 1].

    See Grosse, Ghahramani and Adams (2015), Section 5.1.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.sigmoid(4).betas.round(3)
    array([0.   , 0.105, 0.5  , 0.895, 1.   ])
    """
    if not (np.isfinite(delta) and delta > 0):
        raise ValueError(f"sigmoid: delta must be positive, got {delta}.")

    def curve(s):
        y = np.tanh(delta * (s - 0.5))  # tanh(x/2) is the logistic function on (−1, 1)
        return 0.5 * (1 + y / np.tanh(delta / 2))

    return _from_curve(curve, n_temperatures, f"sigmoid(delta={delta:g})")


def power(n_temperatures: int, exponent: float = 4.0) -> Schedule:
    """Make small steps near the prior, β_t = (t/T)^exponent.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.power(2, exponent=3).betas
    array([0.   , 0.125, 1.   ])
    """
    if not (np.isfinite(exponent) and exponent > 0):
        raise ValueError(f"power: exponent must be positive, got {exponent}.")
    return _from_curve(lambda s: s**exponent, n_temperatures, f"power(exponent={exponent:g})")


def cubic(n_temperatures: int) -> Schedule:
    """Make steps by β = 0.05 s + 0.95 s³ with s = t/T, as Favaro et al. (2015).

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.cubic(2).betas
    array([0.     , 0.14375, 1.     ])
    """
    return _from_curve(lambda s: 0.05 * s + 0.95 * s**3, n_temperatures, "cubic")


def explicit(betas: ArrayLike) -> Schedule:
    """Make a schedule from given inverse temperatures.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.explicit([0, 0.5, 1]).n_temperatures
    2
    """
    return Schedule(np.asarray(betas))


def adaptive(betas: ArrayLike, mean_log_likelihood: ArrayLike, n_temperatures: int) -> Schedule:
    r"""Make steps of equal thermodynamic length, which minimise the gap of well-mixed chains.

    The gap is :math:`\sum_t (\beta_t - \beta_{t-1})(m(\beta_t) - m(\beta_{t-1}))` with
    :math:`m(\beta) = E_\beta[\ell]`. It is smallest if the increments of :math:`\int \sqrt{m'}\,
    d\beta` are equal (Grosse, Maddison and Salakhutdinov 2013, Section 4).

    Parameters
    ----------
    betas : array_like of shape (F,)
        Increasing from 0 to 1.
    mean_log_likelihood : array_like of shape (F,)
        Estimates of m, nats. Isotonic regression makes them increasing.
    n_temperatures : int
        T.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.adaptive([0, 0.5, 1], [-30, -2, -1], 4).betas.round(2)
    array([0.  , 0.04, 0.18, 0.4 , 1.  ])
    """
    betas = np.asarray(betas, dtype=float)
    length = _lengths(betas, mean_log_likelihood)
    length += 1e-6 * max(length[-1], 1e-300) * np.linspace(0, 1, len(betas))  # never flat
    curve = PchipInterpolator(length / length[-1], betas)
    return _from_curve(curve, n_temperatures, "adaptive")


def thermodynamic_length(betas: ArrayLike, mean_log_likelihood: ArrayLike) -> float:
    """Return Λ = ∫ sqrt(m′(β)) dβ. Well-mixed steps of equal length have a gap of Λ²/T nats.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.thermodynamic_length([0, 1], [-9, 0])
    3.0
    """
    return float(_lengths(np.asarray(betas, dtype=float), mean_log_likelihood)[-1])


def mean_between(betas: ArrayLike, known: ArrayLike, means: ArrayLike) -> np.ndarray:
    """Interpolate E_β[ℓ] linearly at ``betas``, without overflow for very large slopes.

    Parameters
    ----------
    betas : array_like of shape (T + 1,)
        Inverse temperatures between the first and the last of ``known``.
    known, means : array_like of shape (F,)
        Increasing inverse temperatures and E[ℓ] there, nats; may be −∞.

    Examples
    --------
    >>> from pymc_bdmc import schedules
    >>> schedules.mean_between([0, 0.5, 1], [0, 1], [-9, -1])
    array([-9., -5., -1.])
    """
    means = np.asarray(means, dtype=float)
    # Scaling without rounding makes subnormal numbers normal, so that slopes do not overflow.
    at, grid = (2.0**100 * np.asarray(each, dtype=float) for each in (betas, known))
    place = np.interp(at, grid, np.arange(len(means)))
    low, high = np.floor(place).astype(int), np.ceil(place).astype(int)
    part = place - low
    with np.errstate(invalid="ignore"):  # 0·(−∞)
        return np.where(part > 0, means[low] * (1 - part) + means[high] * part, means[low])


def _lengths(betas: np.ndarray, mean_log_likelihood: ArrayLike) -> np.ndarray:
    """Return the length of the path from 0 to every β."""
    means = np.asarray(mean_log_likelihood, dtype=float)
    means = np.maximum(means, means[np.isfinite(means)].min())  # E[ℓ] may be −∞ under the prior
    means = isotonic_regression(means).x
    return np.concatenate([[0.0], np.cumsum(np.sqrt(np.diff(betas) * np.diff(means)))])


SCHEDULES = {"linear": linear, "sigmoid": sigmoid, "power": power, "cubic": cubic}


def make_schedule(
    schedule: str | Schedule,
    temperatures: int | ArrayLike | None,
    default: int | None = None,
    default_name: str = "linear",
) -> Schedule:
    """Make a schedule from its name and the number of temperatures, or from explicit values.

    Parameters
    ----------
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule
        A `Schedule` is returned unchanged.
    temperatures : int or array_like of shape (T + 1,)
        T, or the inverse temperatures themselves; None only with a `Schedule`.
    default : int, optional
        Value of ``temperatures`` that is allowed with a `Schedule`.
    default_name : str, default "linear"
        Value of ``schedule`` that is allowed with explicit inverse temperatures.

    Raises
    ------
    ValueError
        For an unknown name, for values that do not increase from 0 to 1, and for a `Schedule` with
        other temperatures.

    Examples
    --------
    >>> from pymc_bdmc.base.schedules import make_schedule
    >>> make_schedule("linear", 2).betas
    array([0. , 0.5, 1. ])
    """
    are_values = np.ndim(cast(ArrayLike, temperatures)) > 0
    if isinstance(schedule, Schedule):
        if are_values or temperatures != default:
            raise ValueError(
                f"temperatures: the Schedule has {schedule.n_temperatures} already; leave them out."
            )
        return schedule
    names = dict.fromkeys([*SCHEDULES, default_name])
    check_choice("schedule", schedule, names, "values, as temperatures=[0, …, 1]")
    if not are_values:
        return SCHEDULES[schedule](cast(int, temperatures))
    if schedule != default_name:
        raise ValueError(
            f"schedule: {schedule!r} has no effect if all temperatures are given; leave it out, or "
            "pass their number."
        )
    return explicit(cast(ArrayLike, temperatures))
