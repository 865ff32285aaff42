"""A function has other bits in the process that compiles it than in those that load it."""

import subprocess
import sys
import tempfile
from os import environ

CODE = """
import numpy as np, pytensor, pytensor.tensor as pt
data, x = np.random.default_rng(0).normal(size=100), pt.dvector("x")
value = (-0.5 * ((data - x[0]) / pt.exp(x[1])) ** 2 - x[1]).sum()
f = pytensor.function([x], [value, pytensor.grad(value, x)], mode="NUMBA")
slopes = [f(point)[1] for point in np.random.default_rng(1).normal(size=(50, 2))]
print("PyTensor", pytensor.__version__, np.sum(slopes).hex())
"""

with tempfile.TemporaryDirectory() as folder:
    env = environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}
    for process in ("compiles", "loads   ", "loads   "):
        print(process, flush=True)
        subprocess.run([sys.executable, "-W", "ignore", "-c", CODE], env=env, check=True)
