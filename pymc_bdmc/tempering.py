"""A PyMC model as a tempered density f_β(θ) = p(θ) exp(β ℓ(θ)), and exact draws from its prior."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import reseed_rngs
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_expansion
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import dfs_rewriter
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType

from pymc_bdmc.types import Point

__all__ = ["INTERPRETED", "MAX_PRIOR_DRAWS", "ForwardSampler", "TemperedDensity", "TemperedModel"]

MAX_PRIOR_DRAWS = 100_000
"""Prior draws tried for one start with ℓ > −∞ before giving up."""

INTERPRETED = Mode("py", "fast_run").excluding("fusion")
"""For graphs that are evaluated once a chain: compiling them costs more than it saves. Fused
operations would go element by element through Python."""


class TemperedModel(pm.Model):
    """A copy of a PyMC model whose `logp` is log p(θ) + β ℓ(θ).

    Step methods, gradients and everything else that PyMC derives from ``model.logp()`` then
    target f_β, with β and the observed data as shared inputs: neither recompiles anything.
    Free variables, transforms, names, dims and coords are those of the original.

    Attributes
    ----------
    beta : shared scalar
        The inverse temperature.
    observed : dict of str to shared variable
        The observed data, by the name of the observed variable.
    """

    beta: pt.TensorVariable
    observed: dict[str, pt.TensorVariable]

    @classmethod
    def from_model(cls, model: pm.Model) -> "TemperedModel":
        """Copy ``model`` and give it an inverse temperature."""
        with _without_initial_values(model):
            tempered = freeze_dims_and_data(model)
        # PyMC's own idiom for changing what a rebuilt model's methods do (see `freeze_model`).
        tempered.__class__ = cls
        tempered.check_bounds = model.check_bounds
        for variables in ("free_RVs", "observed_RVs", "potentials", "deterministics"):
            ordered = [tempered[rv.name] for rv in getattr(model, variables)]
            setattr(tempered, variables, ordered)  # the copy does not keep their order
        tempered.beta = pytensor.shared(np.array(1.0), name="beta")
        tempered.observed = {}
        for rv in tempered.observed_RVs:
            value = np.asarray(tempered.rvs_to_values[rv].eval())  # constant, or a cast of one
            shared = pytensor.shared(value, name=f"{rv.name}_data", shape=value.shape)
            tempered.observed[rv.name] = tempered.rvs_to_values[rv] = shared
        return tempered

    def logp(self, vars=None, jacobian=True, sum=True):
        """As `pymc.Model.logp`; without ``vars`` the scalar log f_β."""
        if vars is not None or not sum:
            return super().logp(vars=vars, jacobian=jacobian, sum=sum)
        log_prior = super().logp(vars=self.free_RVs, jacobian=jacobian)
        # The switch makes β = 0 exact: there 0·(−∞) counts as 0.
        return log_prior + pt.switch(self.beta > 0, self.beta * self.datalogp, 0.0)


@contextmanager
def _without_initial_values(model: pm.Model) -> Iterator[None]:
    """Hide initial values, which have no meaning here and which PyMC cannot always copy."""
    saved = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(saved))
        yield
    finally:
        model.rvs_to_initial_values.update(saved)


class ForwardSampler:
    """Compiled draws of free (unconstrained) and observed variables from a model's forward graph.

    Parameters
    ----------
    model : TemperedModel
        The model.
    observed : bool
        Whether to draw the observed variables too.
    given : sequence of str, optional
        Free variables whose constrained values are handed to every draw.
    """

    def __init__(self, model: TemperedModel, *, observed: bool = False, given: Sequence[str] = ()):
        unconstrained = [
            rv if transform is None else transform.forward(rv, *rv.owner.inputs)
            for rv, transform in ((rv, model.rvs_to_transforms[rv]) for rv in model.free_RVs)
        ]
        self._model = model
        self._unconstrained = unconstrained
        self._names = [value.name for value in model.value_vars]
        self._dtypes = [value.dtype for value in model.value_vars]
        self._observed_names = [rv.name for rv in model.observed_RVs] if observed else []
        self._function, updates = compile_graph(
            [model[name] for name in given],
            unconstrained + (model.observed_RVs if observed else []),
            random_seed=False,
            return_updates=True,
            on_unused_input="ignore",
            mode=INTERPRETED,
        )
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
        """
        try:
            values = self._function(*given)
        except NotImplementedError as error:
            raise ValueError(self._explain_missing_draws()) from error
        point = {
            name: np.asarray(value, dtype=dtype)
            for name, dtype, value in zip(self._names, self._dtypes, values, strict=False)
        }
        return point, dict(zip(self._observed_names, values[len(point) :], strict=True))

    @cached_property
    def _batch(self) -> tuple[Callable, list] | None:
        """The function of n that draws n times, and its generators; None where PyTensor cannot.

        Every random variable is made to depend on a variable without meaning, which then is given
        n values. Draws by a user's function are not trusted to be independent for all n, nor
        whatever else takes a generator.
        """
        graph = FunctionGraph(outputs=self._unconstrained, clone=True)
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
            shapes = [value.shape for value in function(2)]
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
            points = [self.draw()[0] for _ in range(n)]
            return {name: np.stack([point[name] for point in points]) for name in self._names}
        function, rngs = self._batch
        reseed_rngs(rngs, rng.integers(2**63, size=4).tolist())
        return dict(zip(self._names, function(n), strict=True))

    def _explain_missing_draws(self) -> str:
        names = []
        for rv in self._model.basic_RVs:
            try:
                pm.draw(rv, mode=INTERPRETED)
            except NotImplementedError:
                names.append(rv.name)
        # What depends on a variable without draws fails too: the first one is to blame.
        return (
            f"{names[0]}: its distribution has a log density but no random draws. Pass random=... "
            "to pm.CustomDist; or, if the variable is observed, simulate=(point, data) with data "
            "of your own, or simulate=None."
        )

    def draw_supported(self, *given: np.ndarray) -> tuple[Point, dict[str, np.ndarray], int]:
        """Draw until θ lies in the support that the transforms impose; also count the draws.

        A transform can cut the prior (``ordered`` on independent components, say); the forward
        graph knows nothing of it, and the inverse map of a point outside gives NaN.
        """
        for trials in range(1, MAX_PRIOR_DRAWS + 1):
            point, data = self.draw(*given)
            if self.supports(point):
                return point, data, trials
        raise ValueError(
            f"None of {MAX_PRIOR_DRAWS} prior draws lies in the support of the transforms of "
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


class TemperedDensity:
    """The path of densities f_β between the prior and the posterior of a PyMC model.

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
    data : dict of str to ndarray
        The observed data of the original model, by the name of the observed variable.
    prior : ForwardSampler
        Draws from the prior, whatever the data.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_bdmc.tempering import TemperedDensity
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    ...     y = pm.Normal("y", x, observed=0.0)
    >>> density = TemperedDensity(model)
    >>> log_prior, log_likelihood = density(dict(x=np.array(1.0)))
    >>> round(log_prior, 3), round(log_likelihood, 3)
    (-1.419, -1.419)
    """

    def __init__(self, model: pm.Model, compile_kwargs: Mapping | None = None):
        self.model = TemperedModel.from_model(model)
        self.data = {name: shared.get_value() for name, shared in self.model.observed.items()}
        self._names = [value.name for value in self.model.value_vars]
        # The array behind the shared variable: compiled functions read it at every call.
        self._beta = self.model.beta.get_value(borrow=True, return_internal_type=True)
        self._compile_kwargs = compile_kwargs or {}
        self.prior = ForwardSampler(self.model)

    @cached_property
    def terms(self) -> Callable[..., tuple[float, float]]:
        """Log p and ℓ of the variables in the model's order; an engine may put its own here."""
        with self.model:  # PyMC reads `check_bounds` there
            terms = compile_graph(
                self.model.value_vars,
                [self.model.varlogp, self.model.datalogp],
                on_unused_input="ignore",
                **self._compile_kwargs,
            )
        terms.trust_input = True
        return terms

    def set_beta(self, beta: float) -> None:
        """Move the step methods' target to f_β."""
        self._beta[...] = beta

    def set_data(self, data: Mapping[str, np.ndarray]) -> None:
        """Put other observed data in the place of the present ones.

        Raises
        ------
        ValueError
            For a name that is not an observed variable, a missing one, or another shape.
        """
        if set(data) != set(self.data):
            raise ValueError(
                f"data: expected the observed variables {sorted(self.data)}, got {sorted(data)}."
            )
        for name, value in data.items():
            real = self.data[name]
            if np.shape(value) != real.shape:
                raise ValueError(
                    f"data: {name} must have the shape {real.shape} of the observed data, "
                    f"got {np.shape(value)}."
                )
            self.model.observed[name].set_value(np.asarray(value, dtype=real.dtype))

    def __call__(self, point: Point) -> tuple[float, float]:
        """Log prior with the transforms' Jacobian and log likelihood ℓ, in nats.

        Raises
        ------
        FloatingPointError
            If either is NaN or +∞; names β and the variables. −∞ is legal.
        """
        log_prior, log_likelihood = map(float, self.terms(*[point[name] for name in self._names]))
        if not log_prior + log_likelihood < np.inf:
            raise FloatingPointError(self._explain(point))
        return log_prior, log_likelihood

    def _explain(self, point: Point) -> str:
        factors = self.model.free_RVs + self.model.observed_RVs + self.model.potentials
        values = self.model.compile_logp(sum=False, mode=INTERPRETED)(dict(point))
        bad = [
            factor.name
            for factor, value in zip(factors, values, strict=True)
            if not np.all(np.asarray(value) < np.inf)
        ]
        state = ", ".join(f"{name}={np.array2string(v, threshold=8)}" for name, v in point.items())
        return (
            f"log p of {', '.join(bad) or 'the model'} is NaN or +inf at "
            f"beta={float(self.model.beta.get_value()):g}, {state}. The prior reaches values "
            "where the model's arithmetic fails: bound the parameters or use a stabler form."
        )

    def draw_prior(self, rng: np.random.Generator) -> tuple[Point, int]:
        """Exact draw from the prior restricted to S = {ℓ > −∞}, by rejection.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of the draw's stream.

        Returns
        -------
        point : Point
            θ_0 with finite ℓ.
        n_draws : int
            Draws from the unrestricted prior, this one included: geometric with mean 1/P(S) and
            independent of ``point``.

        Raises
        ------
        ValueError
            If `MAX_PRIOR_DRAWS` draws all have ℓ = −∞.
        """
        self.prior.seed(rng)
        n_draws = 0
        while n_draws < MAX_PRIOR_DRAWS:
            point, _, trials = self.prior.draw_supported()
            n_draws += trials
            if self(point)[1] > -np.inf:
                return point, n_draws
        terms = [rv.name for rv in self.model.observed_RVs + self.model.potentials]
        raise ValueError(
            f"The log likelihood ({', '.join(terms)}) is -inf at all of {n_draws} prior draws. "
            "Use a prior that makes the data possible more often."
        )

    def constrain(self, points: Sequence[Point]) -> dict[str, np.ndarray]:
        """Free variables and Deterministics on the model's own scale, one row a point."""
        model = self.model
        graphs = model.replace_rvs_by_values(model.unobserved_RVs)
        function = compile_graph(
            model.value_vars, graphs, on_unused_input="ignore", mode=INTERPRETED
        )
        rows = [function(*[point[name] for name in self._names]) for point in points]
        return {
            rv.name: np.stack([row[i] for row in rows]) for i, rv in enumerate(model.unobserved_RVs)
        }
