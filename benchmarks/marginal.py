"""Picture of the marginal distribution of a scale: reference, posterior, and weighted draws.

Run as ``python benchmarks/marginal.py``; some seconds. The picture goes to docs/images.
"""

import logging
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from models import eight_schools

from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.fits.nested import Marginal
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.run.tasks import FitTask

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "hierarchical.png"
SEED = 1
GRID = np.linspace(np.log(0.01), np.log(200), 400)


def densities(model: pm.Model) -> tuple[np.ndarray, np.ndarray]:
    """The density of log τ under the reference of a call, and its Laplace approximation."""
    engine = CompiledEngine(TemperedDensity(model))
    data = engine.density.data
    reference = engine.fit(FitTask(data, stream(SEED, Purpose.PILOT, 0, 3))).tuning.reference
    assert isinstance(reference, NestedReference)
    phis = GRID[:, None]
    laplace = Marginal(reference, engine.on(data)).terms(phis)[:, 1]
    laplace = np.exp(laplace - laplace.max())
    return np.exp(reference.marginal.log_density(phis)), laplace / np.trapezoid(laplace, GRID)


def draw(model: pm.Model) -> None:
    fitted, laplace = densities(model)
    dt = pm.sample_bdmc(
        model, simulate=None, target_error=0.01, random_seed=SEED, progressbar=False
    )
    draws = dt["particles"].dataset
    edges, weights = np.linspace(GRID[0], GRID[-1], 41), draws["bdmc_weight"].values.ravel()
    counts, _ = np.histogram(np.log(draws["tau"].values.ravel()), edges, weights=weights)
    heights = counts / weights.sum() / np.diff(edges)
    plt.rcParams["font.size"] = 12
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    axes.stairs(heights, np.exp(edges), fill=True, color="0.85", label="draws, by weight")
    axes.plot(np.exp(GRID), laplace, color="k", label="posterior")
    axes.plot(np.exp(GRID), fitted, "--", color="C1", lw=2.5, label="reference")
    axes.set(xscale="log", xlabel="scale τ of the effects (points)", ylabel="density of log τ")
    axes.set(xlim=np.exp(GRID[[0, -1]]), ylim=0, yticks=[0, 0.2, 0.4])
    axes.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=150)


if __name__ == "__main__":
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    draw(eight_schools(centred=True))
