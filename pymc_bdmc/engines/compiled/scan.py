"""Scan rays from a fit for parts of the posterior that no climb finds, such as a wider shell."""

import numpy as np
from scipy.integrate import trapezoid
from scipy.special import gammaln

from pymc_bdmc.reference.metric import root_of
from pymc_bdmc.reference.student import Density, Reference, metric_at

POINTS = 240
"""Most points of a ray. They lie half as far apart, in log s, as the length of a normal vector
varies, unless that takes more of them."""


def share_beyond(
    reference: Reference,
    density: Density,
    prior: np.ndarray,
    log_ml: float,
    rare: float,
    rays: int,
    rng: np.random.Generator,
) -> float:
    """Estimate the share of the posterior that lies beyond a fit, from its components outwards.

    In polar coordinates θ = m + s·L·z around a component with mean m and scale matrix L Lᵀ, any
    integral is E_z ∫ f(m + s L z) s^(n−1) ds times |L| and the area S of the unit sphere, for z
    uniform on it. Integrated is the posterior density where it exceeds that of the fit by more than
    ``rare`` nats, from a radius of √n, since draws show what is nearer, to that of the farthest
    prior draw. The mean over rays is unbiased; of few rays a single one can be most of it.

    Parameters
    ----------
    reference : Reference
    density : Density
    prior : ndarray of shape (P, n)
        Prior draws.
    log_ml : float
        Log ML by draws from the fit, nats.
    rare : float
        Nats by which the fit must be too low.
    rays : int
        Number of rays, shared by the components.
    rng : numpy.random.Generator

    Returns
    -------
    float
        The largest share that rays from one component find.
    """
    n = prior.shape[1]
    log_sphere = np.log(2) + n / 2 * np.log(np.pi) - gammaln(n / 2)
    rays, found = max(rays // len(reference.locations), 1), []
    for k, location in enumerate(reference.locations):
        root = root_of(metric_at(reference, k))
        z = rng.standard_normal((rays, n))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        first = np.log(n) / 2
        last = np.log(np.linalg.norm(np.linalg.solve(root, (prior - location).T), axis=0).max())
        points = min(POINTS, int(np.ceil((last - first) * 2 * np.sqrt(2 * n))))
        if points < 2:
            continue
        log_s = np.linspace(first, last, points)
        thetas = location + (np.exp(log_s)[:, None] * (z @ root.T)[:, None]).reshape(-1, n)
        log_p = density.terms(thetas).sum(axis=1) - log_ml
        is_rare = log_p - reference.log_density(thetas) > rare
        log_volume = log_sphere + np.linalg.slogdet(root)[1] + n * log_s
        heights = np.where(is_rare, log_p, -np.inf).reshape(rays, points) + log_volume
        found.append(trapezoid(np.exp(np.minimum(heights, 300.0)), log_s, axis=1).mean())
    return float(max(found, default=0.0))
