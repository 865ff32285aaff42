"""Can these posteriors be trusted? Five models on five real data sets, by one call each.

The protocol, the models and the data are those of Grosse, Ancha and Roy (2016). Run as
``python examples/bread/run.py [model ...] [--table]``: it prints each verdict and keeps the results
in output/, with a picture of all that are there. ``--table`` writes the rows of docs/bread.md.
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pymc as pm
import xarray as xr
from models import MODELS

import pymc_bdmc as bdmc

DOCS = Path(__file__).parents[2] / "docs"
TEMPERATURES = {"factorisation": [100, 1000, 12000], "uncentred": [100, 300]}
"""Ladders other than [30, 100, 300]."""
CHAINS = {"factorisation": 4, "uncentred": 4}
"""Numbers of runs other than 8, below which no verdict compares real with simulated ones."""
PUBLISHED = {
    "linear": (-2335.3, -2309.9, -2308.2),
    "logistic": (-383.6, -309.3, -308.9),
    "autoregression": (-310.3, -306.3, -305.6),
    "clustering": (-450.3, -443.2, -442.4),
}
"""Medians of the authors' chains: forward on the real data, forward and reverse on simulated ones.
Their chains of the factorisation are still 29 nats apart at 2000 temperatures."""


def judge(
    name: str, chains: int | None = None, datasets: int = 19, temperatures=None
) -> xr.DataTree:
    """The result for one model.

    With fewer than 19 simulated data sets none can be told from the real one. Four particles, since
    under these priors the mean log weight of single chains does not exist.
    """
    started = time.process_time()
    dt = pm.sample_bdmc(
        MODELS[name](), chains=chains or CHAINS.get(name, 8), particles=4, path="prior",
        temperatures=temperatures or TEMPERATURES.get(name, [30, 100, 300]),
        simulate=bdmc.FromHyperparameters(datasets=datasets), random_seed=1,
    )  # fmt: skip
    dt.attrs["cpu_seconds"] = time.process_time() - started
    return dt


def row(name: str, dt: xr.DataTree) -> list[str]:
    """What the page says of one model: ours, and the authors' numbers in brackets."""
    rounds = dt["rounds"]
    columns = (rounds[each].values for each in ("temperatures", "jeffreys_bound", "error"))
    gaps = [f"{t}: {gap:.2f} ± {error:.2f}" for t, gap, error in zip(*columns, strict=True)]
    last = int(rounds["temperatures"][-1])
    checks = bdmc.consistency(dt).xs(last, level="temperatures")
    shortfall, data = checks.loc["shortfall"], checks.loc["model"]
    odd = ", ".join(checks.index[checks["p_value"] <= data["p_value"]].drop("model"))
    real = bdmc.summary(dt).loc[("real", "lower bound")]
    theirs = [f" ({value:.1f})" for value in PUBLISHED.get(name, ())] or [""] * 3
    sides = (
        rounds[f"{side}_log_weight"].isel(round=-1).median("chain")
        for side in ("forward", "reverse")
    )
    simulated = [f"{side.mean().item():.1f} ± {side.std(ddof=1).item():.1f}" for side in sides]
    return [
        name,
        bdmc.verdict(dt).status,
        "<br>".join(gaps),
        f"{shortfall['value']:.2f} ± {shortfall['error']:.2f}",
        f"{data['p_value']:.2f}" + (f": {odd} ({data['value']:+.1f})" if data["flagged"] else ""),
        f"{real['value']:.2f} ± {real['error']:.2f}{theirs[0]}",
        simulated[0] + theirs[1],
        simulated[1] + theirs[2],
        f"{dt.attrs['cpu_seconds']:.0f}",
    ]


def write(cells: list[str], page: Path) -> None:
    """Put a row in the place of the one that begins as it does."""
    lines = page.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith(f"| {cells[0]} |"))
    lines[place] = "| " + " | ".join(cells).replace("-", "−") + " |"
    page.write_text("\n".join(lines) + "\n")


def show(results: dict[str, xr.DataTree], picture: Path) -> None:
    """Forward runs on real and simulated data beside one another, a panel for each model."""
    bdmc.plot_consistency(results, backend="matplotlib")
    plt.savefig(picture)
    plt.close()


def main(names: list[str], table: bool = False, folder: str = "output", **options) -> None:
    Path(folder).mkdir(exist_ok=True)
    for name in names:
        dt = judge(name, **options)
        dt.to_netcdf(Path(folder, f"bread_{name}.nc"))
        print(f"\n{name}\n\n{bdmc.verdict(dt).text}\n\n{bdmc.verdict(dt).table.to_string()}")
    files = {name: Path(folder, f"bread_{name}.nc") for name in MODELS}
    results = {name: xr.load_datatree(file) for name, file in files.items() if file.exists()}
    show(results, Path(folder, "bread.png"))
    if table:
        show(results, DOCS / "images" / "bread.png")
        for name, dt in results.items():
            write(row(name, dt), DOCS / "bread.md")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; default: all")
    parser.add_argument("--table", action="store_true", help="write the rows of docs/bread.md")
    given = parser.parse_args()
    if unknown := set(given.models) - set(MODELS):
        parser.error(f"{', '.join(unknown)}: not among {', '.join(MODELS)}")
    main(given.models or list(MODELS), given.table)
