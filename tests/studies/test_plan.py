"""How strong a Bayes factor will be, for models whose log Bayes factor is a formula."""

from contextlib import nullcontext
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import FromPrior
from pymc_bdmc.studies.design import Plan
from tests.models import interpreted
from tests.results.trees import result

SIZES, DATASETS, SEED = [4], 2, 3


@cache
def effect(n):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 2), 1.0, observed=np.zeros(n))
    return model


@cache
def null(n):
    """A model may have no free variables."""
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=np.zeros(n))
    return model


MODELS = {"effect": effect, "no effect": null}


@pytest.fixture(scope="module")
def found():
    return bdmc.plan(MODELS, SIZES, datasets=DATASETS, random_seed=SEED, cores=1, progressbar=False)


def log_bayes_factor(y):
    """Return the log Bayes factor of an effect of width 2 against none, nats."""
    n = len(y)
    return -np.log1p(4 * n) / 2 + np.sum(y) ** 2 / (2 * (n + 1 / 4))


def test_log_bayes_factors_are_those_of_the_simulated_data(found):
    """4 values within 4.5 errors, α = 3e-5; those of the other model are the broken twin."""
    z, twin = [], []
    for i, size in enumerate(SIZES):
        for j, (sign, (name, build)) in enumerate(zip((1, -1), MODELS.items(), strict=True)):
            with interpreted():
                sets = FromPrior(DATASETS).simulate(TemperedDensity(build(size)), [SEED, i, j])
            exact = sign * np.array([log_bayes_factor(each.data["y"]) for each in sets])
            rows = dict(size=size, truth=name)
            value, error = (each.sel(rows).values for each in (found.log_bayes_factor, found.error))
            z += list((value - exact) / error)
            twin += list((value + exact) / error)
    assert np.max(np.abs(z)) < 4.5 < np.max(np.abs(twin))


@pytest.mark.parametrize("calls", [0, 5])
def test_ctrl_c_keeps_what_is_finished(calls, monkeypatch):
    """Two calls are made for each data set."""
    left = iter([result()] * calls)

    def interrupted(*arguments, **options):
        for dt in left:
            return dt
        raise KeyboardInterrupt

    monkeypatch.setattr("pymc_bdmc.studies.compare_models.sample_bdmc", interrupted)
    with nullcontext() if calls else pytest.raises(KeyboardInterrupt), interpreted():
        found = bdmc.plan(MODELS, [6, 30], datasets=3, cores=1, progressbar=False)
        known = found.log_bayes_factor.notnull().values.ravel()
        assert known.tolist() == [True] * 2 + [False] * 10
        assert found.table["unknown"].tolist() == [1, 3, 3, 3]


def test_its_table_counts_strong_evidence():
    values = np.array([[[3.0, 1.0, -4.0, np.nan], [2.5, 2.6, 2.7, 2.8]]])
    coords = {"size": [7], "truth": ["a", "b"], "dataset": range(4)}
    found = Plan(xr.DataArray(values, coords), xr.DataArray(values, coords), 10.0)
    first, second = found.table.loc[(7, "a")], found.table.loc[(7, "b")]
    assert (first["strong"], first["misleading"], first["unknown"]) == (1 / 3, 1 / 3, 1)
    assert (second["strong"], second["misleading"]) == (1.0, 0.0)
    assert second["strong_low"] == pytest.approx(0.025 ** (1 / 4))  # Clopper and Pearson
    assert second["median"] == pytest.approx(2.65)
    assert repr(found) == repr(found.table.round(3))
    assert "<table" in found._repr_html_()


def test_it_is_plotted(found):
    pc = bdmc.plot_plan(found.table, backend="matplotlib")
    titles = [each.get_title() for each in pc.get_viz("figure").axes if each.get_title()]
    assert titles == ["effect is true", "no effect is true"]
    plt.close("all")
    with pytest.raises(ValueError, match=r"table: .*plan\(\.\.\.\)\.table"):
        bdmc.plot_plan(found)


def potential(n):
    with pm.Model() as model:
        pm.Potential("y", -n * pm.Normal("mean") ** 2)
    return model


@pytest.mark.parametrize(
    ("models", "sizes", "options", "words"),
    [
        ({"effect": effect}, [5], {}, "models: two functions"),
        ({"effect": effect(3), "none": effect(3)}, [5], {}, "models: two functions"),
        (MODELS, [5, 5], {}, "sizes: a list of increasing"),
        (MODELS, [0, 5], {}, r"sizes\[0\]: must be"),
        (MODELS, [5], {"simulate": "prior"}, "simulate: the experiment has no data"),
        (MODELS, [5], {"strong": -1}, "strong: "),
        ({"effect": effect, "more": lambda n: effect(n + 1)}, [5], {}, "at size 5, 'effect' obs"),
        ({"effect": effect, "none": potential}, [5], {}, "simulate: the Potential y"),
    ],
)
def test_bad_input_is_named_before_any_run(models, sizes, options, words, monkeypatch):
    monkeypatch.setattr("pymc_bdmc.studies.compare_models.sample_bdmc", None)
    with pytest.raises(ValueError, match=words):
        bdmc.plan(models, sizes, **options)
