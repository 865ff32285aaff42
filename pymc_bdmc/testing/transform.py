"""Check that a transform can be inverted, and that its volume is right."""

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import reseed_rngs
from pytensor.tensor.variable import TensorVariable

from pymc_bdmc.base.streams import RandomSeed
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.testing.check import Check
from pymc_bdmc.testing.report import Report

TOLERANCE = 1e-6
BLIND_TO = ("values that the distribution does not draw",)


def check_transform(
    transform: Transform,
    dist: TensorVariable,
    *,
    budget: int = 20,
    random_seed: RandomSeed = None,
) -> Report:
    """Check that a transform inverts correctly, and that its log volume is right.

    Parameters
    ----------
    transform : Transform
        Transform in PyMC's form: ``forward``, ``backward``, ``log_jac_det``.
    dist : TensorVariable
        Distribution to transform, such as ``pm.HalfNormal.dist()``.
    budget : int, default 20
        Number of draws of ``dist`` at which the transform is checked.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        Seed of the draws.

    Returns
    -------
    Report
        Report with evidence 0 if something is wrong and 1 otherwise. Only the draws are random.

    Raises
    ------
    ValueError
        If ``forward`` neither keeps the number of elements nor drops the last element of every row
        (as for a simplex), since the volume is then not defined.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> from pymc.distributions.transforms import log, simplex
    >>> bdmc.testing.check_transform(log, pm.HalfNormal.dist(shape=2), random_seed=1).passed
    True
    >>> bdmc.testing.check_transform(simplex, pm.Dirichlet.dist([1, 2, 3]), random_seed=1).passed
    True
    """
    check = Check("check_transform", budget, random_seed)
    rng, inputs = check.generator(), dist.owner.inputs
    draw, updates = compile_graph(
        [], [dist, transform.forward(dist, *inputs)], mode=INTERPRETED, random_seed=False,
        return_updates=True,
    )  # fmt: skip
    reseed_rngs(list(updates), rng.integers(2**63, size=4).tolist())
    v = pt.tensor("v", dtype=dist.dtype, shape=(None,) * dist.ndim)
    outputs = [transform.backward(v, *inputs), pt.sum(transform.log_jac_det(v, *inputs))]
    back = compile_graph([v], outputs, mode=INTERPRETED)
    findings: dict[str, str] = {}
    for _ in range(budget):
        x, value = draw()
        returned, log_volume = back(value)
        where = f"at {np.array2string(np.asarray(x), threshold=8)}"
        if not np.allclose(returned, x, rtol=TOLERANCE, atol=TOLERANCE):
            findings.setdefault("inverse", f"backward(forward(x)) is {returned} {where}")
        expected = _log_volume(lambda at: back(at)[0], value, np.shape(x))
        if not abs(log_volume - expected) <= TOLERANCE * (1 + abs(expected)):
            findings.setdefault(
                "volume",
                f"log_jac_det is {log_volume:.6g}, differences give {expected:.6g} {where}",
            )
    title = getattr(transform, "name", None) or type(transform).__name__
    return check.report(title, budget, list(findings.values()), BLIND_TO)


def _log_volume(backward, value: np.ndarray, shape: tuple[int, ...]) -> float:
    """Return the log absolute determinant of the derivative of ``backward``, by differences."""
    last = np.s_[...] if np.shape(value) == shape else np.s_[..., :-1]
    flat, columns = np.array(value, float).ravel(), []
    for i, step in enumerate(np.diag(1e-5 * np.maximum(1.0, np.abs(flat)))):
        ends = [backward((flat + side * step).reshape(np.shape(value)))[last] for side in (1, -1)]
        columns.append((ends[0] - ends[1]).ravel() / (2 * step[i]))
    if any(column.size != flat.size for column in columns):
        raise ValueError(
            f"transform: from the shape {shape} it goes to {np.shape(value)}; only one that keeps "
            "the number of elements, or drops the last of every row, has a volume to check."
        )
    return float(np.linalg.slogdet(np.array(columns))[1])
