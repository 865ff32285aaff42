"""A function has other bits in the process that compiles it than in those that load it."""

import os
import subprocess
import sys
import tempfile

CODE = """
import numpy as np, pytensor, pytensor.tensor as pt
data, x = np.random.default_rng(0).normal(size=100), pt.dvector("x")
value = (-0.5 * ((data - x[0]) / pt.exp(x[1])) ** 2 - x[1]).sum()
f = pytensor.function([x], [value, pytensor.grad(value, x)], mode="NUMBA")
found = [f(each) for each in np.random.default_rng(1).normal(size=(50, 2))]
print(np.sum([value for value, _ in found]).hex(), np.sum([slope for _, slope in found]).hex())
"""

with tempfile.TemporaryDirectory() as folder:
    environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}
    for process in ("compiles", "loads", "loads"):
        command = [sys.executable, "-W", "ignore", "-c", CODE]
        found = subprocess.run(
            command, env=environment, text=True, stdout=-1, stderr=-3, check=True
        )
        print(f"{process:9}", found.stdout.strip())
