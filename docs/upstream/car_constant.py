"""The log density of `pm.CAR` lacks its constant."""

import numpy as np
import pymc as pm
from scipy.stats import multivariate_normal

W, alpha, tau = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1), 0.7, 2.0
y = np.array([0.3, -0.2, 0.5, 1.4])
found = pm.logp(pm.CAR.dist(mu=np.zeros(4), W=W, alpha=alpha, tau=tau), y).eval().item()
neighbours = W.sum(axis=0)
covariance = np.linalg.inv(tau * (np.diag(neighbours) - alpha * W))
right = multivariate_normal(np.zeros(4), covariance).logpdf(y)

print("PyMC", pm.__version__)
print("log density by PyMC             ", round(found, 4))
print("of the multivariate normal      ", round(right, 4))
print("difference                      ", round(right - found, 4))
print("-n/2 log(2 pi) + 1/2 sum(log D) ", round(0.5 * np.log(neighbours / 2 / np.pi).sum(), 4))
