"""Hard public targets in PyMC: four regressions, a Cox process, and planets in radial velocities.

The data are not part of the project. They lie in shared/data beside the checkout, whose READMEs say
where they come from. Every prior is the published one. Where a model is written in two ways, both
have the same distribution of the observations and so the same log ML.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify
from pytensor.scalar.basic import BinaryScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise
from scipy.special import gammaln

FOLDER = Path(__file__).parents[2] / "shared" / "data"
INSTRUMENTS = ("FEROS", "HARPS", "CORALIE14", "CORALIE07")
E_SD, LOG_K, LOG_JITTER = 0.2, np.log(1000), np.log(100)
"""Priors of EPRV3: the Rayleigh scale of eccentricities, and the largest logarithms of 1 m/s plus
an amplitude or a jitter."""
PERIODS = (1.25, 1e4)
Windows = tuple[tuple[float, float], ...]
"""Shortest and longest period of each planet, in days."""
Form = str | Windows
"""How the model is written: by name, or, of planets, "smooth" with such windows."""
FLAT = 1000.0
"""Standard deviation of the prior that stands for a flat one."""


def columns(name: str) -> np.ndarray:
    """The columns of a CSV file, each an element of the structured array."""
    path = FOLDER / "hard" / f"{name}.csv"
    return np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")


def features(data: np.ndarray, centred: bool = True) -> np.ndarray:
    """A column of ones, and the covariates in units of their standard deviations."""
    x = np.column_stack([data[name] for name in data.dtype.names if name.startswith("x")])
    sd = x.std(axis=0)
    x = (x - centred * x.mean(axis=0)) / np.where(sd == 0, 1.0, sd)
    return np.column_stack([np.ones(len(x)), x])


def seeds(form: str = "published") -> pm.Model:
    """Crowder (1978): germination on 21 plates, with an effect of each plate.

    "published": the precision is a Gamma variable, most of whose draws are too small for floating
    point. "log precision": its logarithm is that of a Gamma variable of shape 1 + a plus 1/a times
    that of a uniform one (Marsaglia and Tsang 2000), and the effects are non-centred. A deviation
    above e²⁰⁰ leaves no likelihood, so it is cut off there.
    """
    data, a = columns("seeds"), 0.01
    x1, x2 = data["x1"], data["x2"]
    covariates = np.column_stack([np.ones(len(data)), x1, x2, x1 * x2])
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 10, shape=4)
        if form == "published":
            tau = pm.Gamma("tau", a, a)
            effect = pm.Normal("effect", 0, 1 / pm.math.sqrt(tau), shape=len(data))
        else:
            gamma = pm.Gamma("gamma", 1 + a, a)
            log_tau = pm.math.log(gamma) - pm.Exponential("minus_log_uniform", 1) / a
            scale = pm.math.exp(pt.minimum(-log_tau / 2, 200.0))
            effect = scale * pm.Normal("z", shape=len(data))
        logit = covariates @ weights + effect
        pm.Binomial("r", data["n"].astype(int), logit_p=logit, observed=data["r"].astype(int))
    return model


def logistic(name: str, sd: float, centred: bool = True) -> pm.Model:
    """Logistic regression with weights ~ N(0, sd²); the labels are 0 and 1, or -1 and 1."""
    data = columns(name)
    x, y = features(data, centred), (data["y"] > 0).astype(int)
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, sd, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ weights, observed=y)
    return model


def sonar_uci() -> pm.Model:
    """Dau and Chopin (2022): the sonar data scaled to deviations of 1/2, priors of 5 and 20."""
    data = columns("sonar_uci")
    x = features(data)
    x[:, 1:] /= 2
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, np.r_[20.0, np.full(x.shape[1] - 1, 5.0)])
        pm.Bernoulli("y", logit_p=x @ weights, observed=data["rock"].astype(int))
    return model


def pines(form: str = "published") -> pm.Model:
    """Møller, Syversveen and Waagepetersen (1998): 126 pine saplings in 40 × 40 cells.

    The log intensity is a normal process; in the form "whitened" its 1600 values are a matrix times
    independent ones.
    """
    data, side = columns("pines"), 40
    cells = np.minimum((np.column_stack([data["x"], data["y"]]) * side).astype(int), side - 1)
    counts = np.zeros((side, side), int)
    np.add.at(counts, tuple(cells.T), 1)
    grid = np.argwhere(np.ones((side, side)))
    distances = np.sqrt(((grid[:, None] - grid) ** 2).sum(axis=-1))
    covariance = 1.91 * np.exp(-33 * distances / side)
    mean = np.log(len(data)) - 1.91 / 2
    root = np.linalg.cholesky(covariance)
    with pm.Model() as model:
        if form == "published":
            field = pm.MvNormal("field", np.full(side**2, mean), chol=root)
        else:
            field = mean + pt.dot(root, pm.Normal("z", shape=side**2))
        pm.Poisson("counts", pm.math.exp(field) / side**2, observed=counts.ravel())
    return model


PINES_CONSTANT = 941.2112
"""To log ML with all the terms of the Poisson distribution: what is left out where published."""


def solve_kepler(mean: float, eccentricity: float) -> float:
    """Solve M = E - e sin E for E, with M taken to between -π and π, by Halley's method."""
    mean = (mean + np.pi) % (2 * np.pi) - np.pi
    anomaly = mean + 0.85 * eccentricity * np.sign(mean)
    for _ in range(5):
        sine = eccentricity * np.sin(anomaly)
        slope = 1 - eccentricity * np.cos(anomaly)
        error = anomaly - sine - mean
        anomaly -= error * slope / (slope**2 - 0.5 * error * sine)
    return anomaly


class EccentricAnomaly(BinaryScalarOp):
    """`solve_kepler` as one operation, since PyTensor compiles its steps for minutes."""

    def impl(self, mean, eccentricity):
        """Solve without compilation."""
        return solve_kepler(mean, eccentricity)

    def pullback(self, inputs, outputs, gradients):
        """Differentiate Kepler's equation."""
        mean, eccentricity = inputs
        anomaly = self(mean, eccentricity)
        by_mean = gradients[0] / (1 - eccentricity * pytensor.scalar.cos(anomaly))
        return [by_mean, by_mean * pytensor.scalar.sin(anomaly)]


@register_scalar_funcify(EccentricAnomaly)
def compile_kepler(op, node, **kwargs):
    """Compile with numba; the second element is the key of PyTensor's cache."""
    return numba_njit(solve_kepler), "EccentricAnomaly 1"


eccentric_anomaly = Elemwise(EccentricAnomaly(upgrade_to_float, name="eccentric_anomaly"))


def keplerian(times, log_period, amplitude, eccentricity, omega, longitude):
    """Radial velocity K (cos(ω + ν) + e cos ω); the longitude is ω + M at day 300."""
    mean = 2 * np.pi * (times - 300) / pt.exp(log_period) + longitude - omega
    anomaly = eccentric_anomaly(mean, eccentricity)
    cos, sin = pt.cos(anomaly), pt.sin(anomaly)
    ellipse = pt.sqrt(1 - eccentricity**2)
    along = (cos - eccentricity) / (1 - eccentricity * cos) + eccentricity  # cos ν + e
    across = ellipse * sin / (1 - eccentricity * cos)
    return amplitude * (along * pt.cos(omega) - across * pt.sin(omega))


def squared(z):
    """Squared length of pairs of standard normal variables, bounded away from 0 for gradients."""
    return pt.sum(z**2, axis=0) + 1e-12


def orbits(planets: int, form: Form) -> list:
    """Elements of all orbits, columns: log P, K, e, ω and ω + M.

    "published": one variable for each, the angles uniform. Else a pair of normal variables gives K
    and ω + M, and another e and ω. The angle of a pair is uniform and independent of its length,
    which the inverse of a distribution function takes to K or e. The periods of each planet are
    from a window of its own.
    """
    shortest, longest = np.log(windows_of(planets, form)).T
    log_period = pm.Uniform("log_period", shortest, longest, shape=planets)
    if form == "published":
        amplitude = pm.math.exp(pm.Uniform("log1p_amplitude", 0, LOG_K, shape=planets)) - 1
        rayleigh = pm.Weibull.dist(2, E_SD * np.sqrt(2))
        eccentricity = pm.Truncated("eccentricity", rayleigh, upper=1, shape=planets)
        omega = pm.Uniform("omega", 0, 2 * np.pi, shape=planets)
        longitude = omega + pm.Uniform("mean_anomaly", 0, 2 * np.pi, shape=planets)
    else:
        wave = pm.Normal("wave", shape=(2, planets))
        amplitude = pt.expm1(-LOG_K * pt.expm1(-squared(wave) / 2))
        longitude = pt.arctan2(wave[1], wave[0])
        shape = pm.Normal("shape", shape=(2, planets))
        below_1 = -np.expm1(-0.5 / E_SD**2)
        e2 = -2 * E_SD**2 * pt.log1p(below_1 * pt.expm1(-squared(shape) / 2))
        eccentricity = pt.sqrt(e2)
        omega = pt.arctan2(shape[1], shape[0])
    return [each[:, None] for each in (log_period, amplitude, eccentricity, omega, longitude)]


def windows_of(planets: int, form: Form) -> Windows:
    """Shortest and longest period of each planet."""
    return (PERIODS,) * planets if isinstance(form, str) else form


def from_windows(windows: Windows) -> float:
    """To log ML with a window for each planet, whose prior probability it brings in.

    It is the logarithm of that probability and of the number of ways to number the planets.
    """
    shares = [np.log(longest / shortest) for shortest, longest in windows]
    return np.sum(np.log(shares / np.log(PERIODS[1] / PERIODS[0]))) + gammaln(len(windows) + 1)


def velocities_of(dataset: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, velocities and the known covariance of their noise."""
    times, velocities, errors = np.loadtxt(FOLDER / f"anchors/eprv3/rvs_000{dataset}.txt").T
    lag = times[:, None] - times
    noise = 3 * np.exp(-0.5 * ((np.sin(np.pi * lag / 20) / 0.5) ** 2 + (lag / 50) ** 2))
    return times, velocities, noise + np.diag(errors**2)


def eprv3(dataset: int, planets: int, form: Form = "published") -> pm.Model:
    """The EPRV3 evidence challenge (Nelson et al. 2020): 200 velocities, Keplerian orbits.

    The noise has a known quasi-periodic covariance and an unknown jitter. The velocities are
    rotated to the eigenvectors of the known covariance, which leaves the density as it is.
    """
    times, velocities, covariance = velocities_of(dataset)
    variances, axes = np.linalg.eigh(covariance)
    with pm.Model() as model:
        offset = pm.Uniform("offset", -1000.0, 1000.0)
        jitter = pt.expm1(pm.Uniform("log1p_jitter", 0, LOG_JITTER))
        mean = offset * axes.T.sum(axis=1)
        if planets:
            velocity = keplerian(times, *orbits(planets, form)).sum(axis=0)
            mean = mean + pt.dot(axes.T, velocity)
        pm.Normal("v", mean, pt.sqrt(variances + jitter**2), observed=axes.T @ velocities)
    return model


def periodogram_start(dataset: int, windows: Windows) -> dict[str, np.ndarray]:
    """Where NUTS may start in the form "smooth": the best circular orbit in each window in turn."""
    times, velocities, covariance = velocities_of(dataset)
    white = np.linalg.inv(np.linalg.cholesky(covariance + np.eye(len(times))))

    def waves(log_period):
        angle = 2 * np.pi * (times - 300) / np.exp(log_period)
        return white @ np.column_stack([np.cos(angle), -np.sin(angle)])

    def misfit(log_period):
        return np.linalg.lstsq(np.hstack([design, waves(log_period)]), white @ velocities)[1]

    design, log_periods = white.sum(axis=1, keepdims=True), []
    for window in windows:
        log_periods.append(min(np.linspace(*np.log(window), 20_000)[1:-1], key=misfit))
        design = np.hstack([design, waves(log_periods[-1])])
    offset, *found = np.linalg.lstsq(design, white @ velocities)[0]
    pairs = np.reshape(found, (len(windows), 2)).T
    amplitude = np.hypot(*pairs)
    length = np.sqrt(-2 * np.log1p(-np.log1p(amplitude) / LOG_K))
    return {
        "offset": offset, "log_period": np.array(log_periods),
        "wave": length * pairs / amplitude, "shape": np.full((2, len(windows)), 0.2),
    }  # fmt: skip


def toi141(planets: int) -> pm.Model:
    """Espinoza, Kossakowski and Brahm (2019): circular orbits, velocities of four instruments.

    Times are counted from day 2458325.
    """
    data, start = columns("rvs_toi141"), 2458325.0
    times = data["bjd"] - start
    instrument = np.array([INSTRUMENTS.index(each) for each in data["instrument"]])
    with pm.Model() as model:
        centre = pm.Uniform("centre", -100.0, 100.0, shape=4)  # whole numbers overflow
        log_jitter = pm.Uniform("log_jitter", np.log(1e-3), np.log(100), shape=4)
        amplitude = pm.Uniform("amplitude", 0.0, 100.0, shape=planets)
        periods = [pm.Normal("period_1", 1.007917, 0.000073)]
        transits = [pm.Normal("transit_1", 0.5386, 0.0011)]
        for i, (longest, latest) in enumerate([(10, 5), (40, 30)][: planets - 1], start=2):
            periods.append(pm.Uniform(f"period_{i}", 1, longest))
            transits.append(pm.Uniform(f"transit_{i}", 0, latest))
        phase = (times - pt.stack(transits)[:, None]) / pt.stack(periods)[:, None]
        orbit = -amplitude[:, None] * pt.sin(2 * np.pi * phase)
        mean = centre[instrument] + orbit.sum(axis=0)
        sd = pt.sqrt(data["rv_err"] ** 2 + pt.exp(2 * log_jitter)[instrument])
        pm.Normal("rv", mean, sd, observed=data["rv"])
    return model


TARGETS: dict[str, Callable[..., pm.Model]] = {
    "seeds": seeds,
    "German credit": partial(logistic, "german_credit", 10.0, centred=False),
    "German credit, flat prior": partial(logistic, "german_credit", FLAT, centred=False),
    "sonar": partial(logistic, "sonar", 1.0),
    "sonar, wide prior": sonar_uci,
    "ionosphere": partial(logistic, "ionosphere", 1.0),
    "pines": pines,
    **{
        f"EPRV3 set {i}, {n} planet{'s' * (n != 1)}": partial(eprv3, i, n)
        for n in range(4)
        for i in range(1, 7)
    },
    **{f"TOI-141, {n} planet{'s' * (n != 1)}": partial(toi141, n) for n in (1, 2, 3)},
}
"""Functions that make a model; some also take the form in which it is written."""
