"""`pm.CAR` draws with the covariance of the squared precision matrix."""

import numpy as np
import pymc as pm

W, alpha, tau = np.array([[0.0, 1.0], [1.0, 0.0]]), 0.5, 9.0
draws = pm.draw(pm.CAR.dist(np.zeros(2), W, alpha, tau), 20_000, random_seed=1)
precision = tau * (np.diag(W.sum(axis=0)) - alpha * W)

print("PyMC", pm.__version__)
print("variance by the density", np.linalg.inv(precision)[0, 0].round(4))
print("variance of the draws  ", draws[:, 0].var().round(4))
print("of the squared matrix  ", np.linalg.inv(precision @ precision)[0, 0].round(4))
