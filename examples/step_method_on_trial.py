"""A step method on trial
======================

One of your own, put to the test: what a check finds, and what the fault would do.

`Langevin` proposes along the gradient and corrects by Metropolis-Hastings. `Uncorrected` forgets
the correction. A check refutes it within seconds; unchecked, its weights give a wrong evidence, and
more chains only make that more certain.
"""

from pathlib import Path

import numpy as np
import pymc as pm
from pymc.blocking import RaveledVars
from pymc.step_methods.arraystep import GradientSharedStep

import pymc_bdmc as bdmc

Y = np.array([1.2, 0.4, 1.9, 0.8])
LOG_ML = -5.5565  # multivariate normal density of Y with covariance I + 1


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

    def reversal(self):
        """Detailed balance holds, so it is its own; saying so lets the check look at more."""
        return self


class Uncorrected(Langevin):
    """Accepts every proposal."""

    corrected = False


def main(chains: int = 500, temperatures: int = 50, folder: str = "output") -> dict:
    found, results = {}, {}
    for step in (Langevin, Uncorrected):
        report = bdmc.testing.check_sampler(step, build(), budget=5_000, random_seed=1)
        print(report)
        dt = pm.sample_bdmc(
            build(),
            chains=chains,
            temperatures=temperatures,
            step=step,
            simulate=None,
            random_seed=1,
            progressbar=False,
        )
        results[step.__name__] = dt
        row = bdmc.summary(dt).loc[("real", "evidence")]
        score = (row["value"] - LOG_ML) / row["error"]
        found[step.__name__] = report, score
        print(
            f"  log ML = {row['value']:.3f} ± {row['error']:.3f} nats, exact {LOG_ML}: "
            f"{abs(score):.1f} standard errors away\n"
        )
    Path(folder).mkdir(exist_ok=True)
    picture = bdmc.plot_estimators(results["Uncorrected"], exact=LOG_ML, backend="matplotlib")
    picture.savefig(Path(folder, "step_method_on_trial.png"))
    return found


if __name__ == "__main__":
    main()
