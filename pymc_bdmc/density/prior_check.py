"""Check, before every run, that draws from the prior agree with the log density."""

import logging
from collections.abc import Iterator
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np
from pymc.vartypes import continuous_types

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.density.checks import angles, explain_atoms
from pymc_bdmc.density.jitted import JittedDensity
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators.exchangeability import LEARNING, LogDensity, exchangeability

_log = logging.getLogger("pymc.bdmc")

FALSE_ALARMS = 1e-3
"""Largest probability of a warning for a model with right draws."""

DRAWS = LEARNING + 512
MOST_REPEATS = 2
"""Most draws that may share a value; ties occur in float32, practically never in float64."""

_found: WeakKeyDictionary[TemperedDensity, dict[JittedDensity | None, list[str]]] = (
    WeakKeyDictionary()
)
"""Suspicious variables by density, kept since several calls may use the same density."""


def check_prior(density: TemperedDensity, jitted: JittedDensity | None = None) -> None:
    """Raise an error for repeated values; warn if prior draws and density disagree.

    Both checks use `DRAWS` draws from a separate random stream, so a model always gets the same
    result.

    Parameters
    ----------
    density : TemperedDensity
        Density with the real data, on which a prior may depend.
    jitted : JittedDensity, optional
        The density compiled with its gradient, which gives the check more power.

    Raises
    ------
    ValueError
        If a continuous variable takes single values with positive probability; the message names
        it.
    """
    found = _found.setdefault(density, {})
    if jitted not in found:
        rng = np.random.default_rng(0)
        draws = density.prior.draw_many(DRAWS, rng)
        for name in repeated_elements(density, draws):
            raise ValueError(explain_atoms(name, "its prior draws repeat a value"))
        found[jitted] = suspicious_variables(density, draws, rng, jitted)
    names = found[jitted]
    if names:
        _log.warning(
            f"Prior draws of {', '.join(names)} disagree with the log density (false-alarm rate "
            f"{FALSE_ALARMS:g}): the results are wrong. Compare draws and density of "
            f"{names[0]} first; a wrong variable affects those that depend on it."
        )


def repeated_elements(density: TemperedDensity, draws: dict[str, np.ndarray]) -> Iterator[str]:
    """Yield the names of continuous variables with an element that repeats a value."""
    for value in density.model.value_vars:
        rows = draws[value.name].reshape(len(draws[value.name]), -1)
        if value.dtype in continuous_types and any(map(repeats, rows.T)):
            yield density.model.values_to_rvs[value].name


def repeats(values: np.ndarray) -> bool:
    """Return whether too many values are equal for a continuous variable."""
    finite = values[np.isfinite(values)]
    return len(finite) - len(np.unique(finite)) > MOST_REPEATS


def suspicious_variables(
    density: TemperedDensity,
    draws: dict[str, np.ndarray],
    rng: np.random.Generator,
    jitted: JittedDensity | None = None,
) -> list[str]:
    """Return the continuous variables whose draws fail `exchangeability`; all if log p does.

    Draws outside the support that transforms impose are left out, as in `draw_supported`.
    """
    flat = density.jitted
    groups = {
        title: flat.parts[name] for name, title in flat.titles.items() if title in flat.names[0]
    }
    if not flat.n_continuous:
        return []
    thetas = flat.ravel_many(draws)
    log_density = _with_gradient(density, jitted) if jitted else _values(density)
    if circles := [groups[rv.name] for rv in angles(density.model)]:
        log_density = _in_one_period(log_density, np.r_[*circles])
    pvalues = exchangeability(thetas[np.isfinite(thetas).all(axis=1)], log_density, groups, rng)
    failed = [name for name in groups if pvalues.get(name, 1.0) < FALSE_ALARMS]
    return failed or (list(groups) if pvalues.get("", 1.0) < FALSE_ALARMS else [])


def _in_one_period(log_density: LogDensity, angles: np.ndarray) -> LogDensity:
    """Return the log density with −∞ where one of some elements is not in (−π, π)."""

    def restricted(thetas):
        values, gradients = log_density(thetas)
        return np.where((np.abs(thetas[:, angles]) > np.pi).any(axis=1), -np.inf, values), gradients

    return restricted


def _with_gradient(density: TemperedDensity, jitted: JittedDensity) -> LogDensity:
    data = jitted.ravel_data(density.data)

    def log_density(thetas):
        values, gradients = np.empty(len(thetas)), np.empty((len(thetas), jitted.n_continuous))
        _fill()(jitted.with_gradient, np.ascontiguousarray(thetas), data, values, gradients)
        return values, gradients

    return log_density


@cache
def _fill():
    """Return a compiled loop for the log prior and its gradient at every row."""

    @njit(cache=True)
    def fill(function, thetas, data, values, gradients):
        unused = np.empty(gradients.shape[1])
        for j in range(len(thetas)):
            values[j], _ = function(thetas[j], data, gradients[j], unused)

    return fill


def _values(density: TemperedDensity) -> LogDensity:
    def log_prior(theta):
        try:
            return density.log_prior(*density.jitted.unravel(theta).values())
        except (ValueError, ArithmeticError):  # a move may leave a parameter's domain
            return np.nan

    return lambda thetas: (np.array([log_prior(theta) for theta in thetas], float), None)
