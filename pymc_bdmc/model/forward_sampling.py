"""Exact draws of a PyMC model's variables, one at a time or many at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.logprob.transforms import LogOddsTransform, LogTransform, Transform
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import reseed_rngs
from pymc.vartypes import discrete_types
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_expansion
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.tensor.random.basic import BetaRV, GammaRV, InvGammaRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type_other import NoneTypeT

from pymc_bdmc.base.types import Point, stack
from pymc_bdmc.base.upstream import alone, own_constants

__all__ = [
    "INTERPRETED",
    "MAX_PRIOR_DRAWS",
    "MOST_TRIALS",
    "ForwardSampler",
    "TooLarge",
    "draws_to_accept",
]

MAX_PRIOR_DRAWS = 100_000
"""Prior draws tried for one start with ℓ > −∞ before giving up."""

MOST_TOO_LARGE = 1_000
"""Draws of data that may be too large for their type, one after the other, before giving up."""

_OVERFLOWS = ("lam value too large", "n too large or p too small")
"""What NumPy says of Poisson and negative binomial counts that no integer holds."""

_LARGEST_COUNT = 2**53
"""Above it compiled densities, which take data as float64, do not tell integers apart."""

MOST_ACCEPTED, MOST_TRIALS = 64, 256
"""Prior draws with ℓ > −∞, and about how many in all, by which a forward chain measures P(S)."""

INTERPRETED = Mode("py", "fast_run").excluding("fusion")
"""For graphs that are evaluated once a chain: compiling them costs more than it saves. Fused
operations would go element by element through Python."""


def draws_to_accept(accepted: int, drawn: int) -> int:
    """How many prior draws with ℓ > −∞ a forward chain should wait for, to measure P(S).

    The more, the smaller the error of log P(S); so many that they take about `MOST_TRIALS` draws.
    One where no draw is rejected. Decided on other draws than those that the chain counts.

    Parameters
    ----------
    accepted, drawn : int
        Prior draws with ℓ > −∞, and all, that the pilot saw.
    """
    if accepted == drawn:
        return 1
    return max(1, min(MOST_ACCEPTED, MOST_TRIALS * accepted // drawn))


def _unconstrained_draw(rv: Variable, transform: Transform | None) -> Variable | None:
    """A draw of a gamma, inverse gamma or beta variable that never leaves the unconstrained scale.

    Of Gamma(0.01) one draw in a thousand is below 1e-308, and its logarithm would be −∞. Exact: if
    G ~ Gamma(a + 1) and E ~ Exponential(a), then log G − E is the logarithm of a Gamma(a) variable,
    and log-odds of Beta(a, b) are the difference of two of them. Devroye (1986), Non-Uniform Random
    Variate Generation, Section IX.3.5. Other variables: None.
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


def _largest(dtype: str) -> float:
    """Largest number of a type that the density can be told."""
    if np.dtype(dtype).kind == "f":
        return float(np.finfo(dtype).max)
    return min(_LARGEST_COUNT, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else 1


def _undefined(name: str) -> str:
    """What to say of a variable whose draws are NaN."""
    return (
        f"{name}: it is NaN in some prior draws, because a parameter of its distribution leaves "
        "its domain there (the logarithm of a negative number, say), or a constant is NaN. Give "
        "that parameter a prior that stays inside, or mend the constant."
    )


class TooLarge(ValueError):
    """Drawn data do not fit into the type of the observed ones."""


class ForwardSampler:
    """Compiled draws of free (unconstrained) and observed variables from a model's forward graph.

    Parameters
    ----------
    model : Model
        A `TemperedModel`.
    observed : bool
        Whether to draw the observed variables too; else they have the model's present data.
    given : sequence of str, optional
        Free variables whose constrained values are handed to every draw.
    """

    @alone
    def __init__(self, model: pm.Model, *, observed: bool = False, given: Sequence[str] = ()):
        known = {model[name]: model[name].type() for name in given}
        inputs = list(known.values())
        if not observed:  # where the prior of a free variable depends on data, as log p(θ) has it
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
        undefined = pt.stack([pt.isnan(rv).any() for rv in model.free_RVs])
        if exponentials:
            # What a variable that rounds to 0 or ∞ leaves without a value is no mistake of the
            # model; such draws are left out as unsupported ones are, and counted in P(S).
            rounded = pt.any([(pt.eq(x, 0) | pt.isinf(x)).any() for x in exponentials])
            lost = rounded & pt.any([(pt.isnan(z) | pt.isinf(z)).any() for z in unconstrained])
            undefined &= ~lost
            unconstrained = [
                z if z.dtype in discrete_types else pt.switch(lost, np.nan, z)
                for z in unconstrained
            ]
        drawn = [undefined, *unconstrained] + (model.observed_RVs if observed else [])
        drawn = graph_replace(drawn, known, strict=False)
        self._model = model
        self._free = drawn[: 1 + len(unconstrained)]
        self._names = [value.name for value in model.value_vars]
        self._dtypes = [value.dtype for value in model.value_vars]
        self._observed_names = [rv.name for rv in model.observed_RVs] if observed else []
        self._function, updates = compile_graph(
            inputs,
            drawn,
            random_seed=False,
            return_updates=True,
            on_unused_input="ignore",
            mode=INTERPRETED,
        )
        own_constants(self._function)
        self._rngs = list(updates)

    def seed(self, rng: np.random.Generator) -> None:
        """Start a new stream of draws."""
        reseed_rngs(self._rngs, rng.integers(2**63, size=4).tolist())

    def draw(self, *given: np.ndarray) -> tuple[Point, dict[str, np.ndarray]]:
        """Return the unconstrained free variables and the observed ones of the next draw.

        Raises
        ------
        ValueError
            If a variable cannot be drawn; names it.
        TooLarge
            If drawn data do not fit into the type of the observed ones.
        """
        with self._explained():
            undefined, *values = self._function(*given)
        self._check_defined(undefined)
        point = {
            name: np.asarray(value, dtype=dtype)
            for name, dtype, value in zip(self._names, self._dtypes, values, strict=False)
        }
        data = dict(zip(self._observed_names, values[len(point) :], strict=True))
        for name, value in data.items():
            if np.isnan(value).any():
                raise ValueError(_undefined(name))
            if not (np.abs(value) <= _largest(self._model.observed[name].dtype)).all():
                raise TooLarge(f"{name}: its draws are too large for the type of the data.")
        return point, data

    @cached_property
    @alone
    def _batch(self) -> tuple[Callable, list] | None:
        """The function of n that draws n times, and its generators; None where PyTensor cannot.

        Every random variable is made to depend on a variable without meaning, which then is given
        n values. Draws by a user's function are not trusted to be independent for all n, nor
        whatever else takes a generator.
        """
        graph = FunctionGraph(outputs=self._free, clone=True)
        dfs_rewriter(inline_ofg_expansion).rewrite(graph)
        nothing, n = pt.dscalar(), pt.lscalar()
        graph.add_input(nothing)
        for node in graph.toposort():
            if not any(isinstance(each.type, RandomType) for each in node.inputs):
                continue
            if not isinstance(node.op, RandomVariable) or isinstance(node.op, CustomDistRV):
                return None
            first = node.op.dist_params(node)[0]
            graph.change_node_input(
                node, node.inputs.index(first), pt.second(nothing, first), check=False
            )
        try:
            function, updates = compile_graph(
                [n],
                vectorize_graph(list(graph.outputs), {nothing: pt.zeros(n)}),
                random_seed=False,
                return_updates=True,
                mode=INTERPRETED,
            )
            own_constants(function)
            shapes = [value.shape for value in function(2)[1:]]
        except Exception:  # whatever an op without vectorization raises
            return None
        single = [np.shape(value) for value in self.draw()[0].values()]
        return (function, list(updates)) if shapes == [(2, *shape) for shape in single] else None

    @property
    def batches(self) -> bool:
        """Whether many draws cost little more than one."""
        return self._batch is not None

    def draw_many(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent draws of the free variables from a new stream, one a row.

        Unlike in `draw_supported`, rows may lie outside the support.
        """
        if self._batch is None:
            self.seed(rng)
            return stack([self.draw()[0] for _ in range(n)])
        function, rngs = self._batch
        reseed_rngs(rngs, rng.integers(2**63, size=4).tolist())
        with self._explained():
            undefined, *values = function(n)
        self._check_defined(undefined)
        return dict(zip(self._names, values, strict=True))

    def _check_defined(self, undefined: np.ndarray) -> None:
        """Refuse NaN, which a variable has by its distribution and not by a transform that cuts.

        The last axis of ``undefined`` is the free variables, parents before children.
        """
        where = np.flatnonzero(np.any(np.atleast_2d(undefined), axis=0))
        if where.size:
            raise ValueError(_undefined(self._model.free_RVs[where[0]].name))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the variable that cannot be drawn."""
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
        except (IndexError, ValueError) as error:
            if self._data_overflow(error):
                raise TooLarge("The data of some draws are too large for their type.") from error
            raise ValueError(
                f"{self.culprit(type(error))}: it cannot be drawn "
                f"({str(error).splitlines()[0]}). If a parameter leaves its domain, give it a "
                f"prior that stays inside{otherwise}"
            ) from error

    def _data_overflow(self, error: Exception) -> bool:
        """Whether it is observed counts that NumPy cannot draw, and not free ones."""
        free_counts = any(rv.dtype in discrete_types for rv in self._model.free_RVs)
        return bool(self._observed_names) and not free_counts and str(error).startswith(_OVERFLOWS)

    @alone
    def culprit(self, error: type[Exception]) -> str:
        """The first variable or Potential whose draws fail; so do those that depend on it."""
        for rv in self._model.basic_RVs + self._model.potentials:
            try:
                pm.draw(rv, 100, mode=INTERPRETED)
            except Exception as found:  # another one may stop a variable further down
                if isinstance(found, error):
                    return rv.name
        return "model"

    def draw_supported(self, *given: np.ndarray) -> tuple[Point, dict[str, np.ndarray], int]:
        """Draw until θ lies in the support that the transforms impose; also count the draws.

        A transform can cut the prior (``ordered`` on independent components, say); the forward
        graph knows nothing of it, and the inverse map of a point outside gives NaN.

        Data that their type cannot hold are refused together with their θ. With R the set of data
        that it holds, the pairs then come from p(θ, y | y ∈ R) = p(y | y ∈ R)·p(θ | y): the
        condition is on y alone, so θ stays an exact draw from the posterior given y. What changes
        is the law of the data sets alone. Where NumPy refuses to draw a Poisson count at all, its
        mean is above 9e18, and a count below 2^53 has a probability of exp(−10^18). Of a negative
        binomial count with shape α it still has one of about 0.01^α where NumPy begins to refuse,
        at means near 10^18, so there the start is exact but for so rare θ.

        Raises
        ------
        ValueError
            If no θ of so many lies in the support, or no data of so many fit; says which.
        """
        too_large = 0
        for trials in range(1, MAX_PRIOR_DRAWS + 1):
            try:
                point, data = self.draw(*given)
            except TooLarge as error:
                too_large += 1
                if too_large == trials == MOST_TOO_LARGE:
                    raise ValueError(
                        f"{error} So were {MOST_TOO_LARGE} draws of the model, one after the "
                        "other. Use a less extreme prior, simulate=Given(point, data) with data "
                        "of your own, or simulate=None."
                    ) from error
                continue
            if self.supports(point):
                return point, data, trials
        raise self.unsupported(MAX_PRIOR_DRAWS)

    def unsupported(self, n_draws: int) -> ValueError:
        """The error to raise where so many draws were in vain."""
        return ValueError(
            f"None of {n_draws} prior draws lies in the support of the transforms of "
            f"{', '.join(self._names)}. Choose a prior that puts mass there."
        )

    @staticmethod
    def supports(point: Point) -> bool:
        """Whether θ lies in the support that the transforms impose.

        Raises
        ------
        ValueError
            If a value is infinite, so that nobody can tell.
        """
        for name, value in point.items():
            if np.isinf(value).any():
                raise ValueError(
                    f"A prior draw of {name} is infinite in floating point, so the prior cannot "
                    "be represented on the unconstrained scale. Use a less extreme prior, or "
                    "define the variable on the log scale."
                )
        return all(np.isfinite(value).all() for value in point.values())
