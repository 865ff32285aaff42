"""Check models and what belongs to them: draws, gradients, transforms, conditionals, evidence."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import reseed_rngs
from pytensor.tensor.variable import TensorVariable

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point, stack
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.support import repeated_elements, repeats
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators.exchangeability import LEARNING, exchangeability
from pymc_bdmc.testing.bets import Bets, Check, odds_bets, unit_bets
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Target

LogDensity = Callable[[Point], float]


def check_prior_sampler(
    model: pm.Model, *, alpha: float = ALPHA, budget: int = 2_000, random_seed: RandomSeed = None
) -> Report:
    """Check that draws of all variables, including the observed ones, come from their log density.

    The check finds a `pymc.CustomDist` whose ``random`` and ``logp`` disagree, a wrong sampler of a
    multivariate normal, and priors with atoms. Metropolis steps move every draw, one variable at a
    time. If draws have the stated density, a draw and its moved state are exchangeable (see
    `pymc_bdmc.estimators.exchangeability`).

    Parameters
    ----------
    model : pymc.Model
    alpha : float, default 1e-5
        Largest probability that a correct model fails. The p-values are Hoeffding's bounds (1963,
        Theorem 2), multiplied by the number of comparisons.
    budget : int, default 2000
        Number of draws.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of draws and moves.

    Returns
    -------
    Report
        The evidence is the smallest p-value. Findings name the variables with a wrong location or
        spread, and log p if it is wrong. A wrong variable affects those that depend on it.

    Raises
    ------
    ValueError
        If the model cannot be simulated, or if the budget is too small.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def wide(rng=None, size=None):
    ...     return rng.normal(scale=1.5, size=size)
    >>> with pm.Model() as model:
    ...     x = pm.CustomDist("x", logp=lambda v: pm.logp(pm.Normal.dist(), v), random=wide)
    ...     y = pm.Normal("y", x, observed=0.5)
    >>> bdmc.testing.check_prior_sampler(model, budget=1000, random_seed=1).findings[0]
    'x'
    """
    check = Check("check_prior_sampler", budget, random_seed, alpha)
    if budget < 2 * LEARNING:
        raise ValueError(f"budget: at least {2 * LEARNING} draws are needed, got {budget}.")
    (density,), rng = check.densities(model), check.generator()
    sampler = density.joint()
    sampler.seed(rng)
    drawn = [sampler.draw_supported() for _ in range(budget)]
    check.spent = budget
    free, data = stack([point for point, _, _ in drawn]), stack([y for _, y, _ in drawn])
    if atoms := list(repeated_elements(density, free)):
        evidence, findings = 0.0, [f"{name}: draws repeat a value" for name in atoms]
    else:
        pvalues = _pvalues(density, free, data, rng)
        evidence = min(pvalues.values(), default=1.0)
        worst = sorted(pvalues, key=lambda name: pvalues[name])
        failed = [name for name in worst if pvalues[name] <= alpha]
        findings = [name or "log p of all variables together" for name in failed]
    blind_to = (
        "a density that is wrong by a constant factor",
        "draws that miss a mode, where no small move leads to it",
    )
    return check.report("the model's draws", blind_to, findings, evidence)


def _pvalues(
    density: TemperedDensity, free: Point, data: Point, rng: np.random.Generator
) -> dict[str, float]:
    """Return the p-values of variables by name, and that of log p under the key ``""``."""
    draws = {**free, **data}
    columns = {name: rows.reshape(len(rows), -1) for name, rows in draws.items()}
    sizes = {name: rows.shape[1] for name, rows in columns.items()}
    real = {name: rows.dtype.kind == "f" for name, rows in draws.items()}
    # Moves cannot reach an atom; data may have atoms.
    fixed = [name for name in data if real[name] and any(map(repeats, columns[name].T))]
    moved = [name for name in draws if name not in fixed]
    order = moved + fixed
    ends = np.cumsum([sizes[name] for name in order])
    layout = {name: slice(end - sizes[name], end) for name, end in zip(order, ends, strict=True)}
    groups = {density.titles.get(name, name): layout[name] for name in moved if sizes[name]}
    whole = np.repeat([not real[name] for name in moved], [sizes[name] for name in moved])

    def log_joint(theta: np.ndarray) -> float:
        point = {
            name: theta[layout[name]].reshape(rows.shape[1:]).astype(rows.dtype)
            for name, rows in draws.items()
        }
        data = {name: point[name].astype(y.dtype) for name, y in density.data.items()}
        try:
            return float(sum(density.terms(point, data)))
        except (ValueError, ArithmeticError):  # a move may leave a parameter's domain
            return np.nan

    thetas = np.concatenate([columns[name] for name in order], axis=1).astype(float)
    return exchangeability(
        thetas, lambda rows: (np.array([log_joint(row) for row in rows]), None), groups, rng, whole
    )


def check_gradient(model: pm.Model, *, budget: int = 20, random_seed: RandomSeed = None) -> Report:
    """Compare the gradient that step methods use with differences of the log density.

    The points are draws from the prior. PyMC and PyTensor test their own gradients, so this check
    is for your own operations and for `pymc.CustomDist`.

    Parameters
    ----------
    model : pymc.Model
    budget : int, default 20
        Number of points.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the points.

    Returns
    -------
    Report
        Report with evidence 0 if a derivative is wrong and 1 otherwise. Only the points are random.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", 0, pm.HalfNormal("sigma"), observed=[0.3, -1.2])
    >>> bdmc.testing.check_gradient(model, random_seed=1).passed
    True
    """
    check = Check("check_gradient", budget, random_seed)
    (density,), rng = check.densities(model, simulated=False), check.generator()
    target = Target(density)

    def slope(point: Point, name: str, place: tuple[int, ...], step: float) -> float:
        change = np.zeros_like(point[name])
        change[place] = step
        above, below = (target({**point, name: point[name] + sign * change}) for sign in (1, -1))
        return (above - below) / (2 * step)

    for _ in range(budget):
        point, _ = density.draw_prior(rng)
        for name, gradient in target.gradient(point).items():
            for place in np.ndindex(gradient.shape):
                fine, coarse = (slope(point, name, place, step) for step in (1e-4, 2e-4))
                # Besides the error of the differences, a relative error of 1e-5 is allowed.
                doubt = abs(fine - coarse) + 1e-5 * (1 + abs(fine))
                if not abs(gradient[place] - fine) <= doubt:
                    element = density.titles[name] + (str(list(place)) if place else "")
                    wrong = f"the gradient is {gradient[place]:.6g}, differences give {fine:.6g}"
                    check.findings.setdefault(element, f"{element}: {wrong}")
    blind_to = "a log density that is wrong itself", "places where prior draws do not come"
    check.spent = budget
    return check.report("log p", blind_to)


def check_transform(
    transform: Transform, dist: TensorVariable, *, budget: int = 20, random_seed: RandomSeed = None
) -> Report:
    """Check that a transform inverts correctly, and that its log volume is right.

    Parameters
    ----------
    transform : Transform
        Transform in PyMC's form: ``forward``, ``backward``, ``log_jac_det``.
    dist : TensorVariable
        Distribution to transform, such as ``pm.HalfNormal.dist()``.
    budget : int, default 20
        Number of draws of ``dist`` at which the transform is checked.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the draws.

    Returns
    -------
    Report
        Report with evidence 0 if something is wrong and 1 otherwise. Only the draws are random.

    Raises
    ------
    ValueError
        If ``forward`` neither keeps the number of elements nor drops the last element of every row
        (as for a simplex), since the volume is then not defined.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> from pymc.distributions.transforms import log
    >>> bdmc.testing.check_transform(log, pm.HalfNormal.dist(shape=2), random_seed=1).passed
    True
    """
    check = Check("check_transform", budget, random_seed)
    rng, inputs = check.generator(), dist.owner.inputs
    draw, updates = compile_graph(
        [], [dist, transform.forward(dist, *inputs)], mode=INTERPRETED, random_seed=False,
        return_updates=True,
    )  # fmt: skip
    reseed_rngs(list(updates), rng.integers(2**63, size=4).tolist())
    v = pt.tensor("v", dtype=dist.dtype, shape=(None,) * dist.ndim)
    outputs = [transform.backward(v, *inputs), pt.sum(transform.log_jac_det(v, *inputs))]
    back = compile_graph([v], outputs, mode=INTERPRETED)
    for _ in range(budget):
        x, value = draw()
        returned, log_volume = back(value)
        where = f"at {np.array2string(np.asarray(x), threshold=8)}"
        if not np.allclose(returned, x, rtol=1e-6, atol=1e-6):
            check.findings.setdefault("inverse", f"backward(forward(x)) is {returned} {where}")
        expected = _log_volume(lambda at: back(at)[0], value, np.shape(x))
        if not abs(log_volume - expected) <= 1e-6 * (1 + abs(expected)):
            check.findings.setdefault(
                "volume",
                f"log_jac_det is {log_volume:.6g}, differences give {expected:.6g} {where}",
            )
    title = getattr(transform, "name", None) or type(transform).__name__
    blind_to = ("values that the distribution does not draw",)
    check.spent = budget
    return check.report(title, blind_to)


def _log_volume(backward, value: np.ndarray, shape: tuple[int, ...]) -> float:
    """Return the log absolute determinant of the derivative of ``backward``, by differences."""
    last = np.s_[...] if np.shape(value) == shape else np.s_[..., :-1]
    flat, columns = np.array(value, float).ravel(), []
    for i, step in enumerate(np.diag(1e-5 * np.maximum(1.0, np.abs(flat)))):
        ends = [backward((flat + side * step).reshape(np.shape(value)))[last] for side in (1, -1)]
        columns.append((ends[0] - ends[1]).ravel() / (2 * step[i]))
    if any(column.size != flat.size for column in columns):
        raise ValueError(
            f"transform: from the shape {shape} it goes to {np.shape(value)}; only one that keeps "
            "the number of elements, or drops the last of every row, has a volume to check."
        )
    return float(np.linalg.slogdet(np.array(columns))[1])


def check_conditionals(
    conditional_logp: LogDensity,
    joint: pm.Model | LogDensity,
    name: str,
    *,
    points: Sequence[Point] | None = None,
    budget: int = 100,
    random_seed: RandomSeed = None,
) -> Report:
    r"""Check that ``log p(x|u)``, for one variable x, agrees with ``log p(x, u)``.

    For any two values x and x′, ``p(x|u) / p(x′|u) = p(x, u) / p(x′, u)`` up to rounding, whether
    or not the densities are normalised. One pair of points shows a missing factor or a wrong sign
    (Grosse and Duvenaud 2014, Testing MCMC code, Section 3).

    Parameters
    ----------
    conditional_logp : callable
        Function from a point to log p(x|u), nats, up to a constant that may depend on u.
    joint : pymc.Model or callable
        A model, or a function from a point to log p(x, u). The points of a model map the names of
        all variables, including the observed ones, to values on the model's own scale, without
        transforms.
    name : str
        Name of x in a point.
    points : sequence of mappings, optional
        Points to compare if ``joint`` is a function. The x′ of a point is the x of the next point.
        With a model the points are drawn.
    budget : int, default 100
        Number of pairs of points that are drawn from a model. Given points are all used.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the points.

    Returns
    -------
    Report
        Report with evidence 0 if a ratio is wrong and 1 otherwise. Only the points are random.

    Raises
    ------
    ValueError
        If ``points`` are missing or superfluous or lack the name, or if log p is −∞ at all of them.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 2, 2)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    >>> def conditional(point):  # Beta(2 + y, 12 − y), not normalised
    ...     p, y = point["p"], point["y"]
    ...     return (1 + y) * np.log(p) + (11 - y) * np.log1p(-p)
    >>> bdmc.testing.check_conditionals(conditional, model, "p", random_seed=1).passed
    True
    """
    check = Check("check_conditionals", budget, random_seed)
    if not callable(joint):
        if points is not None:
            raise ValueError("points: they are drawn from the model; leave them out.")
        points, joint_logp = _of_model(joint, budget + 1, check.generator())
    elif points is None:
        raise ValueError("points: they are needed if joint is a function.")
    else:
        joint_logp = joint
    if any(name not in point for point in points):
        raise ValueError(f"name: there is no {name!r} in the points, which have {list(points[0])}.")
    for point, following in pairwise(points):
        other = {**point, name: following[name]}
        ours, theirs = (
            np.array([density(point), density(other)]) for density in (conditional_logp, joint_logp)
        )
        if theirs[0] == -np.inf:
            continue
        check.spent += 1
        if theirs[1] == -np.inf == ours[1] and np.isfinite(ours[0]):
            continue
        rise, expected = np.diff(ours)[0], np.diff(theirs)[0]
        size = 1 + np.abs([*ours, *theirs]).max()
        if not abs(rise - expected) <= 1e-8 * size:
            check.findings.setdefault(
                name,
                f"from {name} = {point[name]} to {other[name]} log p({name}|…) rises by {rise:.9g},"
                f" log p of all by {expected:.9g}",
            )
    if not check.spent:
        raise ValueError("points: log p is −inf at all of them; pass at least two possible points.")
    blind_to = (
        "draws: whether a step draws from the density that it says",
        "values between the points",
    )
    return check.report(name, blind_to)


def _of_model(model: pm.Model, n: int, rng: np.random.Generator) -> tuple[list[Point], LogDensity]:
    """Return draws of all variables on the model's own scale, and their joint log density."""
    model = checked_model(model)
    check_simulable(model)
    density = TemperedDensity(remove_value_transforms(model))
    sampler = density.joint()
    sampler.seed(rng)
    drawn = [sampler.draw_supported() for _ in range(n)]

    def joint_logp(point: Point) -> float:
        return sum(density.terms(point, {name: point[name] for name in density.data}))

    return [{**point, **data} for point, data, _ in drawn], joint_logp


def check_bayes_factor(
    log_bayes_factor: Callable[[Mapping[str, np.ndarray]], float],
    model_0: pm.Model,
    model_1: pm.Model | None = None,
    *,
    alpha: float = ALPHA,
    budget: int = 2_000,
    random_seed: RandomSeed = None,
) -> Report:
    r"""Check log Bayes factors on data that are simulated from the models.

    Let BF = p(y|model_1)/p(y|model_0). On data from model_0 the mean of BF is 1, and on data from
    model_1 the mean of 1/BF is 1. If a fair coin chooses the model of each data set, the odds of
    model_1 given BF are BF itself (Turing's theorem; Schad et al. 2022, Workflow techniques for the
    robust use of Bayes factors). Every data set decides bets against these three statements.

    Parameters
    ----------
    log_bayes_factor : callable
        Function from data, a mapping by observed variable, to log BF in nats.
    model_0 : pymc.Model
    model_1 : pymc.Model, optional
        Model with the same observed variables. Without this model only the mean under model_0 is
        checked, and BF may be a noisy estimate if it is unbiased (the estimate of BF itself, not
        of its logarithm). With this model log BF must be exact, or have an error that is small
        compared to 1/√budget.
    alpha : float, default 1e-5
        Largest probability that a correct subject fails, whenever the check stops, by Ville's
        inequality for the mean of the bettors' capitals (`pymc_bdmc.testing.bets`).
    budget : int, default 2000
        Number of data sets, unless the check fails earlier.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the data.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If the models cannot be simulated, or differ in their observed variables.

    Examples
    --------
    A normal mean of 0 against one with a standard normal prior:

    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> from scipy.stats import norm
    >>> models = []
    >>> for width in (1e-9, 1.0):
    ...     with pm.Model() as model:
    ...         y = pm.Normal("y", pm.Normal("mu", 0, width), observed=0.0)
    ...     models.append(model)
    >>> def log_bayes_factor(data):
    ...     return norm.logpdf(data["y"], 0, np.sqrt(2)) - norm.logpdf(data["y"])
    >>> check = bdmc.testing.check_bayes_factor
    >>> check(log_bayes_factor, *models, budget=500, random_seed=1).passed
    True
    """
    check = Check("check_bayes_factor", budget, random_seed, alpha)
    densities = check.densities(*([model_0] if model_1 is None else [model_0, model_1]))
    shapes = [{name: y.shape for name, y in density.data.items()} for density in densities]
    if shapes[0] != shapes[-1]:
        raise ValueError(f"model_1: its observed variables {shapes[1]} are not {shapes[0]}.")
    rng, simulators = check.generator(), [density.joint() for density in densities]
    for simulator in simulators:
        simulator.seed(rng)

    def observe(n: int) -> list[np.ndarray | float]:
        chosen = int(rng.integers(len(densities)))
        _, data, _ = simulators[chosen].draw_supported()
        value = float(log_bayes_factor(data))
        if np.isnan(value):
            raise ValueError(f"log_bayes_factor: it is NaN for the data {data}.")
        mean = unit_bets(np.exp([[-value if chosen else value]]))
        if model_1 is None:
            return [mean]
        odds = odds_bets(np.array([value]), np.array([chosen == 1]))
        return [0.0, mean, odds] if chosen else [mean, 0.0, odds]

    names = ["mean of BF on data from model_0 above 1"]
    if model_1:
        names += ["mean of 1/BF on data from model_1 above 1", "odds of model_1 are not BF"]
    bets = Bets(*([name] for name in names))
    check.bet(bets, observe)
    subject = getattr(log_bayes_factor, "__name__", "log_bayes_factor")
    blind_to = ["faults on data that neither model gives"]
    if not model_1:
        blind_to.append(
            "a Bayes factor that is too small, since there is no model_1 to simulate from"
        )
    return check.report(subject, blind_to, bets.findings(alpha), bets.evidence, "e-value")
