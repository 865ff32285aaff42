"""Check evidence code by its Bayes factors on data simulated from known models."""

from collections.abc import Callable, Mapping

import numpy as np
import pymc as pm

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.testing.bets import Bets, odds_bets, unit_bets
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA

LogBayesFactor = Callable[[Mapping[str, np.ndarray]], float]
"""Function from data, by observed variable, to log p(y|model_1) − log p(y|model_0), nats."""

BETS = (
    ["mean of BF on data from model_0 above 1"],
    ["mean of 1/BF on data from model_1 above 1"],
    ["odds of model_1 are not BF"],
)

BLIND_TO = ("faults on data that neither model gives",)
ONE_SIDED = ("a Bayes factor that is too small, since there is no model_1 to simulate from",)


def check_bayes_factor(
    log_bayes_factor: LogBayesFactor,
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
    robust use of Bayes factors). Bets against each of these three statements are settled after
    every data set.

    Parameters
    ----------
    log_bayes_factor : callable
        Function from data, a dict by observed variable, to log BF in nats.
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
    >>> bdmc.testing.check_bayes_factor(log_bayes_factor, *models, random_seed=1).passed
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
    bets, cost = Bets(*BETS if model_1 else BETS[:1]), 0
    while bets.evidence < 1 / alpha and cost < budget:
        chosen = int(rng.integers(len(densities)))
        _, data, _ = simulators[chosen].draw_supported()
        value = float(log_bayes_factor(data))
        if np.isnan(value):
            raise ValueError(f"log_bayes_factor: it is NaN for the data {data}.")
        with np.errstate(over="ignore"):
            mean = unit_bets(np.exp([[-value if chosen else value]]))
        odds = odds_bets(np.array([value]), np.array([chosen == 1]))
        pays = (0.0, mean, odds) if chosen else (mean, 0.0, odds)
        bets.settle(*pays if model_1 else pays[:1])
        cost += 1
    subject = getattr(log_bayes_factor, "__name__", "log_bayes_factor")
    blind_to = BLIND_TO if model_1 else BLIND_TO + ONE_SIDED
    return check.report(subject, cost, bets.findings(alpha), blind_to, bets.evidence, "e-value")
