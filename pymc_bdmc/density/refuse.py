"""Reject models and arguments that cannot give a right answer, before any sampling."""

from collections.abc import Mapping, Sequence
from math import lgamma, prod
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from pymc.data import MinibatchOp
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import DiracDeltaRV, PartialObservedRV
from pymc.distributions.multivariate import ICARRV
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.transforms import Ordered
from pymc.logprob.transforms import CircularTransform
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_bdmc.base.upstream import fault, has_draws, parts_of
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.structure import distribution, unknown_family


def model_of(thing: Any) -> pm.Model:
    """Return a PyMC model: itself, ``model`` or ``backend.model`` of an object, or the context's.

    Other things are returned unchanged, for `checked_model` to refuse.
    """
    if thing is None or isinstance(thing, pm.Model):
        return pm.modelcontext(thing)
    backend = getattr(thing, "backend", None)
    for found in (getattr(backend, "model", None), getattr(thing, "model", None)):
        if isinstance(found, pm.Model):
            return found
    for name in ("build", "build_model"):  # of Bambi and PyMC-Marketing
        if callable(getattr(thing, name, None)):
            raise TypeError(f"model: it has no PyMC model yet; call its {name}() first.")
    return thing


def checked_model(model: Any, *, may_be_null: bool = False) -> pm.Model:
    """Return `model_of` as plain tensors; raise an error if no path leads from prior to posterior.

    A model without free variables passes if ``may_be_null``.
    """
    model = model_of(model)
    if not isinstance(model, pm.Model):
        raise TypeError(
            f"model: a pymc.Model is needed, got an object of type {type(model).__name__}. "
            "To judge draws, pass the model that they are of, and posterior=idata."
        )
    if model.parent is not None:
        raise ValueError("model: a nested model is only a part; pass the outermost model.")
    if not (model.free_RVs or may_be_null):
        raise ValueError("model: it has no free variables, so there is no posterior to check.")
    if not model.observed_RVs and not model.potentials:
        raise ValueError(
            "model: it has no observed variables, so its posterior is its prior. "
            "Pass observed=... to the variables that were measured."
        )
    model = with_plain_tensors(model)
    for rv in model.basic_RVs:
        op = rv.owner.op
        _check_distribution(rv, model)
        if isinstance(op, MinibatchRandomVariable) or any(
            node.owner is not None and isinstance(node.owner.op, MinibatchOp)
            for node in ancestors([rv, model.rvs_to_values[rv]])
        ):
            raise ValueError(
                f"{rv.name}: with minibatches or a total_size the likelihood is not that of the "
                "observed data. Observe the full data, without total_size."
            )
        if isinstance(op, PartialObservedRV) and op.ndim_supp > 0:
            raise ValueError(
                f"{rv.name.removesuffix('_unobserved')}: PyMC does not separate the prior of "
                "missing values of a multivariate distribution from the likelihood of the other "
                "values. Drop rows with missing values, or write a product of conditional "
                "distributions."
            )
        if isinstance(op, SimulatorRV):
            raise ValueError(
                f"{rv.name}: pm.Simulator has no likelihood, only a random distance. "
                "Use a distribution with a log density."
            )
    return model


def with_plain_tensors(model: pm.Model) -> pm.Model:
    """Return the model, or a copy with plain tensors if it has labelled ones (`pymc.dims`)."""
    variables = [*model.named_vars.values(), *model.rvs_to_values.values()]
    if any(hasattr(each.type, "dims") for each in ancestors(variables)):
        from pymc_bdmc.density.plain import plain_model  # `pymc.dims` warns that it is experimental

        model = plain_model(model)
    return model


def _check_distribution(rv: Variable, model: pm.Model) -> None:
    """Raise an error for variables without a normalised density or right draws, or with atoms."""
    for op in distribution(rv, model):
        title = type(op).__name__.removesuffix("RV")
        if isinstance(op, FlatRV | HalfFlatRV):
            raise ValueError(_improper(rv, op, model))
        if fault(op) and op is not rv.owner.op:
            name = title.removeprefix("_")
            raise ValueError(
                f"{rv.name}: PyMC's density of a pm.{name} within another distribution is not "
                f"normalised. Use pm.{name} as a variable of its own."
            )
        if isinstance(op, ICARRV) and len(parts := parts_of(rv)) > 1:
            shown = "; ".join(np.array2string(part, threshold=8, separator=", ") for part in parts)
            raise ValueError(
                f"{rv.name}: the graph of this pm.ICAR has {len(parts)} parts, so its prior is "
                f"improper: their differences may have any size. The regions are {shown}. Give "
                "each part a pm.ICAR of its own, and a single region a pm.Normal, and join them by "
                "pm.math.concatenate."
            )
        if any(each.__module__.split(".")[0] == "pymc_bart" for each in type(op).__mro__):
            raise ValueError(
                f"{rv.name}: the trees of pymc_bart.BART have no log density that can be tempered. "
                "Use splines or a Gaussian process instead, such as pm.gp.HSGP."
            )
        if rv in model.observed_RVs:
            continue
        if isinstance(op, CustomDistRV) and not has_draws(op):
            raise ValueError(
                f"{rv.name}: its prior has a log density but no random draws. If it is a proper "
                "prior, pass random=... or dist=... to pm.CustomDist; with an improper prior the "
                "marginal likelihood is not defined."
            )
        if isinstance(op, CensoredRV | DiracDeltaRV) and rv.dtype in continuous_types:
            raise ValueError(explain_atoms(rv.name, f"its distribution contains pm.{title}"))


def _improper(rv: Variable, op: Op, model: pm.Model) -> str:
    """Return the message for a variable whose distribution is, or contains, an improper one."""
    what = "prior" if rv in model.free_RVs else "distribution"
    proper = "HalfNormal" if isinstance(op, HalfFlatRV) else "Normal"
    text = (
        f"{rv.name}: an improper {what} ({type(op).__name__.removesuffix('RV')}) has no normalised "
        "density, so the marginal likelihood is not defined. Use a proper one, such as "
        f"pm.{proper}."
    )
    if rv in model.free_RVs and op is rv.owner.op:
        text += (
            f" If all compared models have {rv.name}, a wide one leaves Bayes factors nearly as "
            "they are."
        )
    return text


def explain_atoms(name: str, reason: str) -> str:
    """Return the message for a continuous variable with atoms."""
    return (
        f"{name}: {reason}, so it takes single values with positive probability, which has no "
        "common density with the other values. Sum over both cases in the likelihood, or let a "
        "discrete variable choose between them. If these are missing values of censored data, "
        "drop them."
    )


def check_simulable(model: pm.Model) -> None:
    """Raise an error for models from which data cannot be simulated, such as with Potentials."""
    if model.potentials:
        names = ", ".join(potential.name for potential in model.potentials)
        raise ValueError(
            f"simulate: the Potential {names} has a log density but no random draws. Write it as "
            "an observed pm.CustomDist with random=..., pass simulate=Given(point, data) from "
            "your own simulator, or simulate=None for log ML of the real data alone."
        )
    for rv in model.observed_RVs:
        if isinstance(rv.owner.op, CustomDistRV) and not has_draws(rv.owner.op):
            raise ValueError(
                f"simulate: {rv.name}: its distribution has a log density but no random draws. "
                "Pass random=... to pm.CustomDist, simulate=Given(point, data) with data of your "
                "own, or simulate=None."
            )
    if not model.observed_RVs:
        raise ValueError("simulate: the model has no observed variables to simulate.")


def check_storable(model: pm.Model, *, real: bool, simulated: bool) -> None:
    """Raise an error for names and coordinates that the groups of a result cannot have."""
    if real:
        taken = {"chain", "draw", "particle", "bdmc_weight"}
        _check_group("posterior", model, model.unobserved_RVs, taken)
    if simulated:
        _check_group("simulated", model, [*model.free_RVs, *model.observed_RVs], {"dataset"})
    _check_group("observed_data", model, model.observed_RVs, set())


def _check_group(group, model, variables, taken: set[str]) -> None:
    for rv in variables:
        dims = [dim for dim in model.named_vars_to_dims.get(rv.name, ()) if dim is not None]
        for name in taken.intersection([rv.name, *dims]):
            raise ValueError(
                f"{name}: the result needs this name for itself, in its group {group!r}; rename "
                f"the {'variable' if name == rv.name else 'dimension'}."
            )
        for dim in dims:
            if "/" in dim:
                raise ValueError(f"{dim}: the name of a dimension cannot contain '/'; rename it.")
            if not _is_storable(model.coords.get(dim)):
                raise ValueError(
                    f"coords: netCDF cannot hold the values {model.coords[dim]!r} of {dim!r}; use "
                    "numbers, strings or numpy.datetime64."
                )


def _is_storable(values: Sequence | None) -> bool:
    """Return whether netCDF takes the values of a coordinate."""
    if values is None:  # numbered
        return True
    array = np.asarray(values)
    if array.ndim == 1:
        array = xr.Variable("label", array).values  # turns Timestamps into datetime64
    if array.dtype.kind == "O":
        return all(isinstance(value, str | None) for value in array.ravel())
    return array.ndim == 1 and array.dtype.kind != "c"


def angles(model: pm.Model) -> list[Variable]:
    """Return the free variables on a circle: of periodic density, and with draws in one period."""
    transforms = model.rvs_to_transforms.items()
    return [rv for rv, transform in transforms if isinstance(transform, CircularTransform)]


def no_reference_for(model: pm.Model) -> str:
    """Return the reason why no path can start at a reference; empty if one can.

    A reference is a normalised density on the unconstrained scale, and its path ends at a
    normalised prior times the likelihood.
    """
    for rv in angles(model):
        return f"since {rv.name} lies on a circle"
    for rv in model.free_RVs:
        if family := unknown_family(rv, model):
            return f"since the density of {rv.name}, a {family}, need not integrate to 1"
    return ""


def checked_data(name: str, value: ArrayLike, real: np.ndarray) -> np.ndarray:
    """Return data in the type of the observed ones; of several stacked data sets the first."""
    given = np.asarray(value)
    given = given[0] if given.ndim > real.ndim else given
    if given.shape != real.shape:
        raise ValueError(
            f"data: {name} must have the shape {real.shape} of the observed data, "
            f"got {given.shape}."
        )
    with np.errstate(invalid="ignore"):  # NaN as an integer
        cast = given.astype(real.dtype)
    if not np.allclose(cast, given, rtol=1e-6, atol=0):
        raise ValueError(
            f"data: {name} must be numbers of type {real.dtype}, got "
            f"{np.array2string(given, threshold=8)}."
        )
    return cast


def shown(values: Mapping[str, np.ndarray]) -> str:
    """Return the first values of a few variables as text, short enough for a message."""
    texts = [f"{name}={np.array2string(v, threshold=8)}" for name, v in values.items()]
    return ", ".join(texts[:5] + ["…"] * (len(texts) > 5))


def constraints(model: pm.Model) -> dict[str, str]:
    """Return sentences on constraints and densities that PyMC does not normalise, as an attribute.

    The transform ``ordered`` restricts a prior to increasing values but leaves its density as it
    is, so that it integrates to the prior probability of that order: 1/k! for k exchangeable
    elements. A Potential is a part of the likelihood. So is the density of observed variables,
    which a user may have written without its constant.
    """
    sentences = [
        f"{rv.name} is ordered: log ML includes the log prior probability of that order"
        f"{_probability(rv)}."
        for rv in model.free_RVs
        if _is_ordered(model.rvs_to_transforms[rv])
    ]
    sentences += [
        f"The Potential {potential.name} is a part of the likelihood: if it expresses a "
        "constraint, log ML includes the log prior probability of that constraint."
        for potential in model.potentials
    ]
    sentences += [
        f"The density of {rv.name}, a {family}, is taken to integrate to 1 over its values; log ML "
        "can be compared with that of another density of the data only if it does."
        for rv in model.observed_RVs
        if (family := unknown_family(rv, model))
    ]
    return {"constraints": "\n".join(sentences)}


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
