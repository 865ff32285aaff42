"""The joint density of many draws."""

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_graph
from pytensor import scan

from pymc_bdmc.density import graph, prior
from pymc_bdmc.density.fast import WITH_FAST_LOOPS
from tests.models import interpreted


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


RNG = np.random.default_rng(1)
VALUES = {"rate": RNG.normal(size=(20, 2)), "start": RNG.lognormal(size=20)}


def by_pymc(model):
    with interpreted():
        logp = model.compile_logp(jacobian=False)
    rows = zip(VALUES["rate"], np.log(VALUES["start"]), strict=True)
    return [logp({"rate": rate, "start_log__": log}) for rate, log in rows]


def no_numba(inputs, outputs, *, mode, **options):
    if mode is WITH_FAST_LOOPS:
        raise NotImplementedError("no numba implementation")
    return compile_graph(inputs, outputs, mode=mode, **options)


@pytest.mark.parametrize(
    ("make", "has_numba"),
    [(lambda: growth(9), True), (lambda: growth(9), False), (straight, True)],
    ids=["a scan by numba", "a scan without it", "all rows at once"],
)
def test_it_is_that_of_pymc(make, has_numba, monkeypatch):
    """Twin: the density with one step less is another."""
    if not has_numba:
        monkeypatch.setattr(graph, "compile_graph", no_numba)
    found = prior.joint_density(make())(VALUES)
    np.testing.assert_allclose(found, by_pymc(make()), rtol=1e-10)
    assert not np.allclose(found, by_pymc(growth(8)), rtol=1e-10)


@pytest.mark.parametrize("steps", [0, 9])
def test_rows_of_a_scan_are_not_interpreted(steps, monkeypatch):
    """Twin: rows without a scan are."""
    modes = []

    def noted(inputs, outputs, *, mode, **options):
        modes.append(mode)
        return compile_graph(inputs, outputs, mode=mode, **options)

    monkeypatch.setattr(graph, "compile_graph", noted)
    prior.joint_density(growth(steps) if steps else straight())(VALUES)
    assert modes == [WITH_FAST_LOOPS if steps else graph.INTERPRETED]
