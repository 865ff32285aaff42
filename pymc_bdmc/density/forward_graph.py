"""Build the graphs by which a PyMC model's variables are drawn, and compile them."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.logprob.transforms import LogOddsTransform, LogTransform, Transform
from pymc.pytensorf import compile as compile_graph
from pymc.vartypes import discrete_types
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_expansion
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter, out2in
from pytensor.tensor.random.basic import BetaRV, GammaRV, InvGammaRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from pymc_bdmc.base.upstream import own_constants

MOST_OPERANDS, AFTER_JOINING = 30, 49.0
"""Most operands of an operation in Python, since NumPy takes 32 arrays, and the place of a rewrite
after those that join sums and products."""


@node_rewriter([pt.add, pt.mul])
def _in_parts(fgraph, node):
    """Rewrite a sum or product of many operands as one of several parts."""
    operands = node.inputs
    if len(operands) <= MOST_OPERANDS:
        return None
    first, rest = operands[:MOST_OPERANDS], operands[MOST_OPERANDS:]
    return [node.op(node.op(*first), *rest)]


INTERPRETED = (
    Mode("py", "fast_run")
    .excluding("fusion")
    .register((out2in(_in_parts, name="sums_and_products_in_parts"), AFTER_JOINING))
)
"""Mode for graphs that are evaluated once a chain, for which compiling takes longer than it saves.
Fusion is excluded since fused operations would loop over elements in Python."""


def forward_graph(
    model: pm.Model, observed: bool, given: Sequence[str]
) -> tuple[list[Variable], list[Variable]]:
    """Return the given variables, and the graphs of a draw.

    The first tells which free variables are NaN. The unconstrained free variables follow and, if
    asked for, the observed ones.
    """
    known = {model[name]: model[name].type() for name in given}
    inputs = list(known.values())
    if not observed:  # the prior of a free variable may depend on data, as in log p(θ)
        known |= {rv: model.rvs_to_values[rv] for rv in model.observed_RVs}
    unconstrained, exponentials = [], []
    for rv in model.free_RVs:  # parents before children
        transform = model.rvs_to_transforms[rv]
        direct = None if rv in known else _unconstrained_draw(rv, transform)
        if direct is not None:
            (direct,) = graph_replace([direct], known, strict=False)
            known[rv] = transform.backward(direct, *rv.owner.inputs)
            exponentials.append(known[rv])
        elif transform is not None:
            direct = transform.forward(rv, *rv.owner.inputs)
        unconstrained.append(rv if direct is None else direct)
    # A model without free variables, a null model, draws its data alone.
    missing = [pt.isnan(rv).any() for rv in model.free_RVs] or [pt.constant(False)]
    undefined = pt.stack(missing)
    if exponentials:
        # NaN from a variable that is rounded to 0 or ∞ is not an error of the model. Such draws
        # are left out like unsupported ones, and counted in P(S).
        rounded = pt.any([(pt.eq(x, 0) | pt.isinf(x)).any() for x in exponentials])
        lost = rounded & pt.any([(pt.isnan(z) | pt.isinf(z)).any() for z in unconstrained])
        undefined &= ~lost
        unconstrained = [
            z if z.dtype in discrete_types else pt.switch(lost, np.nan, z) for z in unconstrained
        ]
    drawn = [undefined, *unconstrained] + (model.observed_RVs if observed else [])
    return inputs, graph_replace(drawn, known, strict=False)


def _unconstrained_draw(rv: Variable, transform: Transform | None) -> Variable | None:
    """Draw a gamma, inverse gamma or beta variable directly on the unconstrained scale.

    One draw of Gamma(0.01) in a thousand is below 1e-308, and its logarithm would be −∞. The draw
    here is exact: if G ~ Gamma(a + 1) and E ~ Exponential(a), then log G − E is the logarithm of a
    Gamma(a) variable, and the log-odds of a Beta(a, b) variable are the difference of two of these.
    See Devroye (1986), Non-Uniform Random Variate Generation, Section IX.3.5. None for other
    variables.
    """
    op = rv.owner.op
    if not isinstance(op, GammaRV | InvGammaRV | BetaRV):
        return None
    size = op.size_param(rv.owner)
    size = None if isinstance(size.type, NoneTypeT) else size
    first, second = pt.broadcast_arrays(*op.dist_params(rv.owner))

    def log_gamma(shape):
        large = pm.Gamma.dist(shape + 1, 1, size=size)
        return pt.log(large) - pm.Exponential.dist(shape, size=size)

    match op, transform:
        case GammaRV(), LogTransform():
            return log_gamma(first) + pt.log(second)
        case InvGammaRV(), LogTransform():
            return pt.log(second) - log_gamma(first)
        case BetaRV(), LogOddsTransform():
            return log_gamma(first) - log_gamma(second)
    return None


def vectorized(outputs: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Return a number n and the graphs of n draws, one a row.

    Every random variable is made to depend on a dummy variable, which then gets n values. Draws by
    a user's function, or by other operations with a generator, may not be independent over n, so
    they are not drawn together.

    Raises
    ------
    NotImplementedError
        For such operations; one without vectorization may raise any error.
    """
    graph = FunctionGraph(outputs=outputs, clone=True)
    dfs_rewriter(inline_ofg_expansion).rewrite(graph)
    nothing, n = pt.dscalar(), pt.lscalar()
    graph.add_input(nothing)
    for node in graph.toposort():
        if not any(isinstance(each.type, RandomType) for each in node.inputs):
            continue
        if not isinstance(node.op, RandomVariable) or isinstance(node.op, CustomDistRV):
            raise NotImplementedError(f"draws by {node.op} may not be independent")
        first = node.op.dist_params(node)[0]
        graph.change_node_input(
            node, node.inputs.index(first), pt.second(nothing, first), check=False
        )
    return [n], vectorize_graph(list(graph.outputs), {nothing: pt.zeros(n)})


def compiled_draws(
    inputs: Sequence[Variable], outputs: Sequence[Variable]
) -> tuple[Callable, list[Variable]]:
    """Return a function that draws, and its random generators."""
    function, updates = compile_graph(
        inputs, outputs, random_seed=False, return_updates=True, on_unused_input="ignore",
        mode=INTERPRETED,
    )  # fmt: skip
    own_constants(function)
    return function, list(updates)
