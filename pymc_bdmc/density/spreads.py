"""Find by draws whether the spread of a variable may vanish with its parents."""

from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pymc.pytensorf import reseed_rngs
from pytensor.graph.basic import Variable

from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.forward_graph import INTERPRETED, compiled_draws, forward_graph

PARENTS, CHILDREN = 256, 8
"""Numbers of prior draws of the parents, and of draws of the variable given each. Chosen: five in a
hundred half-normal scales are below a tenth of their median, and 256 draws have three or more of
these but for a chance of 3e-4."""
NARROW, OFTEN = 0.1, 0.01
"""A spread may vanish if it is below the first share of its median in the second share of draws.
Chosen: half-normal, half-Cauchy, exponential, and uniform scales are in 5 % or more, and those of
inverse gamma variances or of gamma variables with an exponential shape in fewer than 1 in 1,000."""

_found: WeakKeyDictionary[pm.Model, dict[str, bool]] = WeakKeyDictionary()
"""Answers by model and variable."""


def may_vanish(rv: Variable, parents: list[Variable], model: pm.Model) -> bool:
    """Return whether the unconstrained variable may have hardly any spread given its parents.

    True if it cannot be found out, for example because the variable cannot be drawn.

    Parameters
    ----------
    rv : Variable
        A free variable.
    parents : list of Variable
        The free variables on which its distribution depends.
    model : pymc.Model

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.spreads import may_vanish
    >>> with pm.Model() as model:
    ...     scale, shape = pm.HalfNormal("scale"), pm.Exponential("shape", 1)
    ...     skewed = pm.SkewNormal("skewed", mu=0, sigma=scale)
    ...     rate = pm.Gamma("rate", shape, scale)
    >>> may_vanish(skewed, [scale], model), may_vanish(rate, [shape, scale], model)
    (True, False)
    """
    known = _found.setdefault(model, {})
    if rv.name not in known:
        try:
            spreads = _spreads(rv, parents, model)
        except Exception:  # drawing may raise any error
            return known.setdefault(rv.name, True)
        narrow = ~(spreads >= NARROW * np.median(spreads, axis=0))  # NaN counts
        known[rv.name] = bool((narrow.mean(axis=0) >= OFTEN).any())
    return known[rv.name]


@alone
def _spreads(rv: Variable, parents: list[Variable], model: pm.Model) -> np.ndarray:
    """Return lower quartiles of distances between draws given each of the parents, by element.

    A component of a mixture whose spread vanishes shows in these too. The steps between neighbours
    count as further elements, since those of a process may vanish alone.
    """
    given = pm.draw(parents, PARENTS, random_seed=0, mode=INTERPRETED)
    inputs, (_, *free) = forward_graph(model, False, [each.name for each in parents])
    draw, rngs = compiled_draws(inputs, [free[model.free_RVs.index(rv)]])
    reseed_rngs(rngs, range(len(rngs)))
    with np.errstate(all="ignore"):
        draws = [[draw(*each)[0] for _ in range(CHILDREN)] for each in zip(*given, strict=True)]
    drawn = np.array(draws, dtype=float).reshape(PARENTS, CHILDREN, -1)
    drawn = np.concatenate([drawn, np.diff(drawn, axis=2)], axis=2)
    first, second = np.triu_indices(CHILDREN, 1)
    return np.quantile(np.abs(drawn[:, first] - drawn[:, second]), 0.25, axis=1)
