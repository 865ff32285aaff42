"""Which model do the data favour?
===============================

Newcomb's 66 measurements of the time that light takes for 7.44 km, in the order in which he made
them (deviations from 24.8 µs, in ns; Stigler 1977). Two are far off. Is the noise normal, or are
there outliers? From three models to Bayes factors, the observations that decide, predictions of all
models together, and the paragraph for a paper. The page docs/which_model.md tells more.
"""

from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

import pymc_bdmc as bdmc

TIMES = np.array([
    28, 26, 33, 24, 34, -44, 27, 16, 40, -2, 29, 22, 24, 21, 25, 30, 23, 29, 31, 19, 24, 20, 36, 32,
    36, 28, 25, 21, 28, 29, 37, 25, 28, 26, 30, 32, 36, 26, 30, 22, 36, 23, 27, 27, 28, 27, 31, 27,
    26, 33, 26, 32, 32, 24, 39, 28, 24, 25, 32, 25, 29, 27, 28, 29, 16, 23,
], dtype=float)  # fmt: skip


def newcomb(noise: str) -> pm.Model:
    """Model with normal noise, Student's t with 4 degrees of freedom, or rare gross errors."""
    with pm.Model(coords={"measurement": np.arange(1, 67)}) as model:
        centre, scale = pm.Normal("centre", 25, 10), pm.HalfNormal("scale", 10)
        options = {"observed": TIMES, "dims": "measurement"}
        if noise == "normal":
            pm.Normal("time", centre, scale, **options)
        elif noise == "Student t":
            pm.StudentT("time", 4, mu=centre, sigma=scale, **options)
        else:
            share = pm.Beta("share", 1.0, 19.0)
            parts = [pm.Normal.dist(centre, scale), pm.Normal.dist(centre, 10 * scale)]
            pm.Mixture("time", pm.math.stack([1 - share, share]), parts, **options)
    return model


NAMES = ["normal", "Student t", "gross errors"]


def predicted(models: dict, results: dict, weights: pd.Series) -> xr.DataTree:
    """Return predictions of all models, each with its posterior probability as its weight."""
    for name, dt in results.items():
        pm.sample_posterior_predictive(
            dt, model=models[name], extend_inferencedata=True, random_seed=1, progressbar=False
        )
    return az.weight_predictions([results[name] for name in weights.index], weights.tolist())


def leaving_one_out(models: dict, results: dict) -> dict:
    """Return log predictive densities of measurements that were left out, by ArviZ."""
    for name, dt in results.items():
        pm.compute_log_likelihood(dt, model=models[name], progressbar=False)
    return {name: az.loo(dt, pointwise=True) for name, dt in results.items()}


def main(folder: str = "output", **options) -> dict:
    models = {name: newcomb(name) for name in NAMES}
    results = {
        name: pm.sample_bdmc(model, simulate=None, random_seed=seed, **options)
        for seed, (name, model) in enumerate(models.items())
    }
    print(bdmc.log_ml(results["normal"]))
    table = bdmc.compare(results)
    print(table.round(3).to_string(na_rep=""))
    print(bdmc.bayes_factor(results["gross errors"], results["Student t"]))
    Path(folder).mkdir(exist_ok=True)
    bdmc.plot_compare(results, backend="matplotlib")
    plt.savefig(Path(folder, "which_model.png"))

    options = {"path": "data", "chains": 64} | options
    in_turn = {
        name: pm.sample_bdmc(models[name], simulate=None, random_seed=seed, **options)
        for seed, name in enumerate(NAMES[:2])
    }
    decide = bdmc.pointwise(in_turn["Student t"], in_turn["normal"])
    print(decide.loc[decide["value"].abs().nlargest(4).index].round(2))
    bdmc.plot_pointwise({name: in_turn[name] for name in NAMES[1::-1]}, backend="matplotlib")
    plt.savefig(Path(folder, "which_observations.png"))

    weights = table["probability"].dropna()
    draws = predicted(models, results, weights)["posterior_predictive"]["time"]
    print(f"P(a new measurement lies below 0) = {float((draws < 0).mean()):.3f}")
    print(az.compare(leaving_one_out(models, results)).round(2))
    print(bdmc.report(results["gross errors"]))
    return results | {"in turn": in_turn, "predicted": draws}


if __name__ == "__main__":
    main()
