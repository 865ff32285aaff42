"""The loop applies kernels and collects ℓ in the order of the definition, in both directions."""

from functools import cache

import numpy as np
import pytest

from pymc_bdmc.base.types import Direction, Move
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask, Recorder, anneal, runs, systems
from pymc_bdmc.run.chain import Table
from tests.engines.test_compiled import mixed_model
from tests.models import small_regression

BETAS = np.array([0.0, 0.2, 0.7, 1.0])
START = [{"x": np.array(1.0)}]
RNG = np.random.default_rng(1)


class Counting:
    """Adds 10^t: the state tells which kernels were applied, in which order."""

    def __init__(self):
        self.applied = []

    def reset(self, rng):
        pass

    def reversal(self):
        return self

    def step(self, t, point):
        self.applied.append(t)
        return {"x": point["x"] + 10.0**t}, Move(0.1 * t, t == 2, t)


def log_likelihood(point):
    return float(point["x"]) ** 2


@pytest.mark.parametrize(
    ("direction", "applied", "states"),
    [
        (Direction.FORWARD, [1, 2, 3], [1.0, 11, 111, 1111]),
        (Direction.REVERSE, [3, 2, 1], [1111.0, 1101, 1001, 1]),  # θ_0 to θ_3
    ],
)
def test_forward_weighs_before_it_moves_and_reverse_moves_before_it_weighs(
    direction, applied, states
):
    """What the kernels report is kept by temperature."""
    kernel = Counting()
    chain = anneal(kernel, log_likelihood, BETAS, START, direction, RNG)
    assert kernel.applied == applied
    np.testing.assert_array_equal(chain.log_likelihood, np.square(states))
    assert chain.log_weight == pytest.approx(
        np.dot([0.2, 0.5, 0.3], np.square(states[:3])), rel=1e-14
    )
    assert chain.ends["x"] == 1111
    np.testing.assert_allclose(chain.acceptance[:, 0], [np.nan, 0.1, 0.2, 0.3])
    np.testing.assert_array_equal(chain.divergences, [0, 0, 1, 0])
    assert chain.gradient_evaluations == 6


def test_an_impossible_state_gives_weight_zero():
    chain = anneal(Counting(), lambda p: -np.inf, BETAS, START, Direction.FORWARD, RNG)
    assert chain.log_weight == -np.inf


@pytest.mark.parametrize(("parts", "lowest", "mean"), [((0.0, 0.5), 0.0, 0.25), (0.5, 0.5, 0.5)])
def test_the_lowest_acceptance_is_that_of_the_worst_part(parts, lowest, mean):
    """A part without an acceptance counts for nothing."""

    class Stays(Counting):
        def step(self, t, point):
            return point, Move(np.append(parts, np.nan), False, 0)

    chain = anneal(Stays(), lambda p: 0.0, BETAS, START, Direction.FORWARD, RNG)
    recorder = Recorder(1, BETAS)
    recorder.add(0, chain)
    run = recorder.collected(np.zeros(4))
    assert run.by_chain["lowest_acceptance"][0] == lowest
    np.testing.assert_allclose(run.by_beta["acceptance"], [np.nan, mean, mean, mean])


class WithPriorDraws(systems.TunedKernel):
    """Kernels that propose to move to the next prior draw, as a chain does."""

    def __init__(self, problem, table, betas, draws):
        super().__init__(problem, table, betas)
        self._draws = draws

    def step(self, t, point):
        place, rest = divmod(t, runs.FRESH_STRIDE)
        draw = self._draws[place - 1] if not rest and place <= len(self._draws) else np.empty(0)
        thetas, jitted = self._problem.jitted.ravel(point)[None], self._problem.jitted
        row = Table(*(each[t : t + 1] for each in self._table))
        _, move = systems._moved(self._problem, row, thetas, self._rng, draw, self._reverse)
        return jitted.unravel(thetas[0]), Move(*move)


@cache
def engine_of(step):
    # Beside gradients, ℓ has two compiled forms, which may differ in the last bit.
    model = mixed_model() if step == "metropolis" else small_regression()[0]
    return CompiledEngine(TemperedDensity(model), step)


@pytest.mark.parametrize("particles", [1, 5])
@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("step", ["metropolis", "hmc"])
def test_the_loop_in_python_is_the_compiled_loop(step, direction, particles):
    """Bit for bit on one stream; the twin has the other direction's kernels, or another order."""
    engine = engine_of(step)
    data = {"y": 6 * engine.density.data["y"]}  # so that particles are resampled
    betas = np.linspace(0, 1, 31) ** 2
    tuning = engine.pilot(PilotTask(data, np.random.SeedSequence(1)))
    start = engine.density.draw_prior(np.random.default_rng(2))[0]
    start = start if direction is Direction.REVERSE else None
    seed = np.random.SeedSequence(3)
    task = AnnealTask(direction, data, betas, tuning, seed, start, 2 if start else 0, particles)
    expected = engine.run(task)

    def ell(point):
        return engine.density(point, data)[1]

    def in_python(*, twin=False):
        rng, problem = np.random.default_rng(task.seed), engine.on(data)
        if particles == 1:
            thetas, draws, _ = runs.start_of_chain(problem, task, 30 // runs.FRESH_STRIDE, rng)
        else:
            thetas, draws, _ = runs.starts_of_particles(problem, task, rng)
        kernel = WithPriorDraws(problem, tuning.kernels, betas, draws)
        kernel = kernel.reversal() if twin and particles == 1 else kernel
        starts = [engine.jitted.unravel(theta) for theta in thetas]
        if twin and particles > 1:
            starts[1:] = starts[:0:-1]
        return anneal(kernel, ell, betas, starts, direction, rng, task.burn_in)

    run, twin = in_python(), in_python(twin=True)
    assert run.log_weight == expected.log_weight != twin.log_weight
    for name in ("log_likelihood", "weights"):
        np.testing.assert_array_equal(getattr(run, name), getattr(expected, name))
    # Particles may be added in another order.
    np.testing.assert_allclose(run.acceptance, expected.acceptance, rtol=1e-15 * particles)
    assert run.ends.keys() == expected.ends.keys()
    for name in run.ends:
        np.testing.assert_array_equal(run.ends[name], expected.ends[name])
    for name in ("effective_size", "resampled", "ancestors"):
        np.testing.assert_array_equal(getattr(run, name), getattr(expected, name))
    assert run.resampled.any() == (particles > 1)
