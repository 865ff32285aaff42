"""Reweight the particles of the runs on the real data to other models of the same data."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import logsumexp

from pymc_bdmc.base.arguments import check_positive
from pymc_bdmc.density.identity import fingerprint
from pymc_bdmc.density.refuse import checked_model, model_of, with_plain_tensors
from pymc_bdmc.density.support import different_variables, support_beyond
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import (
    Estimate,
    Reweighted,
    effective_sample_size,
    jarzynski_forward,
    log_ratio_of_averages,
    reweighted_evidence,
)
from pymc_bdmc.results.log_ml import estimates_of
from pymc_bdmc.results.particles import particle_values, runs_and_density
from pymc_bdmc.results.reading import Reading

FEWEST = 25
"""Smallest effective number of particles from which k̂ is estimated."""
STEP = 0.01
"""Half of the difference of log scales; the bias is of the order of its square."""


def built(build: Callable[[Any], pm.Model], value: Any) -> pm.Model:
    """Return the model that a function makes for a value; raise an error if it makes none."""
    if not callable(build):
        raise TypeError(
            "build: a function is needed that returns the model for a value, got an object of type "
            f"{type(build).__name__}."
        )
    made = build(value)
    if made is None or not isinstance(model := model_of(made), pm.Model):
        raise TypeError(
            f"build: it must return a pymc.Model, and build({value!r}) returned an object of type "
            f"{type(made).__name__}. Does the function end with `return model`?"
        )
    return model


def model_of_runs(dt: xr.DataTree, models: Sequence[pm.Model]) -> pm.Model:
    """Return the model of the result among several, by the hash of every variable."""
    then = json.loads(Reading.of(dt).model)
    for model in models:
        if then and fingerprint(with_plain_tensors(model)) == then:
            return model
    raise ValueError(
        "values: none of them gives the model of dt, or it contains code of your own, so that this "
        "cannot be told. Pass model=..., the model that was sampled."
    )


@dataclass(frozen=True)
class ReweightedModel:
    """Log ML of one model by reweighting."""

    runs: Reweighted | None  # without log P(S); None if the runs say nothing about the model
    log_weights: np.ndarray  # nats, of K runs, with an unbiased average; empty without ``runs``
    log_ml: Estimate  # not valid if the model needs runs of its own; `reason` says why
    log_bayes_factor: Estimate  # against the model of the runs, without errors that both share
    pareto_k: float  # Pareto k̂ of the weights of the particles; NaN if all are equal
    is_same: bool  # whether the densities are those of the model of the runs


class Reweighting:
    """The weighted particles of a result ``dt`` of a model, to be reweighted to other models."""

    def __init__(self, dt: xr.DataTree, model: pm.Model, reader: str):
        read, self.density = runs_and_density(dt, model, reader)
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

    def to(self, model: pm.Model, *, both_ways: bool = False) -> ReweightedModel:
        """Return log ML of another model of the same data, of equal support if ``both_ways``."""
        model = checked_model(model)
        if reason := different_variables(self.density.model, model):
            return _unusable(reason)
        density = TemperedDensity(model).check()
        reason = self._differs_from(density, both_ways)
        new = self._old if reason else self._log_joint(density)
        with np.errstate(invalid="ignore"):
            log_ratios = new - self._old
        if not reason and not (log_ratios[self.shares > 0] < np.inf).all():
            reason = "a log density is NaN or +∞ at some particles"
        return _unusable(reason) if reason else self._estimates(log_ratios)

    def to_density(self, log_joint: np.ndarray) -> ReweightedModel:
        """Return log Z of a normalisable density that is given at the particles, run after run."""
        with np.errstate(invalid="ignore"):  # particles without weight
            return self._estimates(log_joint.reshape(self.shares.shape) - self._old)

    def _differs_from(self, density: TemperedDensity, both_ways: bool) -> str:
        """Say why particles cannot be reweighted to a density; empty if they can."""
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

    def _estimates(self, log_ratios: np.ndarray) -> ReweightedModel:
        runs = reweighted_evidence(log_ratios, self.shares, self.log_weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_weights = np.log(self.shares) + self.log_weights[:, None] + log_ratios
        k = pareto_k(log_weights[self.shares > 0])
        doubts = [
            (not self.average.valid, f"the runs of dt: {self.average.reason}"),
            (not runs.log_z.valid, f"few runs carry the weight: {runs.log_z.reason}"),
            (k > 0.7, f"Pareto k̂ is {k:.2g}"),  # Vehtari et al. (2024)
        ]
        reason = "; ".join(text for holds, text in doubts if holds)
        is_valid, reason = not reason, reason or runs.log_z.reason
        error = float(np.hypot(runs.log_z.error, self._rest))
        value = runs.log_z.value + self._mass
        log_ml = Estimate(value, error, "reweighed", is_valid, reason)
        factor = replace(runs.log_ratio, valid=is_valid, reason=reason)
        is_same = not log_ratios[self.shares > 0].any()
        return ReweightedModel(runs, runs.log_weights + self._mass, log_ml, factor, k, is_same)


def pareto_k(log_weights: np.ndarray) -> float:
    """Return Pareto k̂ of weights: ∞ if too few particles have weight, NaN if there is no tail."""
    from arviz_stats.base import array_stats

    finite = log_weights[np.isfinite(log_weights)]
    if finite.size < FEWEST or effective_sample_size(finite) < FEWEST:
        return np.inf
    try:
        return float(array_stats.pareto_khat(finite[None], r_eff=1, log_weights=True))
    except ValueError:  # all values of the tail are the same
        return np.nan


def _unusable(reason: str) -> ReweightedModel:
    nothing = Estimate(np.nan, np.nan, "reweighed", False, reason)
    return ReweightedModel(None, np.empty(0), nothing, nothing, np.nan, False)


def elasticity(
    dt: xr.DataTree,
    build: Callable[[float], pm.Model],
    values: Sequence[float],
    *,
    model: pm.Model | None = None,
) -> pd.DataFrame:
    """Estimate d log ML / d log scale at several scales from the runs on one model.

    It is a central difference of log ML by reweighting, at 0.99 and 1.01 times the scale. Both ends
    use the same particles, so most of their errors cancel. An elasticity of −1 means that a scale
    twice as large lowers log ML by log 2; this is the limit for one parameter with a wide prior.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data; ``simulate=None`` is enough.
    build : callable
        ``build(scale)`` returns the model for a scale, with the same free variables and data.
    values : sequence of float
        Scales, greater than 0.
    model : pymc.Model, optional
        As in `sensitivity`.

    Returns
    -------
    DataFrame
        Indexed by ``value``: ``elasticity`` and ``error``, one standard error, in nats;
        ``pareto_k``, the larger Pareto k̂ of the two ends; ``valid`` and ``reason``, whether both
        ends can be reweighted (see `sensitivity`). No runs are added: if a row is not valid, pass a
        result on a nearer scale.

    Raises
    ------
    ValueError
        If ``dt`` has no runs on the real data, its model is not found or another one, or a scale is
        not positive.

    Notes
    -----
    The support must not depend on the scale: the derivative for Uniform(0, scale) is not an average
    over the posterior. Such rows are not valid.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def build(scale):
    ...     with pm.Model() as model:
    ...         y = pm.Normal("y", pm.Normal("x", 0, scale), observed=0.0)
    ...     return model
    >>> dt = pm.sample_bdmc(build(1.0), simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> table = bdmc.elasticity(dt, build, [1.0])  # log ML is −½ log(1 + scale²) + constant
    >>> bool(abs(table.loc[1.0, "elasticity"] + 0.5) < 4 * table.loc[1.0, "error"])
    True
    """
    for value in values:
        check_positive(values=value)
    values = [float(value) for value in values]
    models = [] if model else [built(build, value) for value in values]
    particles = Reweighting(dt, model or model_of_runs(dt, models), "elasticity")
    rows = [_elasticity(particles, build, value) for value in values]
    columns = ["elasticity", "error", "pareto_k", "valid", "reason"]
    return pd.DataFrame(rows, pd.Index(values, name="value"), columns)


def _elasticity(particles: Reweighting, build: Callable[[float], pm.Model], value: float) -> tuple:
    above, below = (
        particles.to(built(build, value * np.exp(step)), both_ways=True) for step in (STEP, -STEP)
    )
    if above.runs is None or below.runs is None:
        return np.nan, np.nan, np.nan, False, (below if above.runs else above).log_ml.reason
    found = log_ratio_of_averages(above.runs.log_weights, below.runs.log_weights)
    bad = [end.log_ml.reason for end in (above, below) if not end.log_ml.valid]
    error = np.nan if bad else found.error / (2 * STEP)
    k = float(np.fmax(above.pareto_k, below.pareto_k))
    return found.value / (2 * STEP), error, k, not bad, bad[0] if bad else found.reason
