"""How often wrong draws are found, by the e-value of a call and by `agreement`.

Run as ``python benchmarks/posterior_draws.py [--seeds 6] [--docs]``; a minute a seed. With
``--docs`` a section goes to docs/honesty.md.
"""

import argparse
import logging

import numpy as np
import pymc as pm
import xarray as xr
from common import DOCS, publish, shown, table

import pymc_bdmc as bdmc

PAGE = DOCS / "honesty.md"
OPTIONS = {"progressbar": False, "cores": 1}


def logistic() -> pm.Model:
    """Forty outcomes and four coefficients."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 4))
    y = rng.random(40) < 1 / (1 + np.exp(-x @ [1, -1, 0.5, 0]))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=x @ pm.Normal("x", 0, 2, shape=4), observed=y.astype(int))
    return model


def two_modes() -> pm.Model:
    """A mixture whose two means can be exchanged."""
    data = [-2.0, -1.9, -2.2, 2.0, 2.1, 1.8, 2.3]
    with pm.Model() as model:
        pm.NormalMixture("y", [0.5, 0.5], pm.Normal("x", 0, 3, shape=2), 0.5, observed=data)
    return model


def draws_of(model: pm.Model) -> np.ndarray:
    """Posterior draws of x, one a row."""
    dt = pm.sample_bdmc(model, simulate=None, random_seed=0, chains=48, **OPTIONS)
    return dt["posterior"]["x"].stack(draws=("chain", "draw")).transpose("draws", ...).values


def found(model: pm.Model, draws: np.ndarray, seed: int) -> tuple[float, str]:
    """The log e-value against draws, and what `agreement` says of them."""
    mixed = np.random.default_rng(seed).permutation(draws)[: len(draws) // 4 * 4]
    by_chain = xr.Dataset({"x": (("chain", "draw", "i"), mixed.reshape(4, -1, draws.shape[1]))})
    dt = pm.sample_bdmc(model, simulate=bdmc.FromPosterior(by_chain), random_seed=seed, **OPTIONS)
    return bdmc.verdict(dt).table.loc["e-value", "value"], dt["agreement"].attrs["status"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    one, two = logistic(), two_modes()
    right, both = draws_of(one), draws_of(two)
    mean, sd = right.mean(axis=0), right.std(axis=0)
    cases = {
        "right": (one, right),
        "0.4 times as wide": (one, mean + 0.4 * (right - mean)),
        "1.5 times as wide": (one, mean + 1.5 * (right - mean)),
        "2.5 times as wide": (one, mean + 2.5 * (right - mean)),
        "off by 2 deviations": (one, right + 2 * sd),
        "off by 4 deviations": (one, right + 4 * sd),
        "right, two modes": (two, both),
        "one of two modes": (two, both[both[:, 0] < both[:, 1]]),
    }
    rows = []
    for name, (model, draws) in cases.items():
        calls = [found(model, draws, seed) for seed in range(1, arguments.seeds + 1)]
        values = np.array([value for value, _ in calls])
        bad = sum(status == "bad" for _, status in calls)
        rows.append(
            shown((name, f"{np.median(values):.2f}", int((values >= np.log(1000)).sum()), bad))
        )
    publish("Wrong draws", TEXT.format(seeds=arguments.seeds), table(HEAD, rows), page=PAGE)


HEAD = ("draws", "log e-value, median", "e-value above 1000", "`agreement` is bad")
TEXT = (
    "Do calls see that the draws that simulated data start from are wrong? The [e-value]"
    "(method.md#data-that-contain-the-real-ones) and `agreement` in {seeds} calls each, with a "
    "logistic regression of four coefficients and a mixture whose posterior has two modes."
)


if __name__ == "__main__":
    main()
