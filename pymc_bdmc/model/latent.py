"""Find the latent variables of a model: those with a normal prior given all others."""

import pymc as pm
from pymc.distributions.multivariate import KroneckerNormalRV, MvNormalRV, ZeroSumNormalRV
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.distributions.transforms import ZeroSumTransform
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV

from pymc_bdmc.model.hard_variables import scale_of

__all__ = ["latent_variables"]


def latent_variables(model: pm.Model) -> tuple[str, ...]:
    """Return the names of free variables that are normal given the others, a priori.

    They have a normal prior on the unconstrained scale, and no scale of another variable depends on
    them. Group effects and regression weights are such variables, centred or not, and so are random
    walks and autoregressive processes with normal steps.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.model.latent import latent_variables
    >>> with pm.Model() as model:
    ...     mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale")
    ...     effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=3)
    ...     y = pm.Normal("y", effect, pm.HalfNormal("noise"), observed=[0.1, 0.5, 0.3])
    >>> latent_variables(model)
    ('mean', 'effect')
    """
    scales = [scale for rv in model.basic_RVs if (scale := scale_of(rv)) is not None]
    shaping = set(ancestors(scales))
    return tuple(
        rv.name
        for rv in model.free_RVs
        if rv not in shaping
        and _is_normal(rv)
        and isinstance(model.rvs_to_transforms[rv], ZeroSumTransform | None)
    )


def _is_normal(rv: Variable) -> bool:
    """Return whether a variable is normal given its parameters."""
    if rv.owner is None:
        return False
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return _is_normal(inputs[0]) and _is_normal(inputs[1])
    if isinstance(op, AutoRegressiveRV):
        return _is_normal(inputs[2])
    return isinstance(op, NormalRV | MvNormalRV | ZeroSumNormalRV | KroneckerNormalRV)
