"""Draw the variables of a PyMC model exactly, and evaluate log p(θ, y) at many draws."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.multivariate import StickBreakingWeightsRV
from pymc.logprob.transforms import LogOddsTransform, LogTransform, SimplexTransform, Transform
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import reseed_rngs
from pymc.vartypes import discrete_types
from pytensor.compile.rewriting import inline_ofg_expansion
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import WalkingGraphRewriter, dfs_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.random.basic import BetaRV, DirichletRV, GammaRV, InvGammaRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from pymc_bdmc.base.compiling import in_a_line, quickest
from pymc_bdmc.base.types import Point, stack
from pymc_bdmc.base.upstream import alone, default_transform, own_constants
from pymc_bdmc.density.graph import INTERPRETED, by_rows, without_initial_values

MAX_PRIOR_DRAWS = 100_000
"""Most prior draws tried for one start with ℓ > −∞."""

MOST_FAILED = 1_000
"""Most successive draws of data that cannot be represented."""

MOST_ACCEPTED, MOST_TRIALS = 64, 256
"""Prior draws with ℓ > −∞, and all prior draws, from which a forward chain estimates P(S)."""


def forward_graph(
    model: pm.Model, observed: bool, given: Sequence[str]
) -> tuple[list[Variable], list[Variable]]:
    """Return the given variables, and the graphs of a draw.

    The first graph says which free variables are NaN. Then come the unconstrained free variables
    and, if asked for, the observed ones.
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
    """Draw a gamma, inverse gamma, beta or Dirichlet variable directly on the unconstrained scale.

    One draw of Gamma(0.01) in a thousand is below 1e-308, and its logarithm would be −∞. The draw
    here is exact: if G ~ Gamma(a + 1) and E ~ Exponential(a), then log G − E is the logarithm of a
    Gamma(a) variable. The log-odds of a Beta(a, b) variable are the difference of two of these, and
    a Dirichlet variable is a vector of them, without its mean.
    See Devroye (1986), Non-Uniform Random Variate Generation, Section IX.3.5. None for other
    variables.
    """
    op = rv.owner.op
    if not isinstance(op, GammaRV | InvGammaRV | BetaRV | DirichletRV):
        return None
    size = op.size_param(rv.owner)
    size = None if isinstance(size.type, NoneTypeT) else size
    first, *others = pt.broadcast_arrays(*op.dist_params(rv.owner))
    if size is not None and isinstance(op, DirichletRV):
        size = pt.concatenate([size, first.shape[-1:]])

    def log_gamma(shape):
        large = pm.Gamma.dist(shape + 1, 1, size=size)
        return pt.log(large) - pm.Exponential.dist(shape, size=size)

    match op, transform:
        case GammaRV(), LogTransform():
            return log_gamma(first) + pt.log(*others)
        case InvGammaRV(), LogTransform():
            return pt.log(*others) - log_gamma(first)
        case BetaRV(), LogOddsTransform():
            return log_gamma(first) - log_gamma(*others)
        case DirichletRV(), SimplexTransform():
            logs = log_gamma(first)
            return logs[..., :-1] - logs.mean(axis=-1, keepdims=True)
    return None


def vectorized(outputs: Sequence[Variable]) -> tuple[list[Variable], list[Variable]]:
    """Return a number n and the graphs of n draws, one a row.

    Every random variable is made to depend on a dummy variable, which then gets n values. Draws by
    a user's function, or by other operations with a generator, may not be independent over n, so
    they raise an error.
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


def draws_to_accept(accepted: int, drawn: int) -> int:
    """Return how many prior draws with ℓ > −∞ a forward chain waits for, to estimate P(S).

    About `MOST_TRIALS` draws are then needed, or 1 if the pilot rejected none. It depends on the
    pilot's draws, not on those that the chain counts.
    """
    if accepted == drawn:
        return 1
    return max(1, min(MOST_ACCEPTED, MOST_TRIALS * accepted // drawn))


def edges(transform: Any) -> tuple[float, ...]:
    """Return the edges of an open support, which draws of a variable only take by rounding."""
    match transform:
        case LogOddsTransform():
            return 0.0, 1.0
        case LogTransform() | SimplexTransform():
            return (0.0,)
    return ()


def _largest(dtype: str) -> float:
    if np.dtype(dtype).kind == "f":
        return float(np.finfo(dtype).max)
    # Compiled densities take counts as float64.
    return min(2**53, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else 1


def _undefined(name: str) -> str:
    """Return the message for a variable with NaN draws."""
    return (
        f"{name}: it is NaN in some prior draws, because a parameter of its distribution leaves "
        "its domain (for example the logarithm of a negative number), or because a constant is "
        "NaN. Give that parameter a prior within its domain, or correct the constant."
    )


def _infinite(model: pm.Model, name: str) -> str:
    """Return the message for a variable whose unconstrained value, of this name, is infinite."""
    rv = next(rv for value, rv in model.values_to_rvs.items() if value.name == name)
    remedy = "Use a less extreme prior, or define the variable on the log scale."
    if isinstance(rv.owner.op, StickBreakingWeightsRV):
        remedy = (
            'Write the sticks as a variable, v = pm.Beta("v", 1, alpha, shape=K), and the weights '
            f'as pm.Deterministic("{rv.name}", pt.concatenate([[1.0], pt.cumprod(1 - v)]) * '
            "pt.concatenate([v, [1.0]])); that is the same prior."
        )
    return (
        f"{rv.name}: some of its prior draws are rounded to the edge of its support, which is "
        f"infinite on the unconstrained scale. {remedy}"
    )


class Unrepresentable(ValueError):
    """Error for simulated data that are too large for floating point or the type of the data."""


class ForwardSampler:
    """Compiled draws of free (unconstrained) variables of a `TemperedModel` from its forward graph.

    Observed variables are drawn too if ``observed``; otherwise they have the model's present data.
    The constrained values of the free variables ``given`` are arguments of a draw.
    """

    @alone
    def __init__(self, model: pm.Model, *, observed: bool = False, given: Sequence[str] = ()):
        inputs, drawn = forward_graph(model, observed, given)
        self._model = model
        self._free = drawn[: 1 + len(model.free_RVs)]
        self._names = [value.name for value in model.value_vars]
        self._dtypes = [value.dtype for value in model.value_vars]
        self._observed = (
            {rv.name: edges(default_transform(rv)) for rv in model.observed_RVs} if observed else {}
        )
        self._function, self._rngs = compiled_draws(inputs, drawn)

    def seed(self, rng: np.random.Generator) -> None:
        """Start a new stream of draws."""
        reseed_rngs(self._rngs, rng.integers(2**63, size=4).tolist())

    def draw(self, *given: np.ndarray) -> tuple[Point, dict[str, np.ndarray]]:
        """Return the unconstrained free variables and the observed ones of the next draw."""
        with self._explained(), np.errstate(all="ignore"):
            undefined, *values = self._function(*given)
        self._check_defined(undefined)
        point = {
            name: np.asarray(value, dtype=dtype)
            for name, dtype, value in zip(self._names, self._dtypes, values, strict=False)
        }
        data = dict(zip(self._observed, values[len(point) :], strict=True))
        for name, value in data.items():
            if np.isnan(value).any():
                raise ValueError(_undefined(name))
            if not (np.abs(value) <= _largest(self._model.observed[name].dtype)).all():
                raise Unrepresentable(f"{name}: its draws are too large for the type of the data.")
            if np.isin(value, self._observed[name]).any():
                raise Unrepresentable(f"{name}: its draws are rounded to the edge of its support.")
        return point, data

    @cached_property
    @alone
    def batch(self) -> tuple[Callable, list] | None:
        """A function that makes n draws in one call, and its generators; None if not possible."""
        shapes = [(2, *np.shape(value)) for value in self.draw()[0].values()]

        def batch():
            function, rngs = compiled_draws(*vectorized(self._free))
            return (function, rngs) if [v.shape for v in function(2)[1:]] == shapes else None

        return quickest("many prior draws", batch, lambda: None)

    def draw_many(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return independent draws of free variables from a new stream, one a row.

        Unlike in `draw_supported`, rows may lie outside the support.
        """
        if self.batch is None:
            self.seed(rng)
            return stack([self.draw()[0] for _ in range(n)])
        function, rngs = self.batch
        reseed_rngs(rngs, rng.integers(2**63, size=4).tolist())
        with self._explained(), np.errstate(all="ignore"):
            undefined, *values = function(n)
        self._check_defined(undefined)
        return dict(zip(self._names, values, strict=True))

    def _check_defined(self, undefined: np.ndarray) -> None:
        """Raise an error for NaN that comes from a distribution, not from a restricting transform.

        The last axis is the free variables, parents before children.
        """
        where = np.flatnonzero(np.any(np.atleast_2d(undefined), axis=0))
        if where.size:
            raise ValueError(_undefined(self._model.free_RVs[where[0]].name))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert errors of drawing to errors that name the variable."""
        otherwise = (
            "; or, if the variable is observed, simulate=Given(point, data) with data of your "
            "own, or simulate=None."
        )
        try:
            yield
        except NotImplementedError as error:
            raise ValueError(
                f"{self.culprit(NotImplementedError)}: its distribution has a log density but no "
                f"random draws. Pass random=... to pm.CustomDist{otherwise}"
            ) from error
        except Exception as error:  # a draw may call functions of the user
            if self._data_overflow(error):
                raise Unrepresentable(
                    "The data of some draws are too large for their type."
                ) from error
            raise ValueError(
                f"{self.culprit(type(error))}: it cannot be drawn "
                f"({in_a_line(error)}). If a parameter leaves its domain, give it a "
                f"prior that stays inside{otherwise}"
            ) from error

    def _data_overflow(self, error: Exception) -> bool:
        """Return whether NumPy failed to draw observed counts, and not free ones."""
        free_counts = any(rv.dtype in discrete_types for rv in self._model.free_RVs)
        # NumPy's messages for Poisson and negative binomial counts that no integer can hold.
        overflows = "lam value too large", "n too large or p too small"
        return bool(self._observed) and not free_counts and str(error).startswith(overflows)

    @alone
    def culprit(self, error: type[Exception]) -> str:
        """Return the name of the first variable or Potential whose draws fail."""
        for rv in self._model.basic_RVs + self._model.potentials:
            try:
                pm.draw(rv, 100, mode=INTERPRETED)
            except Exception as found:  # later variables may fail by other errors
                if isinstance(found, error):
                    return rv.name
        return "model"

    def draw_supported(self, *given: np.ndarray) -> tuple[Point, dict[str, np.ndarray], int]:
        """Draw until θ lies in the support that the transforms impose; also count the draws.

        A transform can restrict the prior (for example ``ordered`` on independent components). The
        forward graph ignores the restriction, and the transform gives NaN for a point outside.

        Data that are too large for their type, or rounded to the edge of their support, such as a
        Beta variable to 1, are rejected together with their θ. With R the set of
        representable data, the pairs then come from p(θ, y | y ∈ R) = p(y | y ∈ R)·p(θ | y). The
        condition is on y alone, so θ is still an exact draw from the posterior given y; only the
        distribution of data sets changes. NumPy does not draw Poisson counts with a mean above
        9e18; there a count below 2^53 has probability exp(−10^18). For a negative binomial count
        with shape α, whose limit is at means near 10^18, this probability is about 0.01^α, so the
        start is exact except for such rare θ.
        """
        failed = 0
        for trials in range(1, MAX_PRIOR_DRAWS + 1):
            try:
                point, data = self.draw(*given)
            except Unrepresentable as error:
                failed += 1
                if failed == trials == MOST_FAILED:
                    raise ValueError(
                        f"{error} This happened in {MOST_FAILED} successive draws of the model. "
                        "Use a less extreme prior, simulate=Given(point, data) with data of your "
                        "own, or simulate=None."
                    ) from error
                continue
            if self.supports(point):
                return point, data, trials
        raise self.unsupported(MAX_PRIOR_DRAWS)

    def unsupported(self, n_draws: int) -> ValueError:
        """Return the error to raise if none of so many draws lies in the support."""
        return ValueError(
            f"None of {n_draws} prior draws lies in the support of the transforms of "
            f"{', '.join(self._names)}. Choose a prior that puts mass there."
        )

    def supports(self, point: Point) -> bool:
        """Return whether θ lies in the support that the transforms impose; an error if infinite."""
        for name, value in point.items():
            if np.isinf(value).any():
                raise ValueError(_infinite(self._model, name))
        return all(np.isfinite(value).all() for value in point.values())

    def check_finite(self) -> None:
        """Raise the error of `supports` if one of 512 draws is infinite, if draws are cheap."""
        if self.batch:
            draws = self.draw_many(512, np.random.default_rng(0))
            self.supports({name: np.where(np.isnan(each), 0, each) for name, each in draws.items()})


@alone
def joint_density(model: pm.Model) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return a function from values of the free variables, one draw a row, to log p(θ, y), nats.

    Values are on the model's own scale, without Jacobians of transforms.
    """
    with without_initial_values(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected variables likely created by GP")
        plain = remove_value_transforms(model)
    inputs = {rv.name: plain.rvs_to_values[plain[rv.name]] for rv in model.free_RVs}
    # A parameter check would fail for all rows together; a switch acts on each row.
    by_row = WalkingGraphRewriter(local_check_parameter_to_ninf_switch, order="out_to_in")
    logp = rewrite_graph(plain.logp(), custom_rewrite=by_row)
    evaluate = by_rows(list(inputs.values()), [logp])

    def in_parts(values: Mapping[str, np.ndarray]) -> np.ndarray:
        arrays = [np.asarray(values[name]).astype(value.dtype) for name, value in inputs.items()]
        starts = range(0, len(arrays[0]), 500)  # all rows together would take more memory
        parts = [evaluate(*[array[i : i + 500] for array in arrays])[0] for i in starts]
        return np.concatenate(parts).astype(float)

    return in_parts
