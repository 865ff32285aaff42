"""A table that prints whole, as those of ArviZ do; pandas leaves out columns and cuts texts."""

import shutil
import textwrap
from typing import Any

import pandas as pd

LEAST_TEXT = 30
"""Fewest characters in a line of text beside numbers; chosen."""


class Table(pd.DataFrame):
    """A DataFrame that prints all columns, with the texts in its last column wrapped.

    Of more rows than pandas' option ``display.max_rows``, some are left out. What is computed from
    it, such as a selection of columns, is a plain DataFrame.

    Examples
    --------
    >>> from pymc_bdmc.results.table import Table
    >>> Table({"value": [1.5, 0.00012], "kind": ["a mean", "a median " * 10]})
        value  kind
    0   1.500  a mean
    1 0.00012  a median a median a median a median a median a median a median a
               median a median a median
    """

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Table":
        """Return the table with its ``attrs``."""
        return cls(table).__finalize__(table)

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"float_format": short, "na_rep": ""}
        columns = shutil.get_terminal_size().columns
        if len(self) > pd.get_option("display.max_rows"):
            shown["max_rows"] = pd.get_option("display.min_rows")
        if self.empty or len(self.columns) == 1 or "max_rows" in shown:
            return self.to_string(**shown, line_width=columns)
        *numbers, text = self.columns
        lines = self[numbers].to_string(**shown).split("\n")
        width = len(lines[0]) + 2
        if not pd.api.types.is_string_dtype(self[text]) or width + LEAST_TEXT > columns:
            return self.to_string(**shown, line_width=columns)
        texts = [text, *[""] * (len(lines) - len(self) - 1), *self[text].fillna("")]
        told = []
        for line, each in zip(lines, texts, strict=True):
            wrapped = textwrap.wrap(each, columns - width - 1)
            told.append(f"{line:{width}}" + f"\n{'':{width}}".join(wrapped))
        return "\n".join(line.rstrip() for line in told)

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            most = pd.get_option("display.max_rows")
            return self.to_html(float_format=short, na_rep="", max_rows=most)


def short(x: float) -> str:
    """Return a number with three decimals, or two digits below 0.1, or none if it is whole."""
    decimals = 0 if float(x).is_integer() else 3
    return f"{x:.{decimals}f}" if abs(x) >= 0.1 or x == 0 else f"{x:.2g}"
