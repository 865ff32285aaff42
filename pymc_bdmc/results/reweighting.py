"""Reweigh the particles of the runs on the real data to other models of the same data."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import logsumexp

from pymc_bdmc.density.identity import fingerprint
from pymc_bdmc.density.refuse import checked_model, with_plain_tensors
from pymc_bdmc.density.support import different_variables, support_beyond
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import (
    Estimate,
    Reweighted,
    effective_sample_size,
    jarzynski_forward,
    reweighted_evidence,
)
from pymc_bdmc.results.evidence import estimates_of
from pymc_bdmc.results.particles import check_model_of_runs, particle_values
from pymc_bdmc.results.reading import Reading

MAX_PARETO_K = 0.7
"""Largest k̂ at which an average of weights can be trusted (Vehtari et al. 2024)."""
FEWEST = 25
"""Smallest effective number of particles from which k̂ is estimated."""


def built(build: Callable[[Any], pm.Model], value: Any) -> pm.Model:
    """Return the model that a function makes for a value.

    Raises
    ------
    TypeError
        If it is no function, or returns something else.
    """
    if not callable(build):
        raise TypeError(
            "build: a function is needed that returns the model for a value, got an object of type "
            f"{type(build).__name__}."
        )
    model = build(value)
    if not isinstance(model, pm.Model):
        raise TypeError(
            f"build: it must return a pymc.Model, and build({value!r}) returned an object of type "
            f"{type(model).__name__}. Does the function end with `return model`?"
        )
    return model


def model_of_runs(dt: xr.DataTree, models: Sequence[pm.Model]) -> pm.Model:
    """Return the model of the result among several, by the hash of every variable.

    Raises
    ------
    ValueError
        If none of them is, or that cannot be told; the message names the remedy.
    """
    then = json.loads(Reading.of(dt).model)
    for model in models:
        if then and fingerprint(with_plain_tensors(model)) == then:
            return model
    raise ValueError(
        "values: none of them gives the model of dt, or it contains code of your own, so that this "
        "cannot be told. Pass model=..., the model that was sampled."
    )


@dataclass(frozen=True)
class ReweighedModel:
    """Log ML of one model by reweighting.

    Attributes
    ----------
    runs : Reweighted or None
        Estimates from the runs, without log P(S); None if the runs say nothing about the model.
    log_weights : ndarray of shape (K,)
        Log weights of the runs under the model, whose average is unbiased for the marginal
        likelihood; nats. Empty if the runs say nothing about it.
    log_ml : Estimate
        Not valid if the model needs runs of its own; ``reason`` says why.
    log_bayes_factor : Estimate
        Against the model of the runs, with the errors that the two share left out.
    pareto_k : float
        Pareto k̂ of the weights of the particles; NaN if all are equal.
    is_same : bool
        Whether the densities are those of the model of the runs.
    """

    runs: Reweighted | None
    log_weights: np.ndarray
    log_ml: Estimate
    log_bayes_factor: Estimate
    pareto_k: float
    is_same: bool


class Reweighing:
    """The weighted particles of a result, to be reweighed to other models.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data.
    model : pymc.Model
        The model of ``dt``.
    reader : str
        Name of the function that reads ``dt``, for its errors.

    Raises
    ------
    ValueError
        If there are no runs on the real data, or they are of another model or other data.
    """

    def __init__(self, dt: xr.DataTree, model: pm.Model, reader: str):
        model = checked_model(model)
        self.density = TemperedDensity(model).check()
        read = check_model_of_runs(dt, model, self.density, reader)
        last, forward = read.last_particles, read.real.forward
        # With T = 1 they are draws from a wide fit. So they reach further into the tails, which
        # another model may need, than states that have moved do.
        last = last if read.side("real").n_temperatures > 1 else last.as_drawn
        self.values = particle_values(last, self.density.model)
        self.shares, runs = last.within_runs
        with np.errstate(invalid="ignore"):  # every weight is zero
            self.log_weights = runs + logsumexp(forward)
        self._old = self._log_joint(self.density)
        self.average: Estimate = estimates_of(read, "real")["real", 0, "forward average"]
        own = jarzynski_forward(forward)
        self._mass = self.average.value - own.value
        # What is not from the weights: log P(S), and what runs may miss.
        self._rest = float(np.sqrt(max(self.average.error**2 - own.error**2, 0.0)))

    def to(self, model: pm.Model, *, both_ways: bool = False) -> ReweighedModel:
        """Return log ML of another model of the same data.

        Parameters
        ----------
        model : pymc.Model
        both_ways : bool, default False
            Whether the supports must be equal. Otherwise that of the new model may be smaller.
        """
        model = checked_model(model)
        if reason := different_variables(self.density.model, model):
            return _unusable(reason)
        density = TemperedDensity(model).check()
        reason = self._differs_from(density, both_ways)
        new = self._old if reason else self._log_joint(density)
        if reason:
            return _unusable(reason)
        with np.errstate(invalid="ignore"):
            log_ratios = new - self._old
        seen = self.shares > 0
        if not (log_ratios[seen] < np.inf).all():
            return _unusable("a log density is NaN or +∞ at some particles")
        return self._estimates(log_ratios)

    def to_density(self, log_joint: np.ndarray) -> ReweighedModel:
        """Return log Z of a normalisable density that is given at the particles, run after run."""
        with np.errstate(invalid="ignore"):  # particles without weight
            return self._estimates(log_joint.reshape(self.shares.shape) - self._old)

    def _differs_from(self, density: TemperedDensity, both_ways: bool) -> str:
        """Say why particles cannot be reweighed to a density; empty if they can."""
        data = self.density.data
        same = data.keys() == density.data.keys() and all(
            np.array_equal(data[name], each, equal_nan=each.dtype.kind == "f")
            for name, each in density.data.items()
        )
        if not same:
            raise ValueError(
                "build: its observed data are not those of dt, so log ML cannot be compared. Names "
                "and values of the observed variables must be the same for all values."
            )
        rng = np.random.default_rng(0)  # tests of the support, no part of an estimate
        reason = support_beyond(self.density, density, rng)
        if both_ways and not reason:
            reason = support_beyond(density, self.density, rng)
        return reason

    def _log_joint(self, density: TemperedDensity) -> np.ndarray:
        """Return log p(θ, y) of the particles, shape (K, N)."""
        return density.joint_density(self.values).reshape(self.shares.shape)

    def _estimates(self, log_ratios: np.ndarray) -> ReweighedModel:
        runs = reweighted_evidence(log_ratios, self.shares, self.log_weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_weights = np.log(self.shares) + self.log_weights[:, None] + log_ratios
        k = pareto_k(log_weights[self.shares > 0])
        doubts = [
            (not self.average.valid, f"the runs of dt: {self.average.reason}"),
            (not runs.log_z.valid, f"few runs carry the weight: {runs.log_z.reason}"),
            (k > MAX_PARETO_K, f"Pareto k̂ is {k:.2g}"),
        ]
        reason = "; ".join(told for holds, told in doubts if holds)
        is_valid, reason = not reason, reason or runs.log_z.reason
        error = float(np.hypot(runs.log_z.error, self._rest))
        value = runs.log_z.value + self._mass
        log_ml = Estimate(value, error, "reweighed", is_valid, reason)
        factor = replace(runs.log_ratio, valid=is_valid, reason=reason)
        is_same = not log_ratios[self.shares > 0].any()
        return ReweighedModel(runs, runs.log_weights + self._mass, log_ml, factor, k, is_same)


def pareto_k(log_weights: np.ndarray) -> float:
    """Return Pareto k̂ of weights, by arviz-stats; ∞ if too few particles have weight.

    It is NaN if the largest weights are equal up to rounding, so that there is no tail.
    """
    from arviz_stats.base import array_stats

    finite = log_weights[np.isfinite(log_weights)]
    if finite.size < FEWEST or effective_sample_size(finite) < FEWEST:
        return np.inf
    try:
        return float(array_stats.pareto_khat(finite[None], r_eff=1, log_weights=True))
    except ValueError:  # all values of the tail are the same
        return np.nan


def _unusable(reason: str) -> ReweighedModel:
    nothing = Estimate(np.nan, np.nan, "reweighed", False, reason)
    return ReweighedModel(None, np.empty(0), nothing, nothing, np.nan, False)
