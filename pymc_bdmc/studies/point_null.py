"""Compare a model with the one in which some of its variables are fixed at values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.vartypes import continuous_types
from scipy.special import softmax

from pymc_bdmc.density.draws import posterior_draws, shape_of
from pymc_bdmc.density.graph import without_initial_values
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import Estimate
from pymc_bdmc.estimators.checks import shape_by_states
from pymc_bdmc.results.compare import BayesFactor, bayes_factor
from pymc_bdmc.results.log_ml import log_ml, plus_minus
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.reweighting import Reweighting
from pymc_bdmc.sampling import sample_bdmc


@dataclass(frozen=True, eq=False, repr=False)
class PointNull:
    """Result of `point_null`; it prints as sentences.

    Attributes
    ----------
    factor : BayesFactor
        The log Bayes factor of the null model against the full one, by a run of the null model.
    of_draws : Estimate
        The same from the draws of the full model alone, nats; not valid if too few lie near the
        fixed values.
    result : DataTree
        The run of the null model.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> from pymc_bdmc.estimators import Estimate
    >>> from pymc_bdmc.studies.point_null import PointNull
    >>> run = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    >>> draws = Estimate(np.nan, np.nan, "draws", False, "Pareto k̂ is 2")
    >>> print(repr(PointNull(bdmc.bayes_factor(run, run), draws, run)).splitlines()[-1])
    The draws of the full model do not show it (Pareto k̂ is 2); believe the run.
    """

    factor: BayesFactor
    of_draws: Estimate
    result: xr.DataTree

    def __repr__(self) -> str:
        draws, run = self.of_draws, self.factor
        apart = draws.value - run.value
        if not draws.valid:
            which = "; believe the run" if run.valid else ", and neither does the run"
        elif not run.valid:
            which = ", which is all that is known"
        elif abs(apart) <= 4 * np.hypot(draws.error, run.error):  # else beyond chance; chosen
            which = (
                ", which agrees; believe the run, which does not need draws near the fixed values"
            )
        elif apart > 0:
            which = (
                "; this is higher beyond chance, so the run of the null model missed part of the "
                "posterior: sample it with path='prior'"
            )
        else:
            which = "; this is lower beyond chance, so the draws missed part; believe the run"
        found = f"do not show it ({draws.reason})"
        if draws.valid:
            value = plus_minus(draws.value, draws.error)
            found = f"give {value} (generalised Savage-Dickey ratio)"
        first = "The first model is the null model, and the second is the full one."
        return f"{first} {run!r}\nThe draws of the full model {found}{which}."


def point_null(
    dt: xr.DataTree,
    fixed: Mapping[str, ArrayLike],
    *,
    model: pm.Model | None = None,
    **options: Any,
) -> PointNull:
    """Return the Bayes factor of the model with variables fixed against that with them free; nats.

    The null model is ``pm.do(model, fixed)``: it keeps the priors of all other variables. It is
    sampled in a run of its own. The draws of ``dt`` give the Bayes factor once more, as the average
    of w(b) p₀(ψ, y)/p(ψ, b, y), with b the fixed variables, ψ the others, p₀ the density of the
    null model, and w a normal density with the mean and covariance of the draws of b [2]_. If ψ and
    b are independent a priori, it estimates the Savage-Dickey ratio [1]_; here they need not be.
    Draws of ψ from the null model and of b from w show whether these weights have a heavy tail,
    also if no draw of the full model is in it.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` on the real data.
    fixed : mapping of str to array_like
        Values of one or more free variables, on the model's own scale.
    model : pymc.Model, optional
        The model of ``dt``. Default: the one of the ``with`` block.
    **options
        Passed to `sample_bdmc`.

    Returns
    -------
    PointNull

    Raises
    ------
    ValueError
        For names that are no free variables, or a result of another model.

    References
    ----------
    .. [1] Dickey (1971), The weighted likelihood ratio, linear hypotheses on normal location
       parameters. https://doi.org/10.1214/aoms/1177693507
    .. [2] Chen (1994), Importance-weighted marginal Bayesian posterior density estimation.
       https://doi.org/10.1080/01621459.1994.10476815

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> options = dict(random_seed=1, cores=1, progressbar=False)
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("effect"), 1, observed=[0.5, 1.0])
    ...     dt = pm.sample_bdmc(simulate=None, **options)
    >>> found = bdmc.point_null(dt, {"effect": 0}, model=model, **options)
    >>> abs(found.factor.value - 0.174) < 0.05, found.of_draws.valid  # ½ log 3 − 2.25/6
    (True, True)
    """
    model = checked_model(model)
    free = [rv.name for rv in model.free_RVs]
    if not isinstance(fixed, Mapping) or not fixed or not set(fixed) <= set(free):
        raise ValueError(f"fixed: a mapping of some of the free variables {free} is needed.")
    full = Reweighting(dt, model, "point_null")
    values = {
        name: np.broadcast_to(value, shape_of(model[name])).astype(model[name].dtype)
        for name, value in fixed.items()
    }
    with without_initial_values(model):
        null = pm.do(model, values)
    result = sample_bdmc(null, simulate=None, **options)
    return PointNull(bayes_factor(result, dt), _of_draws(full, model, null, result), result)


def _of_draws(full: Reweighting, model: pm.Model, null: pm.Model, result: xr.DataTree) -> Estimate:
    """Return the log Bayes factor of the null model from the particles of the full one, nats."""
    from scipy import stats  # slow to import

    others = [rv.name for rv in null.free_RVs]
    fixed = [rv for rv in model.free_RVs if rv.name not in others]
    for rv in fixed:
        if model.rvs_to_transforms[rv] is not None or rv.dtype not in continuous_types:
            reason = f"{rv.name} is bounded or discrete, and the normal density w is not"
            return Estimate(np.nan, np.nan, "draws", False, reason)
    b = np.concatenate([full.values[rv.name].reshape(full.shares.size, -1) for rv in fixed], axis=1)
    weights = (full.shares * softmax(full.log_weights)[:, None]).ravel()
    mean, cov = weights @ b, np.atleast_2d(np.cov(b.T, aweights=weights))
    normal = stats.multivariate_normal(mean, cov)
    density = TemperedDensity(null) if others else None

    def log_null(values: Mapping[str, np.ndarray]) -> float | np.ndarray:
        return density.joint_density(values) if density else log_ml(result).value

    found = full.to_density(normal.logpdf(b) + log_null(full.values)).log_bayes_factor
    if others and not Reading.of(result).has("posterior"):  # every weight is zero
        return found
    # States of the density that the average is of, w(b) p₀(ψ|y), show what these draws miss.
    drawn = posterior_draws("dt", result, others, null) if others else []
    n = len(drawn[0]) if others else len(b)
    b = normal.rvs(n, random_state=np.random.default_rng(0)).reshape(n, -1)  # for a check alone
    parts = np.split(b, np.cumsum([math.prod(shape_of(rv)) for rv in fixed])[:-1], axis=1)
    states = dict(zip(others, drawn, strict=True)) | {
        rv.name: part.reshape(n, *shape_of(rv)) for rv, part in zip(fixed, parts, strict=True)
    }
    log_weights = normal.logpdf(b) + log_null(states) - full.density.joint_density(states)
    shape, limit = shape_by_states(log_weights)
    if found.valid and shape > limit:
        reason = f"hardly any lie where their weights are large, with a Pareto k of {shape:.2g}"
        found = replace(found, valid=False, reason=reason)
    return found
