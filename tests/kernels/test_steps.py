"""Every PyMC step method leaves f_β invariant, stays frozen, and can be reversed."""

from dataclasses import replace
from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.step_methods.arraystep import ArrayStepShared
from scipy import stats
from scipy.special import softmax

from pymc_bdmc.base.schedules import linear, thermodynamic_length
from pymc_bdmc.base.types import Direction, Tuning
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask, StepEngine
from pymc_bdmc.kernels import Adaptation, StepKernel, adaptation, build_steps
from pymc_bdmc.kernels.adaptations import StepParameters
from pymc_bdmc.kernels.steps import check_frozen
from pymc_bdmc.pilots.step_pilot import combine, pilot, pilot_betas
from tests.models import interpreted

FORWARD, REVERSE = Direction
BETAS = np.array([0.0, 0.1, 0.5, 1.0])
ALPHA = 1e-3
"""Over all comparisons of a test."""


@pytest.fixture(scope="module")
def gaussian():
    """Two standard normals whose sum was measured: f_β is normal, correlation grows with β."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", x.sum(), 0.5, observed=1.5)
    return TemperedDensity(model)


def gaussian_moments(beta):
    """Mean and covariance of f_β."""
    precision = np.eye(2) + beta / 0.25 * np.ones((2, 2))
    cov = np.linalg.inv(precision)
    return cov @ np.full(2, beta * 1.5 / 0.25), cov


@pytest.fixture(scope="module")
def discrete():
    """A binary and a ternary variable, coupled by the data; six states."""
    with pm.Model() as model:
        b = pm.Bernoulli("b", 0.3)
        c = pm.Categorical("c", [0.2, 0.5, 0.3])
        pm.Normal("y", b + c, 0.7, observed=1.4)
    return TemperedDensity(model)


STATES = [(b, c) for b in range(2) for c in range(3)]


def discrete_probabilities(beta):
    log_f = [
        np.log([0.7, 0.3][b])
        + np.log([0.2, 0.5, 0.3][c])
        + beta * stats.norm.logpdf(1.4, b + c, 0.7)
        for b, c in STATES
    ]
    return softmax(log_f)


def tuned(engine, seed):
    """What one pilot on the model's own data finds."""
    return engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(seed)))


def frozen_kernel(density, step, direction=Direction.FORWARD, seed=3):
    engine = StepEngine(density, BETAS, step)
    return ready(engine.kernel(tuned(engine, seed)), direction, seed + 1)


def ready(kernel, direction, seed):
    kernel = kernel if direction is FORWARD else kernel.reversal()
    kernel.reset(np.random.default_rng(seed))
    return kernel


def untuned_kernel(density, step=None):
    """Return the kernel of step methods that need no pilot."""
    steps = build_steps(density, step)
    return StepKernel(density, steps, BETAS, StepParameters(BETAS[-1:], [[{}] * len(steps)]))


CONTINUOUS = [
    (pm.NUTS, REVERSE),
    (pm.HamiltonianMC, FORWARD),
    (pm.Metropolis, REVERSE),
    (pm.DEMetropolisZ, FORWARD),
    (pm.Slice, REVERSE),
]


def gaussian_statistics(ends, beta):
    """z scores of the first moments and of the product, against f_β."""
    mean, cov = gaussian_moments(beta)
    white = np.linalg.solve(np.linalg.cholesky(cov), (ends - mean).T).T
    checks = [white[:, 0], white[:, 1], white[:, 0] * white[:, 1], *(white**2 - 1).T]
    return np.array([c.mean() / (c.std() / np.sqrt(len(c))) for c in checks])


@pytest.mark.parametrize(("step", "direction"), CONTINUOUS)
def test_continuous_step_methods_leave_the_tempered_density_invariant(gaussian, step, direction):
    """1000 exact draws of f_β stay exact draws; 10 z scores at level α. Twin: another β."""
    kernel, rng = frozen_kernel(gaussian, step, direction), np.random.default_rng(8)
    limit = stats.norm.isf(ALPHA / 2 / 10)
    for t in (2, 3):
        starts = rng.multivariate_normal(*gaussian_moments(BETAS[t]), size=1000)
        ends = np.array([kernel.step(t, {"x": start})[0]["x"] for start in starts])
        assert np.mean(np.any(ends != starts, axis=1)) > 0.1
        assert np.abs(gaussian_statistics(ends, BETAS[t])).max() < limit
        assert np.abs(gaussian_statistics(ends, BETAS[t] * 0.6)).max() > limit


DISCRETE = [
    (None, FORWARD),
    ([pm.BinaryMetropolis, pm.CategoricalGibbsMetropolis], FORWARD),
    ([partial(pm.BinaryGibbsMetropolis, order=[0]), pm.CategoricalGibbsMetropolis], REVERSE),
]


@pytest.mark.parametrize(("step", "direction"), DISCRETE)
def test_discrete_step_methods_leave_the_tempered_density_invariant(discrete, step, direction):
    """χ² of 3000 states against the six exact probabilities at α. Twin: another β."""
    kernel, rng = ready(untuned_kernel(discrete, step), direction, 4), np.random.default_rng(9)
    for t in (1, 3):
        exact, ends = discrete_probabilities(BETAS[t]), np.zeros(6)
        for start in rng.choice(6, size=3000, p=exact):
            b, c = STATES[start]
            point, _ = kernel.step(t, {"b": np.array(b), "c": np.array(c)})
            ends[STATES.index((int(point["b"]), int(point["c"])))] += 1
        assert stats.chisquare(ends, 3000 * exact).pvalue > ALPHA / 2
    assert stats.chisquare(ends, 3000 * discrete_probabilities(0.5)).pvalue < ALPHA / 2


def test_reversal_applies_the_parts_in_opposite_order(discrete):
    kernel = untuned_kernel(discrete)
    back = kernel.reversal()
    for each, names in [(kernel, ["b", "c"]), (back, ["c", "b"]), (back.reversal(), ["b", "c"])]:
        assert [step.vars[0].name for step in each.steps] == names


def test_the_reversed_slice_scan_visits_the_last_coordinate_first(gaussian):
    kernel = untuned_kernel(gaussian, pm.Slice)
    (forward,) = kernel.steps
    (backward,) = kernel.reversal().steps
    seen = []

    def record(step):
        evaluate = forward.logp
        start = np.array([0.3, -0.4])

        def logp(q):
            seen.append(np.flatnonzero(np.asarray(q) != start))
            return evaluate(q)

        step.rng = np.random.default_rng(1)
        forward.logp, seen[:] = logp, []
        step.step({"x": start})
        forward.logp = evaluate
        return next(int(changed[0]) for changed in seen if len(changed) == 1)

    assert record(forward) == 0
    assert record(backward) == 1


@interpreted()
def test_a_fixed_gibbs_order_is_reversed():
    with pm.Model() as model:
        b = pm.Bernoulli("b", 0.3, shape=3)
        c = pm.Categorical("c", [0.2, 0.3, 0.5], shape=2)
        pm.Normal("y", b.sum() + c.sum(), observed=1.0)
    step = [partial(pm.BinaryGibbsMetropolis, order=[2, 0, 1]),
            partial(pm.CategoricalGibbsMetropolis, order=[1, 0])]  # fmt: skip
    kernel = untuned_kernel(TemperedDensity(model), step)
    categorical, binary = kernel.reversal().steps
    assert binary.order == [1, 0, 2]
    assert [dim for dim, _ in categorical.dimcats] == [0, 1]
    assert kernel.steps[0].order == [2, 0, 1]


class AdaptiveWalk(ArrayStepShared):
    """A user's step method that goes on adapting whatever `tune` says."""

    name = "adaptive_walk"
    stats_dtypes_shapes = {}

    def __init__(self, vars, model=None, rng=None, compile_kwargs=None, blocked=True):
        shared = pm.pytensorf.make_shared_replacements(model.initial_point(), vars, model)
        self.delta_logp = pm.step_methods.metropolis.delta_logp(
            model.initial_point(), model.logp(), vars, shared, compile_kwargs
        )
        self.scale = 1.0
        super().__init__(vars, shared, blocked=blocked, rng=rng)

    def astep(self, q0):
        q = q0.data + self.scale * self.rng.normal(size=q0.data.shape)
        accept = self.delta_logp(q, q0.data)
        q, accepted = pm.step_methods.arraystep.metrop_select(accept, q, q0.data, rng=self.rng)
        self.scale *= 1.5 if accepted else 0.7
        return q, [{}]


class FrozenWalk(AdaptiveWalk):
    name = "frozen_walk"
    bookkeeping = ("scale", "count")


class HiddenAdaptation(FrozenWalk):
    """Adapts now and then, and keeps the scale in an object of its own."""

    name = "hidden"

    class State:
        scale = 1.0

    def astep(self, q0):
        if not hasattr(self, "state"):
            self.state, self.count = HiddenAdaptation.State(), 0
        self.count += 1
        self.state.scale *= 0.5 if self.count % 100 == 0 else 1.0
        return super().astep(q0)


class LateAdaptation(FrozenWalk):
    """Has an attribute only from its third move on."""

    name = "late"

    def astep(self, q0):
        self.count = getattr(self, "count", 0) + 1
        if self.count == 3:
            self.factor = 0.5
        return super().astep(q0)


@pytest.mark.parametrize(
    ("step", "attribute"),
    [
        (AdaptiveWalk, "scale"),
        (HiddenAdaptation, "state.scale"),
        (LateAdaptation, "factor"),
    ],
)
def test_a_step_method_that_keeps_adapting_is_refused(gaussian, step, attribute):
    with pytest.raises(ValueError, match=f"{step.__name__} changes its attribute '{attribute}'"):
        StepEngine(gaussian, BETAS, step)


def test_what_no_transition_reads_may_change(gaussian):
    StepEngine(gaussian, BETAS, FrozenWalk)


@pytest.mark.parametrize("step", [pm.NUTS, pm.HamiltonianMC])
def test_to_count_divergences_is_no_adaptation(gaussian, step):
    (part,) = build_steps(gaussian, step)
    part.stop_tuning()
    adaptation(part).write(part, {"step_size": np.log(1e4)})
    check_frozen([part], gaussian.model.initial_point(), np.random.default_rng(1))
    assert part.divergences > 0


class TuningWalk(AdaptiveWalk):
    """A user's step method that adapts while it is tuned."""

    name = "tuning_walk"
    tune = True

    def astep(self, q0):
        scale = self.scale
        found = super().astep(q0)
        self.scale = self.scale if self.tune else scale
        return found


class LogScale(Adaptation):
    def read(self, step):
        return {"scale": np.log(step.scale)}

    def write(self, step, values):
        step.scale = np.exp(values["scale"])


@adaptation.register
def _(step: TuningWalk):
    return LogScale()


def test_a_registered_step_method_is_tuned_for_every_temperature(gaussian):
    kernel = frozen_kernel(gaussian, TuningWalk)
    scales = []
    for t in (1, 3, 1):
        kernel.step(t, {"x": np.zeros(2)})
        scales.append(kernel.steps[0].scale)
    assert scales[0] == scales[2] != scales[1]


def test_the_model_reaches_step_methods_through_the_context(gaussian):
    class FromContext(FrozenWalk):
        def __init__(self, vars, rng=None):
            super().__init__(vars, model=pm.modelcontext(None), rng=rng)

    (step,) = build_steps(gaussian, FromContext)
    assert [var.name for var in step.vars] == ["x"]


@interpreted()
def test_single_precision_moves_as_well():
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model() as model:
            x = pm.Normal("x", shape=2)
            pm.Normal("y", x.sum(), 0.5, observed=1.5)
        kernel = frozen_kernel(TemperedDensity(model), pm.NUTS)
        point, moves = {"x": np.zeros(2, dtype="float32")}, []
        for _ in range(100):
            point, move = kernel.step(2, point)
            moves.append(move)
    assert np.mean([move.acceptance for move in moves]) > 0.6
    assert not any(move.diverging for move in moves)


def test_a_metric_of_the_users_own_is_kept(gaussian):
    step = partial(pm.NUTS, scaling=np.array([1.0, 2.0]), is_cov=True)
    kernel = frozen_kernel(gaussian, step)
    kernel.step(1, {"x": np.zeros(2)})
    assert set(kernel._parameters.values[0][0]) == {"step_size"}


PROPORTIONAL = [
    pm.BinaryGibbsMetropolis,
    partial(pm.CategoricalGibbsMetropolis, proposal="proportional"),
]
ASYMMETRIC = partial(pm.Metropolis, proposal_dist=pm.step_methods.metropolis.PoissonProposal)


@pytest.mark.parametrize(
    ("model", "step", "error", "message"),
    [
        ("discrete", pm.NUTS, ValueError, r"NUTS cannot sample b \(int64\)"),
        ("gaussian", pm.CategoricalGibbsMetropolis, ValueError, "cannot sample x"),
        ("gaussian", pm.DEMetropolis, ValueError, "proposes from the states of other chains"),
        ("discrete", PROPORTIONAL, ValueError, "does not leave its target invariant"),
        ("gaussian", 3, TypeError, "expected a name, a PyMC step method class"),
        ("discrete", ASYMMETRIC, ValueError, "PoissonProposal is not symmetric"),
    ],
)
def test_what_cannot_be_built_is_refused(request, model, step, error, message):
    with pytest.raises(error, match=message):
        build_steps(request.getfixturevalue(model), step)


def test_options_of_a_partial_reach_the_step_method(gaussian):
    (step,) = build_steps(gaussian, partial(pm.NUTS, target_accept=0.95, max_treedepth=5))
    assert (step.target_accept, step.max_treedepth) == (0.95, 5)
    with gaussian.model, pytest.raises(TypeError, match="not an instance"):
        build_steps(gaussian, pm.Metropolis())


def test_tuning_is_interpolated_over_beta_and_held_beyond():
    values = [[{"w": np.array([0.0, 2.0])}, {}], [{"w": np.array([4.0, 0.0])}, {}]]
    parameters = StepParameters(np.array([0.2, 1.0]), values)
    np.testing.assert_allclose(parameters.at(0.4)[0]["w"], [1.0, 1.5])
    np.testing.assert_allclose(parameters.at(0.05)[0]["w"], [0.0, 2.0])
    np.testing.assert_allclose(parameters.at(1.0)[0]["w"], [4.0, 0.0])
    assert parameters.at(0.4)[1] == {}


def test_tunings_are_combined_by_means():
    kernels = StepParameters(np.array([0.2, 1.0]), [[{"w": np.zeros(1)}], [{"w": np.full(1, 4.0)}]])
    tuning = Tuning(
        None, np.array([-9.0, -3.0, -1.0]), np.array([-8.0, -10.0]), 0,
        path_betas=np.array([0.0, 0.2, 1.0]), kernels=kernels,
    )  # fmt: skip
    other = replace(
        tuning,
        kernels=replace(kernels, values=kernels.values[::-1]),
        mean_log_likelihood=np.array([-7.0, -3.0, -2.0]),
        prior_log_likelihood=np.array([-7.0]),
    )
    twice = combine([tuning, other], [None])
    np.testing.assert_allclose(twice.mean_log_likelihood, [-8.0, -3.0, -1.5])
    assert twice.kernels.at(0.4)[0]["w"] == 2.0
    np.testing.assert_array_equal(twice.prior_log_likelihood, [-8.0, -10.0, -7.0])


def test_pilot_temperatures_are_the_schedules_own():
    betas = np.linspace(0, 1, 101)
    chosen = pilot_betas(betas, 8)
    assert len(chosen) == 8
    assert set(chosen) <= set(betas[1:])
    assert chosen[-1] == 1
    np.testing.assert_array_equal(pilot_betas(np.array([0.0, 1.0])), [1.0])


@interpreted()
def test_the_pilot_finds_the_scale_of_each_temperature():
    """At β = 1 the posterior sd is 1/100 of the prior's; every step method must notice."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 0.01, observed=0.2)
    density = TemperedDensity(model)
    for step, name in [(pm.NUTS, "step_size"), (pm.Metropolis, "scaling"), (pm.Slice, "w")]:
        steps = build_steps(density, step)
        betas = np.array([1e-6, 1e-2, 1.0])
        start, _ = density.draw_prior(np.random.default_rng(1))
        tuning = pilot(density, steps, betas, [start], np.random.default_rng(2))
        found = [
            float(np.ravel(values[0][name])[0] + np.log(values[0].get("stds", [1.0])[0]))
            for values in tuning.kernels.values
        ]
        assert found[0] - found[2] > np.log(5), (step, found)


@interpreted()
def test_the_pilot_knows_the_path_between_its_temperatures():
    """Λ², the ideal gap times T, of ten normals within a quarter of what it is.

    From E[ℓ] at the temperatures of the pilot alone, even if exact, it would be 3.4 times that.
    """
    d, noise, y = 10, 0.03, 1.5
    with pm.Model() as model:
        x = pm.Normal("x", shape=d)
        pm.Normal("y", x, noise, observed=np.full(d, y))

    def squared_length(betas):
        precision = 1 + betas / noise**2
        mean = betas * y / noise**2 / precision
        ells = d * (stats.norm.logpdf(y, mean, noise) - 0.5 / precision / noise**2)
        return thermodynamic_length(betas, ells) ** 2

    exact = squared_length(np.r_[0, np.geomspace(1e-9, 1, 1000)])
    betas = linear(1000).betas
    assert squared_length(np.r_[0, pilot_betas(betas)]) > 3 * exact
    tuning = tuned(StepEngine(TemperedDensity(model), betas, pm.HamiltonianMC), 1)
    pilots = thermodynamic_length(tuning.path_betas, tuning.mean_log_likelihood) ** 2
    assert abs(pilots / exact - 1) < 0.25
