"""Compare estimators of log ML on a problem with a sandwich that bounds log ML."""

import logging
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr

import pymc_bdmc as bdmc
from factor_models.annealing import anneal
from factor_models.estimators import ESTIMATORS, Estimator
from factor_models.models import Problem
from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import RandomSeed, entropy_of, stream

_log = logging.getLogger("pymc.bdmc")

STREAMS = 9
"""First entry of the keys of a race's random streams, which none of the package has."""


def race(
    problem: Problem,
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    *,
    truth: xr.DataTree | None = None,
    budgets: Sequence[int] = (100, 1000, 10_000),
    trials: int = 25,
    random_seed: RandomSeed = None,
) -> xr.Dataset:
    """Run every estimator of log ML with every budget, repeatedly.

    Parameters
    ----------
    problem : Problem
        Result of `FactorModel.simulate`.
    estimators : mapping of {str : Estimator}
        Estimators by name. By default `ESTIMATORS`, from the paper and from this package.
    truth : DataTree, optional
        Result of `anneal`, by default with its default options.
    budgets : sequence of int, default (100, 1000, 10_000)
        Numbers of transitions per estimate.
    trials : int, default 25
        Number of estimates per estimator and budget.
    random_seed : int, sequence of int, SeedSequence or Generator, optional

    Returns
    -------
    Dataset
        Estimates ``log_ml`` in nats, with their ``transitions`` and ``seconds`` of CPU, by
        (estimator, budget, trial), and the ``combined`` log Ẑ of all trials by (estimator, budget).
        The attributes have the true ``log_ml`` by BAR, its standard ``error``, and the ends
        ``lower`` and ``upper`` of the sandwich.

    Raises
    ------
    ValueError
        If a count is not positive.

    Examples
    --------
    >>> from factor_models import ESTIMATORS, Clustering
    >>> problem = Clustering(2, n=6, size=2).simulate(random_seed=1)
    >>> chosen = {name: ESTIMATORS[name] for name in ("AIS", "BIC")}
    >>> result = race(problem, chosen, budgets=[10], trials=3, random_seed=1)
    >>> list(standings(result)["rmse"].index)
    [('AIS', 10), ('BIC', 10)]
    """
    check_counts(trials=trials, **{f"budgets[{i}]": each for i, each in enumerate(budgets)})
    entropy = entropy_of(random_seed)
    if truth is None:
        truth = anneal(problem, random_seed=random_seed, progressbar=False)
    found = np.empty((3, len(estimators), len(budgets), trials))
    for i, estimator in enumerate(estimators.values()):
        estimator.estimate(problem, min(budgets), np.random.default_rng(0))  # compiles
        for j, k in np.ndindex(len(budgets), trials):
            rng = np.random.default_rng(stream(entropy, STREAMS, i, j, k))
            started = time.process_time()
            estimate = estimator.estimate(problem, int(budgets[j]), rng)
            found[:, i, j, k] = *estimate, time.process_time() - started
    combined = [
        [each.combine(row) for row in rows]
        for each, rows in zip(estimators.values(), found[0], strict=True)
    ]
    dims = ("estimator", "budget", "trial")
    names = ("log_ml", "transitions", "seconds")
    bounds = bdmc.summary(truth).loc["simulated", "value"]
    known = bdmc.estimators.bar(
        *(truth[group].dataset["log_weight"].values.ravel() for group in ("forward", "reverse"))
    )
    if not known.valid:
        _log.warning(
            f"The truth of this race cannot be trusted ({known.reason}): pass one from "
            "`anneal` with more temperatures, chains or particles."
        )
    return xr.Dataset(
        {name: (dims, values) for name, values in zip(names, found, strict=True)}
        | {"combined": (dims[:2], np.array(combined))},
        coords={"estimator": list(estimators), "budget": list(budgets)},
        attrs={
            "log_ml": known.value,
            "error": known.error,
            "lower": float(bounds["lower bound"]),
            "upper": float(bounds["upper bound"]),
        },
    )


def standings(result: xr.Dataset) -> pd.DataFrame:
    """Tabulate errors and costs of a race.

    Parameters
    ----------
    result : Dataset
        Result of `race`.

    Returns
    -------
    DataFrame
        Rows by estimator and budget. Columns are the ``bias`` and ``rmse`` of single estimates and
        the error of the ``combined`` estimate, in nats, and the mean ``transitions`` and
        ``seconds`` of CPU of a single estimate.

    Examples
    --------
    See `race`.

    >>> import numpy as np, xarray as xr
    >>> one = (("estimator", "budget", "trial"), np.ones((1, 1, 1)))
    >>> names = ("log_ml", "transitions", "seconds")
    >>> result = xr.Dataset({name: one for name in names}, attrs={"log_ml": 3.0})
    >>> result["combined"] = one[0][:2], np.ones((1, 1))
    >>> float(standings(result)["rmse"].iloc[0])
    2.0
    """
    errors = result["log_ml"] - result.attrs["log_ml"]
    columns = xr.Dataset(
        {
            "bias": errors.mean("trial"),
            "rmse": np.sqrt((errors**2).mean("trial")),
            "combined": result["combined"] - result.attrs["log_ml"],
            "transitions": result["transitions"].mean("trial"),
            "seconds": result["seconds"].mean("trial"),
        }
    )
    return columns.to_dataframe(dim_order=["estimator", "budget"])
