"""Check, before every run, that draws from the prior agree with the log density."""

import logging
from collections.abc import Iterator
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np
from pymc.vartypes import continuous_types

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.estimators.exchangeability import LEARNING, LogDensity, exchangeability
from pymc_bdmc.model.checks import explain_atoms
from pymc_bdmc.model.jitted import JittedDensity
from pymc_bdmc.model.tempered import TemperedDensity

__all__ = ["FALSE_ALARMS", "check_prior", "repeated_elements", "repeats", "suspicious_variables"]

_log = logging.getLogger("pymc.bdmc")

FALSE_ALARMS = 1e-3
"""Probability, at most, of a warning for a model whose draws are right."""

DRAWS = LEARNING + 512
MOST_REPEATS = 2
"""Draws that may share a value: in float32 it happens, in float64 practically never."""

_found: WeakKeyDictionary[TemperedDensity, dict[JittedDensity | None, list[str]]] = (
    WeakKeyDictionary()
)
"""Suspicious variables of densities that are alive, since one may be lent to several calls."""


def check_prior(density: TemperedDensity, jitted: JittedDensity | None = None) -> None:
    """Refuse continuous variables that repeat a value; warn where draws and density disagree.

    Both are seen in `DRAWS` draws from a stream of their own, so one model gets one verdict.

    Parameters
    ----------
    density : TemperedDensity
        Holding the real data, of which a prior may depend.
    jitted : JittedDensity, optional
        Where it is compiled with its gradient: with it the check finds more.

    Raises
    ------
    ValueError
        If a continuous variable takes single values with positive probability; names it.
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
            f"{names[0]} first; a wrong parent disturbs what depends on it."
        )


def repeated_elements(density: TemperedDensity, draws: dict[str, np.ndarray]) -> Iterator[str]:
    """Names of the continuous variables of which an element repeats a value in several draws."""
    for value in density.model.value_vars:
        rows = draws[value.name].reshape(len(draws[value.name]), -1)
        if value.dtype in continuous_types and any(map(repeats, rows.T)):
            yield density.model.values_to_rvs[value].name


def repeats(values: np.ndarray) -> bool:
    """Whether some of the values are equal, of which continuous ones hardly ever are."""
    finite = values[np.isfinite(values)]
    return len(finite) - len(np.unique(finite)) > MOST_REPEATS


def suspicious_variables(
    density: TemperedDensity,
    draws: dict[str, np.ndarray],
    rng: np.random.Generator,
    jitted: JittedDensity | None = None,
) -> list[str]:
    """Names of the continuous variables whose draws fail `exchangeability`; all if log p does.

    Draws outside the support that transforms impose are left out, as in `draw_supported`.
    """
    model = density.model
    continuous = [value for value in model.value_vars if value.dtype in continuous_types]
    discrete = [value for value in model.value_vars if value.dtype not in continuous_types]
    layout, end = {}, 0
    for value in [*continuous, *discrete]:
        start, end = end, end + draws[value.name][0].size
        layout[value.name] = slice(start, end)
    groups = {model.values_to_rvs[value].name: layout[value.name] for value in continuous}
    if not any(part.stop > part.start for part in groups.values()):
        return []
    thetas = np.concatenate([np.reshape(draws[name], (DRAWS, -1)) for name in layout], axis=1)
    log_density = _with_gradient(density, jitted) if jitted else _values(density, draws, layout)
    pvalues = exchangeability(thetas[np.isfinite(thetas).all(axis=1)], log_density, groups, rng)
    failed = [name for name in groups if pvalues.get(name, 1.0) < FALSE_ALARMS]
    return failed or (list(groups) if pvalues.get("", 1.0) < FALSE_ALARMS else [])


def _with_gradient(density: TemperedDensity, jitted: JittedDensity) -> LogDensity:
    data = jitted.ravel_data(density.data)

    def log_density(thetas):
        values, gradients = np.empty(len(thetas)), np.empty((len(thetas), jitted.n_continuous))
        _fill()(jitted.with_gradient, np.ascontiguousarray(thetas), data, values, gradients)
        return values, gradients

    return log_density


@cache
def _fill():
    """Log prior and its gradient of every row, in one compiled loop."""

    @njit(cache=True)
    def fill(function, thetas, data, values, gradients):
        unused = np.empty(gradients.shape[1])
        for j in range(len(thetas)):
            values[j], _ = function(thetas[j], data, gradients[j], unused)

    return fill


def _values(density: TemperedDensity, draws, layout: dict[str, slice]) -> LogDensity:
    names = [value.name for value in density.model.value_vars]

    def log_prior(theta):
        values = (
            theta[layout[name]].reshape(draws[name].shape[1:]).astype(draws[name].dtype)
            for name in names
        )
        try:
            return density.terms(*values)[0]
        except (ValueError, ArithmeticError):  # a move has led out of a parameter's domain
            return np.nan

    return lambda thetas: (np.array([log_prior(theta) for theta in thetas], float), None)
