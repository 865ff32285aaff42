"""The log density of `pm.ICAR` lacks its constant, and a term of sigma."""

import numpy as np
import pymc as pm
from scipy.stats import multivariate_normal

W = np.diag(np.ones(3, int), 1) + np.diag(np.ones(3, int), -1)
y, laplacian = np.array([0.3, -0.2, 0.5, -0.6]), np.diag(W.sum(axis=0)) - W

print("PyMC", pm.__version__)
for sigma in (1.0, 3.0):
    found = pm.logp(pm.ICAR.dist(W, sigma=sigma, zero_sum_stdev=0.1), y).eval().item()
    covariance = np.linalg.inv(laplacian / sigma**2 + 1 / (0.1 * 4) ** 2)
    normal = multivariate_normal(np.zeros(4), covariance).logpdf(y)
    print(f"sigma = {sigma:g}: pm.ICAR {found:.4f}, normal {normal:.4f}")
