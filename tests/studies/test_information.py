"""Expected information gains of experiments with known answers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.studies.design import InformationGain

OPTIONS = dict(cores=1, progressbar=False)
ALPHA = 1e-4
X = np.array([[1.0, 0.5, -1.0], [0.3, -1.0, 0.2], [-0.5, 0.8, 1.5], [1.2, 0.1, 0.4]])
SCALES = np.array([1.0, 1.0, 4.0])


def linear(x):
    """Normal data of two weights and a nuisance."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, SCALES[:2], shape=2)
        nuisance = pm.Normal("nuisance", 0, SCALES[2])
        of_b, of_nuisance = pm.Data("of_b", x[:, :2]), pm.Data("of_nuisance", x[:, 2])
        pm.Normal("y", of_b @ b + nuisance * of_nuisance, 1, observed=np.zeros(len(x)))
    return model


def half_log_det(x):
    return np.linalg.slogdet(np.eye(len(x)) + x @ x.T)[1] / 2


ALL = half_log_det(X * SCALES)
"""Information in the data about all parameters, nats."""
OF_B = ALL - half_log_det(X[:, 2:] * SCALES[2:])
"""Information about b alone."""


def is_within(found, truth):
    return abs(found.value - truth) < stats.norm.isf(ALPHA / 2) * found.error


LINEAR = linear(X)


@pytest.fixture(scope="module")
def of_all():
    return bdmc.information_gain(LINEAR, datasets=20, random_seed=1, **OPTIONS)


def test_a_linear_model_has_half_the_log_determinant(of_all):
    """Half of the variance of the noise, as in a wrong model, is the broken twin."""
    assert is_within(of_all, ALL)
    assert not is_within(of_all, half_log_det(X * SCALES * 3))
    low, high = of_all.interval
    assert low < ALL < high
    assert of_all.table.shape == (20, 2)
    assert repr(of_all).startswith("The expected information gain is ")
    assert "from 20 simulated data sets" in repr(of_all)
    assert "if the variance over data sets is finite" in " ".join(repr(of_all).split())


def test_others_are_integrated_out():
    """The information about all parameters is the broken twin."""
    found = bdmc.information_gain(LINEAR, "b", datasets=24, random_seed=2, **OPTIONS)
    assert is_within(found, OF_B)
    assert not is_within(found, ALL)


def test_a_sure_answer_to_a_binary_question_tells_log_two():
    with pm.Model() as model:
        state = pm.Bernoulli("state", 0.5)
        pm.Bernoulli("y", pm.math.switch(state, 1 - 1e-9, 1e-9), observed=0)
    found = bdmc.information_gain(model, datasets=10, random_seed=1, **OPTIONS)
    assert found.value == pytest.approx(np.log(2), abs=0.02)


def test_designs_share_their_parameters():
    """So the error of their difference is smaller than that of independent gains."""
    designs = {"weak": LINEAR, "strong": linear(2 * X)}
    table = bdmc.compare_designs(designs, datasets=6, random_seed=3, **OPTIONS)
    assert list(table.index) == ["strong", "weak"]
    difference = half_log_det(2 * X * SCALES) - ALL
    behind, error = table.loc["weak", ["behind", "behind_error"]]
    assert abs(behind - difference) < stats.norm.isf(ALPHA / 2) * error
    assert error < np.hypot(*table["error"]) / 2
    assert table.loc["strong", ["behind", "behind_error"]].tolist() == [0.0, 0.0]


def test_the_interval_takes_the_outer_error_of_both_bounds():
    rows = pd.DataFrame({"lower": [0.0, 2.0], "upper": [1.0, 5.0]})
    found = InformationGain(rows, None)
    t = stats.t.ppf(0.975, 1)
    assert found.value == 2.0
    assert found.interval == pytest.approx((1 - t, 3 + 2 * t))


def test_it_is_plotted(of_all):
    one = bdmc.plot_information(of_all, backend="plotly")
    assert one.viz["point"]["information"].sizes == {"model": 1, "name": 1}
    table = pd.concat([of_all.summary] * 2).assign(behind=[0, 1.0], behind_error=[0, 0.1])
    table.index = ["near", "far"]
    left, right = bdmc.plot_information(table, backend="matplotlib").get_viz("figure").axes
    assert [each.get_text() for each in left.get_yticklabels()] == ["near", "far"]
    drawn = {x for line in left.lines for x in line.get_xdata()}
    assert drawn == {*of_all.interval, *of_all.table.mean()}
    np.testing.assert_allclose(right.lines[1].get_xdata(), [1 - 0.196, 1 + 0.196])
    plt.close("all")
    with pytest.raises(ValueError, match="gains: the result of information_gain or"):
        bdmc.plot_information(of_all.table)


def test_unfinished_data_sets_are_left_out(of_all, monkeypatch):
    """As after Ctrl-C; the twin has all data sets."""
    dt = of_all.result.copy(deep=True)
    dt["reverse"]["log_weight"][3] = np.nan
    monkeypatch.setattr("pymc_bdmc.studies.design.sample_bdmc", lambda *_, **__: dt)
    found = bdmc.information_gain(LINEAR, datasets=20)
    pd.testing.assert_frame_equal(found.table, of_all.table.drop(index=3))
    assert len(of_all.table) == 20


def model_of(build):
    with pm.Model() as model:
        build()
    return model


HIERARCHY = model_of(lambda: pm.Normal("y", pm.Normal("x", pm.Normal("mean"), 1), observed=0.0))
POTENTIAL = model_of(lambda: pm.Potential("y", -(pm.Normal("x") ** 2)))
OTHER = model_of(lambda: pm.Normal("y", pm.Normal("a"), 1, observed=0.0))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (LINEAR, {"of": "z"}, r"of: \['z'\] are not among"),
        (LINEAR, {"of": ["b", "nuisance"]}, "of: these are all variables"),
        (LINEAR, {"simulate": "prior"}, "simulate: the experiment has no"),
        (LINEAR, {"datasets": 0}, "datasets: must be"),
        (LINEAR, {"datasets": 1}, "datasets: a single one"),
        (HIERARCHY, {"of": "x"}, "of: the prior of x depends on mean"),
        (POTENTIAL, {}, "simulate: the Potential y"),
        ({"a": LINEAR}, {}, "designs: a mapping of names to two"),
        ({"a": LINEAR, "b": OTHER}, {}, "designs: 'b' has the free"),
    ],
)
def test_bad_input_is_named(model, options, words):
    call = bdmc.compare_designs if isinstance(model, dict) else bdmc.information_gain
    with pytest.raises(ValueError, match=words):
        call(model, **options)


def design(width=1.0, shape=2, groups=3, **random):
    with pm.Model() as model:
        mean = pm.Normal("b", 0, width, shape=shape).sum() + pm.Normal("z", shape=groups).sum()
        random = random or {"random": lambda mean, rng=None, size=None: rng.normal(mean, size=size)}
        pm.CustomDist("y", mean, logp=lambda y, m: -((y - m) ** 2), observed=0.0, **random)
    return model


@pytest.mark.parametrize(
    ("other", "of", "words"),
    [
        (design(width=2), "b", "designs: 'other' has another shape or prior of b"),
        (design(shape=3), "b", "designs: 'other' has another shape or prior of b"),
        (design(groups=4), None, "shape or prior of z than 'a'"),
        (design(random=None), None, "simulate: y: its distribution has a log "),
        (design(width=1), None, "a run begins"),  # a prior may be written in another way
        (design(groups=4), "b", "a run begins"),  # those of the others may differ
    ],
)
def test_a_design_that_changes_the_question_is_named_before_any_run(other, of, words, monkeypatch):
    def run(*arguments, **options):
        raise ValueError("a run begins")

    monkeypatch.setattr("pymc_bdmc.studies.design.sample_bdmc", run)
    with pytest.raises(ValueError, match=words):
        bdmc.compare_designs({"a": design(), "other": other}, of)
