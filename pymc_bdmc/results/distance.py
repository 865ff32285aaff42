"""Estimate divergences between an approximation with a density and the posterior."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.base.arguments import check_confidence, check_counts
from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.density.approximation import Approximation, make_approximation
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import (
    Estimate,
    PosteriorMean,
    certified_divergence,
    evidence_lower_bound,
    jarzynski_forward,
    posterior_log_ratio,
    total_variation_bound,
    total_variation_of_divergence,
)
from pymc_bdmc.results.finding import MAX_CHANCE, Table
from pymc_bdmc.results.log_ml import recommended_log_ml
from pymc_bdmc.results.particles import Unconstrained, particle_values, runs_and_density
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.sandwich import certified_of

TO_POSTERIOR, FROM_POSTERIOR, JEFFREYS = "KL(q‖p)", "KL(p‖q)", "KL(q‖p) + KL(p‖q)"

COLUMNS = ["value", "error", "lower", "upper", "total_variation", "confidence", "valid", "reason"]


def distance(
    dt: xr.DataTree,
    approximation: Any,
    *,
    model: pm.Model | None = None,
    draws: int = 10_000,
    confidence: float = 0.95,
    random_seed: RandomSeed = None,
) -> pd.DataFrame:
    """Estimate the divergences between an approximation q and the posterior p, in nats.

    KL(q‖p) = log ML − E_q[log p(θ, y) − log q(θ)], whose mean is the ELBO, and KL(p‖q) = E_p[log
    p(θ, y) − log q(θ)] − log ML, on the unconstrained scale with the transforms' Jacobians. Both
    are the same on the model's own scale. The posterior is that on the real data.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data; ``simulate=None`` is enough.
    approximation : object, or mapping of str to object
        The density q, or several by name. Each is the result of `pymc.fit` (mean field or full
        rank); a frozen SciPy distribution with ``rvs`` and ``logpdf`` on the unconstrained scale,
        such as `scipy.stats.multivariate_normal` or ``multivariate_t``; the result of
        ``fit_laplace`` or ``fit_dadvi`` of pymc_extras, or its ADVI ``Trainer``; or a pair
        ``(draws, log_q)``.

        The elements of θ are those of the value variables, each raveled, in the order of
        ``pymc.blocking.DictToArrayBijection.map(model.initial_point())``. The ``draws`` of a pair
        are independent, and an array of shape (n, d) in this order, or a mapping or Dataset of
        arrays by value variable (``"tau_log__"``). ``log_q`` is the logarithm of the normalised
        density on the unconstrained scale: a function of such draws, or an array of its n values at
        them. With an array KL(p‖q) is not known.
    model : pymc.Model, optional
        The model of ``dt``. Default: that of a `pymc.fit` result, or that of the context.
    draws : int, default 10_000
        Number of draws from q. The first half judges the tail of the terms of the ELBO, and sets
        the constants that `estimators.certified_divergence` needs beforehand.
    confidence : float, default 0.95
        Confidence of ``lower``, and of all ``upper`` of one approximation together.
    random_seed : int, sequence of int, SeedSequence or Generator, optional

    Returns
    -------
    DataFrame
        Indexed by divergence, or by (approximation, divergence) for a mapping: ``KL(q‖p)``,
        ``KL(p‖q)`` and their sum, which needs no log ML. Columns:

        ``value``, ``error``
            Estimate (noise may make it negative) and one standard error; nats.
        ``lower``
            Certified lower bound on KL(q‖p) that holds for any number of draws: from the certified
            lower bound on log ML and an upper limit of the ELBO
            (`estimators.certified_divergence`), which spend half of 1 − ``confidence`` each. NaN in
            the other rows, for which nothing is certified.
        ``upper``
            Upper limit by Student's t, with one degree of freedom less than there are runs, and
            Bonferroni over the three rows; infinite if the row is not valid. It relies on ``error``
            and is not certified.
        ``total_variation``
            Largest error of the probability of any event under q, if the divergence is at most
            ``upper``: the smaller of √(KL/2) (Pinsker) and √(1 − e^−KL) (Bretagnolle and Huber);
            for the sum, `estimators.total_variation_bound`. The smallest of the three holds at the
            same confidence.
        ``confidence``
            As given.
        ``valid``, ``reason``
            Whether value and error can be trusted, and what the checks found.

    Raises
    ------
    ValueError
        If ``dt`` has no runs on the real data, or is of another model or other data; if an
        approximation has no density or has other variables. The message names it and the remedy.
    TypeError
        If an approximation is of an unknown type, or there is no model.
    FloatingPointError
        If the log density of the model is +∞ at a draw or a particle; the message names the
        variables.

    Notes
    -----
    Log ML is the recommended estimate of `evidence`, with its error. If it is the average of
    forward weights, its covariance with E_p, which uses the same runs, enters the error of KL(p‖q).
    With any other estimate the errors are added, which is conservative.

    If all runs missed a part of the posterior, log ML and KL(q‖p) are too low, while ``lower``
    still holds; `verdict` says whether the run can be trusted. A divergence below zero beyond
    chance (p < 0.001) is reported in its row: either the runs missed a part that q found, or log q
    is not the normalised density of the draws.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> from scipy import stats
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=1.0)
    >>> dt = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> q = stats.multivariate_normal([0.5], [[0.25]])  # the posterior has twice the variance
    >>> table = bdmc.distance(dt, q, model=model, random_seed=1)
    >>> bool(abs(table.loc["KL(q‖p)", "value"] - 0.097) < 0.02)
    True
    """
    check_counts(draws=draws)
    check_confidence(confidence)
    tree = isinstance(approximation, xr.DataTree | xr.Dataset)
    several = isinstance(approximation, Mapping) and not tree
    named = dict(approximation) if several else {"": approximation}
    if not named:
        raise ValueError("approximation: the mapping is empty.")
    read, density = runs_and_density(dt, _model(model, named), "distance")
    with_runs = _Runs(read, density, confidence)
    rng = np.random.default_rng(entropy_of(random_seed))
    tables = {
        name: with_runs.table(make_approximation(each, with_runs.layout, draws, rng))
        for name, each in named.items()
    }
    if not several:
        return Table.of(tables[""])
    return Table(pd.concat(tables, names=["approximation", "divergence"]))


def _model(model: pm.Model | None, named: Mapping[str, Any]) -> pm.Model:
    """Return the given model, that of a result of `pymc.fit`, or that of the context."""
    if model is not None:
        return model
    fitted = [getattr(each, "model", None) for each in named.values()]
    context = pm.Model.get_context(error_if_none=False)
    known = [each for each in (*fitted, context) if isinstance(each, pm.Model)]
    if not known:
        raise TypeError("model: pass the model of the run, or call distance in its context.")
    return known[0]


class _Runs:
    """Log ML, its certified lower bound and the weighted particles of the runs on the real data."""

    def __init__(self, read: Reading, density: TemperedDensity, confidence: float):
        density_of = Unconstrained(density)
        self.layout, self.confidence = density_of.layout, confidence
        self._log_joint = density_of.log_joint
        self._theta = density_of.rows(particle_values(read.last_particles, density.model))
        self.shares, self.log_weights = read.last_particles.within_runs
        best = recommended_log_ml(read)
        untrusted = f"no estimate can be trusted: {best.reason}"
        reason = f"by {best.method}" if best.valid else untrusted
        self.log_ml = replace(best, method="log ML", reason=reason)
        self._is_average = best.method == "forward average"
        # The lower side spends one half of 1 − confidence; the upper side is not used.
        self.lower = float(certified_of(read, confidence).loc[("real", 0), "lower"])
        self.own_error = jarzynski_forward(read.real.forward).error

    def table(self, q: Approximation) -> pd.DataFrame:
        """Return the rows of one approximation."""
        terms = self._log_joint(q.draws) - q.log_density
        elbo = evidence_lower_bound(terms)
        share = (1 + self.confidence) / 2
        estimates = {TO_POSTERIOR: _minus(self.log_ml, elbo)}
        lower = np.inf if elbo.value == -np.inf else certified_divergence(terms, self.lower, share)
        if q.log_q is None:
            reason = "log q is known at its own draws only; pass it as a function"
            for name in (FROM_POSTERIOR, JEFFREYS):
                estimates[name] = Estimate(np.nan, np.nan, name, False, reason)
        else:
            mean = self._posterior_mean(q.log_q)
            estimates[FROM_POSTERIOR] = self._from_posterior(mean)
            estimates[JEFFREYS] = _minus(mean.estimate, elbo)
        rows = {name: self._row(name, each) for name, each in estimates.items()}
        rows[TO_POSTERIOR]["lower"] = lower
        refuted = [name for name, row in rows.items() if estimates[name].valid and not row["valid"]]
        for name, row in rows.items():
            if refuted and name not in refuted:  # one refuted divergence refutes the others
                reason = f"{refuted[0]} is below zero beyond chance; {row['reason']}"
                unknown = {"lower": np.nan, "upper": np.inf, "total_variation": 1.0}
                rows[name] = row | unknown | {"valid": False, "reason": reason}
        table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
        return table.rename_axis("divergence")

    @cached_property
    def _of_particles(self) -> np.ndarray:
        return self._log_joint(self._theta)

    def _posterior_mean(self, of_rows: Callable[[np.ndarray], np.ndarray]) -> PosteriorMean:
        """Estimate E_p[log p(θ, y) − log q]."""
        finite = np.isfinite(self._theta).all(axis=1)
        log_q = np.full(len(self._theta), np.nan)
        log_q[finite] = np.ravel(of_rows(self._theta[finite]))
        if np.isnan(log_q[finite]).any() or (log_q[finite] == np.inf).any():
            raise ValueError(
                "log_q: it is NaN or +∞ at a particle of the run; it is a log density."
            )
        terms = (self._of_particles - log_q).reshape(self.shares.shape)
        return posterior_log_ratio(terms, self.shares, self.log_weights)

    def _from_posterior(self, mean: PosteriorMean) -> Estimate:
        """Estimate KL(p‖q), with the covariance in the error if log ML averages the same runs."""
        if self._is_average:
            rest = max(self.log_ml.error**2 - self.own_error**2, 0.0)  # not from weights
            error = np.sqrt(mean.difference_error**2 + rest)
        else:
            error = mean.estimate.error + self.log_ml.error
        return replace(_minus(mean.estimate, self.log_ml), error=float(error))

    def _row(self, name: str, found: Estimate) -> dict:
        """Return the columns of one divergence, not valid if it is below zero beyond chance."""
        runs = max(int(np.isfinite(self.log_weights).sum()), 2)
        reach = float(stdtrit(runs - 1, 1 - (1 - self.confidence) / 3)) * found.error
        farthest = float(stdtrit(runs - 1, 1 - MAX_CHANCE)) * found.error
        upper, is_refuted = np.inf, bool(found.valid and found.value + farthest < 0)
        reason = found.reason
        if found.value == np.inf:
            reason = f"infinite: {reason}"
        elif is_refuted:
            reason = (
                "below zero beyond chance: the runs missed a part of the posterior, or log q is "
                f"not the normalised density of the draws; {reason}"
            )
        elif found.valid:
            upper = max(found.value + reach, 0.0)
            if found.value < reach:
                reason = f"below its noise, at most {upper:.2g}; {reason}"
        bound = total_variation_bound if name == JEFFREYS else total_variation_of_divergence
        error = found.error if found.valid else np.nan
        valid = found.valid and not is_refuted
        numbers = found.value, error, np.nan, upper, bound(upper), self.confidence
        return dict(zip(COLUMNS, (*numbers, valid, reason), strict=True))


def _minus(first: Estimate, second: Estimate) -> Estimate:
    """Return the difference of two independent estimates."""
    return Estimate(
        first.value - second.value,
        float(np.hypot(first.error, second.error)),
        f"{first.method} less {second.method}",
        first.valid and second.valid,
        f"{first.method}: {first.reason}; {second.method}: {second.reason}",
    )
