"""A proposal: where a result holds its log marginal likelihood, for any library to write and read.

Now `pm.sample_smc` writes a value a chain, without an error or units, and each reader averages them
in a way of its own. Below, three attributes of the root are enough for a Bayes factor with an
error, and no reader needs to know which library wrote them.
"""

import logging

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

import pymc_bdmc  # noqa: F401, makes pm.sample_bdmc available

logging.disable()
OPTIONS = dict(random_seed=1, cores=1, progressbar=False)


Y = np.array([1.2, 0.4, 0.9])


def model(width: float) -> pm.Model:
    """Return y ~ N(mean, 1) with mean ~ N(0, width²)."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, width), 1, observed=Y)
    return model


def exact(width: float) -> float:
    """Return log ML of this model."""
    covariance = np.eye(3) + width**2
    square = Y @ np.linalg.solve(covariance, Y)
    return -0.5 * (3 * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + square)


def log_bayes_factor(a: xr.DataTree, b: xr.DataTree) -> tuple[float, float]:
    """Return the value and its standard error, from attributes alone."""
    errors = [dt.attrs["log_ml_error"] for dt in (a, b)]
    return a.attrs["log_ml"] - b.attrs["log_ml"], float(np.hypot(*errors))


smc = pm.sample_smc(model=model(1), draws=500, chains=4, **OPTIONS)
bdmc = pm.sample_bdmc(model(10), simulate=None, **OPTIONS)
written = smc["sample_stats"]["log_marginal_likelihood"]
# The last of the values at all temperatures is that of the posterior.
by_chain = np.array([np.ravel(each)[-1] for each in written.values], dtype=float)
smc.attrs |= {
    "log_ml": float(by_chain.mean()),
    "log_ml_error": float(by_chain.std(ddof=1) / np.sqrt(by_chain.size)),
    "log_ml_units": "nats",
}
value, error = log_bayes_factor(smc, bdmc)

print("PyMC", pm.__version__, "ArviZ", az.__version__)
print("what sample_smc writes    ", written.dims, written.dtype, len(np.ravel(written.values[0])))
print("what sample_bdmc writes   ", *[name for name in bdmc.attrs if name.startswith("log_ml")])
print("log Bayes factor, exact   ", round(exact(1) - exact(10), 3))
print("from attributes of the two", f"{value:.3f} ± {error:.3f}")
