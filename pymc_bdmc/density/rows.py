"""Build the log density of a path on which observations are added one after the other."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable


def number_of_rows(model: pm.Model) -> int:
    """Return N, the length of the first dimension of all observed variables.

    Raises
    ------
    ValueError
        If a variable has no independent rows; the message names it and the remedy.
    """
    remedy = "path: 'data' needs observations in rows; use 'prior'."
    if model.potentials:
        raise ValueError(f"{remedy} {model.potentials[0].name} is a Potential, which has none.")
    lengths = {}
    for rv in model.observed_RVs:
        (log_p,) = model.logp(vars=[rv], sum=False)
        if log_p.ndim == 0:
            raise ValueError(f"{remedy} {rv.name} has one density for all its elements together.")
        lengths[rv.name] = model.rvs_to_values[rv].type.shape[0]
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise ValueError(f"{remedy} Here the first dimensions differ in length: {told}.")
    return next(iter(lengths.values()))


def row_ends(betas: np.ndarray, rows: int) -> np.ndarray | None:
    """Return the temperature at which each row has come; None if one comes between two.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.density.rows import row_ends
    >>> row_ends(np.linspace(0, 1, 7), 3)
    array([2, 4, 6])
    """
    ends = np.arange(1, rows + 1) / rows
    places = np.minimum(np.searchsorted(betas, ends - 1e-9), len(betas) - 1)
    return places if np.allclose(betas[places], ends, rtol=0, atol=1e-9) else None


def turns(rows: int, order: bool | tuple[int, ...]) -> np.ndarray | None:
    """Return at which turn each row comes; None in the order of the rows.

    Raises
    ------
    ValueError
        If the order does not name every row once.

    Examples
    --------
    >>> from pymc_bdmc.density.rows import turns
    >>> turns(3, (2, 0, 1))
    array([1, 2, 0])
    """
    if isinstance(order, bool):
        return None
    if sorted(order) != list(range(rows)):
        raise ValueError(f"path: the order must have each of 0, …, {rows - 1} once.")
    return np.argsort(order)


def terms_in_turn(
    model: pm.Model,
    rows: int,
    now: TensorVariable,
    then: TensorVariable,
    turns: np.ndarray | None = None,
) -> list[Variable]:
    """Return graphs of log f − β · slope at β = ``now``, and of the slope up to ``then``.

    The row i comes at turn ``turns[i]``; by default at turn i.

    If an observation is impossible the slope is −∞ along the whole path, as on the path from the
    prior.
    """
    each = pt.add(
        *(
            log_p.reshape((rows, -1)).sum(axis=1)
            for log_p in model.logp(vars=model.observed_RVs, sum=False)
        )
    )
    impossible = pt.isinf(each) & (each < 0)
    finite = pt.switch(impossible, 0.0, each)
    before = pt.arange(rows) if turns is None else pt.constant(turns)
    come, coming = (pt.clip(beta * rows - before, 0.0, 1.0) for beta in (now, then))
    slopes = (coming - come) / (then - now)
    slope = (slopes * finite).sum() + pt.switch(impossible.any(), -pt.inf, 0.0)
    return [model.varlogp + ((come - now * slopes) * finite).sum(), slope]
