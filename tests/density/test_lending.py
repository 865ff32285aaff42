"""A density is lent again while its model is unchanged; every change of the model is seen."""

import gc
import threading
import weakref

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import Interval

import pymc_bdmc as bdmc
from pymc_bdmc.density import lending
from pymc_bdmc.density.lending import Loan
from pymc_bdmc.density.tempered import TemperedDensity

OPTIONS = {
    "chains": 4, "temperatures": 10, "simulate": bdmc.FromPrior(1), "cores": 1,
    "progressbar": False,
    "random_seed": 1,
}  # fmt: skip


class Regression:
    """One of everything that a density takes from a model."""

    def __init__(self, potential=True):
        self.weights = np.array([1.0, 2.0, 3.0])
        with pm.Model(coords={"row": ["a", "b", "c"]}) as self.model:
            self.x = pm.Data("x", [0.1, 0.2, 0.3], dims="row")
            self.data = pm.Data("data", [1.0, 0.0, 2.0], dims="row")
            slope = pm.Normal("slope")
            scale = pm.Uniform("scale", 0.0, 2.0)
            if potential:  # then data cannot be simulated
                pm.Potential(
                    "soft", -(slope**2) * (pt.constant(self.weights) * [1.0, 2.0, 4.0]).sum()
                )
            pm.Normal("y", slope * self.x, scale, observed=self.data, dims="row")


def log_density(density):
    point = {name: np.array(0.3) for name in ("slope", "scale_interval__")}
    return sum(terms.sum() for _, terms in density.factors(point))


def lend_and_return(model):
    loan = Loan(model)
    loan.give_back()
    return loan.density


def add_a_variable(regression):
    with regression.model:
        pm.Normal("z", regression.model["slope"], observed=1.5)


def add_a_potential(regression):
    with regression.model:
        pm.Potential("hard", -pt.abs(regression.model["slope"]))


def grow(regression):
    with regression.model:
        values = {"x": [0.1, 0.2, 0.3, 0.4], "data": [1.0, 0.0, 2.0, 1.0]}
        pm.set_data(values, coords={"row": ["a", "b", "c", "d"]})


def write_to_an_array(regression):
    regression.weights[0] = 5.0


def shuffle_an_array(regression):
    """What is summed over all of its elements stays."""
    regression.weights[:] = regression.weights[::-1].copy()


def replace_a_transform(regression):
    model = regression.model
    model.rvs_to_transforms[model["scale"]] = Interval(0.0, 3.0)


CHANGES = {
    "regressor": lambda r: r.model.set_data("x", [0.1, 0.2, 0.4]),
    "length of a dim": grow,
    "variable": add_a_variable,
    "potential": add_a_potential,
    "array": write_to_an_array,
    "order of an array": shuffle_an_array,
    "transform": replace_a_transform,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_seen(change):
    regression = Regression()
    before = lend_and_return(regression.model)
    assert lend_and_return(regression.model) is before
    value = log_density(before)
    CHANGES[change](regression)
    density = Loan(regression.model).density
    assert density is not before
    assert log_density(density) == log_density(TemperedDensity(regression.model)) != value


@pytest.mark.parametrize("uses", [False, True])
def test_other_data_take_the_same_density_unless_they_are_in_use(uses):
    regression = Regression()
    if uses:
        with regression.model:
            pm.Potential("again", -regression.data.sum() * regression.model["slope"])
    before = lend_and_return(regression.model)
    regression.model.set_data("data", [1.0, 0.0, 2.5])
    density = Loan(regression.model).density
    assert (density is before) != uses
    assert log_density(density) == log_density(TemperedDensity(regression.model))
    np.testing.assert_array_equal(density.data["y"], [1.0, 0.0, 2.5])


def test_results_on_other_data_are_those_of_a_new_model():
    """Twin: the results on the data of before."""
    regression, new = (Regression(potential=False) for _ in range(2))
    first = pm.sample_bdmc(regression.model, **OPTIONS)
    for each in (regression, new):
        each.model.set_data("data", [1.0, 0.0, 2.5])
    found, expected = (pm.sample_bdmc(each.model, **OPTIONS) for each in (regression, new))
    for group in ("forward", "reverse", "real", "posterior", "observed_data"):
        assert found[group].dataset.equals(expected[group].dataset), group
        assert not found[group].dataset.equals(first[group].dataset)


def test_changes_that_this_density_does_not_show_are_seen_too():
    regression = Regression()
    before = lend_and_return(regression.model)
    regression.model.check_bounds = False
    assert lend_and_return(regression.model) is not before
    with regression.model:
        pm.Deterministic("twice", 2 * regression.model["slope"])
    found = lend_and_return(regression.model).constrain(
        {"slope": np.array([1.0, 2.0]), "scale_interval__": np.zeros(2)}
    )
    np.testing.assert_array_equal(found["twice"], [2.0, 4.0])


@pytest.mark.parametrize("backend", [None, "numba"])
def test_the_second_call_prepares_nothing(monkeypatch, backend):
    """And it has the same result, also after the caller wrote to the first one."""
    made = []

    class Counted(TemperedDensity):
        def __init__(self, *args):
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(lending, "TemperedDensity", Counted)
    model = Regression(potential=False).model
    first = pm.sample_bdmc(model, backend=backend, **OPTIONS)
    expected = first.copy(deep=True)
    first["observed_data"]["y"].values[:] = 7.0
    monkeypatch.setattr("pymc_bdmc.density.cfunc.compile_graph", None)
    monkeypatch.setattr("pymc_bdmc.density.forward_graph.compile_graph", None)
    monkeypatch.setattr("pymc_bdmc.density.tempered.compile_graph", None)
    second = pm.sample_bdmc(model, backend=backend, **OPTIONS)
    assert len(made) == 1
    for group in ("forward", "reverse", "real", "posterior", "simulated", "observed_data"):
        assert second[group].dataset.equals(expected[group].dataset), group


def test_another_backend_is_seen():
    model = Regression().model
    before = lend_and_return(model)
    assert Loan(model, "numba").density is not before


def test_labels_are_read_anew():
    regression = Regression(potential=False)
    pm.sample_bdmc(regression.model, **OPTIONS)
    with regression.model:
        pm.set_data({"x": [0.1, 0.2, 0.3]}, coords={"row": ["d", "e", "f"]})
    dt = pm.sample_bdmc(regression.model, **OPTIONS)
    assert dt["observed_data"]["row"].values.tolist() == ["d", "e", "f"]


def test_two_calls_at_the_same_time_share_nothing():
    """The data are a part of a density, so that one would see those of the other."""
    model = Regression().model
    lend_and_return(model)
    loans, barrier = [], threading.Barrier(2)

    def borrow():
        barrier.wait()
        loans.append(Loan(model))

    threads = [threading.Thread(target=borrow) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = (loan.density for loan in loans)
    assert first is not second
    assert first.model.observed["y"] is not second.model.observed["y"]
    first.set_data({"y": np.zeros(3)})
    loans[0].give_back()
    np.testing.assert_array_equal(first.model.observed["y"].get_value(), first.data["y"])


def test_after_an_error_nothing_is_given_back(monkeypatch):
    regression = Regression(potential=False)
    before = lend_and_return(regression.model)
    monkeypatch.setattr("pymc_bdmc.call.session.anneal_in_rounds", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pm.sample_bdmc(regression.model, **OPTIONS)
    assert Loan(regression.model).density is not before


def test_a_model_that_nobody_needs_is_freed():
    model = Regression().model
    density = weakref.ref(lend_and_return(model))
    model = weakref.ref(model)
    gc.collect()
    assert model() is None
    assert density() is None


def test_a_few_densities_are_kept():
    models = [Regression().model for _ in range(lending.MOST_KEPT + 1)]
    densities = [lend_and_return(model) for model in models]
    again = [Loan(model).density is kept for model, kept in zip(models, densities, strict=True)]
    assert again == [False] + [True] * lending.MOST_KEPT


@pytensor.wrap_py([pt.dscalar], [pt.dscalar])
def doubled(x):
    return 2 * x


class Bounds(Interval):
    """A transform of the user's own."""


def with_custom_dist():
    pm.CustomDist("x", logp=lambda value: -(value**2), random=lambda rng, size: rng.normal())


def with_own_operation():
    pm.Deterministic("twice", doubled(pm.Normal("x")))


def with_own_transform():
    pm.Uniform("x", 0.0, 1.0, default_transform=Bounds(0.0, 1.0))


@pytest.mark.parametrize("build", [with_custom_dist, with_own_operation, with_own_transform])
def test_code_of_the_users_own_is_read_anew(build):
    with pm.Model() as model:
        build()
        pm.Normal("y", model["x"], observed=1.0)
    assert lend_and_return(model) is not lend_and_return(model)


def test_a_density_goes_to_other_processes_without_what_is_compiled():
    """As step methods send it, where the platform does not fork, after a compiled call."""
    density = TemperedDensity(Regression(potential=False).model)
    assert density.jitted.without_gradient
    sent = cloudpickle.loads(cloudpickle.dumps(density))
    point = {name: np.array(0.3) for name in ("slope", "scale_interval__")}
    assert sent(point) == pytest.approx(density(point))
