"""A step method of your own on trial: exact draws must stay exact draws when it moves them.

`Langevin` proposes along the gradient and corrects by Metropolis-Hastings. `Uncorrected` forgets
the correction, and is found out. In a project the check is a test: see docs/testing.md.
"""

import numpy as np
import pymc as pm
from pymc.blocking import RaveledVars
from pymc.step_methods.arraystep import GradientSharedStep

import pymc_bdmc as bdmc

Y = np.array([1.2, 0.4, 1.9, 0.8])


def build() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=Y)
    return model


class Langevin(GradientSharedStep):
    """Metropolis-adjusted Langevin; it does not adapt, so there is nothing to freeze."""

    name = "langevin"
    stats_dtypes_shapes = {"accepted": (float, [])}
    corrected = True

    def __init__(self, vars, step_size=0.7, **kwargs):
        self.step_size = step_size
        super().__init__(vars, **kwargs)

    def astep(self, q0):
        logp0, grad0 = self._logp_dlogp_func._pytensor_function(q0.data)
        drift = 0.5 * self.step_size**2
        noise = self.rng.normal(size=q0.data.shape)
        q = q0.data + drift * grad0 + self.step_size * noise
        logp, grad = self._logp_dlogp_func._pytensor_function(q)
        back = (q0.data - q - drift * grad) / self.step_size
        log_ratio = logp - logp0 - 0.5 * (back @ back - noise @ noise)
        accepted = not self.corrected or np.log(self.rng.random()) < log_ratio
        return RaveledVars(q if accepted else q0.data, q0.point_map_info), [
            {"accepted": float(accepted)}
        ]


class Uncorrected(Langevin):
    """Accepts every proposal."""

    corrected = False


def main(budget: int = 20_000) -> dict:
    reports = {}
    for step in (Langevin, Uncorrected):
        reports[step.__name__] = bdmc.testing.check_invariance(
            step, build(), budget=budget, random_seed=1
        )
        print(reports[step.__name__], end="\n\n")
    return reports


if __name__ == "__main__":
    main()
