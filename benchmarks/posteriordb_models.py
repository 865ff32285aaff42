"""Posteriors of posteriordb with proper priors, written in PyMC; data and draws lie in shared/data.

Every prior integrates to 1, as in the README there: the orderings, half-normals and half-Cauchys of
the Stan programs are renormalised.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "posteriordb"

LOG_ML = {
    "arK-arK": 58.587594,
    "sblri-blr": -184.773172,
    "diamonds-diamonds": 3190.597294,
    "eight_schools-eight_schools_centered": -31.311347,
    "eight_schools-eight_schools_noncentered": -31.311347,
    "gp_pois_regr-gp_regr": -27.555456,
    "low_dim_gauss_mix-low_dim_gauss_mix": -2114.992,
    "bball_drive_event_0-hmm_drive_0": -1902.2352,
}
"""Known ones, nats."""

Data = dict[str, np.ndarray]


def data_of(name: str) -> Data:
    found = json.loads((FOLDER / name / "data.json").read_text())
    return {key: np.asarray(value) for key, value in found.items()}


def reference_draws(name: str) -> xr.Dataset:
    """4 chains of 1000 independent draws."""
    with np.load(FOLDER / name / "draws.npz") as found:
        return xr.Dataset({
            key: (("chain", "draw", *(f"{key}_dim_{i}" for i in range(value.ndim - 2))),
                  value.astype(float))
            for key, value in found.items()
        })  # fmt: skip


def ar_k(data: Data) -> None:
    y, k = data["y"], int(data["K"])
    alpha, beta = pm.Normal("alpha", 0, 10), pm.Normal("beta", 0, 10, shape=k)
    sigma = pm.HalfCauchy("sigma", 2.5)
    lagged = np.column_stack([y[k - 1 - i : len(y) - 1 - i] for i in range(k)])
    pm.Normal("y", alpha + lagged @ beta, sigma, observed=y[k:])


def arma(data: Data) -> None:
    y = data["y"]
    mu, phi = pm.Normal("mu", 0, 10), pm.Normal("phi", 0, 2)
    theta, sigma = pm.Normal("theta", 0, 2), pm.HalfCauchy("sigma", 2.5)
    left = pt.concatenate([pt.stack([y[0] - mu - phi * mu]), y[1:] - mu - phi * y[:-1]])
    lag = np.subtract.outer(np.arange(len(y)), np.arange(len(y)))
    powers = pt.switch(lag >= 0, (-theta) ** np.maximum(lag, 0), 0.0)
    # The errors are a linear map of y with determinant 1.
    pm.Potential("y", pm.logp(pm.Normal.dist(0, sigma), powers @ left).sum())


def regression(data: Data) -> None:
    beta, sigma = pm.Normal("beta", 0, 10, shape=5), pm.HalfNormal("sigma", 10)
    pm.Normal("y", data["X"] @ beta, sigma, observed=data["y"])


def diamonds(data: Data) -> None:
    x = data["X"][:, 1:] - data["X"][:, 1:].mean(axis=0)
    b, intercept = pm.Normal("b", shape=24), pm.StudentT("Intercept", nu=3, mu=8, sigma=10)
    sigma = pm.HalfStudentT("sigma", nu=3, sigma=10)
    pm.Normal("Y", intercept + x @ b, sigma, observed=data["Y"])


def schools_centered(data: Data) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    theta = pm.Normal("theta", mu, tau, shape=8)
    pm.Normal("y", theta, data["sigma"], observed=data["y"])


def schools_noncentered(data: Data) -> None:
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
    z = pm.Normal("theta_trans", shape=8)
    pm.Normal("y", pm.Deterministic("theta", mu + tau * z), data["sigma"], observed=data["y"])


def _kernel(data: Data, rho, alpha) -> pt.TensorVariable:
    squares = np.subtract.outer(data["x"], data["x"]) ** 2
    return alpha**2 * pt.exp(-squares / (2 * rho**2))


def gp_normal(data: Data) -> None:
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    sigma = pm.HalfNormal("sigma", 1)
    covariance = _kernel(data, rho, alpha) + sigma * np.eye(11)
    pm.MvNormal("y", np.zeros(11), covariance, observed=data["y"])


def gp_poisson(data: Data) -> None:
    rho, alpha = pm.Gamma("rho", 25, 4), pm.HalfNormal("alpha", 2)
    factor = pt.linalg.cholesky(_kernel(data, rho, alpha) + 1e-10 * np.eye(11))
    f = pm.Deterministic("f", factor @ pm.Normal("f_tilde", shape=11))
    pm.Poisson("k", pt.exp(f), observed=data["k"])


def normal_mixture(data: Data) -> None:
    mu = _ordered("mu", [0.0, 0.0], [2.0, 2.0], np.log(0.5), start=[-1.0, 1.0])
    sigma, theta = pm.HalfNormal("sigma", 2, shape=2), pm.Beta("theta", 5, 5)
    pm.NormalMixture("y", pt.stack([theta, 1 - theta]), mu, sigma, observed=data["y"])


def _ordered(name: str, mean: list, sd: list, log_mass: float, lower=None, *, start: list):
    """Two normals restricted to their order, and to be positive, of this prior mass."""

    def draw(mean, sd, lower, rng=None, size=None):
        while True:
            x = rng.normal(mean, sd)
            if x[0] < x[1] and x[0] > lower:
                return x

    def logp(value, mean, sd, lower):
        density = pm.logp(pm.Normal.dist(mean, sd), value).sum(axis=-1) - log_mass
        return pt.switch((value[0] < value[1]) & (value[0] > lower), density, -np.inf)

    order = pm.distributions.transforms.ordered
    if lower is not None:
        order = pm.distributions.transforms.Chain([pm.distributions.transforms.log, order])
    lower = -1e300 if lower is None else lower
    return pm.CustomDist(
        name, np.array(mean), np.array(sd), lower, logp=logp, random=draw,
        signature="(n),(n),()->(n)", transform=order, initval=np.array(start),
    )  # fmt: skip


def _hidden_markov(rows: list, emission: pt.TensorVariable) -> None:
    """Log probability of the emissions, shape (N, 2), over all paths from a uniform start."""
    step = pt.log(pt.stack(rows))
    first = emission[0] - np.log(2.0)
    links = step[None] + emission[1:, None, :]  # from, to
    while (n := links.type.shape[0]) > 1:  # products of neighbours
        even = links[: n // 2 * 2]
        pairs = pt.logsumexp(even[0::2, :, :, None] + even[1::2, None, :, :], axis=2)
        links = pt.concatenate([pairs, links[n - 1 :]]) if n % 2 else pairs
        links = pt.specify_shape(links, ((n + 1) // 2, 2, 2))
    pm.Potential("y", pt.logsumexp(first[:, None] + links[0]))


def drive_0(data: Data) -> None:
    rows = [pm.Dirichlet(f"theta{i + 1}", data["alpha"][i]) for i in range(2)]
    rates = [
        _ordered(name, [0.0, 3.0], [1.0, 1.0], -0.727333, 0.0, start=[0.8, 3.0])
        for name in ("phi", "lambda")
    ]
    emission = sum(
        pm.logp(pm.Exponential.dist(rate[None]), data[series][:, None])
        for rate, series in zip(rates, "uv", strict=True)
    )
    _hidden_markov(rows, pt.specify_shape(emission, (416, 2)))


def drive_1(data: Data) -> None:
    rows = [pm.Dirichlet(f"theta{i + 1}", data["alpha"][i]) for i in range(2)]
    means = [
        _ordered(name, [0.0, 3.0], [1.0, 1.0], -0.017093, start=[0.0, 3.0])
        for name in ("phi", "lambda")
    ]
    emission = sum(
        pm.logp(pm.Normal.dist(mean[None], 0.1), data[series][:, None])
        for mean, series in zip(means, "uv", strict=True)
    )
    _hidden_markov(rows, pt.specify_shape(emission, (416, 2)))


def hmm_example(data: Data) -> None:
    rows = [pm.Dirichlet(f"theta{i + 1}", np.ones(2)) for i in range(2)]
    mu = _ordered("mu", [3.0, 10.0], [1.0, 1.0], -0.001351, 0.0, start=[3.0, 10.0])
    emission = pm.logp(pm.Normal.dist(mu[None], 1.0), data["y"][:, None])
    _hidden_markov(rows, pt.specify_shape(emission, (100, 2)))


WRITTEN: dict[str, Callable[[Data], None]] = {
    "arK-arK": ar_k,
    "arma-arma11": arma,
    "bball_drive_event_0-hmm_drive_0": drive_0,
    "bball_drive_event_1-hmm_drive_1": drive_1,
    "diamonds-diamonds": diamonds,
    "eight_schools-eight_schools_centered": schools_centered,
    "eight_schools-eight_schools_noncentered": schools_noncentered,
    "gp_pois_regr-gp_pois_regr": gp_poisson,
    "gp_pois_regr-gp_regr": gp_normal,
    "hmm_example-hmm_example": hmm_example,
    "low_dim_gauss_mix-low_dim_gauss_mix": normal_mixture,
    "sblrc-blr": regression,
    "sblri-blr": regression,
}
"""The two with ordinary differential equations are not there."""


def make(name: str) -> pm.Model:
    """The model of a posterior, with its data."""
    with pm.Model() as model:
        WRITTEN[name](data_of(name))
    return model
