"""How often the rank test of `consistency` flags models that are right, and models that are wrong.

    python benchmarks/consistency.py

The models are conjugate, so that the kernels can be perfect, every state a fresh draw at its
temperature, and thousands of data sets take minutes.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr
from common import shown
from scipy.special import gammaln

from pymc_bdmc.base.schedules import thermodynamic_length
from pymc_bdmc.estimators import rank_among
from pymc_bdmc.results.consistency import ALPHA, features_of, forward_ladder, side_of

REPLICATES = 100
N = 200
"""Observations."""
CHAINS = 8
DATASETS = 19
BETAS = np.linspace(0, 1, 11) ** 4


class Linear:
    """y = a + b x + noise of unknown scale: σ² ~ InverseGamma(2, 1), coefficients N(0, 4 σ²)."""

    def __init__(self, covariates: int = 1):
        x = np.random.default_rng(1).normal(size=(N, covariates))
        self.columns = np.concatenate([np.ones((N, 1)), x], axis=1)

    def parameters(self, rng, beta=0.0, y=None, size=1):
        """Draws (σ², a, b) from prior times likelihood to the power of β."""
        y, n = np.zeros(N) if y is None else y, self.columns.shape[1]
        precision = np.eye(n) / 4 + beta * self.columns.T @ self.columns
        mean = np.linalg.solve(precision, beta * self.columns.T @ y)
        rate = 1 + (beta * y @ y - mean @ precision @ mean) / 2
        variance = rate / rng.gamma(2 + beta * N / 2, size=size)
        noise = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=(n, size)))
        return np.vstack([variance, mean[:, None] + np.sqrt(variance) * noise])

    def simulate(self, rng, parameters):
        """Observations given one draw of the parameters."""
        variance, *coefficients = parameters
        return self.columns @ np.array(coefficients) + np.sqrt(variance) * rng.normal(size=N)

    def log_likelihood(self, y, parameters):
        """Of every draw, nats."""
        variance, *coefficients = parameters
        squares = np.sum((y[:, None] - self.columns @ np.array(coefficients)) ** 2, axis=0)
        return -0.5 * squares / variance - N / 2 * np.log(2 * np.pi * variance)


class Counts:
    """Poisson counts of groups, each with its own rate, Gamma(2, 1)."""

    def __init__(self, groups: int = 1):
        self.groups = groups

    def parameters(self, rng, beta=0.0, y=None, size=1):
        """Draws of the rates from prior times likelihood to the power of β."""
        totals = np.zeros(self.groups) if y is None else beta * self._totals(y)
        return rng.gamma(
            2 + totals[:, None], 1 / (1 + beta * N / self.groups), size=(self.groups, size)
        )

    def _totals(self, y):
        return y.reshape(self.groups, -1).sum(axis=1)

    def simulate(self, rng, parameters):
        """Counts given one draw of the rates."""
        return rng.poisson(np.repeat(parameters, N // self.groups)).astype(float)

    def log_likelihood(self, y, parameters):
        """Of every draw, nats."""
        log_rates = self._totals(y) @ np.log(parameters)
        return log_rates - N / self.groups * parameters.sum(axis=0) - gammaln(y + 1).sum()


def forward_runs(model, y: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Log weights of the runs on y, and the thermodynamic length."""
    path = np.array([
        model.log_likelihood(y, model.parameters(rng, beta, y, CHAINS)) for beta in BETAS
    ])  # fmt: skip
    return np.diff(BETAS) @ path[:-1], thermodynamic_length(BETAS, path.mean(axis=1))


def result(model, y: np.ndarray, held: bool, rng: np.random.Generator):
    """What `sample_bdmc` would return of the forward runs."""
    sets = [y]
    for _ in range(DATASETS):
        parameters = model.parameters(rng, float(held), y)[:, 0]
        sets.append(model.simulate(rng, parameters))
    weights, lengths = map(np.array, zip(*(forward_runs(model, y, rng) for y in sets), strict=True))
    runs = xr.Dataset(
        {
            "log_weight": (("dataset", "chain"), weights),
            "prior_draws": (("dataset", "chain"), np.ones_like(weights)),
            "thermodynamic_length": ("dataset", lengths),
            "y": (("dataset", "place"), np.array(sets)),
        },
        {"beta": BETAS},
    )
    real, simulated = runs.isel(dataset=0), runs.isel(dataset=slice(1, None))
    groups = {"real": real.drop_vars("y"), "forward": simulated.drop_vars("y")}
    return xr.DataTree.from_dict(
        groups | {"observed_data": real[["y"]], "simulated": simulated[["y"]]}
    )


def normal(model, rng, missing=0.0):
    return 1 + 0.5 * model.columns[:, 1] + missing * rng.normal(size=N) + rng.normal(size=N)


def fat_tailed(model, rng, degrees_of_freedom):
    return 1 + 0.5 * model.columns[:, 1] + rng.standard_t(degrees_of_freedom, size=N)


def counts(model, rng, missing=0.0):
    return rng.poisson(3 * np.exp(missing * rng.normal(size=N))).astype(float)


def from_prior(model, rng):
    return model.simulate(rng, model.parameters(rng)[:, 0])


SCENARIOS: dict[str, tuple[Callable, Callable, bool]] = {
    "normal, right": (Linear, normal, True),
    "normal, right, data sets from the prior": (Linear, from_prior, False),
    "normal, but noise is t₃": (Linear, partial(fat_tailed, degrees_of_freedom=3), True),
    "normal, but noise is t₂": (Linear, partial(fat_tailed, degrees_of_freedom=2), True),
    "normal, a normal covariate is missing": (Linear, partial(normal, missing=1.0), True),
    "normal, right, 40 covariates": (partial(Linear, 40), normal, True),
    "counts, right": (Counts, counts, True),
    "counts, right, 40 rates": (partial(Counts, 40), counts, True),
    "counts, right, data sets from the prior": (Counts, from_prior, False),
    "counts, a covariate is missing": (Counts, partial(counts, missing=0.5), True),
}
"""Name: the model, the real data, and whether parameters are held at draws from the posterior."""


def flagged(name: str, seed: int) -> bool:
    kind, data, held = SCENARIOS[name]
    rng = np.random.default_rng([seed, DATASETS])
    model = kind()
    dt = result(model, data(model, rng), held, rng)
    _, real, simulated, finished = forward_ladder(dt)
    sets = np.concatenate([real[None], simulated])
    features = features_of(dt, sets, finished)  # without the bootstrap that `consistency` needs
    fitted = model.parameters(rng).size if held else 0
    sides = [side_of(feature, fitted, N) for feature in features]
    return rank_among(np.stack(list(features.values()), axis=1), sides).p_value <= ALPHA


def main() -> None:
    """Print how many replicates of each are flagged."""
    print(
        f"Of {REPLICATES} replicates those with p ≤ {ALPHA} in the row `model`: {N} observations, "
        f"{DATASETS} data sets, {CHAINS} runs of perfect kernels on each"
    )
    for name in SCENARIOS:
        shown([name, sum(flagged(name, seed) for seed in range(REPLICATES))])


if __name__ == "__main__":
    main()
