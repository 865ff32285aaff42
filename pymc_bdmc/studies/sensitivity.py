"""Ask what log ML depends on: a prior or another part of the model, or single observations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_counts, check_positive
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.estimators import Estimate, refutes
from pymc_bdmc.paths import DataPath
from pymc_bdmc.results.compare import pointwise
from pymc_bdmc.results.finding import MAX_CHANCE, Table
from pymc_bdmc.results.log_ml import recommended_log_ml
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.reweighting import ReweightedModel, Reweighting, built, model_of_runs
from pymc_bdmc.sampling import sample_bdmc
from pymc_bdmc.studies.compare_models import real_run, refuse

_log = logger(__name__)


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

    The weighted particles of the runs on the real data are reweighted by the ratio of the joint
    densities of two models, with errors clustered by run
    (`pymc_bdmc.estimators.reweighted_evidence`). If reweighting fails, a fresh run takes over.

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
        Nats. A value whose reweighted log ML has a larger error gets a fresh run. Default: 0.1, or
        twice the error of log ML of ``dt`` if that is more.
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
            Log Bayes factor against the model of ``dt``. For reweighted values its error leaves out
            what both have in common.
        ``pareto_k``
            Pareto k̂ of the weights of the particles; above 0.7 a value is not reweighted. NaN if
            there are no weights, or no tail.
        ``how``
            ``"run"``: the model of ``dt``. ``"reweighed"``. ``"reweighed, checked"``: reweighted,
            and a fresh run agrees. ``"fresh run"``.
        ``fresh_log_ml``, ``fresh_error``
            Log ML by the fresh run, if there is one.
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

    From both ends of the curve inwards, values get a fresh run until a reweighted value agrees with
    its fresh run (Student's t, p > 0.001). So the ends are always checked, and so is the outermost
    value that is reweighted. If the two disagree, the fresh run is reported; it is valid only if
    it is the higher one, since averages of weights are seldom too high. Nor is a fresh run valid if
    the reweighted runs certify a higher log ML (`pymc_bdmc.estimators.refutes`).

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
    >>> table = bdmc.sensitivity(dt, build, [1.0, 2.0, 4.0], **options)
    >>> table["how"].tolist()
    ['run', 'reweighed', 'reweighed, checked']
    """
    check_positive(max_error=max_error)
    # PyTensor gives a constant from NumPy another type than one from Python.
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not values or len(set(values)) < len(values):
        raise ValueError(f"values: one or more different values are needed, got {values}.")
    refuse(options, ["simulate"], "log ML needs the real data alone")
    models = [built(build, value) for value in values]
    particles = Reweighting(dt, model or model_of_runs(dt, models), "sensitivity")
    base = recommended_log_ml(dt)
    limit = max_error or max(0.1, 2 * base.error)
    points = [_Point(found, _doubt(found.log_ml, limit)) for found in map(particles.to, models)]
    entropy = entropy_of(random_seed)

    def run(place: int) -> xr.DataTree:
        _log.info(f"Fresh run for {values[place]!r}: {points[place].doubt or 'to check it'}")
        seed = stream(entropy, Purpose.SENSITIVITY, place)
        return real_run(models[place], random_seed=seed, **options)

    _add_fresh_runs(points, run)
    rows = [_row(point, base) for point in points]
    return Table(rows, index=pd.Index(values, name="value"))


def _doubt(own: Estimate, limit: float) -> str:
    """Say why a reweighted log ML cannot be used; empty if it can."""
    if own.valid and own.error > limit:
        return f"its error by reweighting is {own.error:.2g}, above {limit:.2g}"
    return "" if own.valid else own.reason


@dataclass
class _Point:
    """A value of the curve by reweighting, a doubt about it, and a fresh run if there is one."""

    found: ReweightedModel
    doubt: str
    fresh: Estimate | None = None
    cost: tuple[int, float] = (0, 0.0)
    agrees: bool = False  # whether the fresh run confirms the reweighted value
    is_refuted: bool = False  # whether reweighted runs certify a higher log ML than the fresh run

    def add(self, dt: xr.DataTree) -> None:
        """Compare with a fresh run."""
        read, own = Reading.of(dt), self.found.log_ml
        fresh = recommended_log_ml(read)
        reach = float(stdtrit(max(read.side("real").chains - 1, 1), 1 - MAX_CHANCE / 2))
        near = abs(own.value - fresh.value) <= reach * np.hypot(own.error, fresh.error)
        higher = self.found.log_weights
        self.fresh, self.cost = fresh, read.cost
        self.agrees = bool(fresh.valid and not self.doubt and near)
        self.is_refuted = bool(higher.size) and refutes(
            higher, read.real_log_weights, 1 - MAX_CHANCE
        )


def _add_fresh_runs(points: Sequence[_Point], run: Callable[[int], xr.DataTree]) -> None:
    """Run what cannot be reweighted, and from both ends inwards until both ways agree."""

    def checked(place: int) -> bool:
        point = points[place]
        if not point.found.is_same and not point.fresh:
            point.add(run(place))
        return not point.doubt and (point.found.is_same or point.agrees)

    places = range(len(points))
    for order in (places, reversed(places)):
        next(filter(checked, order), None)
    for place, point in enumerate(points):
        if point.doubt and not point.fresh:
            point.add(run(place))


def _row(point: _Point, base: Estimate) -> dict:
    own, fresh, factor = point.found.log_ml, point.fresh, point.found.log_bayes_factor
    if not fresh:
        how, best = ("run", base) if point.found.is_same else ("reweighed", own)
        valid, reason = best.valid, best.reason
    elif not point.doubt and not fresh.valid:
        how, best, valid = "reweighed", own, False
        reason = f"the fresh run that should check it cannot be trusted: {fresh.reason}"
    elif point.agrees:
        how, best, valid, reason = "reweighed, checked", own, True, own.reason
    else:
        how, best, valid = "fresh run", fresh, fresh.valid
        reason = f"{point.doubt}; {best.reason}"
        if not point.doubt or point.is_refuted:
            reason = f"reweighting gives {own.value:.2f}, beyond chance; {best.reason}"
            valid = valid and not point.is_refuted and best.value > own.value
        error = float(np.hypot(best.error, base.error))
        factor = Estimate(best.value - base.value, error, "", valid, "")
    gradients, seconds = point.cost
    return {
        "log_ml": best.value,
        "error": best.error if valid else np.nan,
        "log_bayes_factor": factor.value,
        "bayes_factor_error": factor.error if valid and base.valid else np.nan,
        "pareto_k": point.found.pareto_k,
        "how": how,
        "fresh_log_ml": fresh.value if fresh else np.nan,
        "fresh_error": fresh.error if fresh and fresh.valid else np.nan,
        "gradient_evaluations": gradients,
        "seconds": seconds,
        "valid": valid,
        "reason": reason,
    }


def pointwise_orders(
    model: pm.Model, orders: int = 4, *, random_seed: RandomSeed = None, **options: Any
) -> pd.DataFrame:
    """Return log p(y_i | those before it) of every observation, in several orders of the data.

    In one order the first observations are predicted from the prior and the last ones from nearly
    all data. An observation that is a surprise wherever it comes decides; one that is a surprise in
    some orders only was early there.

    Parameters
    ----------
    model : pymc.Model
        Model whose observations are independent given its variables; see `DataPath`.
    orders : int, default 4
        Number of orders: the one of the data, and random ones.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the orders and of all runs.
    **options
        Passed to `sample_bdmc`, such as ``chains`` or ``cores``.

    Returns
    -------
    DataFrame
        A row for each observation. In nats: a column for each order, by its number; ``mean`` over
        the orders, ``error`` of this mean by the runs, and ``spread``, the standard deviation over
        orders. ``valid``: whether it is in every order. ``attrs["log_ml"]`` has log ML by order;
        these are estimates of the same number.

    Raises
    ------
    ValueError
        If the observations cannot come one after the other, or ``orders`` is no number of orders.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    >>> table = bdmc.pointwise_orders(model, orders=2, chains=8, random_seed=1, cores=1,
    ...                               progressbar=False)
    >>> int(table["mean"].idxmin())  # the third observation is a surprise in both
    2
    """
    check_counts(orders=orders)
    entropy, path, tables = entropy_of(random_seed), DataPath(), []
    for k in range(orders):
        seed = stream(entropy, Purpose.ORDERS, k)
        dt = sample_bdmc(model, path=path, simulate=None, random_seed=seed, **options)
        tables.append(pointwise(dt))
        rng = np.random.default_rng(stream(entropy, Purpose.ORDERS, orders + k))
        path = DataPath(order=rng.permutation(len(tables[0])).tolist())
    aligned = [table.loc[tables[0].index] for table in tables]
    values = pd.concat({k: table["value"] for k, table in enumerate(aligned)}, axis=1)
    errors = np.array([table["error"] for table in aligned])
    found = values.assign(
        mean=values.mean(axis=1),
        error=np.sqrt((errors**2).sum(axis=0)) / orders,
        spread=values.std(axis=1, ddof=1) if orders > 1 else np.nan,
        valid=np.all([table["valid"] for table in aligned], axis=0),
    )
    found.attrs["log_ml"] = values.sum().tolist()
    return found
