"""Show a status with its sentences and its table in a notebook."""

from html import escape
from typing import Literal

import pandas as pd

from pymc_bdmc.results.table import short

Status = Literal["good", "open", "bad"]

_COLOURS = {"good": "#2e7d32", "open": "#b26a00", "bad": "#c62828"}

MOST_ROWS = 20


def status_html(status: Status, text: str, table: pd.DataFrame) -> str:
    """Return HTML: the first line as a coloured headline, the other lines, and the table."""
    headline, *sentences = text.split("\n")
    style = f"color: {_COLOURS[status]}; font-weight: bold"
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    shown = table.to_html(float_format=short, na_rep="", max_rows=MOST_ROWS)
    return f'<div><p style="{style}">{escape(headline)}</p>{paragraphs}{shown}</div>'
