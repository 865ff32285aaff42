import numpy as np
import pytest

from pymc_bdmc import schedules
from pymc_bdmc.base.schedules import Schedule, make_schedule, mean_between


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
    assert make_schedule(ready, 1000, default=1000) is ready
    with pytest.raises(ValueError, match="the Schedule has 3 already"):
        make_schedule(ready, 20, default=1000)
    with pytest.raises(ValueError, match="unknown name 'cosine'"):
        make_schedule("cosine", [0, 1])
    named = make_schedule("sigmoid", [0, 0.2, 1], default_name="sigmoid")
    assert named.betas.tolist() == [0, 0.2, 1]
    with pytest.raises(ValueError, match="schedule: 'sigmoid' has no effect"):
        make_schedule("sigmoid", [0, 0.2, 1])
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
    schedule = schedules.adaptive(fine, noisy, 1000)
    assert schedule.n_temperatures == 1000
    assert schedules.adaptive([0, 1], [-3.0, -3.0], 5).n_temperatures == 5  # nothing to adapt to


def test_a_refined_schedule_contains_the_coarse_one():
    coarse = schedules.sigmoid(7)
    fine = coarse.refined()
    np.testing.assert_array_equal(fine.betas[::2], coarse.betas)
    assert fine.n_temperatures == 14


def test_interpolation_survives_a_slope_beyond_floating_point():
    known, means = np.array([0.0, 1e-273, 0.5, 1.0]), np.array([-1e268, -1e267, -3.0, -1.0])
    found = mean_between(np.array([0.0, 5e-274, 1e-273, 0.75, 1.0]), known, means)
    np.testing.assert_allclose(found, [-1e268, -5.5e267, -1e267, -2.0, -1.0])


def test_interpolation_of_infinite_means():
    found = mean_between([0, 0.1, 0.5, 1], [0, 0.5, 1], [-np.inf, -3.0, -1.0])
    np.testing.assert_array_equal(found, [-np.inf, -np.inf, -3, -1])
    np.testing.assert_array_equal(mean_between([0, 1], [0, 1], [-np.inf, -1.0]), [-np.inf, -1])


def test_means_lie_between_those_at_the_ends_of_the_smallest_steps():
    """The slope between inverse temperatures that are not normal numbers overflows."""
    betas = np.array([0.0, 1e-310, 3e-310, 1.0])
    means = mean_between([0.5e-310, 2e-310], betas, [-8.0, -6.0, -2.0, -1.0])
    assert np.allclose(means, [-7, -4], rtol=1e-6)
