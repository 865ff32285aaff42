"""Findings of checks: a status, sentences, numbers, and what to do about it."""

import re
from typing import Literal, NamedTuple, NewType

import numpy as np
from scipy.special import stdtrit

Status = Literal["good", "open", "bad"]

Remedy = NewType("Remedy", str)
"""Advice on a finding. `tests/results/test_remedies.py` follows each that is written."""

NO_REMEDY = Remedy("")

MAX_CHANCE = 1e-3
"""Largest p-value at which a difference is said to be evidence of an error; chosen."""


class Finding(NamedTuple):
    """Result of one check."""

    name: str
    status: Status | None
    """None if the check does not affect the verdict."""
    sentences: tuple[str, ...] = ()
    remedy: Remedy = NO_REMEDY
    value: float = np.nan
    error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan
    brief: str = ""
    """A short form of the sentences, for those who want the answer only."""

    @property
    def text(self) -> str:
        """Return all sentences."""
        return " ".join(self.sentences)

    @property
    def told(self) -> Remedy:
        """Return the sentences and the remedy in a line, which may be the remedy of others."""
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
    """Return sentences to the reader of a result as a paper has them.

    Examples
    --------
    >>> from pymc_bdmc.results.finding import for_paper
    >>> for_paper("Your data do not stand out.")
    'The data do not stand out.'
    """
    words = "|".join(map(re.escape, PAPER))
    return re.sub(rf"\b(?:{words})\b", lambda found: PAPER[found[0]], text)


def half_interval(error: float, n: int, confidence: float = 0.95) -> float:
    """Return half of the t interval of a mean of n values; infinite if n < 2."""
    return float(error * stdtrit(n - 1, (1 + confidence) / 2)) if n > 1 else np.inf
