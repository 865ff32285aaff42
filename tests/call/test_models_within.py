"""Objects that have a PyMC model are annealed as that model is; Bambi's are such objects."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc

QUICK = {"simulate": None, "random_seed": 1, "cores": 1, "progressbar": False}


def normal():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0])
    return model


@pytest.mark.parametrize(
    "hold",
    [
        lambda model: SimpleNamespace(backend=SimpleNamespace(model=model)),
        lambda model: SimpleNamespace(model=model),
    ],
    ids=["backend.model", "model"],
)
def test_the_model_in_an_object(hold):
    model = normal()
    options = QUICK | {"path": "prior", "chains": 4, "temperatures": 10}
    found = [pm.sample_bdmc(each, **options) for each in (model, hold(model))]
    np.testing.assert_array_equal(*(dt["real"]["log_weight"] for dt in found))


def test_an_object_without_a_model_is_refused():
    unbuilt = SimpleNamespace(backend=None, build=lambda: None)
    with pytest.raises(TypeError, match=r"model: it has no PyMC model yet; call its build\(\)"):
        pm.sample_bdmc(unbuilt)
    with pytest.raises(TypeError, match=r"model: a pymc.Model is needed"):
        pm.sample_bdmc(SimpleNamespace(model="none"))


@pytest.mark.filterwarnings("ignore:For backward compatibility")  # of pandas, to Bambi
def test_a_formula_with_group_effects():
    """Two ways to the same model of Bambi, and its Bayes factor against one without groups."""
    bambi = pytest.importorskip("bambi", reason="Bambi is not installed: pip install bambi")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(6), 10)
    x = rng.normal(size=60)
    y = x + 2.0 * rng.normal(size=6)[group] + 0.5 * rng.normal(size=60)
    data = pandas.DataFrame({"x": x, "y": y, "group": group.astype(str)})
    found = {}
    for name, formula in (("groups", "y ~ x + (1 | group)"), ("none", "y ~ x")):
        model = bambi.Model(formula, data)
        model.build()
        found[name] = pm.sample_bdmc(model, chains=64, **QUICK)
    again = pm.sample_bdmc(model.backend.model, chains=64, **QUICK)
    np.testing.assert_array_equal(*(dt["real"]["log_weight"] for dt in (found["none"], again)))
    assert "group" in str(found["groups"]["posterior"].dims)
    factor = bdmc.bayes_factor(found["groups"], found["none"])
    assert factor.valid
    assert factor.value > 20
