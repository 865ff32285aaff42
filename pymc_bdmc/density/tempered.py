"""Turn a PyMC model into f_β(θ) = p(θ) exp(β ℓ(θ)), with exact draws from its prior."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from threading import RLock
from typing import Any, Self

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.pytensorf import compile as compile_graph
from pytensor.graph.replace import graph_replace

from pymc_bdmc.base.compiling import in_a_line
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.graph import INTERPRETED, TemperedModel, by_rows
from pymc_bdmc.density.prior import MAX_PRIOR_DRAWS, ForwardSampler, joint_density
from pymc_bdmc.density.refuse import checked_data, shown

Data = Mapping[str, np.ndarray]


class TemperedDensity:
    """Path of densities f_β between the prior and the posterior of a PyMC model.

    Observed data are an argument of every evaluation; by default they are those in ``model``, to
    which `set_data` writes them for step methods and for a prior that depends on data. Functions of
    PyTensor share state, so they are called under the ``lock``.
    """

    @alone
    def __init__(self, model: pm.Model, compile_kwargs: Mapping | None = None):
        self.model = TemperedModel.from_model(model)
        # of the original model, read-only
        self.data = {name: each.get_value() for name, each in self.model.observed.items()}
        for value in self.data.values():
            value.flags.writeable = False
        self._names = [value.name for value in self.model.value_vars]
        # The array behind the shared variable: compiled functions read it at every call.
        self._beta = self.model.beta.get_value(borrow=True, return_internal_type=True)
        self.compile_kwargs = dict(compile_kwargs or {})
        self.lock = RLock()
        self.prior = ForwardSampler(self.model)
        self._joint: dict[tuple[str, ...], ForwardSampler] = {}

    def joint(self, given: Sequence[str] = ()) -> ForwardSampler:
        """Return a sampler of all variables, observed ones too, given values of some free ones."""
        given = tuple(given)
        if given not in self._joint:
            self._joint[given] = ForwardSampler(self.model, observed=True, given=given)
        return self._joint[given]

    @cached_property
    def joint_density(self) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
        """`pymc_bdmc.density.prior.joint_density` of the model."""
        return joint_density(self.model)

    @cached_property
    def jitted(self) -> JittedDensity:
        """The density as numba functions, compiled at the first use."""
        return JittedDensity(self)

    def __getstate__(self) -> dict:
        """Return the state without compiled functions; another process compiles its own."""
        hidden = (
            "lock", "joint_density", "jitted", "_terms", "log_prior", "gradient", "_factors",
            "_each_factor", "_constrain",
        )  # fmt: skip
        return {name: each for name, each in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state, lock=RLock())

    @property
    def titles(self) -> dict[str, str]:
        """Names of the variables, by the names of their unconstrained values."""
        return {value.name: rv.name for value, rv in self.model.values_to_rvs.items()}

    @property
    def present_data(self) -> dict[str, np.ndarray]:
        """Copies of the data that are in the model."""
        return {name: shared.get_value() for name, shared in self.model.observed.items()}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the unconstrained variables, in the model's order."""
        shapes = {value.name: value.type.shape for value in self.model.value_vars}
        if any(None in shape for shape in shapes.values()):
            shapes = {name: value.shape for name, value in self.prior.draw()[0].items()}
        return shapes

    @property
    def size(self) -> int:
        """Number of elements of θ."""
        return sum(prod(shape) for shape in self.shapes.values())

    def terms(self, point: Point, data: Data) -> tuple[float, float]:
        """Return log p and ℓ, by numba if they are compiled, else by PyTensor."""
        return (self.jitted if self.jitted.compiled else self._terms)(point, data)

    @cached_property
    @alone
    def _terms(self) -> Callable[[Point, Data], tuple[float, float]]:
        return self._function([self.model.varlogp, self.model.datalogp])

    @cached_property
    @alone
    def log_prior(self) -> Callable[[Point, Data], float]:
        """A function from a point and data to log p, which leaves the likelihood alone."""
        return self._function(self.model.varlogp)

    @cached_property
    def gradient(self) -> Callable[[Point, Data], dict[str, np.ndarray]]:
        """A function from a point and data to the gradient of log f_β in the continuous variables.

        It raises NotImplementedError or NullTypeGradError if an operation has none.
        """
        continuous = self.model.continuous_value_vars
        with alone:
            gradients = pt.grad(self.model.logp(), continuous, disconnected_inputs="ignore")
        function = self._function(gradients)
        names = [value.name for value in continuous]
        return lambda point, data: dict(zip(names, function(point, data), strict=True))

    @cached_property
    def _factors(self) -> Callable[[Point, Data], list[np.ndarray]]:
        # Otherwise it compiles inner graphs, a second for each.
        with alone, pytensor.config.change_flags(cxx=""):
            return self._function(self.model.logp(sum=False), mode=INTERPRETED)

    @cached_property
    @alone
    def _each_factor(self) -> list[Callable[[Point, Data], list[np.ndarray]]]:
        """Functions that return the log density of one variable or Potential each."""
        factors = self.model.free_RVs + self.model.observed_RVs + self.model.potentials
        graphs = [self.model.logp(vars=[rv], sum=False) for rv in factors]
        return [self._function(each, mode=INTERPRETED) for each in graphs]

    @alone
    def _function(self, outputs: Any, **options) -> Callable[[Point, Data], Any]:
        """Compile a function of a point and data, which must have the types of their variables."""
        observed = self.model.observed
        data = {shared: shared.type(name=shared.name) for shared in observed.values()}
        with self.model:  # PyMC reads `check_bounds` from the context
            function = compile_graph(
                [*self.model.value_vars, *data.values()],
                graph_replace(outputs, data, strict=False),
                on_unused_input="ignore",
                **(self.compile_kwargs | options),
            )
        function.trust_input = True
        return lambda point, data: function(
            *[point[name] for name in self._names], *[data[name] for name in observed]
        )

    def set_beta(self, beta: float) -> None:
        """Set the target of the step methods to f_β."""
        self._beta[...] = beta

    def set_data(self, data: Mapping[str, ArrayLike]) -> None:
        """Replace the observed data in the model; of several stacked data sets, by the first."""
        if set(data) != set(self.data):
            raise ValueError(
                f"data: expected the observed variables {sorted(self.data)}, got {sorted(data)}."
            )
        typed = {name: checked_data(name, value, self.data[name]) for name, value in data.items()}
        for name, value in typed.items():
            self.model.observed[name].set_value(value)

    def __call__(self, point: Point, data: Data | None = None) -> tuple[float, float]:
        """Return the log prior, with the Jacobian of transforms, and the log likelihood ℓ, in nats.

        If either is NaN, ℓ is −∞, and so is a log prior that is NaN. If either is +∞, a
        FloatingPointError names β and the variables.
        """
        log_prior, ell = map(float, self.terms(point, data or self.present_data))
        if np.isnan(log_prior + ell):
            return (log_prior if log_prior < np.inf else -np.inf), -np.inf
        if log_prior + ell == np.inf:
            bad = [name for name, each in self.factors(point, data) if not (each < np.inf).all()]
            raise FloatingPointError(
                f"log p of {', '.join(bad) or 'the model'} is +inf at beta="
                f"{self.model.beta.get_value():g}, {shown(point)}. The path reaches values where "
                "the model's arithmetic fails: write 100.0 for 100 (small integers overflow), "
                "bound the parameters or use a numerically stable form."
            )
        return log_prior, ell

    def is_undefined(self, point: Point, data: Data | None = None) -> bool:
        """Return whether log p is NaN or +∞, or ℓ is and the prior has mass."""
        log_prior, ell = map(float, self.terms(point, data or self.present_data))
        return not log_prior < np.inf or (not ell < np.inf and log_prior > -np.inf)

    def log_joint(self, point: Point, data: Data | None = None) -> float:
        """Return log p + ℓ, in nats; −∞ if either is NaN, and an error if either is +∞."""
        return sum(self(point, data))

    def factors(
        self,
        point: Point,
        data: Data | None = None,
        raising: tuple[type[Exception], ...] = (),
    ) -> list[tuple[str, np.ndarray]]:
        """Return name and elementwise log density of all variables and Potentials, not compiled.

        It is NaN if it raises an exception, as in compiled code, but for those of the given types.
        """
        factors = self.model.free_RVs + self.model.observed_RVs + self.model.potentials
        data = data or self.present_data
        with self.lock, np.errstate(all="ignore"):
            try:
                values = self._factors(point, data)
            except raising:
                raise
            except Exception:
                values = [_or_nan(each, point, data) for each in self._each_factor]
        return [(rv.name, np.asarray(v)) for rv, v in zip(factors, values, strict=True)]

    def error_at(self, point: Point, data: Data) -> str:
        """Return the exception that the log density raises at a point, in a line, or nothing."""
        try:
            self.factors(point, data, (Exception,))
        except Exception as error:
            return f"{type(error).__name__}: {in_a_line(error)}"
        return ""

    @alone
    def check(self) -> Self:
        """Evaluate everything at a prior draw, since compiled code does not check array bounds."""
        if not self.model.potentials and not any(data.size for data in self.data.values()):
            names = ", ".join(name.removesuffix("_observed") for name in self.data)
            raise ValueError(
                f"{names}: all of its data are missing, or there are none, so the posterior is the "
                "prior. Pass observed=... with at least one value."
            )
        self.prior.check_finite()
        self.prior.seed(np.random.default_rng(0))
        point = self.prior.draw()[0]
        try:
            factors = self.factors(point, raising=(IndexError, ValueError))
        except (IndexError, ValueError) as error:
            raise ValueError(
                f"{self.prior.culprit(type(error))}: it cannot be evaluated "
                f"({str(error).splitlines()[0]}). The shapes of its data and parameters must fit "
                "together, and indices start at 0."
            ) from error
        self._check_defined(factors)
        return self

    def _check_defined(self, factors: list[tuple[str, np.ndarray]]) -> None:
        """Raise an error if the same log density is NaN at a draw and at 100 others."""
        undefined = {name: np.isnan(each) for name, each in factors}
        for _ in range(100):
            if not any(each.any() for each in undefined.values()):
                return
            for name, each in self.factors(self.prior.draw_supported()[0]):
                undefined[name] &= np.isnan(each)
        names = [name for name, each in undefined.items() if each.any()]
        if names:
            raise ValueError(
                f"{', '.join(names)}: its log density is NaN at all of 100 prior draws. Look "
                "for NaN among its data and constants, and for parameters outside of their domain."
            )

    def impossible(
        self, points: Sequence[Point], n_draws: int, data: Data | None = None
    ) -> ValueError:
        """Return the error to raise if ℓ = −∞ at all of ``n_draws`` draws, with examples."""
        points = [point for point in points if self.prior.supports(point)]
        if not points:
            return self.prior.unsupported(n_draws)
        data = data or self.present_data
        found = [dict(self.factors(point, data)) for point in points]
        culprits = []
        for name in [rv.name for rv in self.model.observed_RVs + self.model.potentials]:
            always = np.all([~(factors[name] > -np.inf) for factors in found], axis=0)
            if always.ndim and name in data and always.shape == data[name].shape:
                places = np.argwhere(always).tolist()
                culprits += [f"{name}{place} = {data[name][*place]:g}" for place in places]
            elif always.any():
                culprits.append(name)
        blamed = culprits[:3] + ["…"] * (len(culprits) > 3) or ["different variables"]
        return ValueError(
            f"The log likelihood is -inf at all of {n_draws} prior draws, by {', '.join(blamed)}. "
            "Check the data and the constants of their distributions, or use a prior that makes "
            "them possible more often. NaN counts as -inf."
        )

    def draw_priors(self, n: int, rng: np.random.Generator, data: Data) -> dict[str, np.ndarray]:
        """Return draws from the prior, given data if it depends on them, one a row."""
        with self.lock:
            self.set_data(data)
            return self.prior.draw_many(n, rng)

    def draw_prior(self, rng: np.random.Generator) -> tuple[Point, int]:
        """Draw from the prior restricted to S = {ℓ > −∞}, by rejection; also count the draws.

        Their number is geometric with mean 1/P(S) and independent of θ_0.
        """
        self.prior.seed(rng)
        self.set_beta(0.0)
        n_draws = 0
        while n_draws < MAX_PRIOR_DRAWS:
            point, _, trials = self.prior.draw_supported()
            n_draws += trials
            if self(point)[1] > -np.inf:
                return point, n_draws
        raise self.impossible([self.prior.draw()[0] for _ in range(20)], n_draws)

    def unconstrain(self, values: Mapping[str, np.ndarray]) -> Point:
        """Return the state with these values of the free variables on the model's own scale.

        It is not finite for values outside the support or at its edge.
        """
        names = [rv.name for rv in self.model.free_RVs]
        return self._given.draw(*[values[name] for name in names])[0]

    @cached_property
    def _given(self) -> ForwardSampler:
        sampler = ForwardSampler(self.model, given=[rv.name for rv in self.model.free_RVs])
        sampler.seed(np.random.default_rng(0))  # nothing is left to draw
        return sampler

    def constrain(self, points: Point) -> dict[str, np.ndarray]:
        """Return free variables and Deterministics on the model's own scale, one point a row."""
        values = self._constrain(*[points[name] for name in self._names])
        return dict(zip([rv.name for rv in self.model.unobserved_RVs], values, strict=True))

    @cached_property
    def _constrain(self) -> Callable[..., list[np.ndarray]]:
        with alone:
            outputs = self.model.replace_rvs_by_values(self.model.unobserved_RVs)
        return by_rows(self.model.value_vars, outputs)


def _or_nan(function: Callable[[Point, Data], list[np.ndarray]], point: Point, data: Data):
    try:
        return function(point, data)[0]
    except Exception:
        return np.nan
