"""Objects that have a PyMC model are annealed as that model is; Bambi's are such objects."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.density.refuse import model_of

QUICK = {"simulate": None, "random_seed": 1, "cores": 1, "progressbar": False}


def test_the_model_in_an_object():
    model = pm.Model()
    held = SimpleNamespace(model=model)
    for thing in (held, SimpleNamespace(backend=held)):
        assert model_of(thing) is model
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
