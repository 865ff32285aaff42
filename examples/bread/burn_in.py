"""Does it matter how long reverse runs are burned in? As Fig. 6 of Grosse, Ancha and Roy (2016).

Run as ``python examples/bread/burn_in.py [model ...]``; docs/bread.md says what it found.
"""

import argparse

import pymc as pm
import xarray as xr
from models import MODELS

import pymc_bdmc as bdmc

TEMPERATURES = {"factorisation": 1000}
"""Other than 100."""


def measure(name: str, lengths=(10, 100, 1000, 10000), **options) -> xr.DataTree:
    """Reverse runs after each burn-in, on the same simulated data sets."""
    simulate = bdmc.FromHyperparameters(burn_in=lengths, datasets=6)
    options = dict(chains=4, particles=4, temperatures=TEMPERATURES.get(name, 100)) | options
    return pm.sample_bdmc(
        MODELS[name](), path="prior", simulate=simulate, real_data=False, random_seed=1, **options
    )


def row(name: str, dt: xr.DataTree) -> list[str]:
    """By how much the mean log weight differs from that after the longest burn-in."""
    table = bdmc.burn_in_effect(dt)
    differences = [f"{each.difference:+.2f} ± {each.error:.2f}" for each in table[:-1].itertuples()]
    return [name, *differences, f"{table.attrs['pvalue']:.2f}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("models", nargs="*", help="default: all")
    given = parser.parse_args()
    for each in given.models or [name for name in MODELS if name != "uncentred"]:
        print(*row(each, measure(each)), sep=" | ", flush=True)
