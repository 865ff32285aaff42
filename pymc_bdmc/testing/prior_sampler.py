"""Check that a model's draws agree with its log density."""

import numpy as np
import pymc as pm

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.base.types import Point, stack
from pymc_bdmc.density.support import repeated_elements, repeats
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators.exchangeability import LEARNING, exchangeability
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA

BLIND_TO = (
    "a density that is wrong by a constant factor",
    "draws that miss a mode, where no small move leads to it",
)


def check_prior_sampler(
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 2_000,
    random_seed: RandomSeed = None,
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
    >>> bdmc.testing.check_prior_sampler(model, random_seed=1).findings[0]
    'x'
    """
    check = Check("check_prior_sampler", budget, random_seed, alpha)
    if budget < 2 * LEARNING:
        raise ValueError(f"budget: at least {2 * LEARNING} draws are needed, got {budget}.")
    (density,), rng = check.densities(model), check.generator()
    sampler = density.joint()
    sampler.seed(rng)
    drawn = [sampler.draw_supported() for _ in range(budget)]
    free, data = stack([point for point, _, _ in drawn]), stack([y for _, y, _ in drawn])
    if atoms := list(repeated_elements(density, free)):
        evidence, findings = 0.0, tuple(f"{name}: draws repeat a value" for name in atoms)
    else:
        pvalues = _pvalues(density, free, data, rng)
        evidence = min(pvalues.values(), default=1.0)
        worst = sorted(pvalues, key=lambda name: pvalues[name])
        failed = [name for name in worst if pvalues[name] <= alpha]
        findings = tuple(name or "log p of all variables together" for name in failed)
    return check.report("the model's draws", budget, findings, BLIND_TO, evidence)


def _pvalues(
    density: TemperedDensity, free: Point, data: Point, rng: np.random.Generator
) -> dict[str, float]:
    """Return the p-values of variables by name, and that of log p under the key ``""``."""
    draws = {**free, **data}
    columns = {name: rows.reshape(len(rows), -1) for name, rows in draws.items()}
    # Moves cannot reach an atom; data may have atoms.
    fixed = [
        name
        for name, y in data.items()
        if y.dtype.kind == "f" and any(map(repeats, columns[name].T))
    ]
    moved = [name for name in draws if name not in fixed]
    order, sizes = moved + fixed, {name: rows.shape[1] for name, rows in columns.items()}
    ends = np.cumsum([sizes[name] for name in order])
    layout = {name: slice(end - sizes[name], end) for name, end in zip(order, ends, strict=True)}
    groups = {density.titles.get(name, name): layout[name] for name in moved if sizes[name]}
    whole = np.repeat(
        [draws[name].dtype.kind != "f" for name in moved], [sizes[name] for name in moved]
    )

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
