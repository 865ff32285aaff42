"""The joint density of many draws."""

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_graph
from pytensor import scan

from pymc_bdmc.density import graph, prior
from pymc_bdmc.density.fast import WITH_FAST_LOOPS
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.tempered import TemperedDensity


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


@pytest.fixture
def modes(monkeypatch):
    """Modes in which graphs are compiled, with the number of dimensions of their output."""
    found = []

    def compile_and_note(inputs, outputs, *, mode, **options):
        found.append((mode, outputs[0].ndim))
        return compile_graph(inputs, outputs, mode=mode, **options)

    monkeypatch.setattr(graph, "compile_graph", compile_and_note)
    return found


def by_pymc(model, values):
    logp = model.compile_logp(jacobian=False, mode="FAST_COMPILE")
    logs = np.log(values["start"])
    rows = zip(values["rate"], logs, strict=True)
    return [logp({"rate": rate, "start_log__": log}) for rate, log in rows]


def test_a_scan_is_compiled_by_numba_and_evaluated_row_by_row(values, modes):
    """Twin: the density with one step less is another."""
    model = growth(30)
    found = prior.joint_density(model)(values)
    assert modes == [(WITH_FAST_LOOPS, 0)]
    np.testing.assert_allclose(found, by_pymc(model, values), rtol=1e-10)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found, by_pymc(growth(29), values), rtol=1e-10)


def test_a_graph_without_a_scan_is_interpreted_for_all_rows_at_once(values, modes):
    found = prior.joint_density(straight())(values)
    assert modes == [(INTERPRETED, 1)]
    np.testing.assert_allclose(found, by_pymc(straight(), values), rtol=1e-10)


def test_what_numba_cannot_compile_is_interpreted(values, modes, monkeypatch):
    failing = graph.compile_graph

    def compile_or_fail(inputs, output, *, mode, **options):
        if mode is WITH_FAST_LOOPS:
            raise NotImplementedError("no numba implementation")
        return failing(inputs, output, mode=mode, **options)

    monkeypatch.setattr(graph, "compile_graph", compile_or_fail)
    found = prior.joint_density(growth(5))(values)
    assert modes == [(INTERPRETED, 0)]
    np.testing.assert_allclose(found, by_pymc(growth(5), values), rtol=1e-10)


def test_new_data_give_another_density():
    with pm.Model() as model:
        y = pm.Data("y", [0.5, 1.0])
        pm.Normal("z", pm.Normal("x"), observed=y)
    values = {"x": np.array([0.0, 1.0, -2.0])}
    before = TemperedDensity(model).joint_density(values)
    np.testing.assert_allclose(before, prior.joint_density(model)(values))
    model.set_data("y", [0.5, 3.0])
    assert not np.allclose(TemperedDensity(model).joint_density(values), before)
