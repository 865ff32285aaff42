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


class Findings(NamedTuple):
    """Facts that pilots and scouts showed on one data set so far."""

    prior_length: float
    """Λ² of the path from the prior, nats."""
    rhat: float
    """Largest R̂ of the pilot from the prior at β = 1."""
    fitted_length: float | None = None
    """Λ² of the path from a fit, nats; None before there is a fit."""
    prior_scouts: np.ndarray = np.empty(0)
    """log Ẑ of scouts from the prior, nats; empty before there are any."""
    fitted_scouts: np.ndarray = np.empty(0)
    """log Ẑ of scouts from the fit."""
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
    if seen.fitted_length is None:
        return Choice(needs="fit")
    if seen.is_cut:
        reason = "part of the region that a fit covers is ruled out by the model"
        return Choice("prior", reason)
    before, after = seen.prior_length, seen.fitted_length
    lengths = (
        f"the squared thermodynamic length is {before:.3g} nats from the prior and "
        f"{after:.3g} from a fit"
    )
    not_far = f"{lengths}: not {'far ' if after < before else ''}shorter"
    if after > SCOUTED * before and seen.rhat <= MAX_RHAT and not seen.peaks:
        return Choice("prior", not_far)
    if not seen.fitted_scouts.size:
        return Choice(needs="scouts")
    if missed := missed_by_fit(seen):
        return Choice("prior", missed)
    fitted, prior = seen.fitted_scouts, seen.prior_scouts
    is_higher = refutes(fitted, prior)
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
        return Choice("fitted", _say_higher("fitted", fitted, "prior", prior))
    if after > WORTHWHILE * before:
        return Choice("prior", not_far)
    return Choice("fitted", f"{lengths}: far shorter")


def missed_by_fit(seen: Findings) -> str:
    """Say what shows, by scouts, that a fit misses part of the posterior; empty if nothing does."""
    if seen.obstacle:
        return seen.obstacle
    fitted, prior = seen.fitted_scouts, seen.prior_scouts
    if refutes(prior, fitted):
        return _say_higher("prior", prior, "fitted", fitted)
    is_higher, agree = refutes(fitted, prior), np.ptp(prior) <= MAX_SPREAD
    # Scouts that agree show how little mass is where they ended; others may each end far off.
    if seen.surplus > MAX_SURPLUS and not (is_higher and agree):
        return (
            f"a fit misses a region that runs from the prior reach (its density there is "
            f"{seen.surplus:.2g} nats too low)"
        )
    if seen.rhat > MAX_RHAT and not is_higher:
        return (
            f"the pilot's R̂ is {seen.rhat:.2g}: the posterior may have several modes, of "
            "which a fit may miss some"
        )
    return ""


def fails_from_prior(seen: Findings) -> bool:
    """Return whether runs from the prior are known to miss part of the posterior."""
    return bool(seen.peaks) or refutes(seen.fitted_scouts, seen.prior_scouts)


def _say_higher(name: str, log_z: np.ndarray, other_name: str, others: np.ndarray) -> str:
    """Say that scouts along one path came higher than those along the other."""
    mean, lower = log_mean_exp(log_z), log_mean_exp(others)
    return (
        f"runs on path {name!r} come to a log ML of {mean:.4g}, those on "
        f"path {other_name!r} to {lower:.4g}: the latter miss part of the posterior"
    )
