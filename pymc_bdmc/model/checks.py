"""Refuse models and arguments that cannot give a right answer, before any sampling."""

import pymc as pm
from pymc.data import MinibatchOp
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.distribution import PartialObservedRV
from pymc.distributions.simulator import SimulatorRV
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.traversal import ancestors

__all__ = [
    "check_model",
    "check_simulable",
]


def check_model(model: pm.Model) -> None:
    """Refuse models for which the path from prior to posterior is not defined.

    Raises
    ------
    ValueError
        Names the variable and the remedy.
    """
    if not isinstance(model, pm.Model):
        raise TypeError(f"model: a pymc.Model is needed, got {model!r}.")
    if model.parent is not None:
        raise ValueError("model: a nested model is only a part; pass the outermost model.")
    if not model.free_RVs:
        raise ValueError("model: it has no free variables, so there is no posterior to check.")
    if not model.observed_RVs and not model.potentials:
        raise ValueError(
            "model: it has no observed variables, so its posterior is its prior. "
            "Pass observed=... to the variables that were measured."
        )
    for rv in model.basic_RVs:
        op = rv.owner.op
        if isinstance(op, FlatRV | HalfFlatRV):
            raise ValueError(
                f"{rv.name}: an improper prior ({type(op).__name__[:-2]}) has no normalised "
                "density, so the marginal likelihood is not defined. Use a proper prior."
            )
        if isinstance(op, MinibatchRandomVariable) or any(
            node.owner is not None and isinstance(node.owner.op, MinibatchOp)
            for node in ancestors([rv, model.rvs_to_values[rv]])
        ):
            raise ValueError(
                f"{rv.name}: minibatches and a total_size make the likelihood that of data which "
                "were not observed. Observe the full data, without total_size."
            )
        if isinstance(op, PartialObservedRV) and op.ndim_supp > 0:
            raise ValueError(
                f"{rv.name.removesuffix('_unobserved')}: missing values of a multivariate "
                "distribution, whose prior PyMC does not tell from the likelihood of the others. "
                "Drop rows with missing values, or write a product of conditional distributions."
            )
        if isinstance(op, SimulatorRV):
            raise ValueError(
                f"{rv.name}: pm.Simulator has no likelihood, only a random distance. "
                "Use a distribution with a log density."
            )


def check_simulable(model: pm.Model) -> None:
    """Refuse to simulate data from a model whose likelihood is more than observed variables.

    Raises
    ------
    ValueError
        Names the Potential and the remedy.
    """
    if model.potentials:
        names = ", ".join(potential.name for potential in model.potentials)
        raise ValueError(
            f"simulate: the Potential {names} says how likely data are, not how to draw them. "
            "Pass simulate=Given(point, data) from a simulator of your own, or simulate=None for a "
            "lower bound on the real data alone."
        )
    if not model.observed_RVs:
        raise ValueError("simulate: the model has no observed variables to simulate.")
