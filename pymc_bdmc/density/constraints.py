"""Name the constraints and densities that PyMC does not normalise, and which log ML contains."""

from math import lgamma, prod

import numpy as np
import pymc as pm
from pymc.distributions.transforms import Ordered
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.random.op import RandomVariable

from pymc_bdmc.density.families import unknown_family
from pymc_bdmc.density.forward_graph import INTERPRETED


def constraints(model: pm.Model) -> dict[str, str]:
    """Return sentences on constraints and densities that PyMC does not normalise, as an attribute.

    The transform ``ordered`` restricts a prior to increasing values but leaves its density as it
    is, so that it integrates to the prior probability of that order. For k exchangeable elements
    this is 1/k!. A Potential is a part of the likelihood. So is the density of observed variables,
    which a user may have written without its constant.

    Returns
    -------
    dict of str to str
        ``constraints``: a sentence a line, or nothing.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc.distributions.transforms import ordered
    >>> from pymc_bdmc.density.constraints import constraints
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", shape=3, transform=ordered, initval=[-1, 0, 1])
    >>> print(constraints(model)["constraints"])
    mu is ordered: log ML includes the log prior probability of that order, −log 3! = −1.79.
    """
    told = [
        f"{rv.name} is ordered: log ML includes the log prior probability of that order"
        f"{_probability(rv)}."
        for rv in model.free_RVs
        if _is_ordered(model.rvs_to_transforms[rv])
    ]
    told += [
        f"The Potential {potential.name} is a part of the likelihood: if it expresses a "
        "constraint, log ML includes the log prior probability of that constraint."
        for potential in model.potentials
    ]
    told += [
        f"The density of {rv.name}, a {family}, is taken to integrate to 1 over its values; log ML "
        "can be compared with that of another density of the data only if it does."
        for rv in model.observed_RVs
        if (family := unknown_family(rv, model))
    ]
    return {"constraints": "\n".join(told)}


def _is_ordered(transform: object) -> bool:
    """Return whether a transform, or one in a chain of them, is ``ordered``."""
    parts = getattr(transform, "transform_list", [transform])
    return any(isinstance(part, Ordered) for part in parts)


def _probability(rv: Variable) -> str:
    """Return the log prior probability of the order if the elements are exchangeable, as text."""
    op = rv.owner.op
    if not isinstance(op, RandomVariable) or op.ndim_supp:
        return ""
    if not all(map(_is_equal_along_the_last_axis, op.dist_params(rv.owner))):
        return ""
    *rows, k = map(int, rv.shape.eval(mode=INTERPRETED))
    n = prod(rows)
    return f", −{f'{n} ' if n > 1 else ''}log {k}! = −{n * lgamma(k + 1):.2f}"


def _is_equal_along_the_last_axis(parameter: Variable) -> bool:
    if parameter.type.ndim == 0 or parameter.type.shape[-1] == 1:
        return True
    return isinstance(parameter, Constant) and bool(np.all(np.ptp(parameter.data, axis=-1) == 0))
