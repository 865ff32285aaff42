"""Work distributions that the estimators' tests share."""

import pytest

from tests.systems import GammaWork, GaussianWork

LOG_Z = 3.0


@pytest.fixture
def gaussian_work():
    return GaussianWork(stds=(1.5,), log_z=LOG_Z)


@pytest.fixture
def skewed_work():
    return GammaWork(shape=5.0, rate=0.5, log_z=LOG_Z)


@pytest.fixture
def spike_work():
    """A spike that one forward chain in 10,000 finds holds 90 % of Z."""
    return GaussianWork(means=(0.0, 11.4), stds=(0.5, 0.5), weights=(0.9999, 0.0001), log_z=LOG_Z)
