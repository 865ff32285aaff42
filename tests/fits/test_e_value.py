"""The e-value against the start of a run that weighs draws."""

import numpy as np
import pytest

from pymc_bdmc.fits.draws import log_e_value


def test_its_expectation_is_one_given_the_particles():
    """Exact: each particle is the start with its normalised weight as probability."""
    rng = np.random.default_rng(1)
    for spread in (0.1, 1.0, 5.0):
        weights = np.exp(spread * rng.normal(size=8))
        weights /= weights.sum()
        values = np.exp([log_e_value(np.roll(weights, -i)) for i in range(8)])
        assert weights @ values == pytest.approx(1.0)
        assert abs(values.mean() - 1.0) > 1e-4  # the twin: any particle is as likely to be it


def test_a_start_without_weight_is_impossible():
    assert log_e_value(np.array([0.0, 0.5, 0.5])) == np.inf
