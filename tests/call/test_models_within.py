"""Objects that have a PyMC model are annealed as that model is; Bambi's are such objects."""

from types import SimpleNamespace

import pymc as pm
import pytest

from pymc_bdmc.density.refuse import model_of


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
