"""Tell which distributions are of families whose log density is known to be normalised."""

from collections.abc import Iterator

import pymc as pm
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import WeibullRV
from pytensor.tensor.random.op import RandomVariable

from pymc_bdmc.base.upstream import HURDLE, LKJ

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
NORMALISED = (
    *(getattr(pm, name).rv_type for name in _NAMES), *LKJ, HURDLE,
    PartialObservedRV, WeibullRV,  # parts of others
)  # fmt: skip
"""Operations whose log density integrates to 1, as tests show, if corrected where it is wrong."""


def distribution(rv: Variable, model: pm.Model) -> Iterator[Op]:
    """Yield the operations of a variable's distribution, without those of its parents.

    Parameters
    ----------
    rv : Variable
    model : pymc.Model
    """
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

    Such are a `pymc.CustomDist` with a log density of its own, and families that other packages
    define. The log density of ``CustomDist(dist=...)`` is derived from the families in it.

    Parameters
    ----------
    rv : Variable
    model : pymc.Model

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.families import unknown_family
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    ...     y = pm.CustomDist("y", x, logp=lambda y, x: -((y - x) ** 2), observed=0.5)
    >>> unknown_family(x, model), unknown_family(y, model)
    ('', 'CustomDist')
    """
    for op in distribution(rv, model):
        is_derived = isinstance(op, CustomSymbolicDistRV) and op.inline_logprob
        if isinstance(op, CustomDistRV | CustomSymbolicDistRV) and not is_derived:
            return "CustomDist"
        is_drawn = isinstance(op, RandomVariable | SymbolicRandomVariable) and not is_derived
        if is_drawn and not isinstance(op, NORMALISED):
            return type(op).__name__.removesuffix("RV")
    return ""
