"""docs/reference.json is what its command makes, and its closed forms are right."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma

ROOT = Path(__file__).parents[2]
ROWS = {row["name"]: row for row in json.loads((ROOT / "docs" / "reference.json").read_text())}
CHEAP = ["spike in slab, d = 2", "three normals", "two modes, 75 : 25", "thin ridge, width 10"]


def check(rows):
    """Texts are equal, and numbers but for rounding, which differs between processors."""
    for row in rows:
        kept = ROWS[row["name"]]
        assert kept.keys() == row.keys()
        for key, value in row.items():
            if key in ("log_ml", "covariates"):
                np.testing.assert_allclose(kept[key], value, rtol=1e-9)
            elif key == "observed":
                for name, each in value.items():
                    np.testing.assert_allclose(kept[key][name], each, rtol=1e-9)
            else:
                assert kept[key] == value


def test_the_file_is_what_the_command_makes(script):
    """But for the adversaries that take seconds; no model is left out."""
    reference = script("reference")
    published, systems = list(reference.of_published()), list(reference.of_systems())
    check([*published, *systems])
    check(reference.of_adversary(name, reference.ADVERSARIES[name]()) for name in CHEAP)
    names = [row["name"] for row in (*published, *systems)] + list(reference.ADVERSARIES)
    assert list(ROWS) == names


@pytest.mark.slow
def test_all_adversaries_are_in_the_file(script):
    reference = script("reference")
    check(reference.of_adversary(name, make()) for name, make in reference.ADVERSARIES.items())


def test_rows_are_whole():
    for name, row in ROWS.items():
        assert all(row[key] for key in ("prior", "likelihood", "data", "how", "code")), name
        assert np.isfinite(row["log_ml"]), name
        assert 0 < row["error"] < 0.2, name
    page = (ROOT / "docs" / "reference.md").read_text()
    assert sum(map(int, re.findall(r"^\| `[^|]*` \| (\d+) \|", page, re.M))) == len(ROWS)


def normal(y, sd):
    return stats.norm.logpdf(y, 0, sd).sum()


def binomial(n, k):
    """Log ML of k of n with a chance that is a product of two uniform ones."""
    return np.log(digamma(n + 2) - digamma(k + 1)) - np.log(n + 1)


def one_sign(y):
    """Twice the integral over positive x, for y ~ N(|x|, 0.01) and x ~ N(0, 9)."""
    positive = stats.norm.logcdf(y * 9 / 9.01 / np.sqrt(0.09 / 9.01))
    return np.log(2) + normal(y, np.sqrt(9.01)) + positive


def regression(x, y):
    return stats.multivariate_normal.logpdf(y, cov=np.eye(len(y)) + np.array(x) @ np.transpose(x))


FORMULAS = {
    "unidentified binomial, 50 of 100": lambda row: binomial(100, 50),
    "product of two chances": lambda row: binomial(10_000, 5_000),
    "two normal modes": lambda row: normal(np.full(5, 10.0), np.sqrt(101)),
    "two modes, 75 : 25": lambda row: normal(row["observed"]["y"], np.sqrt(25 + 0.3**2)),
    "spike in slab, d = 10": lambda row: normal(row["observed"]["y"], np.sqrt(1 + 0.05**2)),
    "lost signs": lambda row: sum(map(one_sign, row["observed"]["y"])),
    "linear regression, 5 of 20": lambda row: regression(row["covariates"], row["observed"]["y"]),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_closed_forms(name):
    """By formulas written here; log ML 10⁻⁶ beside is the broken twin."""
    row = ROWS[name]
    assert row["how"] == "closed form"
    exact = FORMULAS[name](row)
    assert row["log_ml"] == pytest.approx(exact, abs=row["error"])
    assert row["log_ml"] + 1e-6 != pytest.approx(exact, abs=row["error"])
