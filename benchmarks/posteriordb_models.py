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
from pytensor import scan

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "posteriordb"

LOG_ML = {
    "arK-arK": 58.587594,
    "sblri-blr": -184.773172,
    "diamonds-diamonds": 3190.597294,
    "eight_schools-eight_schools_centered": -31.311347,
    "eight_schools-eight_schools_noncentered": -31.311347,
    "gp_pois_regr-gp_regr": -27.555456,
    "hudson_lynx_hare-lotka_volterra": -146.6831,
    "low_dim_gauss_mix-low_dim_gauss_mix": -2114.992,
    "bball_drive_event_0-hmm_drive_0": -1902.2352,
}
"""Known ones, nats."""
ORDERED = {
    "bball_drive_event_0-hmm_drive_0": ("phi", "lambda"),
    "bball_drive_event_1-hmm_drive_1": ("phi", "lambda"),
    "hmm_example-hmm_example": ("mu",),
    "low_dim_gauss_mix-low_dim_gauss_mix": ("mu",),
}
"""Pairs of which the first is the lower one."""

Data = dict[str, np.ndarray]


def data_of(name: str) -> Data:
    found = json.loads((FOLDER / name / "data.json").read_text())
    return {key: np.asarray(value) for key, value in found.items()}


def reference_draws(name: str) -> xr.Dataset:
    """4 chains of 1000 independent draws; pairs that are ordered come as two variables."""
    draws = {}
    with np.load(FOLDER / name / "draws.npz") as found:
        for key, value in found.items():
            if key in ORDERED.get(name, ()):
                draws |= {f"{key}_low": value[..., 0], f"{key}_high": value[..., 1]}
            else:
                draws[key] = value
    return xr.Dataset({
        key: (("chain", "draw", *(f"{key}_dim_{i}" for i in range(value.ndim - 2))),
              value.astype(float))
        for key, value in draws.items()
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
    errors = scan(
        lambda left, error, theta: left - theta * error, sequences=left,
        outputs_info=pt.zeros((), dtype="float64"), non_sequences=theta, return_updates=False,
    )  # fmt: skip
    # The errors are a linear map of y with determinant 1.
    pm.Potential("y", pm.logp(pm.Normal.dist(0, sigma), errors).sum())


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
    mu = _ordered("mu", (0, 0), 2, log_mass=np.log(0.5))
    sigma, theta = pm.HalfNormal("sigma", 2, shape=2), pm.Beta("theta", 5, 5)
    pm.NormalMixture("y", pt.stack([theta, 1 - theta]), mu, sigma, observed=data["y"])


def _ordered(name: str, means: tuple, sd: float, log_mass: float, above: float | None = None):
    """Two normals restricted to their order and to what is above; that has this prior mass.

    The second is truncated at the first, so a Potential puts back what the truncations divide by.
    """
    if above is None:
        low, masses = pm.Normal(f"{name}_low", means[0], sd), 0.0
    else:
        low = pm.TruncatedNormal(f"{name}_low", means[0], sd, lower=above)
        masses = pm.logcdf(pm.Normal.dist(), (means[0] - above) / sd)
    high = pm.TruncatedNormal(f"{name}_high", means[1], sd, lower=low)
    masses += pm.logcdf(pm.Normal.dist(), (means[1] - low) / sd)
    pm.Potential(f"{name}_order", masses - log_mass)
    return pt.stack([low, high])


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
    rates = [_ordered(name, (0, 3), 1, log_mass=-0.727333, above=0) for name in ("phi", "lambda")]
    emission = sum(
        pm.logp(pm.Exponential.dist(rate[None]), data[series][:, None])
        for rate, series in zip(rates, "uv", strict=True)
    )
    _hidden_markov(rows, pt.specify_shape(emission, (416, 2)))


def drive_1(data: Data) -> None:
    rows = [pm.Dirichlet(f"theta{i + 1}", data["alpha"][i]) for i in range(2)]
    means = [_ordered(name, (0, 3), 1, log_mass=-0.017093) for name in ("phi", "lambda")]
    emission = sum(
        pm.logp(pm.Normal.dist(mean[None], 0.1), data[series][:, None])
        for mean, series in zip(means, "uv", strict=True)
    )
    _hidden_markov(rows, pt.specify_shape(emission, (416, 2)))


def hmm_example(data: Data) -> None:
    rows = [pm.Dirichlet(f"theta{i + 1}", np.ones(2)) for i in range(2)]
    mu = _ordered("mu", (3, 10), 1, log_mass=-0.001351, above=0)
    emission = pm.logp(pm.Normal.dist(mu[None], 1.0), data["y"][:, None])
    _hidden_markov(rows, pt.specify_shape(emission, (100, 2)))


def lotka_volterra(data: Data) -> None:
    """Runge-Kutta of fourth order in log populations, 10 steps a year: right to 0.0002 nats."""
    means, sds = np.array([1, 0.05, 1, 0.05]), np.array([0.5, 0.05, 0.5, 0.05])
    theta = pm.TruncatedNormal("theta", means, sds, lower=0, shape=4)
    start = pm.LogNormal("z_init", np.log(10), 1, shape=2)
    sigma = pm.LogNormal("sigma", -1, 1, shape=2)
    step = 1 / 10

    def slope(u, v, theta):  # a population of e^12 is none that the data know
        return (
            theta[0] - theta[1] * pt.exp(pt.minimum(v, 12.0)),
            theta[3] * pt.exp(pt.minimum(u, 12.0)) - theta[2],
        )

    def advance(u, v, theta):
        a = slope(u, v, theta)
        b = slope(u + step / 2 * a[0], v + step / 2 * a[1], theta)
        c = slope(u + step / 2 * b[0], v + step / 2 * b[1], theta)
        d = slope(u + step * c[0], v + step * c[1], theta)
        slopes = [(i + 2 * j + 2 * k + m) / 6 for i, j, k, m in zip(a, b, c, d, strict=True)]
        return u + step * slopes[0], v + step * slopes[1]

    log_start = pt.log(start)
    logs = scan(
        advance, outputs_info=[log_start[0], log_start[1]], non_sequences=[theta],
        n_steps=10 * len(data["ts"]), return_updates=False,
    )  # fmt: skip
    yearly = pt.stack(logs, axis=1)[9::10]
    pm.LogNormal("y_init", log_start, sigma, observed=data["y_init"])
    pm.LogNormal("y", yearly, sigma, observed=data["y"])


def michaelis_menten(data: Data) -> None:
    """Exponential midpoint steps, 10 in half an hour: stable, and positive, however stiff."""
    k_a, k_m, v_m, sigma = (pm.HalfCauchy(name, 1) for name in ("k_a", "K_m", "V_m", "sigma"))
    dose, volume = data["D"] / data["V"], data["V"]
    step = data["times"][0] / 10
    times = step * np.arange(10 * len(data["times"]) + 1)
    left = dose * pt.exp(-k_a * times)

    def advance(first, second, c, k_m, v_m):
        def moved(c, rate, gain, length):
            lost = rate * length
            return c * pt.exp(-lost) - gain * pt.expm1(-lost) / lost

        middle = moved(c, v_m / volume / (k_m + c), first, step / 2)
        return moved(c, v_m / volume / (k_m + middle), first + second, step)

    halves = dose * pt.exp(-k_a * (times[:-1] + step / 2))
    amounts = scan(
        advance, sequences=[left[:-1] - halves, halves - left[1:]],
        outputs_info=[pt.zeros((), dtype="float64")], non_sequences=[k_m, v_m],
        return_updates=False,
    )  # fmt: skip
    pm.LogNormal("C_hat", pt.log(amounts[9::10]), sigma, observed=data["C_hat"])


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
    "hudson_lynx_hare-lotka_volterra": lotka_volterra,
    "low_dim_gauss_mix-low_dim_gauss_mix": normal_mixture,
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": michaelis_menten,
    "sblrc-blr": regression,
    "sblri-blr": regression,
}


def make(name: str) -> pm.Model:
    """The model of a posterior, with its data."""
    with pm.Model() as model:
        WRITTEN[name](data_of(name))
    return model
