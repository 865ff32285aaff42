"""Ways to log ML that a PyMC user may choose from, behind one signature.

Each is a function of a model; it compiles what it needs and returns a function of the seed.
"""

import time
from collections.abc import Callable
from functools import cached_property

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.compile.maker import FunctionMaker
from pytensor.graph.replace import graph_replace

import pymc_bdmc as bdmc

__all__ = ["COMPILING", "METHODS"]

Estimate = tuple[float, float | None]
"""Log ML and its stated error, or None where a method states none."""
Run = Callable[[int], Estimate]
"""From a seed to an estimate."""


class Densities:
    """The densities of a PyMC model that other packages ask for, compiled."""

    def __init__(self, model: pm.Model):
        self.model = model
        (self.prior, self.likelihood), self.x = join_nonshared_inputs(
            model.initial_point(), [model.varlogp, model.datalogp], model.value_vars
        )

    @cached_property
    def joint(self) -> Callable:
        """Log density at a point of the unconstrained space."""
        return compiled([self.x], self.prior + self.likelihood)

    @cached_property
    def from_cube(self) -> tuple[int, Callable, Callable]:
        """Number of uniform variables, log likelihood as their function, and the point they give.

        Every variable is the inverse cumulative distribution function of its prior; a Dirichlet
        variable is one of gamma variables over their sum.
        """
        u, used, values = pt.dvector("u"), 0, {}
        for rv in self.model.free_RVs:
            shape = tuple(rv.shape.eval())
            size = int(np.prod(shape))
            uniform = u[used : used + size].reshape(shape)
            used += size
            if rv.owner.op.name == "dirichlet":
                value = pm.icdf(pm.Gamma.dist(rv.owner.inputs[-1], 1.0), uniform)
                value = value / value.sum()
            else:
                value = pm.icdf(rv, uniform, warn_rvs=False)
            values[rv] = graph_replace(value, values, strict=False)
        points = {}
        for rv, value in values.items():
            transform = self.model.rvs_to_transforms[rv]
            if transform is not None:
                inputs = graph_replace(list(rv.owner.inputs), values, strict=False)
                value = transform.forward(value, *inputs)
            points[self.model.rvs_to_values[rv]] = value
        likelihood = graph_replace(self.model.datalogp, points, strict=False)
        point = pt.concatenate([points[each].ravel() for each in self.model.value_vars])
        return used, compiled([u], likelihood), compiled([u], point)

    def prior_draws(self, n: int, seed: int) -> np.ndarray:
        """Unconstrained points, of shape (n, number of elements)."""
        size, _, point = self.from_cube
        return np.array([point(u) for u in np.random.default_rng(seed).random((n, size))])

    def jax(self) -> tuple[Callable, Callable]:
        """Log prior and log likelihood of an unconstrained point."""
        from pymc.sampling.jax import get_jaxified_graph

        both = (get_jaxified_graph([self.x], [each]) for each in (self.prior, self.likelihood))
        return tuple(lambda x, f=f: f(x)[0] for f in both)


def compiled(inputs: list, output) -> Callable:
    function = pytensor.function(inputs, output, mode="NUMBA", on_unused_input="ignore")
    function.trust_input = True
    return function


class Stopwatch:
    """CPU seconds that PyTensor has spent on rewriting and linking functions."""

    def __init__(self) -> None:
        self.seconds, self._open = 0.0, False
        for name in ("__init__", "create"):
            setattr(FunctionMaker, name, self._timed(getattr(FunctionMaker, name)))

    def _timed(self, function: Callable) -> Callable:
        def timed(*args, **kwargs):
            if self._open:
                return function(*args, **kwargs)
            self._open, started = True, time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self._open = False
                self.seconds += time.process_time() - started

        return timed


COMPILING = Stopwatch()


def ours(model: pm.Model, **options) -> Run:
    """`pm.sample_bdmc` as it comes, on the real data alone."""
    options = dict(simulate=None, cores=1, progressbar=False) | options

    def run(seed: int) -> Estimate:
        dt = pm.sample_bdmc(model, random_seed=seed, **options)
        row = bdmc.evidence(dt).query("data == 'real'").iloc[0]
        return row["value"], row["error"]

    run(0)
    return run


def ours_simulating(model: pm.Model) -> Run:
    """The same with simulated data, as it comes: two more phases, which bound the gap."""
    return ours(model, simulate="hyperparameters")


def pymc_smc(model: pm.Model) -> Run:
    """Four chains of 2000 draws; the error is that of their mean."""

    def run(seed: int, draws: int = 2000) -> Estimate:
        dt = pm.sample_smc(
            draws=draws, model=model, chains=4, cores=1, random_seed=seed, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        rows = dt["sample_stats"]["log_marginal_likelihood"].values
        values = np.array([row[-1] for row in rows], float)
        shares = np.exp(values - values.max())
        error = shares.std(ddof=1) / shares.mean() / np.sqrt(len(values))
        return values.max() + np.log(shares.mean()), error

    run(0, draws=50)
    return run


def blackjax_smc(model: pm.Model) -> Run:
    """1000 particles, half of them effective; five trajectories of ten HMC steps, tuned by them."""
    import blackjax
    import jax
    from blackjax.smc import extend_params
    from blackjax.smc.tuning.from_particles import inverse_mass_matrix_from_particles as metric

    log, n = Densities(model), 1000
    log_prior, log_likelihood = log.jax()
    dimension = log.prior_draws(1, 0).shape[1]

    def parameters(particles):
        return extend_params(
            dict(
                step_size=0.6 * dimension**-0.25,
                inverse_mass_matrix=metric(particles).diagonal(),
                num_integration_steps=10,
            )
        )

    def start(seed):
        particles = log.prior_draws(n, seed)
        smc = blackjax.inner_kernel_tuning(
            smc_algorithm=blackjax.adaptive_tempered_smc,
            logprior_fn=log_prior,
            loglikelihood_fn=log_likelihood,
            mcmc_step_fn=blackjax.hmc.build_kernel(),
            mcmc_init_fn=blackjax.hmc.init,
            resampling_fn=blackjax.smc.resampling.systematic,
            mcmc_parameter_update_fn=lambda key, state, info: parameters(state.particles),
            initial_parameter_value=parameters(particles),
            target_ess=0.5,
            num_mcmc_steps=5,
        )
        return smc.init(particles), smc.step

    step = jax.jit(start(0)[1])

    def run(seed: int) -> Estimate:
        state, _ = start(seed)
        key, log_ml = jax.random.key(seed), 0.0
        while state.sampler_state.tempering_param < 1:
            key, now = jax.random.split(key)
            state, info = step(now, state)
            log_ml += info.log_likelihood_increment
        return float(log_ml), None

    run(0)
    return run


def dynesty(model: pm.Model, calls: int | None = None, **options) -> Run:
    """`NestedSampler` as it comes: 500 live points. It is stopped after so many likelihoods."""
    from dynesty import NestedSampler

    size, log_likelihood, _ = Densities(model).from_cube
    log_likelihood(np.full(size, 0.5))

    def run(seed: int) -> Estimate:
        sampler = NestedSampler(
            lambda u: float(log_likelihood(u)),
            lambda u: u,
            size,
            rstate=np.random.default_rng(seed),
            **options,
        )
        sampler.run_nested(maxcall=calls, print_progress=False)
        return sampler.results.logz[-1], sampler.results.logzerr[-1]

    return run


def nautilus(model: pm.Model) -> Run:
    """`Sampler` as it comes: 2000 live points, until 10,000 draws are effective."""
    from nautilus import Sampler

    size, log_likelihood, _ = Densities(model).from_cube
    log_likelihood(np.full(size, 0.5))

    def run(seed: int) -> Estimate:
        sampler = Sampler(lambda u: u, lambda u: float(log_likelihood(u)), n_dim=size, seed=seed)
        sampler.run()
        return sampler.log_z, sampler.n_eff**-0.5

    return run


def morphz(model: pm.Model) -> Run:
    """Bridge sampling as it comes, on four chains of NUTS (nutpie) of 1000 draws."""
    import nutpie
    from morphZ import evidence

    log = Densities(model)
    density = nutpie.compile_pymc_model(model)
    options = dict(chains=4, cores=1, progress_bar=False, store_unconstrained=True)
    nutpie.sample(density, draws=10, tune=10, seed=0, **options)
    log.joint(log.prior_draws(1, 0)[0])

    def run(seed: int) -> Estimate:
        dt = nutpie.sample(density, draws=1000, seed=seed, **options)
        draws = dt["sample_stats"]["unconstrained_draw"].values
        draws = draws.reshape(-1, draws.shape[-1])
        np.random.seed(seed)  # noqa: NPY002  (it has no other generator)
        [(value, error)] = evidence(
            draws,
            lambda x: float(log.joint(x)),
            np.array([log.joint(x) for x in draws]),
            morph_type="indep" if draws.shape[1] == 1 else "2_group",
            show_progress=False,
        )
        return value, error

    return run


METHODS: dict[str, Callable[[pm.Model], Run]] = {
    "bdmc, real data": ours,
    "bdmc, simulating": ours_simulating,
    "pm.sample_smc": pymc_smc,
    "blackjax, tempered SMC": blackjax_smc,
    "dynesty": dynesty,
    "nautilus": nautilus,
    "NUTS and morphz": morphz,
}
