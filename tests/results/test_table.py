"""A table shows all its columns, whatever is in them."""

import numpy as np
import pandas as pd
import pytest

from pymc_bdmc.results.finding import Table


def test_long_tables_are_cut_in_rows_only():
    frame = pd.DataFrame(np.zeros((200, 12)), columns=[f"column {i}" for i in range(12)])
    frame["kind"] = "a mean"
    shown = repr(Table(frame))
    assert all(name in shown for name in frame)
    assert len(shown.split("\n")) < 60
    assert "..." in repr(frame.loc[:9])  # the twin: pandas leaves out columns


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
