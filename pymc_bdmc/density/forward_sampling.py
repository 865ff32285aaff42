"""Draw a PyMC model's variables exactly, one draw at a time or many at once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.multivariate import StickBreakingWeightsRV
from pymc.logprob.transforms import LogOddsTransform, LogTransform, SimplexTransform
from pymc.pytensorf import reseed_rngs
from pymc.vartypes import discrete_types
from pytensor.tensor.random.basic import DirichletRV

from pymc_bdmc.base.compiling import in_a_line, quickest
from pymc_bdmc.base.types import Point, stack
from pymc_bdmc.base.upstream import alone, default_transform
from pymc_bdmc.density.forward_graph import (
    INTERPRETED,
    compiled_draws,
    forward_graph,
    vectorized,
)

MAX_PRIOR_DRAWS = 100_000
"""Most prior draws tried for one start with ℓ > −∞."""

MOST_FAILED = 1_000
"""Most successive draws of data that cannot be represented."""

_OVERFLOWS = ("lam value too large", "n too large or p too small")
"""Messages of NumPy for Poisson and negative binomial counts that no integer can hold."""

_LARGEST_COUNT = 2**53
"""Largest count that compiled densities represent exactly, since they take data as float64."""

MOST_ACCEPTED, MOST_TRIALS = 64, 256
"""Prior draws with ℓ > −∞, and of all prior draws, from which a forward chain estimates P(S)."""


def draws_to_accept(accepted: int, drawn: int) -> int:
    """Return how many prior draws with ℓ > −∞ a forward chain waits for, to estimate P(S).

    More draws give a smaller error of log P(S); the number is such that about `MOST_TRIALS` draws
    are needed, and 1 if no draw is rejected. It depends on the pilot's draws, not on those that the
    chain counts.

    Parameters
    ----------
    accepted, drawn : int
        Numbers of the pilot's prior draws with ℓ > −∞, and of all of them.
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
    """Return the largest number of a type that the density can take."""
    if np.dtype(dtype).kind == "f":
        return float(np.finfo(dtype).max)
    return min(_LARGEST_COUNT, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else 1


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
    elif isinstance(rv.owner.op, DirichletRV):
        remedy = (
            f'Write g = pm.Gamma("g", a, 1), and the weights as pm.Deterministic("{rv.name}", '
            "g / g.sum(-1, keepdims=True)); that is the same prior."
        )
    return (
        f"{rv.name}: some of its prior draws are rounded to the edge of its support, which is "
        f"infinite on the unconstrained scale. {remedy}"
    )


class Unrepresentable(ValueError):
    """Error for simulated data that floating point, or the type of the data, cannot hold."""


class ForwardSampler:
    """Compiled draws of free (unconstrained) and observed variables from a model's forward graph.

    Parameters
    ----------
    model : Model
        A `TemperedModel`.
    observed : bool
        Whether to draw the observed variables too; otherwise they have the model's current data.
    given : sequence of str, optional
        Free variables whose constrained values are arguments of every draw.
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
        """Return the unconstrained free variables and the observed ones of the next draw.

        Raises
        ------
        ValueError
            If a variable cannot be drawn; the message names it.
        Unrepresentable
            If drawn data are too large for the type of the observed data, or rounded to the edge of
            their support.
        """
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
    def _batch(self) -> tuple[Callable, list] | None:
        """Return a function of n that draws n times, and its generators; None if not possible."""
        shapes = [(2, *np.shape(value)) for value in self.draw()[0].values()]

        def batch():
            function, rngs = compiled_draws(*vectorized(self._free))
            return (function, rngs) if [v.shape for v in function(2)[1:]] == shapes else None

        return quickest("many prior draws", batch, lambda: None)

    @property
    def batches(self) -> bool:
        """Return whether many draws can be made in one call."""
        return self._batch is not None

    def draw_many(self, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return independent draws of the free variables from a new stream, one a row.

        Unlike in `draw_supported`, rows may lie outside the support.
        """
        if self._batch is None:
            self.seed(rng)
            return stack([self.draw()[0] for _ in range(n)])
        function, rngs = self._batch
        reseed_rngs(rngs, rng.integers(2**63, size=4).tolist())
        with self._explained(), np.errstate(all="ignore"):
            undefined, *values = function(n)
        self._check_defined(undefined)
        return dict(zip(self._names, values, strict=True))

    def _check_defined(self, undefined: np.ndarray) -> None:
        """Raise an error for NaN that comes from a distribution, not from a restricting transform.

        The last axis of ``undefined`` is the free variables, parents before children.
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
        return bool(self._observed) and not free_counts and str(error).startswith(_OVERFLOWS)

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

        Raises
        ------
        ValueError
            If no θ of many lies in the support, or if no data of many fit their type.
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
        """Return the error to raise if none of ``n_draws`` draws lies in the support."""
        return ValueError(
            f"None of {n_draws} prior draws lies in the support of the transforms of "
            f"{', '.join(self._names)}. Choose a prior that puts mass there."
        )

    def supports(self, point: Point) -> bool:
        """Return whether θ lies in the support that the transforms impose.

        Raises
        ------
        ValueError
            If a value is infinite; the message names the variable and the remedy.
        """
        for name, value in point.items():
            if np.isinf(value).any():
                raise ValueError(_infinite(self._model, name))
        return all(np.isfinite(value).all() for value in point.values())

    def check_finite(self, n: int) -> None:
        """Raise the error of `supports` if one of n draws is infinite; only if draws are cheap."""
        if self.batches:
            draws = self.draw_many(n, np.random.default_rng(0))
            self.supports({name: np.where(np.isnan(each), 0, each) for name, each in draws.items()})
