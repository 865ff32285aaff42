"""The joint density of many draws, compiled once for each density."""

import numpy as np
import pymc as pm

from pymc_bdmc.model import joint
from pymc_bdmc.model.lending import Loan


def test_a_density_is_compiled_once_and_new_data_give_another(monkeypatch):
    compiled, compile_density = [], joint._compiled
    monkeypatch.setattr(joint, "_compiled", lambda m: compiled.append(m) or compile_density(m))
    with pm.Model() as model:
        y = pm.Data("y", [0.5, 1.0])
        pm.Normal("z", pm.Normal("x"), observed=y)
    values = {"x": np.array([0.0, 1.0, -2.0])}

    def evaluated(times):
        loan = Loan(model)
        for _ in range(times):
            found = joint.log_joint_of(loan.density, values)
        loan.give_back()
        np.testing.assert_allclose(found, joint.log_joint(model, values))
        return found

    before = evaluated(3)
    assert len(compiled) == 2  # that of `log_joint` is the other
    model.set_data("y", [0.5, 3.0])
    assert not np.allclose(evaluated(2), before)
    assert len(compiled) == 4
