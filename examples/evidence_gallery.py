"""Pictures of the evidence
========================

On a model whose log ML is known.

y ~ Binomial(100, p1 p2) with uniform p1 and p2: only the product is identified, and the posterior
is a thin curved ridge. Run as ``python examples/evidence_gallery.py [folder]``.
"""

import sys
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import digamma

import pymc_bdmc as bdmc

N, Y = 100, 50


def log_ml(y: int) -> float:
    """p1 p2 = r has density −log r, so p(y) = (ψ(n + 2) − ψ(y + 1)) / (n + 1)."""
    return float(np.log(digamma(N + 2) - digamma(y + 1)) - np.log(N + 1))


def main(chains: int = 512, temperatures: int = 60, folder: str = "output") -> dict:
    with pm.Model():
        p1, p2 = pm.Uniform("p1"), pm.Uniform("p2")
        pm.Binomial("y", N, p1 * p2, observed=Y)
        dt = pm.sample_bdmc(
            chains=chains, particles=1, temperatures=temperatures, path="prior", schedule="power",
            simulate=bdmc.FromPrior(1), step="metropolis", random_seed=1,
        )  # fmt: skip
    exact = {"simulated": log_ml(int(dt["simulated"]["y"].item())), "real": log_ml(Y)}
    pictures = {
        "work": bdmc.plot_work(dt, backend="matplotlib"),
        "estimators": bdmc.plot_estimators(dt, exact=exact, backend="matplotlib"),
        "convergence": bdmc.plot_convergence(dt, exact=exact, backend="matplotlib"),
        "error_analysis": bdmc.plot_error_analysis(
            dt, group="real", exact=exact["real"], backend="matplotlib"
        ),
    }
    Path(folder).mkdir(exist_ok=True)
    for name, picture in pictures.items():
        figure = picture.viz["figure"].item()
        figure.savefig(Path(folder, f"{name}.png"))
    table = bdmc.evidence(dt).drop(columns="reason")
    print(f"{table.round(3).to_string()}\n\nexact: {exact}\nPictures are in {folder}/")
    mean = bdmc.expectation(dt, "p1")
    print(f"posterior mean of p1: {mean['mean'].item():.3f} ± {mean['error'].item():.3f}")
    return {"result": dt, "exact": exact}


if __name__ == "__main__":
    main(folder=sys.argv[1] if len(sys.argv) > 1 else "output")
