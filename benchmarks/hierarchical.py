"""Hierarchical models as people fit them, and what a call without options makes of each.

Run as ``python benchmarks/hierarchical.py [--docs] [model ...]``; half an hour. With ``--docs`` the
table goes to docs/performance.md. Data are made here, from fixed seeds.
"""

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pymc as pm
import xarray as xr
from common import publish, shown, table

import pymc_bdmc as bdmc

SEEDS = range(1, 5)


def varying_intercepts(centred: bool = True) -> pm.Model:
    """919 houses in 85 counties of unequal size, as in the radon study."""
    rng = np.random.default_rng(1)
    county = np.concatenate([np.arange(85), rng.choice(85, 834, p=rng.dirichlet(np.full(85, 0.7)))])
    floor = rng.random(919) < 0.17
    y = rng.normal(1.5, 0.3, 85)[county] - 0.7 * floor + rng.normal(0, 0.75, 919)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        spread = pm.HalfNormal("spread", 1)
        if centred:
            intercept = pm.Normal("intercept", mean, spread, shape=85)
        else:
            intercept = mean + spread * pm.Normal("z", shape=85)
        slope = pm.Normal("slope", 0, 1)
        noise = pm.HalfNormal("noise", 1)
        pm.Normal("y", intercept[county] + slope * floor, noise, observed=y)
    return model


def horseshoe(centred: bool = True) -> pm.Model:
    """Ten slopes, two of which are not 0, from 50 observations."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(50, 10))
    y = x[:, 0] - 2 * x[:, 1] + rng.normal(size=50)
    with pm.Model() as model:
        overall = pm.HalfCauchy("overall", 0.1)
        local = pm.HalfCauchy("local", 1, shape=10)
        if centred:
            slope = pm.Normal("slope", 0, overall * local, shape=10)
        else:
            slope = overall * local * pm.Normal("z", shape=10)
        noise = pm.HalfNormal("noise", 1)
        pm.Normal("y", x @ slope, noise, observed=y)
    return model


def varying_slopes() -> pm.Model:
    """Reaction times of 18 people on 10 days; intercepts and slopes are correlated."""
    rng = np.random.default_rng(4)
    person, day = np.repeat(np.arange(18), 10), np.tile(np.linspace(-1, 1, 10), 18)
    covariance = [[0.25, 0.08], [0.08, 0.1]]
    intercept, slope = rng.multivariate_normal([3.0, 0.5], covariance, 18, method="cholesky").T
    y = intercept[person] + slope[person] * day + rng.normal(0, 0.25, 180)
    with pm.Model() as model:
        mean = pm.Normal("mean", [3, 0], 1, shape=2)
        sd = pm.HalfNormal.dist(1, shape=2)
        factor, *_ = pm.LKJCholeskyCov("factor", eta=2, n=2, sd_dist=sd)
        effects = mean + pm.Normal("z", shape=(18, 2)) @ factor.T
        noise = pm.HalfNormal("noise", 1)
        pm.Normal("y", effects[person, 0] + effects[person, 1] * day, noise, observed=y)
    return model


def stochastic_volatility(centred: bool = True) -> pm.Model:
    """300 daily returns, heavy-tailed, whose log volatility is a random walk."""
    rng = np.random.default_rng(5)
    log_volatility = -4.5 + np.cumsum(rng.normal(0, 0.1, 300))
    y = np.exp(log_volatility) * rng.standard_t(8, 300)
    with pm.Model() as model:
        step = pm.Exponential("step", 10)
        if centred:
            start = pm.Normal.dist(-4, 1)
            walk = pm.GaussianRandomWalk("walk", sigma=step, init_dist=start, shape=300)
        else:
            start = pm.Normal("start", -4, 1)
            walk = start + step * pm.math.cumsum(pm.Normal("z", shape=300))
        freedom = pm.Exponential("freedom", 0.1)
        pm.StudentT("y", freedom, sigma=pm.math.exp(walk), observed=y)
    return model


def gaussian_process() -> pm.Model:
    """60 counts at places on a line, whose log rate is a Gaussian process."""
    rng = np.random.default_rng(6)
    place = np.sort(rng.uniform(0, 10, 60))
    y = rng.poisson(np.exp(1 + np.sin(place)))
    with pm.Model() as model:
        length, size = pm.Gamma("length", 2, 1), pm.HalfNormal("size", 1)
        process = pm.gp.Latent(cov_func=size**2 * pm.gp.cov.Matern52(1, length))
        pm.Poisson("y", pm.math.exp(1 + process.prior("log_rate", place[:, None])), observed=y)
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "varying intercepts, centred": varying_intercepts,
    "varying intercepts, non-centred": lambda: varying_intercepts(centred=False),
    "horseshoe, centred": horseshoe,
    "horseshoe, non-centred": lambda: horseshoe(centred=False),
    "varying slopes": varying_slopes,
    "stochastic volatility, centred": stochastic_volatility,
    "stochastic volatility, non-centred": lambda: stochastic_volatility(centred=False),
    "Gaussian process": gaussian_process,
}


def sample(model: pm.Model, seed: int) -> tuple[xr.DataTree, float]:
    """The result, with the CPU seconds that it took."""
    started = time.process_time()
    dt = pm.sample_bdmc(model, random_seed=seed, progressbar=False)
    return dt, time.process_time() - started


def row(name: str) -> list:
    """One line of the table, over the seeds."""
    model = MODELS[name]()
    # Fills the caches.
    pm.sample_bdmc(model, temperatures=3, chains=2, simulate=None, random_seed=0, progressbar=False)
    results, cpu = zip(*(sample(model, seed) for seed in SEEDS), strict=True)
    gaps = [bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"] for dt in results]
    evidence = [bdmc.evidence(dt).query("data == 'real'").iloc[0] for dt in results]
    values, errors = (np.array([each[c] for each in evidence]) for c in ("value", "error"))
    valid = np.array([each["valid"] for each in evidence], bool)
    paths = Counter(dt.attrs["path"] for dt in results)
    for dt in results:
        print(name, dt.attrs["path_reason"], *bdmc.diagnose(dt), sep="\n  ", flush=True)
    return shown([
        name,
        ", ".join(f"{path} {n}" for path, n in paths.items()),
        ", ".join(f"{gap:.2f}" for gap in gaps),
        f"{np.median(values):.3f}",
        f"{values.std(ddof=1):.3f}",
        f"{np.median(errors):.3f}" if valid.any() else "none",
        np.sum(~valid),
        f"{np.median(cpu):.1f}",
    ])  # fmt: skip


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    names = [each for each in sys.argv[1:] if each in MODELS] or MODELS
    publish(
        "Hierarchical models",
        f"Default calls with {len(SEEDS)} seeds on models of groups, series and processes. *Path* "
        "is the number of seeds for which each path was chosen. *Gaps* are those of the simulated "
        "data, one a seed. Log ML, its stated error and CPU seconds, without compilation, are "
        "medians over seeds; *spread* is the standard deviation of log ML over seeds. *Not valid* "
        "counts the seeds whose estimate says so.",
        table(
            ["model", "path", "gaps, nats", "log ML", "spread", "stated error",
             "not valid", "CPU s"],
            [row(name) for name in names],
        ),
    )  # fmt: skip


if __name__ == "__main__":
    main()
