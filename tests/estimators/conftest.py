"""Work distributions that the estimators' tests share."""

import pytest

from tests.systems import GaussianWork


@pytest.fixture
def gaussian_work():
    return GaussianWork(stds=(1.5,), log_z=3.0)
