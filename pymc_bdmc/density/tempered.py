"""Turn a PyMC model into f_β(θ) = p(θ) exp(β ℓ(θ)), with exact draws from its prior."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Self

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.pytensorf import compile as compile_graph
from pytensor.graph.replace import vectorize_graph

from pymc_bdmc.base.compiling import quickest
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.checks import checked_data, not_finite
from pymc_bdmc.density.forward_graph import INTERPRETED
from pymc_bdmc.density.forward_sampling import MAX_PRIOR_DRAWS, ForwardSampler
from pymc_bdmc.density.jitted import JittedDensity
from pymc_bdmc.density.tempered_model import TemperedModel

CHECKED = 512
"""Prior draws that must be finite before anything is compiled."""
SEVERAL = 100
"""Prior draws at which a density is NaN if it is NaN everywhere; chosen."""


class TemperedDensity:
    """Path of densities f_β between the prior and the posterior of a PyMC model.

    Parameters
    ----------
    model : pymc.Model
        Any model with free variables and a likelihood: observed variables or Potentials.
    compile_kwargs : mapping, optional
        Passed to PyTensor.

    Attributes
    ----------
    model : TemperedModel
        The copy of the model whose ``logp()`` contains β.
    compile_kwargs : mapping
        Options as given.
    data : dict of str to ndarray
        The observed data of the original model, by the name of the observed variable; read-only.
    prior : ForwardSampler
        Sampler of the prior of the free variables, given the data if the prior depends on them.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_bdmc.density.tempered import TemperedDensity
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    ...     y = pm.Normal("y", x, observed=0.0)
    >>> density = TemperedDensity(model)
    >>> log_prior, log_likelihood = density(dict(x=np.array(1.0)))
    >>> round(log_prior, 3), round(log_likelihood, 3)
    (-1.419, -1.419)
    """

    @alone
    def __init__(self, model: pm.Model, compile_kwargs: Mapping | None = None):
        self.model = TemperedModel.from_model(model)
        self.data = {name: each.get_value() for name, each in self.model.observed.items()}
        for value in self.data.values():
            value.flags.writeable = False
        self._names = [value.name for value in self.model.value_vars]
        # The array behind the shared variable: compiled functions read it at every call.
        self._beta = self.model.beta.get_value(borrow=True, return_internal_type=True)
        self.compile_kwargs = compile_kwargs or {}
        self.prior = ForwardSampler(self.model)
        self._joint: dict[tuple[str, ...], ForwardSampler] = {}

    def joint(self, given: Sequence[str] = ()) -> ForwardSampler:
        """Return a sampler of all variables, observed ones too, given values of some free ones."""
        given = tuple(given)
        if given not in self._joint:
            self._joint[given] = ForwardSampler(self.model, observed=True, given=given)
        return self._joint[given]

    @cached_property
    def jitted(self) -> JittedDensity:
        """Return the density as a numba function, compiled at the first use."""
        return JittedDensity(self)

    def __getstate__(self) -> dict:
        """Return the state without compiled functions; another process compiles its own."""
        compiled = (
            "jitted", "terms", "log_prior", "gradient", "_compiled_terms", "_compiled_factors",
            "_constrain",
        )  # fmt: skip
        return {name: each for name, each in vars(self).items() if name not in compiled}

    @property
    def titles(self) -> dict[str, str]:
        """Return the names of the variables, by the names of their unconstrained values."""
        return {value.name: rv.name for value, rv in self.model.values_to_rvs.items()}

    @property
    def present_data(self) -> dict[str, np.ndarray]:
        """Return copies of the data on which the density is evaluated."""
        return {name: shared.get_value() for name, shared in self.model.observed.items()}

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the unconstrained variables, in the model's order."""
        return {name: value.shape for name, value in self.prior.draw()[0].items()}

    @property
    def size(self) -> int:
        """Return the number of elements of θ."""
        return sum(prod(shape) for shape in self.shapes.values())

    @cached_property
    def terms(self) -> Callable[..., tuple[float, float]]:
        """Return a function from the variables to log p and ℓ; an engine may replace it."""
        return self._compiled_terms

    @cached_property
    @alone
    def _compiled_terms(self) -> Callable[..., tuple[float, float]]:
        return self._function([self.model.varlogp, self.model.datalogp])

    @cached_property
    @alone
    def log_prior(self) -> Callable[..., float]:
        """Return a function from the variables to log p, which leaves the likelihood alone."""
        return self._function(self.model.varlogp)

    def _function(self, outputs: Any, trust_input: bool = True) -> Any:
        """Compile a function from the variables; if trusted, these must have their own types."""
        with self.model:  # PyMC reads `check_bounds` from the context
            function = compile_graph(
                self.model.value_vars, outputs, on_unused_input="ignore", **self.compile_kwargs
            )
        function.trust_input = trust_input
        return function

    @cached_property
    @alone
    def gradient(self) -> Callable[[Point], dict[str, np.ndarray]]:
        """Return the gradient of log f_β with respect to the continuous variables, as a function.

        Raises
        ------
        NotImplementedError, NullTypeGradError
            If an operation of the model has no gradient.
        """
        model, continuous = self.model, self.model.continuous_value_vars
        gradients = pt.grad(model.logp(), continuous, disconnected_inputs="ignore")
        function = self._function(gradients, trust_input=False)
        titles = [value.name for value in continuous]
        return lambda point: dict(
            zip(titles, function(*[point[name] for name in self._names]), strict=True)
        )

    def set_beta(self, beta: float) -> None:
        """Set the target of the step methods to f_β."""
        self._beta[...] = beta

    def set_data(self, data: Mapping[str, ArrayLike]) -> None:
        """Replace the observed data; of several stacked data sets take the first.

        Raises
        ------
        ValueError
            For a name that is not an observed variable, a missing one, another shape, or values
            that the variable's type cannot hold.
        """
        if set(data) != set(self.data):
            raise ValueError(
                f"data: expected the observed variables {sorted(self.data)}, got {sorted(data)}."
            )
        for name, value in data.items():
            self.model.observed[name].set_value(checked_data(name, value, self.data[name]))

    def __call__(self, point: Point) -> tuple[float, float]:
        """Return the log prior, with the Jacobian of transforms, and the log likelihood ℓ, in nats.

        If either is NaN, ℓ is −∞, and so is a log prior that is NaN.

        Raises
        ------
        FloatingPointError
            If either is +∞; the message names β and the variables.
        """
        log_prior, ell = map(float, self.terms(*[point[name] for name in self._names]))
        if np.isnan(log_prior + ell):
            return (log_prior if log_prior < np.inf else -np.inf), -np.inf
        if log_prior + ell == np.inf:
            raise FloatingPointError(self._explain(point))
        return log_prior, ell

    def is_undefined(self, point: Point) -> bool:
        """Return whether log p is NaN, or ℓ is NaN and the prior has mass."""
        log_prior, ell = self.terms(*[point[name] for name in self._names])
        return bool(np.isnan(log_prior) or (np.isnan(ell) and log_prior > -np.inf))

    def log_joint(self, point: Point) -> float:
        """Return log p + ℓ, in nats; −∞ if either is NaN.

        Raises
        ------
        FloatingPointError
            If log p or ℓ is +∞.
        """
        return sum(self(point))

    def _explain(self, point: Point) -> str:
        bad = [name for name, value in self.factors(point) if not np.all(value < np.inf)]
        return not_finite(bad, float(self.model.beta.get_value()), point)

    @cached_property
    @alone
    @pytensor.config.change_flags(cxx="")  # or it compiles the inner graphs, a second for each
    def _compiled_factors(self) -> Callable[[Point], list[np.ndarray]]:
        return self.model.compile_logp(sum=False, mode=INTERPRETED)

    def factors(self, point: Point) -> list[tuple[str, np.ndarray]]:
        """Return name and elementwise log density of all variables and Potentials, not compiled."""
        factors = self.model.free_RVs + self.model.observed_RVs + self.model.potentials
        with np.errstate(all="ignore"):
            values = self._compiled_factors(dict(point))
        return [(rv.name, np.asarray(v)) for rv, v in zip(factors, values, strict=True)]

    def check(self) -> Self:
        """Evaluate everything at a prior draw, since compiled code does not check array bounds.

        Raises
        ------
        ValueError
            If a variable or Potential cannot be evaluated or is NaN everywhere, prior draws are
            infinite, or there are no data; the message names it.
        """
        if not self.model.potentials and not any(data.size for data in self.data.values()):
            names = ", ".join(name.removesuffix("_observed") for name in self.data)
            raise ValueError(
                f"{names}: all of its data are missing, or there are none, so the posterior is the "
                "prior. Pass observed=... with at least one value."
            )
        self.prior.check_finite(CHECKED)
        self.prior.seed(np.random.default_rng(0))
        point = self.prior.draw()[0]
        try:
            factors = self.factors(point)
        except (IndexError, ValueError) as error:
            raise ValueError(
                f"{self.prior.culprit(type(error))}: it cannot be evaluated "
                f"({str(error).splitlines()[0]}). The shapes of its data and parameters must fit "
                "together, and indices start at 0."
            ) from error
        self._check_defined(factors)
        return self

    def _check_defined(self, factors: list[tuple[str, np.ndarray]]) -> None:
        """Raise an error if the same log density is NaN at a draw and at `SEVERAL` others."""
        undefined = {name: np.isnan(each) for name, each in factors}
        for _ in range(SEVERAL):
            if not any(each.any() for each in undefined.values()):
                return
            for name, each in self.factors(self.prior.draw_supported()[0]):
                undefined[name] &= np.isnan(each)
        names = [name for name, each in undefined.items() if each.any()]
        if names:
            raise ValueError(
                f"{', '.join(names)}: its log density is NaN at all of {SEVERAL} prior draws. Look "
                "for NaN among its data and constants, and for parameters outside of their domain."
            )

    def impossible(self, points: Sequence[Point], n_draws: int) -> ValueError:
        """Return the error to raise if ℓ = −∞ at all of ``n_draws`` draws, with examples."""
        points = [point for point in points if self.prior.supports(point)]
        if not points:
            return self.prior.unsupported(n_draws)
        found = [dict(self.factors(point)) for point in points]
        culprits = []
        for name in [rv.name for rv in self.model.observed_RVs + self.model.potentials]:
            always = np.all([~(factors[name] > -np.inf) for factors in found], axis=0)
            data = self.model.observed[name].get_value() if name in self.model.observed else None
            if always.ndim and data is not None and always.shape == data.shape:
                places = np.argwhere(always).tolist()
                culprits += [f"{name}{place} = {data[*place]:g}" for place in places]
            elif always.any():
                culprits.append(name)
        blamed = culprits[:3] + ["…"] * (len(culprits) > 3) or ["different variables"]
        return ValueError(
            f"The log likelihood is -inf at all of {n_draws} prior draws, by {', '.join(blamed)}. "
            "Check the data and the constants of their distributions, or use a prior that makes "
            "them possible more often. NaN counts as -inf."
        )

    def draw_prior(self, rng: np.random.Generator) -> tuple[Point, int]:
        """Draw exactly from the prior restricted to S = {ℓ > −∞}, by rejection.

        Parameters
        ----------
        rng : numpy.random.Generator
            Generator of the draw.

        Returns
        -------
        point : Point
            θ_0 with finite ℓ.
        n_draws : int
            Number of draws from the unrestricted prior, including this one: geometric with mean
            1/P(S) and independent of ``point``.

        Raises
        ------
        ValueError
            If `MAX_PRIOR_DRAWS` draws all have ℓ = −∞.
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

        Values outside the support, or at its edge, give states that are not finite.
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
        rows = [points[name] for name in self._names]
        values = quickest(
            "many states at once",
            lambda: self._constrain(*rows),
            lambda: self._constrain_each(rows),
        )
        names = [rv.name for rv in self.model.unobserved_RVs]
        return dict(zip(names, values, strict=True))

    @alone
    @pytensor.config.change_flags(cxx="")
    def _constrain_each(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return what `_constrain` does, one row after the other."""
        model = self.model
        single = model.replace_rvs_by_values(model.unobserved_RVs)
        constrain = compile_graph(
            model.value_vars, single, on_unused_input="ignore", mode=INTERPRETED
        )
        found = [constrain(*row) for row in zip(*rows, strict=True)]
        return [np.array(each) for each in zip(*found, strict=True)]

    @cached_property
    @alone
    @pytensor.config.change_flags(cxx="")
    def _constrain(self) -> Callable[..., list[np.ndarray]]:
        """Return a function of the values of the variables, one a row, in the model's order."""
        model = self.model
        single = model.replace_rvs_by_values(model.unobserved_RVs)
        rows = {
            value: pt.tensor(dtype=value.dtype, shape=(None, *value.type.shape))
            for value in model.value_vars
        }
        n = next(iter(rows.values())).shape[0]
        several = [
            many if many.ndim > one.ndim else pt.broadcast_to(many, (n, *many.shape))  # constant
            for one, many in zip(single, vectorize_graph(single, rows), strict=True)
        ]
        return compile_graph(
            list(rows.values()), several, on_unused_input="ignore", mode=INTERPRETED
        )
