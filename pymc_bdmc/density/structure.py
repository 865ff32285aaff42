"""Find the families, latent variables and hard-to-sample variables of a model."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pymc.distributions.continuous import SkewStudentTRV
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.discrete import Bernoulli, Categorical, DiscreteUniform
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pymc.distributions.multivariate import (
    CARRV,
    ICARRV,
    KroneckerNormalRV,
    MvNormalRV,
    MvStudentTRV,
    ZeroSumNormalRV,
)
from pymc.distributions.timeseries import AutoRegressiveRV, EulerMaruyamaRV, RandomWalkRV
from pymc.distributions.transforms import ZeroSumTransform
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pymc.pytensorf import reseed_rngs
from pymc.vartypes import continuous_types, discrete_types
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Second, Sub, TrueDiv
from pytensor.tensor.basic import as_tensor
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.einsum import Einsum
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.basic import (
    CauchyRV,
    InvGammaRV,
    LogNormalRV,
    NormalRV,
    StudentTRV,
    WeibullRV,
)
from pytensor.tensor.random.op import RandomVariable

from pymc_bdmc.base.upstream import HURDLE, LKJ, alone
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.prior import compiled_draws, forward_graph

_NAMES = (
    "AR", "AsymmetricLaplace", "Bernoulli", "Beta", "BetaBinomial", "Binomial", "CAR",
    "Categorical", "Cauchy", "Censored", "DiracDelta", "Dirichlet", "DirichletMultinomial",
    "DiscreteUniform", "DiscreteWeibull", "EulerMaruyama", "ExGaussian", "Exponential", "GARCH11",
    "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "HalfStudentT", "HyperGeometric",
    "ICAR", "Interpolated", "InverseGamma", "KroneckerNormal", "Kumaraswamy", "Laplace",
    "LogNormal", "Logistic", "MatrixNormal", "Mixture", "Moyal", "Multinomial", "MvNormal",
    "MvStudentT", "NegativeBinomial", "Normal", "Pareto", "Poisson", "PolyaGamma", "RandomWalk",
    "Rice", "SkewNormal", "SkewStudentT", "StickBreakingWeights", "StudentT", "Triangular",
    "Truncated", "TruncatedNormal", "Uniform", "VonMises", "Wald", "Weibull", "Wishart",
    "ZeroSumNormal",
)  # fmt: skip
ELEMENTWISE = type(None), LogTransform, LogOddsTransform, IntervalTransform
"""Transforms of one element at a time."""
NORMALISED = (
    *(getattr(pm, name).rv_type for name in _NAMES), *LKJ, HURDLE,
    PartialObservedRV, WeibullRV,  # parts of others
)  # fmt: skip
"""Operations whose log density integrates to 1, as tests show, if corrected as in `correct`."""


def distribution(rv: Variable, model: pm.Model) -> Iterator[Op]:
    """Yield the operations of a variable's distribution, without those of its parents."""
    others = set(model.basic_RVs) - {rv}
    for variable in ancestors([rv], blockers=others):
        if variable.owner is None or variable in others:
            continue
        op = variable.owner.op
        yield op
        yield getattr(op, "base_rv_op", op)  # pm.Truncated has one
        if isinstance(op, SymbolicRandomVariable):
            yield from (node.op for node in op.fgraph.apply_nodes)


def unknown_family(rv: Variable, model: pm.Model) -> str:
    """Return the name of a family in a distribution that need not integrate to 1, or nothing.

    Examples are a `pymc.CustomDist` with its own log density, and families that other packages
    define. The log density of ``CustomDist(dist=...)`` is derived from the families in it.
    """
    for op in distribution(rv, model):
        is_derived = isinstance(op, CustomSymbolicDistRV) and op.inline_logprob
        if isinstance(op, CustomDistRV | CustomSymbolicDistRV) and not is_derived:
            return "CustomDist"
        is_drawn = isinstance(op, RandomVariable | SymbolicRandomVariable) and not is_derived
        if is_drawn and not isinstance(op, NORMALISED):
            return type(op).__name__.removesuffix("RV")
    return ""


def hard_variables(model: pm.Model) -> dict[str, str]:
    """Return the names of free variables that are hard to sample, by reason, as attributes.

    Discrete variables with few values are ``finite_variables`` too. Variables whose scale is a free
    variable are centred: group effects, random walks, autoregressive processes. So is any variable
    for which this cannot be found out.
    """
    centred = [rv.name for rv in model.free_RVs if _scale_parents(rv, model)]
    discrete = [rv.name for rv in model.free_RVs if rv.dtype in discrete_types]
    few = tuple(each.rv_type for each in (Bernoulli, Categorical, DiscreteUniform))
    finite = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, few)]
    found = {"discrete_variables": discrete, "finite_variables": finite, "centred_effects": centred}
    return {kind: ", ".join(names) for kind, names in found.items()}


def with_necks(model: pm.Model) -> list[str]:
    """Return the names of centred effects whose scale may be near 0, a priori.

    The posterior may then reach into the neck of a funnel. The scale of an inverse gamma or
    log-normal variance does not count: its density vanishes at 0 faster than any power.
    """
    vanishing = InvGammaRV, LogNormalRV
    near_zero = {rv for rv in model.free_RVs if not isinstance(rv.owner.op, vanishing)}
    return [rv.name for rv in model.free_RVs if near_zero.intersection(_scale_parents(rv, model))]


def _scale_parents(rv: Variable, model: pm.Model) -> set[Variable]:
    """Return the free variables on which the scale of a variable depends.

    For an unknown family, these are all parents, unless draws show that its spread on the
    unconstrained scale does not vanish with them.
    """
    free = set(model.free_RVs)
    if rv.dtype in discrete_types:
        return set()
    if (scale := scale_of(rv)) is not None:
        return free.intersection(ancestors([scale]))
    direct = ancestors(rv.owner.inputs, blockers=free)
    parents = sorted(free.intersection(direct), key=lambda each: each.name)
    return set(parents) if parents and may_vanish(rv, parents, model) else set()


def sum_out(names: str) -> str:
    """Say how to sum variables with few values, named in a line, out of a model."""
    listed = ", ".join(f'"{name}"' for name in names.split(", "))
    call = f"pmx.marginalize(model, [{listed}])"
    return f"sum {names} out: `import pymc_extras as pmx`, `model = {call}`"


def heavy_tailed(model: pm.Model) -> list[str]:
    """Return the names of free variables whose prior has polynomial tails, unconstrained.

    If the likelihood is flat far out, the posterior has the same tails, and a fit to its bulk has
    far too little mass there. Tails of positive variables are exponential on the log scale.
    """
    polynomial = CauchyRV, StudentTRV, SkewStudentTRV, MvStudentTRV
    return [
        rv.name
        for rv in model.free_RVs
        if isinstance(rv.owner.op, polynomial) and model.rvs_to_transforms[rv] is None
    ]


def scale_of(rv: Variable) -> Variable | None:
    """Return the parameter that scales a variable, or the steps of a process, or None."""
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return scale_of(inputs[1]) if inputs[1].owner else None
    if isinstance(op, AutoRegressiveRV):
        return inputs[1]
    if isinstance(op, EulerMaruyamaRV):
        return _diffusion(rv)[1]
    if isinstance(op, ICARRV):
        return op.dist_params(rv.owner)[1]
    # Location-scale families whose last or only parameter is the scale. Others are drawn from.
    scale_last = {
        "cauchy", "exponential", "gumbel", "halfcauchy", "halfnormal", "laplace", "logistic",
        "lognormal", "multivariate_normal", "normal", "t", "zerosumnormal",
    }  # fmt: skip
    family = str(getattr(op, "name", None)).lower()
    if family not in scale_last:
        return None
    # The last parameter of a zero-sum variable is its shape.
    return op.dist_params(rv.owner)[0 if family == "zerosumnormal" else -1]


def _diffusion(rv: Variable) -> tuple[Variable, Variable]:
    """Return a state of a stochastic differential equation, and the diffusion there."""
    state, parameters = rv.type(), rv.owner.inputs[2:-1]
    _, found = rv.owner.op.sde_fn(state, *(each[..., None] for each in parameters))
    return state, as_tensor(found)


def latent_variables(model: pm.Model, of_any_family: bool = False) -> tuple[str, ...]:
    """Return the names of free variables that are normal given the others, a priori.

    They have a normal prior on the unconstrained scale, and no scale of a free variable depends on
    them. Scalars that enter the model through a nonlinear function, such as the exponential of a
    logarithm by which effects are multiplied, are left out. Of two variables that are multiplied,
    such as the loadings and scores of a factor model, the one with fewer elements is left out.

    With ``of_any_family``, others count too: if they have several elements, which are independent
    given their parameters and on the unconstrained scale, and no free variable depends on them.
    """
    scales = [scale for rv in model.free_RVs if (scale := scale_of(rv)) is not None]
    shaping = set(ancestors(scales)) | _scalars_in_functions(model)
    parents = set(ancestors([part for rv in model.free_RVs for part in rv.owner.inputs]))
    latent = [
        rv
        for rv in model.free_RVs
        if (of_any_family and rv not in parents and _is_independent(rv, model))
        or (
            rv not in shaping
            and _is_normal(rv)
            and isinstance(model.rvs_to_transforms[rv], ZeroSumTransform | None)
        )
    ]
    multiplied = _multiplied(model, set(latent))
    return tuple(rv.name for rv in latent if rv not in multiplied)


def _is_independent(rv: Variable, model: pm.Model) -> bool:
    """Return whether a variable has several elements that are independent given its parameters."""
    return (
        rv.dtype in continuous_types
        and rv.type.ndim > 0
        and getattr(rv.owner.op, "ndim_supp", 1) == 0
        and isinstance(model.rvs_to_transforms[rv], ELEMENTWISE)
    )


def _multiplied(model: pm.Model, latent: set[Variable]) -> set[Variable]:
    """Return a few variables, without which no two of the others are multiplied."""
    partners = defaultdict(set)
    blockers = set(model.free_RVs)
    for variable in ancestors([part for rv in model.basic_RVs for part in rv.owner.inputs]):
        op, inputs = (variable.owner.op, variable.owner.inputs) if variable.owner else (None, [])
        if isinstance(op, AutoRegressiveRV | EulerMaruyamaRV):  # these multiply its own elements
            of_drift = inputs[:1] if isinstance(op, AutoRegressiveRV) else inputs[2:-1]
            factors = [{variable}, latent.intersection(ancestors(of_drift, blockers=blockers))]
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
    """Return the scalars that enter the model through a nonlinear function of one variable."""
    linear = Add, Cast, Identity, Mul, Neg, Second, Sub, TrueDiv  # in each argument, or the first
    free, found = set(model.free_RVs), set()
    for variable in ancestors([part for rv in model.basic_RVs for part in rv.owner.inputs]):
        op = variable.owner.op if variable.owner else None
        if isinstance(op, Elemwise) and not isinstance(op.scalar_op, linear):
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
    if isinstance(op, EulerMaruyamaRV):  # if its drift is linear, which a fit shows
        state, diffusion = _diffusion(rv)
        return _is_normal(inputs[0]) and state not in ancestors([diffusion])
    return isinstance(
        op, CARRV | ICARRV | NormalRV | MvNormalRV | ZeroSumNormalRV | KroneckerNormalRV
    )


_found: WeakKeyDictionary[pm.Model, dict[str, bool]] = WeakKeyDictionary()
"""Answers by model and variable."""


def may_vanish(rv: Variable, parents: list[Variable], model: pm.Model) -> bool:
    """Return whether an unconstrained variable may have hardly any spread given its parents.

    True if this cannot be found out, for example because the variable cannot be drawn.
    """
    known = _found.setdefault(model, {})
    if rv.name not in known:
        try:
            spreads = _spreads(rv, parents, model)
        except Exception:  # drawing may raise any error
            return known.setdefault(rv.name, True)
        # A spread may vanish if in 1 % of the draws it is below a tenth of its median, and below a
        # fifth of its lower quartile, which draws that explode do not move. Chosen: half-normal,
        # half-Cauchy, exponential, and uniform scales are in 5 % or more, and those of inverse
        # gamma variances or of gamma variables with an exponential shape in under 0.1 %.
        quartile, median = np.quantile(spreads, [0.25, 0.5], axis=0, method="lower")
        narrow = ~(spreads >= np.minimum(0.1 * median, 0.2 * quartile))  # NaN counts
        known[rv.name] = bool((narrow.mean(axis=0) >= 0.01).any())
    return known[rv.name]


@alone
def _spreads(rv: Variable, parents: list[Variable], model: pm.Model) -> np.ndarray:
    """Return lower quartiles of distances between draws given each of the parents, by element.

    A component of a mixture whose spread vanishes shows in these too. The steps between neighbours
    count as further elements, since those of a process may vanish alone.
    """
    n, children = 256, 8  # 5 % of spreads are narrow: 3 or more of 256, but for a chance of 3e-4
    given = pm.draw(parents, n, random_seed=0, mode=INTERPRETED)
    inputs, (_, *free) = forward_graph(model, False, [each.name for each in parents])
    draw, rngs = compiled_draws(inputs, [free[model.free_RVs.index(rv)]])
    reseed_rngs(rngs, range(len(rngs)))
    with np.errstate(all="ignore"):
        draws = [[draw(*each)[0] for _ in range(children)] for each in zip(*given, strict=True)]
    drawn = np.array(draws, dtype=float).reshape(n, children, -1)
    drawn = np.concatenate([drawn, np.diff(drawn, axis=2)], axis=2)
    first, second = np.triu_indices(children, 1)
    return np.quantile(np.abs(drawn[:, first] - drawn[:, second]), 0.25, axis=1)
