"""Find the variables of a model that are hard to sample."""

import pymc as pm
from pymc.distributions.continuous import SkewStudentTRV
from pymc.distributions.discrete import Bernoulli, Categorical, DiscreteUniform
from pymc.distributions.multivariate import ICARRV, MvStudentTRV
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import CauchyRV, InvGammaRV, LogNormalRV, StudentTRV

from pymc_bdmc.density.spreads import may_vanish

SCALE_LAST = {
    "cauchy", "exponential", "gumbel", "halfcauchy", "halfnormal", "laplace", "logistic",
    "lognormal", "multivariate_normal", "normal", "t", "zerosumnormal",
}  # fmt: skip
"""Location-scale families whose last or only parameter is the scale. Others are drawn from."""
VANISHING = InvGammaRV, LogNormalRV
"""Families of positive variables whose density vanishes at 0 faster than any power."""
HEAVY = CauchyRV, StudentTRV, SkewStudentTRV, MvStudentTRV
"""Families on the real line with polynomial tails."""

FINITE = tuple(each.rv_type for each in (Bernoulli, Categorical, DiscreteUniform))
"""Types of the operations whose variables have few values, over which a density can be summed."""


def hard_variables(model: pm.Model) -> dict[str, str]:
    """Return the names of free variables that are hard to sample, by reason, as attributes.

    Returns
    -------
    dict of str to str
        ``discrete_variables``; ``finite_variables``, those of them with few values; and
        ``centred_effects``: variables whose scale is a free variable, such as group effects, random
        walks and autoregressive processes. What cannot be found out counts as centred.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.hard_variables import hard_variables
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=3)
    ...     y = pm.Normal("y", effect + pm.Bernoulli("shifted", 0.5), observed=[0.1, 0.5, 0.3])
    >>> hard_variables(model)
    {'discrete_variables': 'shifted', 'finite_variables': 'shifted', 'centred_effects': 'effect'}
    """
    centred = [rv.name for rv in model.free_RVs if _scale_parents(rv, model)]
    discrete = [rv.name for rv in model.free_RVs if rv.dtype in discrete_types]
    finite = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, FINITE)]
    found = {"discrete": discrete, "finite": finite}
    return {f"{kind}_variables": ", ".join(names) for kind, names in found.items()} | {
        "centred_effects": ", ".join(centred)
    }


def with_necks(model: pm.Model) -> list[str]:
    """Return the names of centred effects whose scale may be near 0, a priori.

    The posterior may then reach into the neck of a funnel. Not if the scale is that of an inverse
    gamma or log-normal variance, whose density vanishes at 0 faster than any power.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.hard_variables import with_necks
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=3)
    ...     other = pm.Normal("other", 0, pm.InverseGamma("variance", 1, 1) ** 0.5, shape=3)
    >>> with_necks(model)
    ['effect']
    """
    near_zero = {rv for rv in model.free_RVs if not isinstance(rv.owner.op, VANISHING)}
    return [rv.name for rv in model.free_RVs if near_zero.intersection(_scale_parents(rv, model))]


def _scale_parents(rv: Variable, model: pm.Model) -> set[Variable]:
    """Return the free variables on which the scale of a variable depends.

    For a family that is not known, they are all parents, unless draws show that its spread on the
    unconstrained scale does not vanish with them.
    """
    free = set(model.free_RVs)
    if rv.dtype in discrete_types:
        return set()
    if _is_known(rv):
        scale = scale_of(rv)
        return set() if scale is None else free.intersection(ancestors([scale]))
    direct = ancestors(rv.owner.inputs, blockers=free)
    parents = sorted(free.intersection(direct), key=lambda each: each.name)
    return set(parents) if parents and may_vanish(rv, parents, model) else set()


def _is_known(rv: Variable) -> bool:
    """Return whether the parameter that is a scale is known, also that of the steps of a walk."""
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return inputs[1].owner is None or _is_known(inputs[1])
    return isinstance(op, AutoRegressiveRV | ICARRV) or _family(op) in SCALE_LAST


def _family(op: object) -> str:
    return str(getattr(op, "name", None)).lower()


def sum_out(names: str) -> str:
    """Say how to sum variables with few values out of a model.

    Parameters
    ----------
    names : str
        The attribute ``finite_variables`` of `hard_variables`.

    Examples
    --------
    >>> from pymc_bdmc.density.hard_variables import sum_out
    >>> sum_out("real")
    'sum real out: `import pymc_extras as pmx`, `model = pmx.marginalize(model, ["real"])`'
    """
    listed = ", ".join(f'"{name}"' for name in names.split(", "))
    call = f"pmx.marginalize(model, [{listed}])"
    return f"sum {names} out: `import pymc_extras as pmx`, `model = {call}`"


def heavy_tailed(model: pm.Model) -> list[str]:
    """Return the names of free variables whose prior has polynomial tails, unconstrained.

    If the likelihood is flat far out, the posterior has the same tails, and a fit to its bulk has
    far too little mass there. Tails of positive variables are exponential on the log scale.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.hard_variables import heavy_tailed
    >>> with pm.Model() as model:
    ...     x, scale = pm.Cauchy("x", 0, 1), pm.HalfCauchy("scale", 1)
    >>> heavy_tailed(model)
    ['x']
    """
    return [
        rv.name
        for rv in model.free_RVs
        if isinstance(rv.owner.op, HEAVY) and model.rvs_to_transforms[rv] is None
    ]


def scale_of(rv: Variable) -> Variable | None:
    """Return the parameter that scales a variable, or the steps of a process, or None."""
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return scale_of(inputs[1]) if inputs[1].owner else None
    if isinstance(op, AutoRegressiveRV):
        return inputs[1]
    if isinstance(op, ICARRV):
        return op.dist_params(rv.owner)[1]
    if _family(op) not in SCALE_LAST:
        return None
    # The last parameter of a zero-sum variable is its shape.
    return op.dist_params(rv.owner)[0 if _family(op) == "zerosumnormal" else -1]
