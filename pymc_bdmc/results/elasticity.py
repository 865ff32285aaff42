"""Estimate how log ML changes with the logarithm of a scale."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base.arguments import check_positive
from pymc_bdmc.estimators import log_ratio_of_averages
from pymc_bdmc.results.reweighting import Reweighing, built, model_of_runs

STEP = 0.01
"""Half of the difference of log scales; the bias is of the order of its square."""


def elasticity(
    dt: xr.DataTree,
    build: Callable[[float], pm.Model],
    values: Sequence[float],
    *,
    model: pm.Model | None = None,
) -> pd.DataFrame:
    """Estimate d log ML / d log scale at several scales from the runs on one model.

    It is a central difference of log ML by reweighting, at 0.99 and 1.01 times the scale. Both ends
    use the same particles, so most of their errors cancel. An elasticity of −1 means that a scale
    twice as large lowers log ML by log 2; this is the limit for one parameter with a wide prior.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data; ``simulate=None`` is enough.
    build : callable
        ``build(scale)`` returns the model for a scale, with the same free variables and data.
    values : sequence of float
        Scales, greater than 0.
    model : pymc.Model, optional
        As in `sensitivity`.

    Returns
    -------
    DataFrame
        Indexed by ``value``: ``elasticity`` and ``error``, one standard error, in nats;
        ``pareto_k``, the larger Pareto k̂ of the two ends; ``valid`` and ``reason``, whether both
        ends can be reweighed (see `sensitivity`). No runs are added: if a row is not valid, pass a
        result on a nearer scale.

    Raises
    ------
    ValueError
        If ``dt`` has no runs on the real data, its model is not found or another one, or a scale is
        not positive.

    Notes
    -----
    The support must not depend on the scale: the derivative for Uniform(0, scale) is not an average
    over the posterior. Such rows are not valid.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def build(scale):
    ...     with pm.Model() as model:
    ...         y = pm.Normal("y", pm.Normal("x", 0, scale), observed=0.0)
    ...     return model
    >>> dt = pm.sample_bdmc(build(1.0), simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> table = bdmc.elasticity(dt, build, [1.0])  # log ML is −½ log(1 + scale²) + constant
    >>> bool(abs(table.loc[1.0, "elasticity"] + 0.5) < 4 * table.loc[1.0, "error"])
    True
    """
    for value in values:
        check_positive(values=value)
    values = [float(value) for value in values]
    models = [] if model else [built(build, value) for value in values]
    particles = Reweighing(dt, model or model_of_runs(dt, models), "elasticity")
    rows = [_row(particles, build, value) for value in values]
    return pd.DataFrame(rows, index=pd.Index(list(values), name="value"))


def _row(particles: Reweighing, build: Callable[[float], pm.Model], value: float) -> dict:
    above, below = (
        particles.to(built(build, value * np.exp(step)), both_ways=True) for step in (STEP, -STEP)
    )
    row = {"elasticity": np.nan, "error": np.nan, "pareto_k": np.nan, "valid": False}
    if above.runs is None or below.runs is None:
        return row | {"reason": (below if above.runs else above).log_ml.reason}
    found = log_ratio_of_averages(above.runs.log_weights, below.runs.log_weights)
    bad = [end.log_ml.reason for end in (above, below) if not end.log_ml.valid]
    return {
        "elasticity": found.value / (2 * STEP),
        "error": np.nan if bad else found.error / (2 * STEP),
        "pareto_k": float(np.fmax(above.pareto_k, below.pareto_k)),
        "valid": not bad,
        "reason": bad[0] if bad else found.reason,
    }
