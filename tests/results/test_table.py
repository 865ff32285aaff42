"""A table shows all its columns, whatever is in them."""

import numpy as np
import pandas as pd
import pytest

from pymc_bdmc.results.finding import Table


def test_a_table_prints_whole_within_its_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    kinds = [f"averaged weights, each of {n} words, " * 5 + f"the end of {n}" for n in range(3)]
    table = Table({"value": [1.5, -np.inf, 0.01], "error": 0.123456, "kind": kinds})
    assert max(map(len, repr(table).split("\n"))) < 80
    for n in range(3):
        assert f"end of {n}" in " ".join(repr(table).split())
    assert "..." not in repr(table) + table._repr_html_()
    assert "..." in repr(pd.DataFrame(table))  # as pandas prints it


def test_long_tables_are_cut_in_rows_only():
    frame = pd.DataFrame(0.0, index=range(200), columns=[f"column {i}" for i in range(12)])
    shown = repr(Table(frame.assign(kind="a mean")))
    assert all(name in shown for name in frame)
    assert len(shown.split("\n")) < 60


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({}, "Empty"),
        ({"value": []}, "value"),
        ({"kind": ["a mean", "a median"]}, "a median"),
        ({"value": [1.0, 2.0], "kind": ["a mean", None]}, "1  a mean"),
    ],
)
def test_any_table_is_shown(columns, shown):
    assert shown in repr(Table(columns))
