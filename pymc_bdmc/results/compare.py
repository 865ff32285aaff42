"""Compare models by their evidence, or samplers of one model by their gaps."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import softmax

from pymc_bdmc.base.arguments import check_flags
from pymc_bdmc.results.certified import certified_of
from pymc_bdmc.results.evidence import recommended_log_ml
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.sandwich import gap_of
from pymc_bdmc.results.table import Table

CONFIDENCE = 0.95

READ = ["log_ml", "error", "log_bayes_factor", "bayes_factor_error", "probability"]
"""Columns that are always shown."""

COLUMNS = [
    *READ, "lower", "upper", "valid", "jeffreys_bound", "jeffreys_error", "temperatures",
    "gradient_evaluations", "seconds", "reason",
]  # fmt: skip


def compare(
    results: Mapping[str, xr.DataTree],
    *,
    prior: Mapping[str, float] | None = None,
    details: bool = False,
    same_data: bool = False,
) -> pd.DataFrame:
    """Compare models by log ML and Bayes factors, and samplers by their Jeffreys bounds.

    Parameters
    ----------
    results : mapping of str to DataTree
        Results of `sample_bdmc` on the same data, by name: several models, or one model with
        several samplers or parametrisations. Results of `lattice.anneal` and `RBM.anneal` must be
        of one system.
    prior : mapping of str to float, optional
        Prior probabilities of the models, or numbers proportional to them. Default: equal.
    details : bool, default False
        Whether the table has the gap and the cost of the runs too, and what the checks found.
    same_data : bool, default False
        Results on data with other values are refused. True says that they are the same data in
        another form: in other units, on another scale, or split into variables or a Potential.
        Nothing is converted: if a model has z = g(y) in place of y, add ``Σ log |g′(y)|`` to its
        log ML yourself.

    Returns
    -------
    DataFrame
        Indexed by name, the largest valid log ML first, then those that are not valid. In nats:

        ``log_ml``, ``error``
            Estimate by the method that `evidence` recommends, and one standard error.
        ``log_bayes_factor``, ``bayes_factor_error``
            Logarithm of the Bayes factor against the first row.
        ``probability``
            Posterior probability of the model, among those with a valid log ML.
        ``lower``, ``upper``
            Certified interval of the log Bayes factor, for any number of runs. All intervals hold
            together with 95 % probability. They need certified bounds on both sides of every log
            ML, with the failure probability split evenly over the results (Bonferroni). Log ML of
            real data is not certified from above, so only systems whose reverse chains start from
            exact samples have them; where no row has one, these columns come with ``details`` only.
        ``valid``
            Whether the check of the method holds. If it fails, the error, the Bayes factor and the
            probability are left out.

        With ``details`` also:

        ``reason``
            Method, and what its check found.
        ``jeffreys_bound``, ``jeffreys_error``, ``temperatures``
            The gap of the sandwich on simulated data, its error, and T. The error is left out if
            the gap is no bound; see `summary`.
        ``gradient_evaluations``, ``seconds``
            Cost of the round with the most temperatures.

    Raises
    ------
    ValueError
        If there are fewer than two results, if their data differ, or if ``prior`` does not give a
        positive number for each.

    Notes
    -----
    Observed variables are compared by their values, not by their names. Reordered or transformed
    values count as other data: the densities of log y and of y differ by a Jacobian.

    Errors of two rows are taken to be independent.

    `plot_compare` plots the results. `arviz.plot_compare` knows its columns by the names of LOO:
    ``az.plot_compare(table.rename(columns={"log_ml": "elpd", "error": "se"}),
    relative_scale=False, visuals={"labels": False})``.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> observed, rng = xr.Dataset(dict(y=("place", np.arange(5.0)))), np.random.default_rng(0)
    >>> results = {}
    >>> for name, log_ml in [("wide", -10.0), ("narrow", -8.0)]:
    ...     runs = dict(log_weight=("chain", rng.normal(log_ml, 0.2, 100)),
    ...                 prior_draws=("chain", np.ones(100)))
    ...     real = xr.Dataset(runs, coords=dict(beta=np.linspace(0, 1, 31)))
    ...     results[name] = xr.DataTree.from_dict(dict(real=real, observed_data=observed))
    >>> bdmc.compare(results)[["log_bayes_factor", "probability"]].round(1)
            log_bayes_factor  probability
    narrow               0.0          0.9
    wide                -2.0          0.1
    """
    reads = check_comparable(results, same_data)
    odds = _prior_odds(prior, list(results))
    table = pd.DataFrame.from_dict(
        {name: _row(read) for name, read in reads.items()}, orient="index", columns=COLUMNS
    )
    table = table.astype({name: float for name in COLUMNS[:-1]} | {"valid": bool})
    table = against_best(table, odds)
    table.loc[~table["valid"], "error"] = np.nan
    if (valid := table.index[table["valid"]]).size:
        table[["lower", "upper"]] = certified_factors(reads, valid)
    if details:
        return Table.of(table)
    bounds = [name for name in ("lower", "upper") if table[name].notna().any()]
    return Table.of(table[[*READ, *bounds, "valid"]])


def against_best(table: pd.DataFrame, odds: pd.Series | None = None) -> pd.DataFrame:
    """Sort models by log ML, the valid ones first, and compare them with the first."""
    table = table.sort_values(["valid", "log_ml"], ascending=False)
    known = table[table["valid"]]
    if len(known):
        first = known.iloc[0]
        prior = 0.0 if odds is None else np.log(odds[known.index])
        table["log_bayes_factor"] = known["log_ml"] - first["log_ml"]
        table["bayes_factor_error"] = np.hypot(known["error"], first["error"])
        table.loc[table.index[0], "bayes_factor_error"] = 0.0
        table.loc[known.index, "probability"] = softmax(known["log_ml"] + prior)
    return table


def cost(result: xr.DataTree | Reading) -> pd.DataFrame:
    """Gap and cost of every round: temperatures, jeffreys_bound, error, gradients and seconds."""
    read = Reading.of(result)
    columns = ["temperatures", "jeffreys_bound", "error", "gradient_evaluations", "seconds"]
    if read.has("rounds"):
        return pd.DataFrame({name: read.group("rounds")[name].values for name in columns})
    gap = gap_of(read, "simulated") if read.has("forward") else {}
    found = {
        "temperatures": read.side(read.directions[0]).n_temperatures,
        "jeffreys_bound": gap.get("value", np.nan),
        "error": gap.get("error", np.nan),
        "gradient_evaluations": read.gradients,
        "seconds": read.sampling_time,
    }
    return pd.DataFrame([found], columns=columns)


def _row(read: Reading) -> dict:
    """Return the columns of one result that do not depend on the other results."""
    row = {**cost(read).iloc[-1].drop(["jeffreys_bound", "error"]), "valid": False}
    row["reason"] = "no runs on the real data"
    if read.has("forward"):
        gap = gap_of(read, "simulated")
        row["jeffreys_bound"] = gap["value"]
        row["jeffreys_error"] = gap["error"] if gap["valid"] else np.nan
    if not read.sets_of(read.main):
        return row
    best = recommended_log_ml(read, read.main)
    reason = f"{best.method}: {best.reason}"
    return row | {"log_ml": best.value, "error": best.error, "valid": best.valid, "reason": reason}


def check_comparable(
    results: Mapping[str, xr.DataTree], same_data: bool = False
) -> dict[str, Reading]:
    """Read the results; raise an error unless they are a mapping of results on the same data.

    With ``same_data`` the caller answers for the data.
    """
    check_flags(same_data=same_data)
    # A DataTree is itself a mapping of its groups.
    if isinstance(results, xr.DataTree) or not isinstance(results, Mapping) or len(results) < 2:
        raise ValueError(
            "results: a mapping of names to two or more results is needed, such as "
            '{"centred": dt, "non-centred": other_dt}.'
        )
    if models := [name for name, each in results.items() if hasattr(each, "free_RVs")]:
        raise ValueError(f"results: {models} are models; bdmc.compare_models samples those.")
    reads = {name: Reading.annealed(dt, "compare") for name, dt in results.items()}
    if same_data:
        return reads
    first, *others = results
    expected = _observed(first, reads[first])
    for name in others:
        left, right = _unpaired(expected, _observed(name, reads[name]))
        if left or right:
            raise ValueError(
                f"{name}: its data are not those of {first}, so their evidences cannot be "
                f"compared. {first} has {_told(left, right)}; {name} has {_told(right, left)}. "
                "Values, and their order, must be the same. If both are the same data in another "
                "form, pass same_data=True; with z = g(y) in place of y, add Σ log |g′(y)| to its "
                "log ML."
            )
    return reads


def _observed(name: str, read: Reading) -> dict[str, np.ndarray]:
    """Return observed values by variable; for a system without data, its description."""
    if read.is_system:
        return {"system": np.array(read.system)}
    if not read.has("observed_data"):
        raise ValueError(
            f"{name}: it has no group 'observed_data', so its data are not known. Was the result "
            "cut, or saved in parts?"
        )
    return read.observed


def _unpaired(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> tuple[dict, dict]:
    """Return the arrays of each mapping that have no equal in the other, by values alone."""
    left, right = dict(a), dict(b)
    for name, array in a.items():
        twin = next((other for other, each in right.items() if _is_equal(array, each)), None)
        if twin is not None:
            del left[name], right[twin]
    return left, right


def _is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    numbers = a.dtype.kind in "fiub" and b.dtype.kind in "fiub"
    return np.array_equal(a, b, equal_nan=numbers)


def _told(data: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> str:
    """Describe arrays by name, shape and three values, from the first that differs."""
    told = []
    for name, values in data.items():
        start = 0
        for other in others.values():
            if other.shape == values.shape:
                pairs = zip(values.ravel(), other.ravel(), strict=True)
                places = (i for i, pair in enumerate(pairs) if not _is_equal(*pair))
                start = max(start, next(places, 0))
        shown = ", ".join(map(str, values.ravel()[start : start + 3]))
        before, after = "… " if start else "", " …" if values.size > start + 3 else ""
        told.append(f"{name} {values.shape or ''}: {before}{shown}{after}")
    return "; ".join(told) or "nothing else"


def _prior_odds(prior: Mapping[str, float] | None, names: list[str]) -> pd.Series:
    if prior is None:
        return pd.Series(1.0, index=names)
    if not isinstance(prior, Mapping) or set(prior) != set(names):
        raise ValueError(f"prior: a mapping that gives each of {names} a probability is needed.")
    for name, value in prior.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"prior: {name} must have a positive probability, got {value!r}.")
    return pd.Series(prior, dtype=float)


def certified_factors(reads: Mapping[str, Reading], names: pd.Index) -> pd.DataFrame:
    """Return intervals of log Bayes factors against the first name, if all bounds are finite."""
    # The first name depends on the results, so the bounds of all of them must hold.
    each = 1 - (1 - CONFIDENCE) / len(reads)
    bounds = {
        name: certified_of(reads[name], each).loc[(reads[name].main, 0), ["lower", "upper"]]
        for name in names
    }
    first = bounds[names[0]]
    rows = {
        name: (own["lower"] - first["upper"], own["upper"] - first["lower"])
        for name, own in bounds.items()
        if name != names[0] and np.isfinite([*own, *first]).all()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["lower", "upper"])
