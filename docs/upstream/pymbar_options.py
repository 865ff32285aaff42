"""MBAR passes SciPy options that it does not have, which is an error where warnings are errors."""

import warnings
from importlib.metadata import version

import numpy as np
from pymbar import MBAR

rng = np.random.default_rng(1)
means = np.array([0.0, 0.5, 1.0])
draws = (means[:, None] + rng.normal(size=(3, 200))).ravel()
energies = (draws - means[:, None]) ** 2 / 2

print("pymbar", version("pymbar"), "SciPy", version("scipy"))
warnings.simplefilter("error")
try:
    print("log Z:", -MBAR(energies, [200] * 3).f_k)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
