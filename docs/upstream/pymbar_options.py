"""MBAR passes SciPy options that it does not have, which is an error where warnings are errors."""

import warnings
from importlib.metadata import version

import numpy as np
from pymbar import MBAR

means = np.array([0.0, 0.5, 1.0])[:, None]
draws = (means + np.random.default_rng(1).normal(size=(3, 200))).ravel()

print("pymbar", version("pymbar"), "SciPy", version("scipy"))
warnings.simplefilter("error")
try:
    print(MBAR((draws - means) ** 2 / 2, [200] * 3).f_k)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
