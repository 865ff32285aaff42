"""Compare statements on ranges and orders of variables with what they exclude."""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy import ndarray

from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.density.draws import all_draws, as_idata, check_observed
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import Estimate, weighted_average
from pymc_bdmc.results.compare import LARGEST_FACTOR, strength, times
from pymc_bdmc.results.log_ml import WithInterval, plus_minus
from pymc_bdmc.results.particles import runs_and_density
from pymc_bdmc.results.reading import Reading

PRIOR_DRAWS = 100_000
MOST_ELEMENTS = 5_000_000
"""Most elements of θ that are drawn from the prior at once."""
LARGEST_ERROR = 0.2
"""Largest relative error of a probability whose logarithm is believed, as of 25 draws. Chosen."""

OPERATORS: dict[type, Callable] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.Pow: operator.pow, ast.USub: operator.neg,
    ast.And: operator.and_, ast.Or: operator.or_, ast.Not: operator.invert,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Hypothesis:
    """Result of `hypothesis`; it prints as sentences.

    Attributes
    ----------
    statement : str
    prior, posterior : Estimate
        Probabilities that the statement is true, with their standard errors.
    against_complement, against_unrestricted : WithInterval
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
    against_complement: WithInterval
    against_unrestricted: WithInterval

    def __repr__(self) -> str:
        prior, posterior = (
            plus_minus(each.value, each.error) for each in (self.prior, self.posterior)
        )
        lines = [f"P({self.statement}) is {prior} beforehand, and {posterior} given the data."]
        lines += [each.reason for each in (self.prior, self.posterior) if not each.valid]
        rival = f"The Bayes factor of {self.statement} against its complement"
        if self.against_complement.valid:
            lines.append(f"{rival} is {_shown(self.against_complement)}.")
            lines.append(strength(*self.against_complement.interval))
        else:
            lines.append(f"{rival} is not known.")
        if self.against_unrestricted.valid:
            whole = "Against the model without a restriction it is"
            lines.append(f"{whole} {_shown(self.against_unrestricted)}.")
        return "\n".join(lines)


def _shown(factor: WithInterval) -> str:
    """Return a Bayes factor with its interval."""
    if np.abs(factor.interval).max() > LARGEST_FACTOR:
        return f"exp({factor.with_interval})"
    middle, low, high = map(times, np.exp([factor.value, *factor.interval]))
    return f"{middle} (95 % interval {low} to {high})"


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
        such as ``"b > 0"``, ``"-0.1 < b < 0.1"`` or ``"a < b < c"``; joined by ``and``, ``or`` and
        ``not``, with ``+ - * / **``, ``abs`` and elements by position or by coordinate,
        ``"b[0] < b['treated']"``.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of 100,000 draws from the prior.

    Returns
    -------
    Hypothesis
        A Bayes factor is valid if the relative errors of the probabilities in it are 20 % at most,
        as of 25 independent draws. If not, its text says which draws are too few.

    Raises
    ------
    ValueError
        If the statement cannot be read, compares by ``==``, or names what is no variable; if it is
        of vectors; or if ``dt`` is of another model or data.

    Notes
    -----
    The error of the posterior probability is that of independent runs, or of autocorrelated draws.
    It does not contain what all runs, or all draws, miss.

    References
    ----------
    .. [1] Klugkist and Hoijtink (2007), The Bayes factor for inequality and about equality
       constrained models. Computational Statistics and Data Analysis 51, 6367-6379.

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
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(p), errors / p
        odds = np.log(p / (1 - p)), errors / p / (1 - p)
    return Hypothesis(statement, *sides, _difference(*odds), _difference(*logs))


def _difference(logs: ndarray, errors: ndarray) -> WithInterval:
    """Return the difference of two logarithms, posterior less prior, with its error."""
    if not (errors <= LARGEST_ERROR).all():
        return WithInterval(np.nan, np.nan, False)
    return WithInterval(float(logs[1] - logs[0]), float(np.hypot(*errors)), True)


def _probability(value: float, error: float, n: int, draws: str, remedy: str) -> Estimate:
    """Return a probability; it is not valid if too few draws show that it is neither 0 nor 1."""
    value = round(float(value), 12)  # weights add up to 1 but for rounding
    least = min(value, 1 - value)
    if not least:
        error = 1 / n  # one draw
    if error <= LARGEST_ERROR * least:
        return Estimate(value, error, draws, True, "")
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
        found.append(_evaluated(tree, values, density.model)[inside])
    truth = np.concatenate(found)
    p, n = truth.mean(), len(truth)
    return _probability(
        p, np.sqrt(p * (1 - p) / n), n, "prior draws",
        "state less, or put the statement into the prior of a model of its own and compare.",
    )  # fmt: skip


def _by_runs(read: Reading, tree: ast.expr, names: list[str], model: pm.Model) -> Estimate:
    """Return the posterior probability by weighted runs, which are independent."""
    last = read.last_particles
    draws = xr.DataTree.from_dict({"posterior": last.states.rename(particle="draw")})
    values = dict(zip(names, all_draws("dt", draws, names, model), strict=True))
    shares, log_weights = last.within_runs
    truth = _evaluated(tree, values, model).reshape(shares.shape)
    found = weighted_average(log_weights, (shares * truth).sum(axis=1))
    made = _probability(
        float(found.value), float(found.error), truth.size, "particles",
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
    truth = _evaluated(tree, values, model).reshape(chains, -1).astype(float)
    p = float(truth.mean())
    size = array_stats.ess(truth, method="mean") if 0 < p < 1 else np.nan
    error = float(np.nan_to_num(np.sqrt(p * (1 - p) / size)))
    return _probability(p, error, truth.size, "draws", "sample longer.")


def _parsed(statement: str, model: pm.Model) -> tuple[ast.expr, list[str]]:
    """Return a statement as a tree, and the names of the variables in it."""
    try:
        tree = ast.parse(statement.strip(), mode="eval").body
    except (SyntaxError, AttributeError):
        raise ValueError(f"statement: {statement!r} is no comparison such as 'a < b'.") from None
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Eq | ast.NotEq) for node in nodes):
        raise ValueError(
            "statement: it compares by == or !=, which has probability 0 or 1 under a continuous "
            "prior. bdmc.point_null fixes variables at values."
        )
    names = list(dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and n.id != "abs"))
    known = [rv.name for rv in model.unobserved_RVs]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"statement: the model has no variables {unknown}, but {known}.")
    if not names:
        raise ValueError(f"statement: {statement!r} names no variable; the model has {known}.")
    return tree, names


def _evaluated(tree: ast.expr, values: Mapping[str, ndarray], model: pm.Model) -> ndarray:
    """Return at which draws a statement is true; values have one draw a row."""

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
            case ast.UnaryOp(op=op) if type(op) in OPERATORS:
                return OPERATORS[type(op)](of(node.operand))
            case ast.BinOp(op=op) if type(op) in OPERATORS:
                return OPERATORS[type(op)](of(node.left), of(node.right))
            case ast.BoolOp(op=op):
                return reduce(OPERATORS[type(op)], map(of, node.values))
            case ast.Compare(ops=ops) if all(type(op) in OPERATORS for op in ops):
                sides = [of(each) for each in (node.left, *node.comparators)]
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
    return truth


def _element(values: ndarray, name: str, index: ast.expr, model: pm.Model) -> ndarray:
    """Return the draws of an element that is named by positions or coordinates."""
    dims = model.named_vars_to_dims.get(name, (None,) * (values.ndim - 1))
    try:
        given = ast.literal_eval(index)
        place: list[Any] = [
            each if isinstance(each, int) else list(model.coords[dim]).index(each)
            for each, dim in zip(np.atleast_1d(np.array(given, object)), dims, strict=True)
        ]
        return values[(slice(None), *place)]
    except (IndexError, KeyError, TypeError, ValueError):
        raise ValueError(
            f"statement: {name}[{ast.unparse(index)}] is no element; its shape is "
            f"{values.shape[1:]}, with the dimensions {dims}."
        ) from None
