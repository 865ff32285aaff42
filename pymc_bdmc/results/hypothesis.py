"""Compare statements on ranges and orders of variables with what they exclude."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from numbers import Number
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy import ndarray
from pymc.vartypes import continuous_types
from scipy.special import betaincinv, logit

from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.density.draws import all_draws, as_idata, check_observed
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import Estimate, weighted_average
from pymc_bdmc.results.compare import LARGEST_FACTOR, strength, times
from pymc_bdmc.results.log_ml import Z95, WithInterval, plus_minus
from pymc_bdmc.results.particles import runs_and_density
from pymc_bdmc.results.reading import Reading

PRIOR_DRAWS = 100_000
MOST_ELEMENTS = 5_000_000
"""Most elements of θ that are drawn from the prior at once."""
LARGEST_ERROR = 0.2
"""Largest relative error of a probability whose logarithm is believed, as of 25 draws. Chosen."""

OPERATORS: dict[type, Callable] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: np.float_power, ast.USub: operator.neg,
    ast.And: operator.and_, ast.Or: operator.or_, ast.Not: operator.invert,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Factor(WithInterval):
    """A log Bayes factor with its standard error, nats; NaN if probabilities in it are too few.

    Attributes
    ----------
    lower, upper : float
        Limits, each with 95 % confidence, also if it is not valid; infinite if there is none.
    """

    lower: float
    upper: float

    def __repr__(self) -> str:
        """Return the factor with its interval, or else its limits."""
        if self.valid and np.abs(self.interval).max() > LARGEST_FACTOR:
            return f"exp({self.with_interval})"
        if self.valid:
            middle, low, high = map(times, np.exp([self.value, *self.interval]))
            return f"{middle} (95 % interval {low} to {high})"
        ends = {"at least": self.lower, "at most": self.upper}
        known = [f"{side} {times(np.exp(x))}" for side, x in ends.items() if np.isfinite(x)]
        each = ", each" if len(known) > 1 else ""
        return f"{' and '.join(known)}{each} with 95 % confidence" if known else "not known"


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """Result of `hypothesis`; it prints as sentences.

    Attributes
    ----------
    statement : str
    prior, posterior : Estimate
        Probabilities that the statement is true, with their standard errors.
    against_complement, against_unrestricted : Factor
        Log Bayes factors of the statement against its complement, and against the model without a
        restriction; nats.

    Examples
    --------
    >>> from pymc_bdmc.estimators import Estimate
    >>> from pymc_bdmc.results.hypothesis import of_probabilities
    >>> prior, posterior = (Estimate(p, 0.002, "", True, "") for p in (0.5, 0.9))
    >>> print(of_probabilities("b > 0", prior, posterior))
    P(b > 0) is 0.5000 ± 0.0020 beforehand, and 0.9000 ± 0.0020 given the data.
    The Bayes factor of b > 0 against its complement is 9 (95 % interval 8.59 to 9.43).
    Kass and Raftery (1995) call such evidence "positive".
    Against the model without a restriction it is 1.8 (95 % interval 1.78 to 1.82).
    """

    statement: str
    prior: Estimate
    posterior: Estimate
    against_complement: Factor
    against_unrestricted: Factor

    def __repr__(self) -> str:
        prior, posterior = (
            plus_minus(each.value, each.error) for each in (self.prior, self.posterior)
        )
        lines = [f"P({self.statement}) is {prior} beforehand, and {posterior} given the data."]
        lines += [each.reason for each in (self.prior, self.posterior) if not each.valid]
        factor, whole = self.against_complement, self.against_unrestricted
        lines.append(f"The Bayes factor of {self.statement} against its complement is {factor!r}.")
        ends = factor.interval if factor.valid else (factor.lower, factor.upper)
        if factor.valid or min(ends) > 0 or max(ends) < 0:
            lines.append(strength(*ends))
        lines.append(f"Against the model without a restriction it is {whole!r}.")
        return "\n".join(lines)


def hypothesis(
    dt: Any, model: pm.Model, statement: str, *, random_seed: RandomSeed = None
) -> Hypothesis:
    """Return the Bayes factor of a statement on ranges or orders against its complement; nats.

    By Bayes' theorem it is the odds of the statement given the data, divided by the odds
    beforehand. Against the model without a restriction it is the ratio of the two probabilities
    [1]_.

    Parameters
    ----------
    dt : DataTree, Dataset or InferenceData
        Result of `sample_bdmc` on the real data, or draws of another sampler by ``chain`` and
        ``draw``.
    model : pymc.Model or object that has one
        The model of ``dt``, whose prior is drawn from.
    statement : str
        Comparisons by ``<``, ``<=``, ``>`` and ``>=`` of variables, Deterministics and numbers,
        such as ``"b > 0"``, ``"-0.1 < b < 0.1"`` or ``"a < b < c"``, and of discrete ones by ``==``
        and ``!=``; joined by ``and``, ``or`` and ``not``, with ``+ - * / **`` and ``abs``. Sums
        count statements: ``"(a > 0) + (b > 0) + (c > 0) >= 2"``. Elements are named by coordinate,
        ``"b['treated'] > 0"`` or ``"b[2001] > 0"``, or by position if coordinates are no numbers.
        Other names stand in backticks: ``"`1|subject_sigma` > 1"``, ``"`sub::z` > 0"``.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of 100,000 draws from the prior.

    Returns
    -------
    Hypothesis
        A Bayes factor is valid if the relative errors of the probabilities in it are 20 % at most,
        as of 25 independent draws. If not, its text says which draws are too few, and the factor
        has limits.

    Raises
    ------
    ValueError
        If the statement cannot be read, compares continuous variables by ``==``, or names what is
        no variable; if it is of vectors, or NaN at some draws; or if ``dt`` is of another model or
        data.

    Notes
    -----
    The error of the posterior probability is that of independent runs, or of autocorrelated draws.
    It does not contain what all runs, or all draws, miss.

    Limits are those of Clopper and Pearson [2]_ for the effective number of draws: the least of
    those of the statement and of all that it compares, since a statement that is never true shows
    no autocorrelation. The two probabilities share the failure probability of 5 %.

    References
    ----------
    .. [1] Klugkist and Hoijtink (2007), The Bayes factor for inequality and about equality
       constrained models. Computational Statistics and Data Analysis 51, 6367-6379.
    .. [2] Clopper and Pearson (1934), The use of confidence or fiducial limits illustrated in the
       case of the binomial. https://doi.org/10.1093/biomet/26.4.404

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("b"), 1, observed=[0.5, 1.0])
    ...     dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> found = bdmc.hypothesis(dt, model, "b > 0", random_seed=1)
    >>> abs(found.posterior.value - 0.807) < 0.02  # the posterior is N(1/2, 1/3)
    True
    """
    given, model = model, checked_model(model)
    tree, names = _parsed(statement, model)
    rng = np.random.default_rng(entropy_of(random_seed))
    read = Reading.of(dt)
    if read.has("real"):
        density = runs_and_density(dt, model, "hypothesis")[1]
        posterior = _by_runs(read, tree, names, model)
    else:
        density = TemperedDensity(model).check()
        posterior = _by_draws(as_idata("dt", dt, given), tree, names, density)
    return of_probabilities(statement, _beforehand(density, tree, rng), posterior)


def of_probabilities(statement: str, prior: Estimate, posterior: Estimate) -> Hypothesis:
    """Return the Bayes factors that follow from the probabilities of a statement."""
    sides = prior, posterior
    p, errors = np.array([[each.value, each.error] for each in sides]).T
    limits = np.array([_limits(each) for each in sides])
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = _factor(logit(p), errors / p / (1 - p), logit(limits))
        whole = _factor(np.log(p), errors / p, np.log(limits))
    return Hypothesis(statement, *sides, odds, whole)


def _factor(logs: ndarray, errors: ndarray, limits: ndarray) -> Factor:
    """Return the difference of two logarithms, posterior less prior, with error and limits."""
    lower, upper = limits[1] - limits[0, ::-1]
    value, error = float(logs[1] - logs[0]), float(np.hypot(*errors))
    if valid := bool((errors <= LARGEST_ERROR).all()):
        lower, upper = value - Z95 * error, value + Z95 * error
    else:
        value = error = np.nan
    return Factor(value, error, valid, float(lower), float(upper))


def _limits(found: Estimate) -> tuple[float, float]:
    """Return limits of a probability, each with 97.5 % confidence: Clopper and Pearson (1934)."""
    p, error = found.value, found.error
    if not error > 0:  # nothing is known of its error
        return 0.0, 1.0
    n = p * (1 - p) / error**2 if 0 < p < 1 else 1 / error
    true, false = p * n, (1 - p) * n
    lower = betaincinv(true, false + 1, 0.025) if true else 0.0
    return float(lower), float(betaincinv(true + 1, false, 0.975)) if false else 1.0


def _probability(
    value: float, error: float, n: int, effective: float, draws: str, remedy: str
) -> Estimate:
    """Return a probability; it is not valid if too few draws show that it is neither 0 nor 1.

    The error then allows for the effective number of draws, and is 1 over it for 0 and for 1.
    """
    value = round(float(value), 12)  # weights add up to 1 but for rounding
    least = min(value, 1 - value)
    if least and error <= LARGEST_ERROR * least:
        return Estimate(value, float(error), draws, True, "")
    error = max(error, np.sqrt(value * (1 - value) / effective)) if least else 1 / effective
    few = f"{(least / error) ** 2:.0f} in effect" if least else "none"
    side = "true" if value < 0.5 else "false"
    reason = f"Of {n} {draws} it is {side} at {few}, and 25 are needed: {remedy}"
    return Estimate(value, float(error), draws, False, reason)


def _beforehand(density: TemperedDensity, tree: ast.expr, rng: np.random.Generator) -> Estimate:
    """Return the prior probability of a statement."""
    found, rows = [], max(1, min(PRIOR_DRAWS, MOST_ELEMENTS // density.size))
    for _ in range(0, PRIOR_DRAWS, rows):
        with np.errstate(all="ignore"):
            points = density.draw_priors(rows, rng, density.data)
            values = density.constrain(points)
        theta = np.concatenate([each.reshape(rows, -1) for each in points.values()], axis=1)
        inside = ~np.isnan(theta).any(axis=1)  # an ordered prior rejects the others
        values = {name: each[inside] for name, each in values.items()}
        found.append(_evaluated(tree, values, density.model, "prior draws")[0])
    truth = np.concatenate(found)
    p, n = truth.mean(), len(truth)
    return _probability(
        p, np.sqrt(p * (1 - p) / n), n, n, "prior draws",
        "state less, or put the statement into the prior of a model of its own and compare.",
    )  # fmt: skip


def _by_runs(read: Reading, tree: ast.expr, names: list[str], model: pm.Model) -> Estimate:
    """Return the posterior probability by weighted runs, which are independent."""
    last = read.last_particles
    draws = xr.DataTree.from_dict({"posterior": last.states.rename(particle="draw")})
    values = dict(zip(names, all_draws("dt", draws, names, model), strict=True))
    shares, log_weights = last.within_runs
    series = np.array(_evaluated(tree, values, model, "particles"), dtype=float)
    series = series.reshape(len(series), *shares.shape)
    found = weighted_average(log_weights, (shares * series).sum(axis=2).T)
    squares = weighted_average(log_weights, (shares * series**2).sum(axis=2).T).value
    variances = squares - found.value**2
    moves = variances > 1e-12 * squares  # not rounding alone
    sizes = variances[moves] / found.error[moves] ** 2
    made = _probability(
        found.value[0], found.error[0], series[0].size,
        min(sizes, default=found.effective_sample_size), "particles",
        "sample with a smaller target_error.",
    )  # fmt: skip
    if found.valid:
        return made
    return Estimate(made.value, np.nan, made.method, False, f"Few runs count: {found.reason}.")


def _by_draws(
    idata: xr.DataTree, tree: ast.expr, names: list[str], density: TemperedDensity
) -> Estimate:
    """Return the posterior probability by draws of chains."""
    from arviz_stats.base import array_stats

    check_observed("dt", idata, density.data)
    model, chains = density.model, idata["posterior"].sizes["chain"]
    values = dict(zip(names, all_draws("dt", idata, names, model), strict=True))
    series = np.array(_evaluated(tree, values, model, "draws"), dtype=float)
    p, n = float(series[0].mean()), series[0].size
    # What does not move says nothing of autocorrelation; ESS is NaN for too few draws.
    by_chain = [each.reshape(chains, -1) for each in series if np.ptp(each) > 0]
    sizes = np.nan_to_num([array_stats.ess(each, method="bulk") for each in by_chain], nan=1.0)
    error = np.sqrt(p * (1 - p) / sizes[0]) if 0 < p < 1 else 0.0
    return _probability(p, error, n, min(sizes, default=chains), "draws", "sample longer.")


def _parsed(statement: str, model: pm.Model) -> tuple[ast.expr, list[str]]:
    """Return a statement as a tree, and the names of the variables in it."""
    quoted: dict[str, str] = {}

    def identifier(name: re.Match) -> str:
        word = f"quoted_{name[1].encode().hex()}"
        quoted[word] = name[1]
        return word

    try:
        tree = ast.parse(re.sub("`([^`]+)`", identifier, statement.strip()), mode="eval").body
    except (SyntaxError, TypeError, AttributeError):
        raise ValueError(
            f"statement: {statement!r} is no comparison such as 'a < b'. Names with other signs "
            "than letters, digits and _ stand in backticks: '`1|group_sigma` > 1'."
        ) from None
    used = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id != "abs"]
    for node in used:
        node.id = quoted.get(node.id, node.id)
    names = list(dict.fromkeys(node.id for node in used))
    known = [rv.name for rv in model.unobserved_RVs]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"statement: the model has no variables {unknown}, but {known}. Names with other signs "
            "than letters, digits and _ stand in backticks."
        )
    if not names:
        raise ValueError(f"statement: {statement!r} names no variable; the model has {known}.")
    return tree, names


def _evaluated(
    tree: ast.expr, values: Mapping[str, ndarray], model: pm.Model, draws: str
) -> list[ndarray]:
    """Return at which draws a statement is true, and all that it compares, by draw.

    Values have one draw a row.
    """
    compared: list[ndarray] = []

    def side(node: ast.expr) -> Any:
        found = of(node)
        if isinstance(found, ndarray):
            if share := np.isnan(found).mean():
                raise ValueError(
                    f"statement: {ast.unparse(node)} is NaN at {share:.2%} of the {draws}, where "
                    "it can be called neither true nor false; state what is defined at all of them."
                )
            compared.append(found)
        return found

    def is_continuous(node: ast.expr) -> bool:
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in values]
        return any(model[name].dtype in continuous_types for name in names)

    def of(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.Name(id=name):
                return values[name]
            case ast.Subscript(value=ast.Name(id=name)):
                return _element(values[name], name, node.slice, model)
            case ast.Call(func=ast.Name(id="abs"), args=[inner], keywords=[]):
                return np.abs(of(inner))
            case ast.UnaryOp(op=ast.USub()):
                return -(of(node.operand) + 0)
            case ast.UnaryOp(op=ast.Not()):
                return ~of(node.operand)
            case ast.BinOp(op=op) if type(op) in OPERATORS:  # statements count as 0 and 1
                with np.errstate(all="ignore"):
                    return OPERATORS[type(op)](of(node.left) + 0, of(node.right) + 0)
            case ast.BoolOp(op=op):
                return reduce(OPERATORS[type(op)], map(of, node.values))
            case ast.Compare(ops=ops) if all(type(op) in OPERATORS for op in ops):
                parts = [node.left, *node.comparators]
                sides = [side(each) for each in parts]
                if any(isinstance(op, ast.Eq | ast.NotEq) for op in ops):
                    for part, found in zip(parts, sides, strict=True):
                        if np.asarray(found).dtype.kind == "f" and is_continuous(part):
                            raise ValueError(
                                f"statement: {ast.unparse(part)} is continuous, and compared by "
                                "== or !=, which has probability 0 or 1. bdmc.point_null fixes "
                                "variables at values."
                            )
                pairs = zip(ops, sides[:-1], sides[1:], strict=True)
                return reduce(np.logical_and, [OPERATORS[type(o)](a, b) for o, a, b in pairs])
        raise ValueError(f"statement: {ast.unparse(node)!r} cannot be read in it.")

    try:
        truth = np.asarray(of(tree))
    except TypeError:  # numbers that are joined like statements
        truth = np.empty(0)
    if truth.dtype != bool:
        raise ValueError(f"statement: {ast.unparse(tree)!r} is no comparison such as 'a < b'.")
    if truth.ndim != 1:
        raise ValueError(
            f"statement: it compares arrays of shape {truth.shape[1:]}; name their elements, such "
            "as b[0] < b[1]."
        )
    return [truth, *compared]


def _element(values: ndarray, name: str, index: ast.expr, model: pm.Model) -> ndarray:
    """Return the draws of an element that is named by coordinates, or else by positions."""
    dims = model.named_vars_to_dims.get(name, (None,) * (values.ndim - 1))
    coords = {dim: list(model.coords.get(dim) or ()) for dim in dims}
    try:
        given = np.atleast_1d(np.array(ast.literal_eval(index), object))
        place: list[Any] = [
            each if isinstance(each, int) and not _has_numbers(coords[dim]) else
            coords[dim].index(each)
            for each, dim in zip(given, dims, strict=True)
        ]  # fmt: skip
        return values[(slice(None), *place)]
    except (IndexError, TypeError, ValueError):
        raise ValueError(
            f"statement: {name}[{ast.unparse(index)}] is no element; its shape is "
            f"{values.shape[1:]}, with the coordinates {coords}."
        ) from None


def _has_numbers(labels: list) -> bool:
    return bool(labels) and all(isinstance(each, Number) for each in labels)
