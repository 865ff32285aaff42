"""Findings of checks (a status, a text, numbers, a remedy), and how they and tables are shown."""

import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal, NamedTuple, NewType

import numpy as np
import pandas as pd
from scipy.special import stdtrit

Status = Literal["good", "open", "bad"]

Remedy = NewType("Remedy", str)
"""Advice on a finding. `tests/results/test_remedies.py` tries each one that is written."""

NO_REMEDY = Remedy("")

MAX_CHANCE = 1e-3
"""Largest p-value at which a difference is said to be evidence of an error; chosen."""


class Finding(NamedTuple):
    """Result of one check."""

    name: str
    status: Status | None  # None if the check does not affect the verdict
    text: str = ""
    remedy: Remedy = NO_REMEDY
    value: float = np.nan
    error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan
    brief: str = ""  # a short form of the text

    @property
    def with_remedy(self) -> Remedy:
        """Return the text and the remedy in a line, which may be the remedy of others."""
        return Remedy(f"{self.text}; {self.remedy}" if self.remedy else self.text)


PAPER = {
    "the data that you gave": "the given data",
    "draws that you gave": "given draws",
    "The run that you gave": "The given run",
    "until you know": "until it is known",
    "; bdmc.sensitivity shows how much": "",
    "yours": "the real data",
    "your": "the",
    "Your": "The",
}
"""Words to the reader of a result, and what a paper has in their place."""


def for_paper(text: str) -> str:
    """Return text to the reader of a result as a paper has it."""
    words = "|".join(map(re.escape, PAPER))
    return re.sub(rf"\b(?:{words})\b", lambda found: PAPER[found[0]], text)


def half_interval(error: float, n: int, confidence: float = 0.95) -> float:
    """Return half of the t interval of a mean of n values; infinite if n < 2."""
    return float(error * stdtrit(n - 1, (1 + confidence) / 2)) if n > 1 else np.inf


def outwards(lower: float, upper: float) -> tuple[float, float]:
    """Return certified bounds rounded outwards to two decimals."""
    return np.floor(100 * lower) / 100, np.ceil(100 * upper) / 100


def upwards(share: float) -> str:
    """Return a share rounded up to two decimals, but for rounding errors."""
    return f"{np.ceil(100 * share - 1e-9) / 100:.2f}"


class Table(pd.DataFrame):
    """A DataFrame that prints all columns, with the texts in its last column wrapped."""

    @classmethod
    def of(cls, table: pd.DataFrame) -> "Table":
        """Return the table with its ``attrs``."""
        return cls(table).__finalize__(table)

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"float_format": _short, "na_rep": ""}
        columns = shutil.get_terminal_size().columns
        is_long = len(self) > pd.get_option("display.max_rows")
        if is_long:
            shown["max_rows"] = pd.get_option("display.min_rows")
        if not (self.empty or len(self.columns) == 1 or is_long):
            *numbers, text = self.columns
            lines = self[numbers].to_string(**shown).split("\n")
            width = len(lines[0]) + 2
            # A line of fewer than 30 characters beside the numbers is hard to read.
            if pd.api.types.is_string_dtype(self[text]) and width + 30 <= columns:
                texts = [text, *[""] * (len(lines) - len(self) - 1), *self[text].fillna("")]
                wrapped = [textwrap.wrap(each, columns - width - 1) for each in texts]
                return "\n".join(
                    (f"{line:{width}}" + f"\n{'':{width}}".join(parts)).rstrip()
                    for line, parts in zip(lines, wrapped, strict=True)
                )
        return self.to_string(**shown, line_width=columns)

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            most = pd.get_option("display.max_rows")
            return self.to_html(float_format=_short, na_rep="", max_rows=most)


def frame(rows: Mapping[Any, Any], columns: Sequence[str] | None, *levels: str) -> pd.DataFrame:
    """Return rows by key as a table whose index has these levels."""
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    table.index = pd.MultiIndex.from_tuples(table.index, names=levels)
    return table


def status_html(status: Status, text: str, table: pd.DataFrame) -> str:
    """Return HTML: the first line as a coloured headline, the other lines, and the table."""
    headline, *sentences = text.split("\n")
    colour = {"good": "#2e7d32", "open": "#b26a00", "bad": "#c62828"}[status]
    style = f"color: {colour}; font-weight: bold"
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    shown = table.to_html(float_format=_short, na_rep="", max_rows=20)
    return f'<div><p style="{style}">{escape(headline)}</p>{paragraphs}{shown}</div>'


def _short(x: float) -> str:
    """Return a number with three decimals, or two digits below 0.1, or none if it is whole."""
    decimals = 0 if float(x).is_integer() else 3
    return f"{x:.{decimals}f}" if abs(x) >= 0.1 or x == 0 else f"{x:.2g}"
