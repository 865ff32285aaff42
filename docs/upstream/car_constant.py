"""The log density of `pm.CAR` lacks its constant."""

import numpy as np
import pymc as pm
from scipy.stats import multivariate_normal

W, alpha, tau = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1), 0.7, 2.0
y, D = np.array([0.3, -0.2, 0.5, 1.4]), W.sum(axis=0)
found = pm.logp(pm.CAR.dist(np.zeros(4), W, alpha, tau), y).eval().item()
normal = multivariate_normal(np.zeros(4), np.linalg.inv(tau * (np.diag(D) - alpha * W)))

print("PyMC", pm.__version__)
print("logp of pm.CAR     ", round(found, 4))
print("multivariate normal", round(normal.logpdf(y), 4))
print("the constant       ", round(0.5 * np.log(D / 2 / np.pi).sum(), 4))
