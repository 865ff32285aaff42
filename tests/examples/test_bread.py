"""The example on the data of Grosse, Ancha and Roy (2016): its loader, and one model."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from tests.models import SIGMAS

BREAD = Path(__file__).parents[2] / "examples" / "bread"


@pytest.fixture
def bread(monkeypatch):
    """Imports a module of the example as its scripts do."""
    monkeypatch.syspath_prepend(BREAD)
    names = [file.stem for file in BREAD.glob("*.py")]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def bread_data(reference_data, monkeypatch):
    monkeypatch.setenv("BDMC_DATA", str(reference_data / "bread"))


@pytest.fixture
def pooch(bread, monkeypatch):
    """A pooch that downloads nothing: `retrieve` is there to be replaced."""
    found = SimpleNamespace(os_cache=Path)
    monkeypatch.setitem(sys.modules, "pooch", found)
    monkeypatch.delenv("BDMC_DATA", raising=False)
    return found


RAW = {
    "nhefs": "seqn,wt82_71,qsmk,sex,age,race,smokeyrs\n1,-2.5,0,1,42,1,29\n2,,1,0,36,0,24\n",
    "pima": "6,148,72,35,0,33.6,0.627,50,1\n",
    "google_stock": "date\tprice\n2/7/2005\t196.03\n2/8/2005\t198.64\n",
    "old_faithful": '"","eruptions","waiting"\n"1",3.6,79\n"2",1.8,54\n',
}
"""As the authors keep them."""
CONVERTED = {
    "nhefs": [[0, 1, 42, 1, 29, -2.5]],
    "pima": [[6, 148, 72, 35, 0, 33.6, 0.627, 50, 1]],
    "google_stock": [196.03, 198.64],
    "old_faithful": [[3.6, 79], [1.8, 54]],
}


@pytest.mark.parametrize("name", RAW)
def test_download(bread, pooch, tmp_path, name):
    """A public address, a checksum, and the same columns as in a local folder."""
    asked = {}

    def retrieve(url, known_hash, path):
        asked.update(url=url, known_hash=known_hash)
        file = tmp_path / "file"
        file.write_text(RAW[name])
        return str(file)

    pooch.retrieve = retrieve
    assert bread("data").load(name).tolist() == CONVERTED[name]
    assert asked["url"].startswith("https://")
    assert len(asked["known_hash"].removeprefix("sha256:")) == 64


def test_most_active_users_and_most_rated_films(bread, tmp_path):
    """In rising order of their number; of a tie the one with the larger number comes later."""
    rated = {1: {1: 5}, 2: {1: 4, 2: 3, 3: 2}, 3: {2: 1, 3: 5}}
    lines = [
        f"{user}\t{film}\t{rating}\t0"
        for user, films in rated.items()
        for film, rating in films.items()
    ]
    file = tmp_path / "u.data"
    file.write_text("\n".join(lines))
    assert bread("data").movielens(file, size=2).tolist() == [[1, 5], [3, 2]]


def test_no_data(bread, pooch, tmp_path, monkeypatch):
    """Each error says what to do."""
    load = bread("data").load

    def retrieve(url, known_hash, path):
        raise ConnectionError("no network")

    pooch.retrieve = retrieve
    with pytest.raises(OSError, match=r"AutoBDMC.*could not be downloaded.*BDMC_DATA"):
        load("pima")
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install pooch.*BDMC_DATA"):
        load("pima")
    monkeypatch.setenv("BDMC_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"pima\.csv.*BDMC_DATA.*unset"):
        load("pima")


def autoregression_log_ml(price: np.ndarray) -> float:
    """Quadrature over the log noise variance; given it the prices are jointly normal."""
    before, step = price[:-1], 0.01
    variances, axes = np.linalg.eigh(1 + 0.1**2 * np.outer(before, before))
    along = axes.T @ (price[1:] - before)
    noise = np.exp(np.arange(0, 6, step))
    given = stats.norm.logpdf(along, 0, np.sqrt(variances + noise[:, None])).sum(axis=1)
    return logsumexp(given + stats.invgamma.logpdf(noise, 1) + np.log(noise)) + np.log(step)


def test_autoregression(bread, bread_data, tmp_path):
    """The lower bound is close to the known log ML; the last rung closes more than the first."""
    bread("run").main(
        ["autoregression"], folder=str(tmp_path), temperatures=[20, 100], chains=16, datasets=2
    )
    dt = xr.load_datatree(tmp_path / "bread_autoregression.nc")
    value, error = bdmc.summary(dt).loc[("real", "lower bound"), ["value", "error"]]
    assert error < 0.25
    exact = autoregression_log_ml(bread("data").load("google_stock"))
    assert exact == pytest.approx(-310.256, abs=1e-3)
    assert -1 < value - exact < SIGMAS * error
    gaps = dt["rounds"]["jeffreys_bound"].values
    assert gaps[1] < gaps[0]
    assert (tmp_path / "bread.png").stat().st_size > 10_000
    page = tmp_path / "page.md"
    page.write_text("above\n| autoregression | |\nbelow\n")
    cells = bread("run").row("autoregression", dt)
    bread("run").write(cells, page)
    above, row, below = page.read_text().splitlines()
    assert (above, below) == ("above", "below")
    assert row.startswith(f"| autoregression | {bdmc.verdict(dt).status} | 20: ")
    assert "(−310.3)" in row
