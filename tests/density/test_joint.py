"""The joint density of many draws."""

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_graph
from pytensor import scan

from pymc_bdmc.density import graph, prior
from pymc_bdmc.density.fast import WITH_FAST_LOOPS


def growth(steps):
    """Logistic growth in Euler steps, which PyTensor holds as a scan."""
    with pm.Model() as model:
        rate, start = pm.Normal("rate", shape=2), pm.LogNormal("start", 0, 1)
        sizes = scan(
            lambda size, rate: size + 0.1 * rate[0] * size * (1 - size) + 0.01 * rate[1],
            outputs_info=start, non_sequences=rate, n_steps=steps, return_updates=False,
        )  # fmt: skip
        pm.Normal("y", sizes[-3:], 0.1, observed=[0.4, 0.6, 0.7])
    return model


def straight():
    """The same variables without a scan."""
    with pm.Model() as model:
        rate, start = pm.Normal("rate", shape=2), pm.LogNormal("start", 0, 1)
        pm.Normal("y", rate[0] * start + rate[1], 0.1, observed=[0.4, 0.6, 0.7])
    return model


@pytest.fixture
def values():
    rng = np.random.default_rng(1)
    return {"rate": rng.normal(size=(20, 2)), "start": rng.lognormal(size=20)}


def by_pymc(model, values):
    logp = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    logs = np.log(values["start"])
    rows = zip(values["rate"], logs, strict=True)
    return [logp({"rate": rate, "start_log__": log}) for rate, log in rows]


def no_numba(inputs, outputs, *, mode, **options):
    if mode is WITH_FAST_LOOPS:
        raise NotImplementedError("no numba implementation")
    return compile_graph(inputs, outputs, mode=mode, **options)


@pytest.mark.parametrize(
    ("make", "has_numba"),
    [(lambda: growth(30), True), (lambda: growth(30), False), (straight, True)],
    ids=["a scan by numba", "a scan without it", "all rows at once"],
)
def test_it_is_that_of_pymc(make, has_numba, values, monkeypatch):
    """Twin: the density with one step less is another."""
    if not has_numba:
        monkeypatch.setattr(graph, "compile_graph", no_numba)
    found = prior.joint_density(make())(values)
    np.testing.assert_allclose(found, by_pymc(make(), values), rtol=1e-10)
    assert not np.allclose(found, by_pymc(growth(29), values), rtol=1e-10)
