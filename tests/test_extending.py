"""What docs/extending.md adds works as it says, by public names alone."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import ESTIMATORS
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.paths import PATHS
from tests.models import SIGMAS

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
Y = np.array([2.0, 2.5, 1.5])
LOG_ML = stats.multivariate_normal.logpdf(Y, np.zeros(3), np.eye(3) + 100)


@pytest.fixture(scope="module")
def page():
    """What the blocks of the page define; its entries in the tables are taken out again."""
    names, tables = {}, (PATHS, KERNELS, ESTIMATORS)
    before = [dict(table) for table in tables]
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(block, PAGE.name, "exec"), names)
    yield names
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [("dt", "path", "wide"), ("walked", "step", "compiled strides(x)")],
)
def test_a_path_and_a_kernel_find_the_evidence(page, name, attribute, value):
    """Two-sided α = 6e-5 each; the twin is off by a nat."""
    dt = page[name]
    assert dt.attrs[attribute] == value
    row = bdmc.evidence(dt, "forward average").loc[("real", 0, "forward average")]
    assert abs(row["value"] - LOG_ML) < SIGMAS * row["error"]
    assert abs(row["value"] - LOG_ML - 1) > SIGMAS * row["error"]


def test_an_estimator_is_a_row_of_the_table(page):
    table = page["table"]
    assert set(table.index.get_level_values("method")) == {"median of means"}
    assert not table["valid"].any()  # of so few runs
    row = table.loc[("real", 0, "median of means")]
    assert abs(row["value"] - LOG_ML) < SIGMAS * row["error"]
    everything = bdmc.evidence(page["dt"]).index.get_level_values("method")
    assert set(everything) == set(ESTIMATORS)


def test_a_check_passes_what_is_right_and_fails_what_is_not(page):
    """α = 1e-5 each; the sampler that fails drifts upwards without correction."""

    def drift(point, target, rng):
        return {"x": point["x"] + abs(rng.normal())}

    assert page["report"].passed
    assert page["order"].passed
    failed = page["check_order"](drift, page["model"], name="x", random_seed=1)
    assert (failed.passed, failed.findings) == (False, ("x goes up",))


def test_a_system_is_annealed(page):
    """α = 6e-5."""
    value, error = bdmc.evidence(page["annealed"], "bar")[["value", "error"]].iloc[0]
    assert abs(value - (-0.25 - 0.5 * np.log(2))) < SIGMAS * error


def test_what_is_no_entry_is_refused(page):
    with pytest.raises(ValueError, match="step: 'strides' is none of"):
        pm.sample_bdmc(page["model"], step="strides", progressbar=False)
