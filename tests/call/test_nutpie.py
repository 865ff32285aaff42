"""Draws of nutpie, as `pymc.sample` returns them, can be judged."""

import pymc as pm
import pytest

import pymc_bdmc as bdmc

pytest.importorskip("nutpie", reason="nutpie is not installed: pip install nutpie")


@pytest.mark.filterwarnings("ignore")
def test_draws_of_nutpie_are_judged_as_they_come():
    with pm.Model(coords={"place": range(3)}):
        level = pm.Normal("level", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Normal("y", level, scale, observed=[0.5, 1.0, -0.2], dims="place")
        idata = pm.sample(nuts_sampler="nutpie", random_seed=1, cores=1, progressbar=False)
        dt = pm.sample_bdmc(
            posterior=idata, simulate=None, random_seed=1, cores=1, progressbar=False
        )
    assert bdmc.agreement(dt, idata).status == "good"
    wrong = idata.copy()
    wrong["posterior"] = 0.5 * idata["posterior"].dataset
    assert bdmc.agreement(dt, wrong).status == "bad"
