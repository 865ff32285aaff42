"""Models on which chains are lost: there runs of many particles are right within their errors."""

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.models import black_box, gaussian_random_walk, stochastic_volatility

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (gaussian_random_walk, {"chains": 100}),
        (stochastic_volatility, {"chains": 100}),
        (black_box, {"chains": 40, "step": pm.Slice}),
    ],
)
def test_particles_where_chains_are_lost(make, options):
    """At T = 30; within 3 printed errors, α = 2.7e-3 a model. Most chains are many nats off."""
    model, log_ml = make()

    def run(particles):
        dt = pm.sample_bdmc(
            model, particles=particles, temperatures=30, schedule="sigmoid", path="prior",
            simulate=None, random_seed=11, cores=1, progressbar=False, **options,
        )  # fmt: skip
        row = bdmc.summary(dt).loc[("real", "evidence")]
        return row, float(np.median(dt["real"]["log_weight"])) - log_ml

    chains, typical = run(1)
    assert typical < -8
    assert not chains["valid"]
    assert np.isnan(chains["error"])
    found, typical = run(32)
    assert abs(typical) < 1
    assert found["valid"]
    assert abs(found["value"] - log_ml) < 3 * found["error"]
