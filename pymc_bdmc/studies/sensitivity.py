"""Follow log ML over a prior, or any part of a model, from one run."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.base.arguments import check_positive
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.estimators import Estimate, refutes
from pymc_bdmc.results.evidence import recommended_log_ml
from pymc_bdmc.results.finding import Table
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.reweighting import ReweighedModel, Reweighing, built, model_of_runs
from pymc_bdmc.studies.runs import real_run, refuse

LARGEST_ERROR = 0.1
"""Largest error of a reweighed log ML that is accepted by default, nats."""
MAX_CHANCE = 0.001
"""Two-sided probability from which a fresh run contradicts a reweighed log ML."""

COLUMNS = [
    "log_ml", "error", "log_bayes_factor", "bayes_factor_error", "pareto_k", "how",
    "fresh_log_ml", "fresh_error", "gradient_evaluations", "seconds", "valid", "reason",
]  # fmt: skip

_log = logging.getLogger("pymc.bdmc")


def sensitivity(
    dt: xr.DataTree,
    build: Callable[[Any], pm.Model],
    values: Sequence,
    *,
    model: pm.Model | None = None,
    max_error: float | None = None,
    random_seed: RandomSeed = None,
    **options,
) -> pd.DataFrame:
    """Return log ML as a curve over a prior, or any part of the model, from the runs on one model.

    The weighted particles of the runs on the real data are reweighed by the ratio of the joint
    densities of two models, with errors clustered by run
    (`pymc_bdmc.estimators.reweighted_evidence`). Where reweighting fails, a fresh run takes over.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data; ``simulate=None`` is enough.
    build : callable
        ``build(value)`` returns the model for a value, with the same free variables and the same
        data: another prior scale, another likelihood, other degrees of freedom.
    values : sequence
        Values in the order of the curve, all different: numbers, or names of models.
    model : pymc.Model, optional
        The model of ``dt``. Default: the one among ``build(value)`` that has the same variables,
        distributions and data as the model that was sampled.
    max_error : float, optional
        Nats. A value whose reweighed log ML has a larger error gets a fresh run. Default: 0.1, or
        twice the error of log ML of ``dt`` where that is more.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the fresh runs.
    **options
        Passed to `sample_bdmc` for fresh runs. Repeat what the call that made ``dt`` had:
        ``path``, ``step``, ``target_error`` and others.

    Returns
    -------
    DataFrame
        Indexed by ``value``. In nats:

        ``log_ml``, ``error``
            Log ML and one standard error; no error if it is not valid.
        ``log_bayes_factor``, ``bayes_factor_error``
            Log Bayes factor against the model of ``dt``. For reweighed values its error leaves out
            what both have in common.
        ``pareto_k``
            Pareto k̂ of the weights of the particles; above 0.7 a value is not reweighed. NaN where
            there are no weights, or no tail.
        ``how``
            ``"run"``: the model of ``dt``. ``"reweighed"``. ``"reweighed, checked"``: reweighed,
            and a fresh run agrees. ``"fresh run"``.
        ``fresh_log_ml``, ``fresh_error``
            Log ML by the fresh run, where there is one.
        ``gradient_evaluations``, ``seconds``
            Cost of the fresh run, with its preparation.
        ``valid``, ``reason``
            Whether value and error can be trusted, and what the checks found.

    Raises
    ------
    ValueError
        If ``dt`` has no runs on the real data, its model is not found or another one, a model has
        other data, or values repeat.
    KeyboardInterrupt
        If Ctrl-C comes during a fresh run.

    Notes
    -----
    Reweighting needs free variables of equal names, shapes and transforms, and a support that does
    not grow: from Uniform(0, 1) to Uniform(0, 2) all weights would be equal, and the answer wrong.
    Support is tested at draws from the prior of the new model and at the edges of its variables.

    From both ends of the curve inwards, values get a fresh run until a reweighed value agrees with
    its fresh run (Student's t, p > 0.001). So the ends are always checked, and so is the outermost
    value that is reweighed. Where the two disagree, the fresh run is reported; it is valid only if
    it is the higher one, since averages of weights are seldom too high. Nor is a fresh run valid if
    the reweighed runs certify a higher log ML (`pymc_bdmc.estimators.refutes`).

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def build(scale):
    ...     with pm.Model() as model:
    ...         y = pm.Normal("y", pm.Normal("x", 0, scale), observed=1.0)
    ...     return model
    >>> options = dict(random_seed=1, cores=1, progressbar=False)
    >>> dt = pm.sample_bdmc(build(1.0), simulate=None, **options)
    >>> table = bdmc.sensitivity(dt, build, [0.5, 1.0, 2.0, 4.0], **options)
    >>> table["how"].tolist()
    ['reweighed, checked', 'run', 'reweighed', 'reweighed, checked']
    """
    check_positive(max_error=max_error)
    # PyTensor gives a constant from NumPy another type than one from Python.
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not values or len(set(values)) < len(values):
        raise ValueError(f"values: one or more different values are needed, got {values}.")
    refuse(options, ["simulate"], "log ML needs the real data alone")
    models = [built(build, value) for value in values]
    particles = Reweighing(dt, model or model_of_runs(dt, models), "sensitivity")
    base = recommended_log_ml(dt)
    limit = max_error or max(LARGEST_ERROR, 2 * base.error)
    points = [_point(particles.to(each), limit) for each in models]
    entropy = entropy_of(random_seed)

    def run(place: int) -> xr.DataTree:
        _log.info(f"Fresh run for {values[place]!r}: {points[place].told}")
        seed = stream(entropy, Purpose.SENSITIVITY, place)
        return real_run(models[place], random_seed=seed, **options)

    fresh = _fresh_runs(points, run)
    rows = [_row(point, fresh.get(i), base) for i, point in enumerate(points)]
    return Table(rows, index=pd.Index(values, name="value"), columns=COLUMNS)


@dataclass(frozen=True)
class _Point:
    """A value of the curve as the particles see it."""

    found: ReweighedModel
    usable: bool
    told: str

    def agrees(self, fresh: Estimate, runs: int) -> bool:
        """Return whether a fresh run does not contradict the reweighed value."""
        own = self.found.log_ml
        reach = float(stdtrit(max(runs - 1, 1), 1 - MAX_CHANCE / 2))
        return abs(own.value - fresh.value) <= reach * np.hypot(own.error, fresh.error)


def _point(found: ReweighedModel, limit: float) -> _Point:
    own = found.log_ml
    if own.valid and own.error > limit:
        told = f"its error by reweighting is {own.error:.2g}, above {limit:.2g}"
        return _Point(found, False, told)
    return _Point(found, own.valid, "to check it" if own.valid else own.reason)


def _fresh_runs(
    points: Sequence[_Point], run: Callable[[int], xr.DataTree]
) -> Mapping[int, "_Fresh"]:
    """Run what cannot be reweighed, and from both ends inwards until both ways agree."""
    fresh: dict[int, _Fresh] = {}
    places = range(len(points))

    def checked(place: int) -> bool:
        if points[place].found.is_same:
            return points[place].usable
        if place not in fresh:
            fresh[place] = _Fresh.of(run(place), points[place])
        return points[place].usable and fresh[place].agrees

    for order in (places, reversed(places)):
        next(filter(checked, order), None)
    for place in places:
        if not points[place].usable and place not in fresh:
            fresh[place] = _Fresh.of(run(place), points[place])
    return fresh


@dataclass(frozen=True)
class _Fresh:
    """Log ML by a fresh run, its cost, and whether it agrees with the reweighed value."""

    log_ml: Estimate
    gradient_evaluations: int
    seconds: float
    agrees: bool
    is_refuted: bool
    """Whether the reweighed runs certify a higher log ML."""

    @classmethod
    def of(cls, dt: xr.DataTree, point: _Point) -> "_Fresh":
        read = Reading.of(dt)
        found = recommended_log_ml(read)
        agrees = found.valid and point.usable and point.agrees(found, read.side("real").chains)
        higher, own = point.found.log_weights, read.real_log_weights
        is_refuted = bool(higher.size) and refutes(higher, own, 1 - MAX_CHANCE)
        return cls(found, *read.cost, agrees, is_refuted)


def _row(point: _Point, fresh: _Fresh | None, base: Estimate) -> dict:
    """Return the columns of one value."""
    found, how = point.found, "reweighed" if fresh is None else "reweighed, checked"
    best, factor, reason = found.log_ml, found.log_bayes_factor, found.log_ml.reason
    valid = point.usable
    if found.is_same and fresh is None:
        how, best, valid, reason = "run", base, base.valid, base.reason
    elif point.usable and fresh is not None and not fresh.log_ml.valid:
        how, valid = "reweighed", False
        reason = f"the fresh run that should check it cannot be trusted: {fresh.log_ml.reason}"
    elif fresh is not None and not fresh.agrees:
        how, best, valid = "fresh run", fresh.log_ml, fresh.log_ml.valid
        reason = f"{point.told}; {best.reason}"
        if point.usable or fresh.is_refuted:
            reason = f"reweighting gives {found.log_ml.value:.2f}, beyond chance; {best.reason}"
            valid = valid and not fresh.is_refuted and best.value > found.log_ml.value
        factor = Estimate(
            best.value - base.value, float(np.hypot(best.error, base.error)), "", valid, ""
        )
    known = valid and base.valid
    return {
        "log_ml": best.value,
        "error": best.error if valid else np.nan,
        "log_bayes_factor": factor.value,
        "bayes_factor_error": factor.error if known else np.nan,
        "pareto_k": found.pareto_k,
        "how": how,
        "fresh_log_ml": fresh.log_ml.value if fresh else np.nan,
        "fresh_error": fresh.log_ml.error if fresh and fresh.log_ml.valid else np.nan,
        "gradient_evaluations": fresh.gradient_evaluations if fresh else 0,
        "seconds": fresh.seconds if fresh else 0.0,
        "valid": valid,
        "reason": reason,
    }
