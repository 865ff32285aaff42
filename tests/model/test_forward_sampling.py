"""Draws of a model's variables: exact on the log scale, and as often as they are asked for."""

import numpy as np
import pymc as pm
from pytensor.compile.mode import Mode

from pymc_bdmc.model.tempered import TemperedDensity

QUICK = {"mode": Mode("py", "fast_run")}


def test_draws_survive_other_graphs_of_the_same_constants():
    """PyTensor writes to constants while it compiles the log density, which shares them."""
    with pm.Model() as model:
        scales = pm.HalfNormal.dist([5, 3], shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=1, sd_dist=scales)
        effects = pm.MvNormal("effects", np.zeros(2), chol=chol, shape=(4, 2))
        pm.Normal("y", effects.sum(axis=1), pm.HalfNormal("s"), observed=np.zeros(4))
    density = TemperedDensity(model, QUICK)
    density.check()
    for sampler in (density.prior, density.joint()):
        for _ in range(3):
            assert np.isfinite(sampler.draw()[0]["chol_cholesky-cov-packed__"]).all()
    density.prior.draw_many(5, np.random.default_rng(1))
