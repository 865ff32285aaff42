"""A kernel of another library on trial
=====================================

HMC of BlackJAX on a log density written by hand, as its users write them.

The density must be that of log σ, since that is where the kernel moves: with the Jacobian of the
change from σ. `without_jacobian` forgets it. Its chains look as good as the others, and a check
refutes them. Needs ``pip install blackjax``.
"""

from pathlib import Path

import blackjax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from jax.scipy.stats import norm

import pymc_bdmc as bdmc

jax.config.update("jax_enable_x64", True)


def build() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=[1.2, 0.4, 1.9])
    return model


def without_jacobian(point, y):
    sigma = jnp.exp(point["sigma_log__"])
    return norm.logpdf(point["mu"]) + norm.logpdf(sigma) + norm.logpdf(y, point["mu"], sigma).sum()


def log_density(point, y):
    return without_jacobian(point, y) + point["sigma_log__"]


def hmc_on(log_density):
    """A step of HMC as the checks take it: from a point to the next, on the data of the moment."""

    @jax.jit
    def step(key, point, y):
        kernel = blackjax.hmc(
            lambda point: log_density(point, y),
            step_size=0.3, inverse_mass_matrix=jnp.ones(2), num_integration_steps=5,
        )  # fmt: skip
        return kernel.step(key, kernel.init(point))[0].position

    def transition(point, target, rng):
        found = step(jax.random.key(rng.integers(2**32)), dict(point), target.data["y"])
        return {name: np.asarray(value) for name, value in found.items()}

    transition.__name__ = f"HMC on {log_density.__name__}"
    return transition


def main(budget: int = 20_000, folder: str = "output") -> list[bdmc.testing.Report]:
    reports = []
    for density in (log_density, without_jacobian):
        reports.append(
            bdmc.testing.check_invariance(hmc_on(density), build(), budget=budget, random_seed=1)
        )
        print(reports[-1], end="\n\n")
    Path(folder).mkdir(exist_ok=True)
    names = ["with Jacobian", "without Jacobian"]
    _, axes = plt.subplots(figsize=(6, 2.5), layout="constrained")
    axes.barh(names, [np.log10(report.evidence) for report in reports])
    axes.axvline(-np.log10(reports[0].alpha), color="k", linestyle=":")
    axes.set_xlabel("log10 of the e-value; from the dotted line on the check fails")
    plt.savefig(Path(folder, "blackjax_on_trial.png"))
    return reports


if __name__ == "__main__":
    main()
