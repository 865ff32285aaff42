"""Can I trust my posterior?
=========================

Falls in nine wards, and how each ward's rate differs from the common one. PyMC's NUTS has sampled
the posterior, and ADVI has fitted it. One call says that the first can be relied on and the second
cannot. Others say how far draws of an annealed sampler can be trusted, on data like these, also if
the model does not fit, and show an answer that proves nothing. The page docs/trust.md tells more.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

FALLS = np.array([
    [9, 5, 8, 6], [2, 3, 0, 2], [6, 5, 6, 9], [3, 4, 7, 3], [1, 0, 1, 2], [4, 2, 6, 3],
    [11, 14, 9, 8], [3, 2, 2, 5], [5, 1, 4, 4],
])  # fmt: skip


def falls() -> pm.Model:
    with pm.Model(coords={"ward": range(9), "quarter": range(4)}) as model:
        mean, spread = pm.Normal("mean", 1, 1), pm.HalfNormal("spread", 1)
        z = pm.Normal("z", dims="ward")
        rate = pm.Deterministic("rate", pm.math.exp(mean + spread * z), dims="ward")
        pm.Poisson("falls", rate[:, None], observed=FALLS, dims=("ward", "quarter"))
    return model


def pooled() -> pm.Model:
    """The same rates in all wards, which does not fit."""
    with pm.Model(coords={"ward": range(9), "quarter": range(4)}) as model:
        log_rate = pm.Normal("log_rate", 1, 1, dims="quarter")
        pm.Poisson("falls", pm.math.exp(log_rate), observed=FALLS, dims=("ward", "quarter"))
    return model


def judge(folder: str = "output", **options) -> dict:
    """Draws of NUTS and of ADVI, against those of a run."""
    with falls():
        idata = pm.sample(1000, tune=1000, chains=4, random_seed=1, progressbar=False)
        advi = pm.fit(20_000, random_seed=1, progressbar=False).sample(2000, random_seed=1)
        dt = pm.sample_bdmc(simulate=None, path="prior", chains=64, random_seed=1, **options)
        found = {name: bdmc.agreement(dt, each) for name, each in (("NUTS", idata), ("ADVI", advi))}
    for name, each in found.items():
        print(f"\n{name}\n\n{each}")
    Path(folder).mkdir(exist_ok=True)
    bdmc.plot_agreement(dt, advi, backend="matplotlib")
    plt.savefig(Path(folder, "trust_agreement.png"))
    return found


def main(folder: str = "output", datasets: int = 20, **options) -> dict:
    judge(folder, **options)
    simulate = bdmc.FromHyperparameters(datasets=datasets)
    with falls():
        good = pm.sample_bdmc(
            temperatures=[10, 30, 100], chains=16, path="prior", simulate=simulate, random_seed=1,
            **options,
        )  # fmt: skip
        bad = pm.sample_bdmc(
            step="metropolis", particles=1, temperatures=30, path="prior", simulate=simulate,
            random_seed=1, **options,
        )  # fmt: skip
    misfit = pm.sample_bdmc(
        pooled(), simulate=bdmc.FromPosterior(datasets=datasets), random_seed=1, **options
    )
    results = {"HMC": good, "a few steps of Metropolis": bad, "a model that does not fit": misfit}
    for name, dt in results.items():
        print(f"\n{name}\n\n{bdmc.verdict(dt)}")
    Path(folder).mkdir(exist_ok=True)
    bdmc.plot_sandwich(good, backend="matplotlib")
    plt.savefig(Path(folder, "trust_sandwich.png"))
    bdmc.plot_consistency(good, backend="matplotlib")
    plt.savefig(Path(folder, "trust_consistency.png"))
    return results


if __name__ == "__main__":
    main()
