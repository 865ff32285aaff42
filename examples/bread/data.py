"""The data of Grosse, Ancha and Roy (2016), from the authors' repository or a folder of yours.

They are downloaded once, by pooch, and converted. Where the environment variable BDMC_DATA names a
folder, they are read from there instead, as ready CSV files.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

__all__ = ["DATA", "load"]

REPOSITORY = (
    "https://raw.githubusercontent.com/siddancha/AutoBDMC/"
    "de110e46ce98cdd12f64ab18ea14b1ec613ac169/datasets/"
)


def old_faithful(path: Path) -> np.ndarray:
    return pd.read_csv(path)[["eruptions", "waiting"]].to_numpy(float)


def nhefs(path: Path) -> np.ndarray:
    columns = ["qsmk", "sex", "age", "race", "smokeyrs", "wt82_71"]
    return pd.read_csv(path)[columns].dropna().to_numpy(float)


def pima(path: Path) -> np.ndarray:
    return pd.read_csv(path, header=None).to_numpy(float)


def google_stock(path: Path) -> np.ndarray:
    return pd.read_csv(path, sep="\t")["price"].to_numpy(float)


def movielens(path: Path, size: int = 50) -> np.ndarray:
    """Ratings by the most active users of the most rated films, the most of all last."""
    table = pd.read_csv(path, sep="\t", names=["user", "film", "rating", "time"])

    def most(column: str) -> pd.Index:
        counts = table[column].value_counts().sort_index()
        return counts.sort_values(kind="stable").index[-size:]

    ratings = table.pivot(index="user", columns="film", values="rating")
    return ratings.loc[most("user"), most("film")].to_numpy(float)


class Source(NamedTuple):
    """Where a data set comes from, and what makes an array of the file."""

    file: str
    sha256: str
    convert: Callable[[Path], np.ndarray]


DATA = {
    "nhefs": Source(
        "linear_regression/nhefs_book.csv",
        "c609c198fa3f8a07b3e7a703f049285bde0a1152301df2e030911405bd351b17",
        nhefs,
    ),
    "pima": Source(
        "logistic_regression/pima-indians-diabetes.data",
        "06f5b7c2cd7bca686fda4f92eab5f61e7ff6426a9acefa2e3dda04fc54293cf5",
        pima,
    ),
    "movielens_50x50": Source(
        "matrix_factorization/u.data",
        "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
        movielens,
    ),
    "google_stock": Source(
        "time_series/google_stock.txt",
        "c32c23bcc7e597eea0e29d2456efc8e694881b51f9df6db45bd67adccde20aca",
        google_stock,
    ),
    "old_faithful": Source(
        "clustering/old_faithful.csv",
        "6675d052dd7495645ac2146290c8ca69e6c1d0795723288d578d2cb2c6c9cda3",
        old_faithful,
    ),
}


def load(name: str) -> np.ndarray:
    """One data set, rows first; missing values are NaN.

    Raises
    ------
    FileNotFoundError
        If the folder that BDMC_DATA names has no such file.
    ImportError
        If nothing names a folder and pooch is not installed.
    OSError
        If the file cannot be downloaded.
    """
    if folder := os.environ.get("BDMC_DATA"):
        file = Path(folder, f"{name}.csv")
        if not file.exists():
            raise FileNotFoundError(
                f"{file}: not there. BDMC_DATA must name a folder with {name}.csv; leave it unset "
                "to download the data."
            )
        return np.genfromtxt(file, delimiter=",", skip_header=name != "movielens_50x50")
    return DATA[name].convert(download(name))


def download(name: str) -> Path:
    """The file of the authors, which pooch keeps and compares with its checksum."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "The data are downloaded by pooch: `pip install pooch`; or let the environment "
            "variable BDMC_DATA name a folder that holds them."
        ) from error
    source = DATA[name]
    try:
        return Path(
            pooch.retrieve(
                REPOSITORY + source.file, f"sha256:{source.sha256}",
                path=pooch.os_cache("pymc_bdmc"),
            )
        )  # fmt: skip
    except OSError as error:
        raise OSError(
            f"{REPOSITORY + source.file} could not be downloaded. Try again, or let the "
            f"environment variable BDMC_DATA name a folder that holds {name}.csv."
        ) from error
