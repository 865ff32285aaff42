import numpy as np
import pytest

from pymc_bdmc import schedules
from pymc_bdmc.base.schedules import make_schedule, mean_between


@pytest.mark.parametrize("name", ["linear", "sigmoid", "power", "cubic"])
@pytest.mark.parametrize("n", [1, 1000])
def test_named_schedules_run_from_exactly_0_to_exactly_1(name, n):
    schedule = make_schedule(name, n)
    assert schedule.n_temperatures == n
    assert schedule.betas[[0, -1]].tolist() == [0, 1]
    assert (schedule.increments > 0).all()


def test_sigmoid_is_the_rescaled_logistic_curve():
    t = np.arange(11)
    logistic = 1 / (1 + np.exp(-3.0 * (2 * t / 10 - 1)))
    expected = (logistic - logistic[0]) / (logistic[-1] - logistic[0])
    np.testing.assert_allclose(schedules.sigmoid(10, delta=3.0).betas, expected, atol=1e-14)


def test_a_schedule_is_frozen():
    with pytest.raises(ValueError, match="read-only"):
        schedules.linear(4).betas[1] = 0.3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.explicit([0, 0.5, 0.5, 1]), r"β\[2\] = 0.5 does not exceed"),
        (lambda: schedules.explicit([0, np.nan, 1]), "increase strictly"),
        (lambda: schedules.explicit([0, 0.9]), "end at exactly 1"),
        (lambda: schedules.explicit([1.0]), "at least the values 0 and 1"),
        (lambda: schedules.explicit([[0, 1]]), "got shape"),
        (lambda: make_schedule(schedules.linear(3), 20, default=9), "the Schedule has 3 already"),
        (lambda: make_schedule("cosine", 10), "'cosine' is none of 'linear'"),
        (lambda: make_schedule("sigmoid", [0, 0.2, 1]), "schedule: 'sigmoid' has no effect"),
        (lambda: make_schedule("linear", 0), "temperatures"),
        (lambda: make_schedule("linear", True), "temperatures"),
        (lambda: schedules.sigmoid(5, delta=0), "delta"),
        (lambda: schedules.power(5, exponent=-1), "exponent"),
    ],
)
def test_what_makes_no_schedule_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_schedules_that_are_given():
    ready = schedules.power(3, exponent=2)
    assert make_schedule(ready, 1000, default=1000) is ready
    named = make_schedule("sigmoid", [0, 0.2, 1], default_name="sigmoid")
    assert named.betas.tolist() == [0, 0.2, 1]
    fine = ready.refined()
    np.testing.assert_array_equal(fine.betas[::2], ready.betas)
    assert fine.n_temperatures == 6


def gaussian_mean(betas, d=30, ratio=9.0):
    """E_β[ℓ] of a d-dimensional normal prior with precision 1 and likelihood precision `ratio`."""
    return -0.5 * d * ratio / (1 + ratio * betas)


def expected_gap(schedule):
    return float(schedule.increments @ np.diff(gaussian_mean(schedule.betas)))


def test_adaptive_steps_have_equal_length_and_the_smallest_gap():
    """Λ is known in closed form here: ∫ sqrt(m′) dβ = sqrt(d/2) ln(1 + ratio)."""
    fine = np.linspace(0, 1, 2001)
    schedule = schedules.adaptive(fine, gaussian_mean(fine), 100)
    length = schedules.thermodynamic_length(fine, gaussian_mean(fine))
    np.testing.assert_allclose(length, np.sqrt(30 / 2) * np.log(10), rtol=1e-4)
    parts = np.sqrt(schedule.increments * np.diff(gaussian_mean(schedule.betas)))
    np.testing.assert_allclose(parts, length / 100, rtol=1e-2)
    np.testing.assert_allclose(expected_gap(schedule), length**2 / 100, rtol=1e-3)
    for other in (schedules.linear(100), schedules.sigmoid(100), schedules.power(100)):
        assert expected_gap(other) > 1.2 * expected_gap(schedule)


def test_adaptive_survives_noise_and_an_infinite_mean_under_the_prior():
    fine = np.linspace(0, 1, 51)
    noisy = gaussian_mean(fine) + np.random.default_rng(1).normal(size=51)
    noisy[0] = -np.inf
    assert schedules.adaptive(fine, noisy, 1000).n_temperatures == 1000
    assert schedules.adaptive([0, 1], [-3.0, -3.0], 5).n_temperatures == 5  # nothing to adapt to


@pytest.mark.parametrize(
    ("betas", "known", "means", "expected"),
    [
        ([0, 0.1, 0.5, 1], [0, 0.5, 1], [-np.inf, -3.0, -1.0], [-np.inf, -np.inf, -3, -1]),
        # The slope is beyond floating point.
        (
            [0, 5e-274, 1e-273, 0.75],
            [0, 1e-273, 0.5, 1],
            [-1e268, -1e267, -3, -1],
            [-1e268, -5.5e267, -1e267, -2],
        ),
        # Inverse temperatures are not normal numbers.
        ([0.5e-310, 2e-310], [0, 1e-310, 3e-310, 1], [-8, -6, -2, -1], [-7, -4]),
    ],
)
def test_means_are_interpolated(betas, known, means, expected):
    found = mean_between(np.array(betas), np.array(known), np.array(means, float))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
