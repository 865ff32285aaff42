"""Compare models by their evidence, in words and by observation, or samplers by their gaps."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, softmax

from pymc_bdmc.base.arguments import check_flags
from pymc_bdmc.estimators import predictive_densities
from pymc_bdmc.results.checks.missed import short_on_simulated
from pymc_bdmc.results.finding import Table, outwards
from pymc_bdmc.results.log_ml import (
    Z95,
    WithInterval,
    estimates_of,
    log_ml_of,
    plus_minus,
    recommended_log_ml,
)
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.sandwich import certified_of, gap_of

READ = ["log_ml", "error", "log_bayes_factor", "bayes_factor_error", "probability"]
"""Columns that are always shown."""

COLUMNS = [
    *READ, "lower", "upper", "valid", "jeffreys_bound", "jeffreys_error", "temperatures",
    "gradient_evaluations", "seconds", "reason",
]  # fmt: skip

LARGEST_FACTOR = np.log(1e4)
"""Largest log Bayes factor that is also reported as a factor, nats. Chosen."""

STRENGTHS = {
    "not worth more than a bare mention": 1, "positive": 3, "strong": 20, "very strong": 150,
}  # fmt: skip
"""Least Bayes factor by what it is called: Kass and Raftery (1995), page 777."""


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
            exact samples have them; if no row has one, these columns come with ``details`` only.
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
    rows = {name: _row(read) for name, read in reads.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table = table.astype({name: float for name in COLUMNS[:-1]} | {"valid": bool})
    table = against_best(table, odds)
    table.loc[~table["valid"], "error"] = np.nan
    if (valid := table.index[table["valid"]]).size:
        table[["lower", "upper"]] = _certified_factors(reads, valid)
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
    n = read.side(read.directions[0]).n_temperatures
    runs = [read.sides[name].run for name in ("forward", "reverse", "real") if read.has(name)]
    gradients = sum(run.attrs.get("gradient_evaluations", np.nan) for run in runs)
    found = n, gap.get("value", np.nan), gap.get("error", np.nan), gradients, read.sampling_time
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
    """Read the results; raise an error unless they are a mapping of results on the same data."""
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
                f"compared. {first} has {_shown(left, right)}; {name} has {_shown(right, left)}. "
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


def _shown(data: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]) -> str:
    """Describe arrays by name, shape and three values, from the first that differs."""
    found = []
    for name, values in data.items():
        start = 0
        for other in others.values():
            if other.shape == values.shape:
                pairs = zip(values.ravel(), other.ravel(), strict=True)
                places = (i for i, pair in enumerate(pairs) if not _is_equal(*pair))
                start = max(start, next(places, 0))
        shown = ", ".join(map(str, values.ravel()[start : start + 3]))
        before, after = "… " if start else "", " …" if values.size > start + 3 else ""
        found.append(f"{name} {values.shape or ''}: {before}{shown}{after}")
    return "; ".join(found) or "nothing else"


def _prior_odds(prior: Mapping[str, float] | None, names: list[str]) -> pd.Series:
    if prior is None:
        return pd.Series(1.0, index=names)
    if not isinstance(prior, Mapping) or set(prior) != set(names):
        raise ValueError(f"prior: a mapping that gives each of {names} a probability is needed.")
    for name, value in prior.items():
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"prior: {name} must have a positive probability, got {value!r}.")
    return pd.Series(prior, dtype=float)


def _certified_factors(reads: Mapping[str, Reading], names: pd.Index) -> pd.DataFrame:
    """Return intervals of log Bayes factors against the first name, if all bounds are finite."""
    # The first name depends on the results, so the bounds of all of them must hold.
    confidence = 1 - (1 - 0.95) / len(reads)
    rows = {
        name: certified_of(reads[name], confidence).loc[(reads[name].main, 0)] for name in names
    }
    bounds = pd.DataFrame(rows).T[["lower", "upper"]].astype(float)
    factors = bounds.iloc[1:] - bounds.iloc[0][["upper", "lower"]].values
    return factors[np.isfinite(factors).all(axis=1)]


@dataclass(frozen=True, repr=False)
class BayesFactor(WithInterval):
    """Result of `bayes_factor`; it prints as sentences.

    Attributes
    ----------
    value, error : float
        Logarithm of the Bayes factor of the first model against the second, and one standard error,
        nats; NaN if one of the two log ML cannot be trusted.
    valid : bool
        Whether both estimates pass their checks.
    probability : float
        Posterior probability of the first model, if both are equally probable beforehand.
    certified_lower, certified_upper : float
        Bounds that hold together with 95 % probability, nats; infinite if there are none.
    reason : str
        How the two estimates were found, and what their checks say.
    notes : str
        What else the two log ML contain; often empty.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> kernels = ["metropolis", "heat bath"]
    >>> a, b = [bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, random_seed=1,
    ...                             progressbar=False) for kernel in kernels]
    >>> found = bdmc.bayes_factor(a, b)  # of one system, so it is 0
    >>> abs(found.value) < 4 * found.error
    True
    """

    probability: float
    certified_lower: float
    certified_upper: float
    reason: str
    notes: str = ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.sentence, self.notes]))

    @property
    def sentence(self) -> str:
        """Return the estimate, its bounds and the odds."""
        sure = odds = ""
        if np.isfinite(self.certified_lower):
            lower, upper = outwards(self.certified_lower, self.certified_upper)
            sure = f" It is certified to be {lower:.2f} to {upper:.2f}."
        if not self.valid:
            return f"The Bayes factor is not known: {self.reason}.{sure}"
        ends = np.array(self.interval)
        if np.abs(ends).max() <= LARGEST_FACTOR:
            low, high = map(times, np.exp(ends))
            shares = expit(ends)
            odds = (
                f" If both are equally probable beforehand, the odds are {low} to {high} for the "
                f"first, and its probability is {shares[0]:.3g} to {shares[1]:.3g}."
            )
        return (
            f"The log Bayes factor of the first model against the second is {self.with_interval}."
            f"{sure}{odds} {strength(*self.interval)}"
        )


def bayes_factor(a: xr.DataTree, b: xr.DataTree, *, same_data: bool = False) -> BayesFactor:
    """Return the log Bayes factor of two models of the same data, with its error; nats.

    It is the difference of their `log_ml`: above 0 if the data favour ``a``.

    Parameters
    ----------
    a, b : DataTree
        Results of `sample_bdmc` on the same data. Their errors are taken to be independent.
    same_data : bool, default False
        Results on data with other values are refused. True says that they are the same data in
        another form: in other units, on another scale, or split into variables or a Potential.
        Nothing is converted: if a model has z = g(y) in place of y, add ``Σ log |g′(y)|`` to its
        log ML yourself.

    Returns
    -------
    BayesFactor
        Not valid, with NaN as value, if one of the two log ML is not.

    Raises
    ------
    ValueError
        If the data differ, or a result has no runs on the real data.

    See Also
    --------
    compare : several models in a table.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> options = dict(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> with pm.Model():
    ...     heads = pm.Binomial("heads", 10, pm.Beta("p", 1, 1), observed=7)
    ...     free = pm.sample_bdmc(**options)
    >>> with pm.Model():
    ...     heads = pm.Binomial("heads", 10, 0.5, observed=7)
    ...     fair = pm.sample_bdmc(**options)
    >>> found = bdmc.bayes_factor(free, fair)  # exactly -0.254
    >>> abs(found.value + 0.254) < 0.05
    True
    """
    reads = check_comparable({"a": a, "b": b}, same_data)
    found = {name: log_ml_of(read) for name, read in reads.items()}
    first, second = found.values()
    notes = [
        f"{name} model: {note}"
        for name, each in (("First", first), ("Second", second))
        for note in each.notes.split("\n")
        if note
    ]
    bounds = _certified_factors(reads, pd.Index(["b", "a"]))
    lower, upper = bounds.loc["a"] if "a" in bounds.index else (-np.inf, np.inf)
    wrong = [
        f"the log ML of {name} cannot be trusted ({each.reason})"
        for name, each in found.items()
        if not each.valid
    ]
    reason = " and ".join(wrong) or f"{first.method} and {second.method}: {first.reason}"
    value, error = first.value - second.value, float(np.hypot(first.error, second.error))
    numbers = value, error, not wrong, float(expit(value)), float(lower), float(upper)
    return BayesFactor(*numbers, reason, "\n".join(notes))


def strength(lower: float, upper: float) -> str:
    """Name the evidence at both ends of the interval of a log Bayes factor, nats."""
    low, high = sorted((abs(lower), abs(upper)))
    ends = [0.0 if lower < 0 < upper else low, high]
    least = np.log(list(STRENGTHS.values()))
    names = [list(STRENGTHS)[np.searchsorted(least, end, side="right") - 1] for end in ends]
    words = " to ".join(f'"{name}"' for name in dict.fromkeys(names))
    return f"Kass and Raftery (1995) call such evidence {words}."


def times(ratio: float) -> str:
    """Return a ratio with three digits, and without an exponent if it is at most 1e6."""
    return f"{float(f'{ratio:.3g}'):,g}"


def conclusions(table: pd.DataFrame) -> list[str]:
    """Return what to conclude from a table of `compare` with equal prior probabilities."""
    known = table[table["valid"]]
    if len(known) < 2:
        best = f"Only {known.index[0]} has" if len(known) else "No model has"
        return [f"{best} a log ML that can be trusted."]
    best, second = known.index[:2]
    value, error = -known["log_bayes_factor"].iloc[1], known["bayes_factor_error"].iloc[1]
    lower, upper = value - Z95 * error, value + Z95 * error
    if upper <= LARGEST_FACTOR:
        middle, low, high = map(times, np.exp([value, lower, upper]))
        factor = f"{middle} (95 % interval {low} to {high})"
    else:
        factor = f"more than 10,000 (its logarithm is {plus_minus(value, error)})"
    if lower > 0:
        favoured = f"The data favour {best} over {second}, with a Bayes factor of {factor}."
    else:
        favoured = (
            f"It is open whether the data favour {best} or {second}: the Bayes factor is {factor}."
        )
    first = known["probability"].iloc[0]
    share = f"{first:#.2g}" if first < 0.9995 else "above 0.999"
    return [
        favoured,
        strength(lower, upper),
        f"If all models are equally probable beforehand, the probability of {best} is {share}.",
        "These numbers depend on the priors of the parameters within each model, however many data "
        "there are; bdmc.sensitivity shows how much.",
    ]


def pointwise(dt: xr.DataTree, other: xr.DataTree | None = None) -> pd.DataFrame:
    """Return log p(y_i | y_<i), the predictive density of every observation given those before.

    It reads a run that took one observation after the other: ``pm.sample_bdmc(path="data",
    simulate=None)``, which is another run than the default.

    With ``other``, the differences of two models: the log Bayes factor that each observation adds.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` with ``path="data"``.
    other : DataTree, optional
        Another model of the same data, by the same path.

    Returns
    -------
    DataFrame
        A row for each observation, in the order in which they came, named by their coordinates. In
        nats: ``value`` and ``error``, one standard error over the independent runs; ``cumulative``
        and ``cumulative_error``, of the sum up to there, log p(y_1, …, y_i). ``valid``: whether the
        check of averages holds up to there and for log ML; errors are left out if not.
        ``attrs["reason"]`` has what the check of log ML found.

    Raises
    ------
    ValueError
        If the runs took another path, if their temperatures do not end with each observation, if
        some prior draws make the data impossible (so that log P(ℓ > −∞) is part of log ML), or if
        the data of two models differ.

    Notes
    -----
    The sum over all observations is log ML, as its forward average estimates it. The numbers depend
    on the order of the observations, the sum does not: early ones are predicted from little more
    than the prior. `pymc_bdmc.pointwise_orders` takes several orders. If runs on simulated
    data show that averages fall short of log ML, this is added to the errors of the sums, as in
    `evidence`, but not to those of single observations.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    >>> dt = pm.sample_bdmc(model, path="data", simulate=None, random_seed=1, cores=1,
    ...                     progressbar=False)
    >>> table = bdmc.pointwise(dt)
    >>> int(table["value"].idxmin())  # the third observation is a surprise
    2
    >>> bool(abs(table["value"].sum() - bdmc.log_ml(dt).value) < 1e-9)
    True
    """
    if other is not None:
        check_comparable({"dt": dt, "other": other})
        if Reading.of(dt).order != Reading.of(other).order:
            raise ValueError("other: its observations came in another order than those of dt.")
        first, second = pointwise(dt), pointwise(other)
        table = first[["value", "cumulative"]] - second[["value", "cumulative"]]
        for name in ("error", "cumulative_error"):
            table[name] = np.hypot(first[name], second[name])
        table = table.assign(valid=first["valid"] & second["valid"])[list(first)]
        table.attrs["reason"] = f"{first.attrs['reason']}; {second.attrs['reason']}"
        return table
    read = Reading.annealed(dt, "pointwise")
    parts, draws = _row_weights(read), read.side("real").variable("prior_draws").values
    if np.nanmax(draws) > 1:
        raise ValueError(
            "dt: some prior draws make the data impossible, so a part of log ML, log P(ℓ > −∞), "
            "belongs to no single observation."
        )
    found = predictive_densities(parts[~np.isnan(parts).any(axis=1)])
    check = estimates_of(read, "real")["real", 0, "forward average"]
    index = read.labels(parts.shape[1])[read.order or slice(None)]
    table = pd.DataFrame({"value": found.value, "error": found.error}, index)
    table["cumulative"] = found.cumulative
    table["cumulative_error"] = np.hypot(found.cumulative_error, short_on_simulated(read))
    table["valid"] = found.valid & check.valid
    table.loc[~table["valid"], ["error", "cumulative_error"]] = np.nan
    table.attrs["reason"] = check.reason
    return table


def _row_weights(read: Reading) -> np.ndarray:
    """Return the parts of the log weights by run and observation, shape (K, N)."""
    if read.path != "data":
        raise ValueError(
            "dt: its runs did not take one observation after the other. Run the model again with "
            'pm.sample_bdmc(path="data", simulate=None).'
        )
    if "real" in read.sides and "row_log_weight" not in read.side("real").run:
        raise ValueError(
            "dt: its temperatures do not end with each observation. Let their number be a multiple "
            "of that of the observations, or leave temperatures and schedule out."
        )
    return read.side("real").variable("row_log_weight").values
