"""Find the model with the largest log ML, with more runs while the order is undecided."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.base.arguments import (
    check_confidence,
    check_counts,
    check_positive,
    check_progressbar,
)
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.estimators import Estimate, jarzynski_forward, round_confidence
from pymc_bdmc.results.checks.missed import refuting_path
from pymc_bdmc.results.compare import against_best, check_comparable, conclusions
from pymc_bdmc.results.finding import Table
from pymc_bdmc.results.log_ml import recommended_log_ml
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.sampling import sample_bdmc

COLUMNS = [
    "log_ml", "error", "log_bayes_factor", "bayes_factor_error", "probability", "beaten", "runs",
    "gradient_evaluations", "seconds", "valid", "reason",
]  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class ModelChoice:
    """Result of `compare_models`; it prints as what may be concluded, and its table.

    Attributes
    ----------
    best : str
        Name of the model with the largest valid log ML; empty if none is valid.
    known : bool
        Whether it is known to be the best, with the stated confidence.
    confidence : float
    looks : int
        Number of looks.
    table : DataFrame
        Indexed by name, the best first. ``log_ml``, ``error``, ``log_bayes_factor`` against the
        first row and its error, nats; ``probability`` of the model if all have the same prior
        probability, among those with a valid log ML; ``beaten``, whether another model is known to
        be better; ``runs``, ``gradient_evaluations`` and ``seconds``, its cost; ``valid`` and
        ``reason``.
    results : dict of str to list of DataTree
        Results of `sample_bdmc` by model, one for each look that added runs.

    Examples
    --------
    >>> import pandas as pd
    >>> from pymc_bdmc.studies.compare_models import ModelChoice
    >>> columns = {"log_ml": [-3.0, -5.0], "log_bayes_factor": [0.0, -2.0], "valid": True,
    ...            "bayes_factor_error": [0.0, 0.1], "probability": [0.88, 0.12]}
    >>> found = ModelChoice("a", True, 0.95, 1, pd.DataFrame(columns, index=["a", "b"]), {})
    >>> print(found)  # doctest: +ELLIPSIS
    The data favour a over b, with a Bayes factor of 7.39 (95 % interval 6.07 to 8.99).
    Kass and Raftery (1995) call such evidence "positive".
    If all models are equally probable beforehand, the probability of a is 0.88.
    ...
       log_ml  log_bayes_factor  probability
    a      -3                 0        0.880
    b      -5                -2        0.120
    """

    best: str
    known: bool
    confidence: float
    looks: int
    table: pd.DataFrame
    results: dict[str, list[xr.DataTree]]

    def __repr__(self) -> str:
        lines = conclusions(self.table)
        if self.known:
            lines.append(
                "More runs would not bring another model to the top "
                f"({100 * self.confidence:.5g} % confidence), unless runs missed a part of a "
                "posterior."
            )
        elif self.best:
            beaten = self.table["beaten"] | (self.table.index == self.best)
            names = ", ".join(self.table.index[~beaten])
            lines.append(f"More runs may bring another model to the top: {names}.")
        shown = ["log_ml", "error", "log_bayes_factor", "probability", "runs"]
        if not self.table["valid"].all():
            shown.append("valid")
        table = self.table.reindex(columns=shown).dropna(axis="columns", how="all")
        return "\n".join([*lines, repr(Table(table))])


def compare_models(
    models: Mapping[str, pm.Model],
    *,
    target_error: float | None = None,
    confidence: float = 0.95,
    max_looks: int = 5,
    max_time: float | None = None,
    same_data: bool = False,
    random_seed: RandomSeed = None,
    progressbar: bool | str = True,
    **options,
) -> ModelChoice:
    """Sample several models of the same data until it is known which one has the largest log ML.

    The first look samples all models. Every further look adds fresh, independent runs to the best
    model and to those that may be better than it, so that the number of their runs doubles. It ends
    when all others are beaten, or when the budget is spent.

    Parameters
    ----------
    models : mapping of str to pymc.Model
        Two or more models of the same data, by name.
    target_error : float, optional
        Nats. Standard error of log ML for which the runs of the first look are made, as in
        `sample_bdmc`. Every further look divides it by about √2.
    confidence : float, default 0.95
        1 − δ, of the statement which model is best.
    max_looks : int, default 5
        Largest number of looks. Five looks make 16 times as many runs as the first, so that a tie
        is left open with a quarter of its error.
    max_time : float, optional
        Seconds, after which no further look begins. The number of looks may then depend on the
        machine.
    same_data : bool, default False
        Whether other observed values are the same data in another form; see `compare`.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        One seed gives one result for any ``cores``, unless ``max_time`` ends the looks.
    progressbar : bool or str, default True
        Whether to show the runs and log ML of all models.
    **options
        Passed to `sample_bdmc` for every model: ``chains`` (runs in the first look, in place of
        ``target_error``), ``particles``, ``temperatures``, ``path``, ``step``, ``cores`` and
        others.

    Returns
    -------
    ModelChoice
        The best model, whether it is known to be the best, a table, and all results.

    Raises
    ------
    ValueError
        If there are fewer than two models, their data differ, or an argument is out of range.
    KeyboardInterrupt
        If Ctrl-C comes in the first look. Later the looks so far are the result.

    Notes
    -----
    Log ML is the average of the weights of all runs of a model, each with the same weight, which is
    fixed beforehand: the size of a look is not chosen by what was found. Model b beats a in look
    k if their difference exceeds Student's t quantile at 1 − δ/(2^k (m − 1)), for m models, times
    its standard error. The best model is beaten by none of the m − 1 others in any look with
    probability 1 − δ (Bonferroni), so the statement which model is best does not suffer from
    looking several times. It rests on the standard errors, which are not certified, and on runs
    that missed no part of the posterior. The estimates themselves are biased a little by stopping.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> models = {}
    >>> for name, mean in [("near", 0.0), ("far", 5.0)]:
    ...     with pm.Model() as models[name]:
    ...         y = pm.Normal("y", pm.Normal("x", mean), observed=0.5)
    >>> found = bdmc.compare_models(models, random_seed=1, cores=1, progressbar=False)
    >>> found.best, found.known
    ('near', True)
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            'models: a mapping of names to two or more models is needed, such as {"a": model_a, '
            '"b": model_b}.'
        )
    if given := [name for name, each in models.items() if isinstance(each, xr.DataTree)]:
        raise ValueError(f"models: {given} are results; bdmc.compare compares those.")
    check_positive(target_error=target_error, max_time=max_time)
    check_counts(max_looks=max_looks)
    check_confidence(confidence)
    check_progressbar(progressbar)
    refuse(options, ("simulate", "store", "target_gap"), "compare_models makes its own runs")
    first = options | ({} if target_error is None else {"target_error": target_error})
    later = {name: each for name, each in options.items() if name != "chains"}
    entropy, started = entropy_of(random_seed), time.monotonic()
    results: dict[str, list[xr.DataTree]] = {name: [] for name in models}
    rows: dict[str, dict] = {}
    title = "Rounds of runs", "log ML"
    with ChainProgress(dict.fromkeys(models, max_looks), progressbar, *title) as progress:
        for look in range(1, max_looks + 1):
            for place, (name, model) in enumerate(models.items()):
                if look > 1 and rows[name]["beaten"]:
                    continue
                seed = stream(entropy, Purpose.COMPARE, place, look)
                more = first if look == 1 else later | {"chains": rows[name]["runs"]}
                try:
                    dt = real_run(model, random_seed=seed, progressbar=False, **more)
                except KeyboardInterrupt:
                    if look == 1:
                        raise
                    return _choice(rows, confidence, look - 1, results)
                results[name].append(dt)
                rows[name] = _row(results[name])
                progress.advance(name, 1, rows[name]["log_ml"])
            if look == 1:
                check_comparable({name: each[0] for name, each in results.items()}, same_data)
            _judge(rows, (1 - round_confidence(confidence, look)) / (len(models) - 1))
            for name in (beaten := [name for name in models if rows[name]["beaten"]]):
                progress.complete(name)
            late = max_time is not None and time.monotonic() - started > max_time
            if late or len(beaten) > len(models) - 2:
                break
    return _choice(rows, confidence, look, results)


def pooled_log_ml(results: Sequence[xr.DataTree]) -> Estimate:
    """Estimate log ML from all runs of several results of one model, with equal weights, nats."""
    reads = [Reading.of(dt) for dt in results]
    if reads[0].is_null:
        return recommended_log_ml(reads[0])
    weights = [read.real_log_weights for read in reads]
    errors = [each.mass.error for read in reads for each in read.sets_of("real")]
    joined = np.concatenate(weights)
    average = jarzynski_forward(joined)
    # Each result has its own P(S), whose error moves its share of the sum.
    shares = np.array([np.exp(each - joined.max()).sum() for each in weights])
    mass_error = float(np.linalg.norm(shares / shares.sum() * errors))
    error = float(np.hypot(average.error, mass_error))
    if other := next(filter(None, map(refuting_path, reads)), ""):
        reason = f"runs on path {other!r} give a higher log ML; {average.reason}"
        return replace(average, error=error, valid=False, reason=reason)
    return replace(average, error=error)


def _row(results: Sequence[xr.DataTree]) -> dict:
    """Return the columns of one model that do not depend on the others."""
    found, reads = pooled_log_ml(results), [Reading.of(dt) for dt in results]
    gradients, seconds = np.sum([read.cost for read in reads], axis=0)
    return {
        "log_ml": found.value,
        "error": found.error if found.valid else np.nan,
        "beaten": False,
        "runs": sum(read.side("real").chains for read in reads),
        "gradient_evaluations": int(gradients),
        "seconds": float(seconds),
        "valid": found.valid,
        "reason": found.reason,
    }


def _judge(rows: Mapping[str, dict], delta: float) -> None:
    """Mark the models that another one beats, each with probability δ of an error."""
    contenders = [row for row in rows.values() if row["valid"] and not row["beaten"]]
    best = max(contenders, key=lambda row: row["log_ml"], default=None)
    for row in contenders:
        if best and row is not best:
            reach = float(stdtrit(min(row["runs"], best["runs"]) - 1, 1 - delta))
            gap = best["log_ml"] - row["log_ml"]
            row["beaten"] = bool(gap > reach * np.hypot(best["error"], row["error"]))


def _choice(
    rows: Mapping[str, dict], confidence: float, looks: int, results: dict[str, list[xr.DataTree]]
) -> ModelChoice:
    table = against_best(pd.DataFrame.from_dict(rows, orient="index").reindex(columns=COLUMNS))
    best = str(table.index[0]) if table["valid"].any() else ""
    left = [name for name, row in rows.items() if not row["beaten"]]
    return ModelChoice(best, left == [best], confidence, looks, table, results)


def real_run(model: pm.Model, **options: Any) -> xr.DataTree:
    """Return runs on the real data; raise KeyboardInterrupt if Ctrl-C left some of them undone."""
    dt = sample_bdmc(model, simulate=None, **options)
    if Reading.of(dt).interrupted:
        raise KeyboardInterrupt
    return dt


def refuse(options: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Raise an error if one of these options of `sample_bdmc` is given."""
    for name in names:
        if name in options:
            raise ValueError(f"{name}: {reason}; leave it out.")
