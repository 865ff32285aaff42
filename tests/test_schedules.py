import numpy as np
import pytest

from pymc_bdmc import schedules
from pymc_bdmc.schedules import Schedule, make_schedule


@pytest.mark.parametrize("name", ["linear", "sigmoid", "power", "cubic"])
@pytest.mark.parametrize("n", [1, 2, 1000])
def test_named_schedules_run_from_exactly_0_to_exactly_1(name, n):
    schedule = make_schedule(name, n)
    assert schedule.n_temperatures == n
    assert schedule.betas[0] == 0
    assert schedule.betas[-1] == 1
    assert (schedule.increments > 0).all()
    assert schedule.increments.sum() == pytest.approx(1, abs=1e-14)


def test_sigmoid_is_the_rescaled_logistic_curve():
    t = np.arange(11)
    logistic = 1 / (1 + np.exp(-3.0 * (2 * t / 10 - 1)))
    expected = (logistic - logistic[0]) / (logistic[-1] - logistic[0])
    np.testing.assert_allclose(schedules.sigmoid(10, delta=3.0).betas, expected, atol=1e-14)


def test_a_schedule_is_frozen():
    schedule = schedules.linear(4)
    with pytest.raises(ValueError, match="read-only"):
        schedule.betas[1] = 0.3
    with pytest.raises(AttributeError):
        schedule.betas = np.array([0.0, 1.0])


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ([0, 0.5, 0.5, 1], r"β\[2\] = 0.5 does not exceed"),
        ([0, 0.7, 0.2, 1], "increase strictly"),
        ([0.1, 1], "start at exactly 0"),
        ([0, 0.9], "end at exactly 1"),
        ([0, np.nan, 1], "increase strictly"),
        ([1.0], "at least the values 0 and 1"),
        ([[0, 1]], "got shape"),
    ],
)
def test_explicit_values_are_validated(betas, message):
    with pytest.raises(ValueError, match=message):
        schedules.explicit(betas)


def test_make_schedule():
    ready = schedules.power(3, exponent=2)
    assert make_schedule(ready, 1000) is ready
    assert make_schedule("sigmoid", [0, 0.2, 1]).betas.tolist() == [0, 0.2, 1]
    with pytest.raises(ValueError, match="unknown name 'cosine'"):
        make_schedule("cosine", 10)
    for bad in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match="temperatures"):
            make_schedule("linear", bad)
    with pytest.raises(ValueError, match="delta"):
        schedules.sigmoid(5, delta=0)
    with pytest.raises(ValueError, match="exponent"):
        schedules.power(5, exponent=-1)
    assert isinstance(Schedule([0, 1]), Schedule)
