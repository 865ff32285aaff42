"""The log density of `pm.ICAR` lacks its constant, and a term of sigma."""

import numpy as np
import pymc as pm
from scipy.stats import multivariate_normal

W = np.diag(np.ones(3, int), 1) + np.diag(np.ones(3, int), -1)
y = np.array([0.3, -0.2, 0.5, -0.6])
laplacian = np.diag(W.sum(axis=0)) - W
log_pdet = np.log(np.linalg.eigvalsh(laplacian)[1:]).sum()

print("PyMC", pm.__version__)
for sigma in (1.0, 3.0):
    dist = pm.ICAR.dist(W, sigma=sigma, zero_sum_stdev=0.1)
    found = pm.logp(dist, y).eval().item()
    covariance = np.linalg.inv(laplacian / sigma**2 + 1 / (0.1 * 4) ** 2)
    right = multivariate_normal(np.zeros(4), covariance).logpdf(y)
    constant = -1.5 * np.log(2 * np.pi) + 0.5 * log_pdet + 0.5 * np.log(4)
    print(f"sigma = {sigma:g}")
    print("log density by PyMC                 ", round(found, 4))
    print("of the multivariate normal          ", round(right, 4))
    print("difference                          ", round(right - found, 4))
    print("the constant, and -(N - 1) log sigma", round(constant, 4), round(-3 * np.log(sigma), 4))
