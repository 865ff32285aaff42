"""Does it matter how long reverse runs are burned in? As Fig. 6 of Grosse, Ancha and Roy (2016).

With hyperparameters held at fitted values θ* is no exact posterior sample, so S transitions come
before a reverse run. Run as ``python examples/bread/burn_in.py [model ...] [--table]``; ``--table``
writes the rows of docs/bread.md.
"""

import argparse

import numpy as np
import pymc as pm
from models import MODELS
from run import DOCS, write

import pymc_bdmc as bdmc

LENGTHS = [10, 100, 1000, 10000]
TEMPERATURES = {"factorisation": 1000}
"""Other than 300."""


def mean_weights(model: pm.Model, temperatures: int, lengths=LENGTHS, datasets: int = 6):
    """Mean reverse log weight of the same simulated data sets, of shape (lengths, datasets)."""
    results = [
        pm.sample_bdmc(
            model, chains=8, particles=4, path="prior", temperatures=temperatures,
            simulate=bdmc.FromHyperparameters(burn_in=length, datasets=datasets),
            real_data=False, random_seed=1,
        )
        for length in lengths
    ]  # fmt: skip
    return np.array([dt["reverse"]["log_weight"].mean("chain").values for dt in results])


def row(name: str, means: np.ndarray) -> list[str]:
    """By how much the means change from the shortest burn-in, with errors over the data sets."""
    changes = means[1:] - means[0]
    errors = changes.std(axis=1, ddof=1) / np.sqrt(means.shape[1])
    return [
        f"{name}, S",
        *(f"{m:+.2f} ± {e:.2f}" for m, e in zip(changes.mean(axis=1), errors, strict=True)),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("models", nargs="*", help="default: all")
    parser.add_argument("--table", action="store_true", help="write the rows of docs/bread.md")
    given = parser.parse_args()
    for each in given.models or [name for name in MODELS if name != "uncentred"]:
        cells = row(each, mean_weights(MODELS[each](), TEMPERATURES.get(each, 300)))
        print(*cells, sep=" | ", flush=True)
        if given.table:
            write(cells, DOCS / "bread.md")
