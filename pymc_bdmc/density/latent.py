"""Find the latent variables of a model: those with a normal prior given all others."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import pymc as pm
from pymc.distributions.multivariate import (
    CARRV,
    ICARRV,
    KroneckerNormalRV,
    MvNormalRV,
    ZeroSumNormalRV,
)
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.distributions.transforms import ZeroSumTransform
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Second, Sub, TrueDiv
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.basic import NormalRV

from pymc_bdmc.density.hard_variables import scale_of

LINEAR = Add, Cast, Identity, Mul, Neg, Second, Sub, TrueDiv
"""Scalar operations that are linear in each of their arguments, or in the first."""


def latent_variables(model: pm.Model) -> tuple[str, ...]:
    """Return the names of free variables that are normal given the others, a priori.

    They have a normal prior on the unconstrained scale, and no scale of a free variable depends on
    them. Nor are they scalars of which a function enters the model, such as the exponential of a
    logarithm by which effects are multiplied. Of two variables that are multiplied, such as the
    loadings and scores of a factor model, the one with fewer elements is not latent. Group effects
    and regression weights are latent, centred or not, and so are random walks and autoregressive
    processes with normal steps.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.latent import latent_variables
    >>> with pm.Model() as model:
    ...     mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale")
    ...     effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=3)
    ...     y = pm.Normal("y", effect, pm.HalfNormal("noise"), observed=[0.1, 0.5, 0.3])
    >>> latent_variables(model)
    ('mean', 'effect')
    """
    scales = [scale for rv in model.free_RVs if (scale := scale_of(rv)) is not None]
    shaping = set(ancestors(scales)) | _scalars_in_functions(model)
    normal = [
        rv
        for rv in model.free_RVs
        if rv not in shaping
        and _is_normal(rv)
        and isinstance(model.rvs_to_transforms[rv], ZeroSumTransform | None)
    ]
    multiplied = _multiplied(model, set(normal))
    return tuple(rv.name for rv in normal if rv not in multiplied)


def _multiplied(model: pm.Model, latent: set[Variable]) -> set[Variable]:
    """Return few of the variables, without which no two are multiplied with each other."""
    partners = defaultdict(set)
    blockers = set(model.free_RVs)
    for variable in ancestors([part for rv in model.basic_RVs for part in rv.owner.inputs]):
        op, inputs = (variable.owner.op, variable.owner.inputs) if variable.owner else (None, [])
        if isinstance(op, AutoRegressiveRV):  # its coefficients multiply its own elements
            factors = [{variable}, latent.intersection(ancestors(inputs[:1], blockers=blockers))]
        elif _is_product(op):
            factors = [latent.intersection(ancestors([each], blockers=blockers)) for each in inputs]
        else:
            continue
        for left, right in combinations(factors, 2):
            for one in left & latent:
                for other in right - {one}:
                    partners[one].add(other)
                    partners[other].add(one)
    found: set[Variable] = set()
    sizes = model.eval_rv_shapes() if partners else {}
    while any(partners.values()):
        least = min(
            (rv for rv in partners if partners[rv]),
            key=lambda rv: (np.prod(sizes[rv.name]) / len(partners[rv]), rv.name),
        )
        for other in partners.pop(least):
            partners[other].discard(least)
        found.add(least)
    return found


def _is_product(op: object) -> bool:
    """Return whether an operation multiplies its arguments with each other, or divides them."""
    if isinstance(op, Elemwise):
        return isinstance(op.scalar_op, Mul | TrueDiv)
    return isinstance(op.core_op if isinstance(op, Blockwise) else op, Dot | Einsum)


def _scalars_in_functions(model: pm.Model) -> set[Variable]:
    """Return the scalars of which alone a function that is not linear enters the model."""
    free, found = set(model.free_RVs), set()
    for variable in ancestors([part for rv in model.basic_RVs for part in rv.owner.inputs]):
        op = variable.owner.op if variable.owner else None
        if isinstance(op, Elemwise) and not isinstance(op.scalar_op, LINEAR):
            own = free.intersection(ancestors([variable], blockers=free))
            if len(own) == 1:
                found |= {rv for rv in own if rv.type.ndim == 0}
    return found


def _is_normal(rv: Variable) -> bool:
    """Return whether a variable is normal given its parameters."""
    if rv.owner is None:
        return False
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return _is_normal(inputs[0]) and _is_normal(inputs[1])
    if isinstance(op, AutoRegressiveRV):
        return _is_normal(inputs[2])
    return isinstance(
        op, CARRV | ICARRV | NormalRV | MvNormalRV | ZeroSumNormalRV | KroneckerNormalRV
    )
