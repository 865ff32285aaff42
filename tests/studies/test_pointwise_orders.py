"""Predictive densities in several orders of the observations."""

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.models import SIGMAS

Y = np.array([0.5, 1.0, 4.0, -0.3])


def test_several_orders_of_a_conjugate_model():
    """Values of each order sum to log ML, though they differ from order to order.

    Seeded; α = 6e-5 a comparison.
    """
    with pm.Model(coords={"day": list("abcd")}) as model:
        pm.Normal("y", pm.Normal("mu", 0, 2), 1.0, observed=Y, dims="day")
    table = bdmc.pointwise_orders(model, 2, random_seed=1, cores=1, progressbar=False)
    assert list(table.index) == list("abcd")
    assert table["valid"].all()
    covariance = np.eye(4) + 4
    log_ml = -0.5 * Y @ np.linalg.solve(covariance, Y)
    log_ml -= 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    errors = np.linalg.norm(table["error"]) * 2
    assert np.abs(np.array(table.attrs["log_ml"]) - log_ml).max() < SIGMAS * max(errors, 0.02)
    assert table["spread"].max() > 0.5  # who comes first is predicted from the prior
    assert np.allclose(table["mean"], table[[0, 1]].mean(axis=1))
    with pytest.raises(ValueError, match="orders"):
        bdmc.pointwise_orders(model, 0)
