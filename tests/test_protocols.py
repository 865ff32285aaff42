"""Everything in a table of names keeps its contract; each contract has a twin that breaks it."""

from functools import cache
from inspect import signature

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc import testing
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.call.annealing import Annealing
from pymc_bdmc.density.identity import digest
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, StepEngine
from pymc_bdmc.estimators import ESTIMATORS, Estimate, Estimator
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.paths import PATHS, Path, make_path
from tests.call.sessions import session_of
from tests.engines.test_compiled import mixed_engine
from tests.models import repeated_normal
from tests.systems import GaussianWork

ALPHA = 1e-5


@cache
def engine(step="hmc", *, in_turn=False):
    return CompiledEngine(TemperedDensity(repeated_normal()), step, in_turn)


@cache
def steps():
    return StepEngine(TemperedDensity(repeated_normal()), np.array([0.0, 0.5, 1.0]), pm.Slice)


def tuned(on):
    tasks = [PilotTask(on.density.data, np.random.SeedSequence(i)) for i in range(on.pilots)]
    return on.combine([on.pilot(task) for task in tasks])


@pytest.mark.parametrize("name", PATHS)
def test_paths(name):
    """A path says where it starts: at the prior, or at a normalised distribution."""
    path = make_path(name)
    assert isinstance(path, Path)
    assert (path.name, make_path(path)) == (name, path)
    assert path.fewest_temperatures > 0
    on = engine(in_turn=path.in_turn)
    path.check(on)
    assert bool(on.rows) == path.in_turn
    reference = path.reference(on, 0, lambda: tuned(on))
    assert (reference is None) == path.starts_at_prior
    assert not (path.starts_at_prior and path.is_fitted)
    if reference is not None:
        assert abs(mass(reference) - 1) < 1e-3
        twice = reference._replace(log_constants=reference.log_constants + np.log(2))
        assert abs(mass(twice) - 1) > 0.5
    with interruptible() as stop, on.pool(1, stop) as pool:
        data = {d: on.density.data for d in (0, 1)}
        found = Annealing(session_of(on, pool)).tunings(data, path)
    for tuning in found.values():
        assert_tuning(tuning)


def mass(reference):
    """Integral of the density of a reference in one dimension, by a grid."""
    grid = np.linspace(-300, 300, 30_001)
    spread = reference.draw(1000, np.random.default_rng(1))
    assert np.abs(spread).max() < grid[-1]
    return np.trapezoid(np.exp(reference.log_density(grid[:, None])), grid)


@pytest.mark.parametrize("name", [name for name, path in PATHS.items() if not path.starts_at_prior])
def test_a_reference_is_refused_where_none_is_possible(name):
    for on in (steps(), mixed_engine()):
        with pytest.raises(ValueError, match=f"path: '{name}' is not possible here, since"):
            PATHS[name].check(on)


def assert_tuning(tuning):
    """What pilots return has everything that the contract names."""
    assert isinstance(tuning, Tuning)
    assert (np.diff(tuning.path_betas) > 0).all()
    assert (tuning.path_betas[0], tuning.path_betas[-1]) == (0, 1)
    assert tuning.path_betas.shape == tuning.mean_log_likelihood.shape
    assert tuning.step_size(np.array([0.0, 1.0])).shape == (2,)


@pytest.mark.parametrize("name", [*KERNELS, "pm.Slice"])
def test_kernels(name):
    """Compiled or not, a kernel moves points of the same shapes, and has a reversal."""
    on = steps() if name == "pm.Slice" else engine(name)
    tuning = tuned(on)
    assert_tuning(tuning)
    point = {"x": np.array(0.3)}
    kernel = on.kernel(tuning, np.array([0.0, 0.5, 1.0]))
    for each in (kernel, kernel.reversal(), kernel.reversal().reversal()):
        ends = []
        for _ in range(2):
            each.reset(np.random.default_rng(1))
            moved, move = each.step(1, point)
            moved, _ = each.step(2, moved)
            ends.append(moved)
            assert {name: value.shape for name, value in moved.items()} == {"x": ()}
            assert np.nanmin(np.append(move.acceptance, 0.5)) >= 0
            assert np.nanmax(np.append(move.acceptance, 0.5)) <= 1
            assert move.gradient_evaluations >= 0
        assert ends[0] == ends[1]
    assert point == {"x": np.array(0.3)}


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_kernels_travel(name):
    """A copy that was sent is known by a store as the same; the kernel of another name is not."""
    sent = cloudpickle.loads(cloudpickle.dumps(KERNELS[name]))
    assert sent.title == KERNELS[name].title
    assert digest(sent) == digest(KERNELS[name])
    assert len({digest(kernel) for kernel in KERNELS.values()}) == len(KERNELS)


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_kernels_leave_the_posterior_as_it_is(name):
    """α = 1e-5 each."""
    kernel = KERNELS[name]
    assert 0 < kernel.target_acceptance < 1
    assert kernel.largest_step_size > 0
    model, options = repeated_normal(), dict(alpha=ALPHA, random_seed=1)
    assert testing.check_invariance(kernel, model, budget=2000, **options).passed


def test_a_kernel_that_drifts_is_exposed():
    def drift(point, target, rng):
        return {"x": point["x"] + 0.5}

    model, options = repeated_normal(), dict(alpha=ALPHA, random_seed=1)
    assert not testing.check_invariance(drift, model, **options).passed


WORK = GaussianWork(stds=(0.7,), log_z=2.0)


def assert_estimator(name, estimator):
    """It takes what it says it needs, is not moved by the scale of Z, and knows its own name."""
    rng = np.random.default_rng(1)
    runs = {"forward": WORK.forward(400, rng), "reverse": WORK.reverse(400, rng)}
    assert estimator.needs
    assert set(estimator.needs) <= set(runs)
    assert list(signature(estimator.function).parameters) == list(estimator.needs)
    found = estimator.estimate(**{needed: runs[needed] for needed in estimator.needs})
    assert found.method == name
    assert found.valid
    assert abs(found.value - WORK.log_z) < 4 * found.error < 1  # α = 6e-5
    shifted = estimator.estimate(**{name: 3 + row for name, row in runs.items()})
    assert shifted.value == pytest.approx(found.value + 3)
    assert shifted.error == pytest.approx(found.error)
    assert (estimator.judged_as == "") or len(estimator.needs) == 1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name):
    assert_estimator(name, ESTIMATORS[name])
    assert f"``{chr(34)}{name}{chr(34)}``" in " ".join(bdmc.evidence.__doc__.split())


def test_an_estimator_that_depends_on_the_scale_is_exposed():
    def shrunk(forward):
        return Estimate(0.9 * np.mean(forward), 0.1, "shrunk", True, "")

    with pytest.raises(AssertionError):
        assert_estimator("shrunk", Estimator(shrunk))


@pytest.mark.parametrize("name", [name for name in bdmc.__all__ if name.startswith("plot_")])
def test_plots(name):
    """A plot takes what all plots of arviz-plots take."""
    shared = ["plot_collection", "backend", "aes_by_visuals", "visuals", "pc_kwargs"]
    assert list(signature(getattr(bdmc, name)).parameters)[-5:] == shared
    assert getattr(bdmc, name).__module__.startswith("pymc_bdmc.plots.")
