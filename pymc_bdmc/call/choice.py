"""Choose the path of annealed runs: a function of what pilots and scouts saw, and nothing else."""

from typing import Literal, NamedTuple

import numpy as np

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import log_mean_exp, refutes

SCOUTED = 0.5
"""Ratio of Λ² from a fit to Λ² from the prior up to which there are scouts. Chosen."""
WORTHWHILE = 0.25
"""Ratio of these up to which the fitted path is taken if scouts do not decide. Derived: the fitted
path has 30 temperatures in place of 100, so above 0.3 it would save at the price of accuracy."""
MAX_SURPLUS = 5.0
"""Largest excess, in nats, of log p + ℓ − log r of a scout over all states of a fit's pilot.
Measured: t₃ posteriors and modes that a fit misses exceed it (docs/paths.md)."""
MAX_SPREAD = 2.0
"""Largest difference, in nats, between scouts that agree. Chosen."""
REMEDY = 25.0
"""Ratio of Λ² from the prior to Λ² from a fit up to which the path from the prior is a remedy for a
heavy tail of the weights of the fit. Measured: 6 to 15 on models for which it is one, and 40 to 125
on hierarchies of many groups, where runs from the prior give no answer."""


class OnPath(NamedTuple):
    """Length, mixing and scouts of one path."""

    squared_length: float
    """Λ², nats."""
    rhat: float
    """Largest R̂ of its pilot at β = 1."""
    log_z: np.ndarray = np.empty(0)
    """log Ẑ of its scouts, nats; empty before there are any."""


class Findings(NamedTuple):
    """Facts that pilots and scouts showed on one data set so far."""

    prior: OnPath
    fitted: OnPath | None = None
    """None before there is a fit."""
    obstacle: str = ""
    """Why no fitted path can be taken, whatever it looks like."""
    is_cut: bool = False
    """Whether the data rule out part of the region that the fit covers."""
    peaks: int = 0
    """Narrow modes that runs from the prior would miss."""
    surplus: float = -np.inf
    """Nats by which log p + ℓ − log r at the ends of scouts from the prior exceeds all values that
    the pilot of the fitted path saw."""
    heavy_tail: float = 0.0
    """Pareto k of the weights of draws from the fit if it is too large, else 0."""


class Choice(NamedTuple):
    """The path to take and why, or what must be measured first."""

    path: Literal["prior", "fitted", ""] = ""
    reason: str = ""
    needs: Literal["fit", "scouts", ""] = ""


def choose(seen: Findings) -> Choice:
    """Choose between the path from the prior and that from a fit.

    Averages of runs along either are unbiased for the same Z. So if one of them is certain to lie
    above the other, the lower one misses part of the posterior and is out (`refutes`). If neither
    is out, the fitted path is taken if it is shorter by far and its pilots and scouts saw all that
    those from the prior saw.
    """
    if seen.obstacle:
        return Choice("prior", seen.obstacle)
    if seen.fitted is None:
        return Choice(needs="fit")
    if seen.is_cut:
        reason = "part of the region that a fit covers is ruled out by the model"
        return Choice("prior", reason)
    before, after = seen.prior.squared_length, seen.fitted.squared_length
    lengths = (
        f"the squared thermodynamic length is {before:.3g} nats from the prior and "
        f"{after:.3g} from a fit"
    )
    not_far = f"{lengths}: not {'far ' if after < before else ''}shorter"
    if after > SCOUTED * before and seen.prior.rhat <= MAX_RHAT and not seen.peaks:
        return Choice("prior", not_far)
    if not len(seen.fitted.log_z):
        return Choice(needs="scouts")
    if missed := missed_by_fit(seen):
        return Choice("prior", missed)
    is_higher = refutes(seen.fitted.log_z, seen.prior.log_z)
    if seen.heavy_tail and before <= REMEDY * after and not is_higher:
        return Choice(
            "prior",
            "a fit has far too little mass in part of the posterior (Pareto k of weights is "
            f"{seen.heavy_tail:.2g})",
        )
    if seen.peaks:
        reason = "the posterior has a narrow peak, which runs from the prior would miss"
        return Choice("fitted", reason)
    if is_higher:
        return Choice("fitted", _say_higher("fitted", seen.fitted, "prior", seen.prior))
    if after > WORTHWHILE * before:
        return Choice("prior", not_far)
    return Choice("fitted", f"{lengths}: far shorter")


def missed_by_fit(seen: Findings) -> str:
    """Say what shows, by scouts, that a fit misses part of the posterior; empty if nothing does."""
    if seen.obstacle:
        return seen.obstacle
    fitted, prior = seen.fitted, seen.prior
    assert fitted is not None, "there are scouts from a fit"
    if refutes(prior.log_z, fitted.log_z):
        return _say_higher("prior", prior, "fitted", fitted)
    is_higher, agree = refutes(fitted.log_z, prior.log_z), np.ptp(prior.log_z) <= MAX_SPREAD
    # Scouts that agree show how little mass is where they ended; others may each end far off.
    if seen.surplus > MAX_SURPLUS and not (is_higher and agree):
        return (
            f"a fit misses a region that runs from the prior reach (its density there is "
            f"{seen.surplus:.2g} nats too low)"
        )
    if prior.rhat > MAX_RHAT and not is_higher:
        return (
            f"the pilot's R̂ is {prior.rhat:.2g}: the posterior may have several modes, of "
            "which a fit may miss some"
        )
    return ""


def fails_from_prior(seen: Findings) -> bool:
    """Return whether runs from the prior are known to miss part of the posterior."""
    if seen.peaks:
        return True
    return seen.fitted is not None and refutes(seen.fitted.log_z, seen.prior.log_z)


def _say_higher(name: str, path: OnPath, other_name: str, other: OnPath) -> str:
    """Say that scouts along one path came higher than those along the other."""
    mean, lower = log_mean_exp(path.log_z), log_mean_exp(other.log_z)
    return (
        f"runs on path {name!r} come to a log ML of {mean:.4g}, those on "
        f"path {other_name!r} to {lower:.4g}: the latter miss part of the posterior"
    )
