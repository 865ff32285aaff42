"""Show the progress of a call in one line, which each update replaces."""

import time
from collections.abc import Mapping
from datetime import timedelta

from rich.console import Console

PAUSE = 0.1
"""Seconds between two updates of the line, at least. Chosen."""


class ChainProgress:
    """Line with the count of every kind of run and its mean log weight so far.

    It appears in terminals and notebooks. A file or a pipe gets nothing.

    Parameters
    ----------
    runs : dict of str to int
        Number of chains by the name of the run.
    visible : bool
        Whether to show anything.
    counted, found : str
        Names of the counts and of the values.

    Examples
    --------
    >>> from pymc_bdmc.base.progress import ChainProgress
    >>> with ChainProgress({"forward": 40, "real": 16}) as progress:
    ...     progress.finished("forward", -3.5, -2.5)
    >>> str(progress)
    'Runs (mean log weight): forward 2/40 (-3.00), real 0/16. 0:00:00, 0:00:00 left'
    """

    def __init__(
        self,
        runs: Mapping[str, int],
        visible: bool = True,
        counted: str = "Runs",
        found: str = "mean log weight",
    ):
        console = Console()
        self._visible = visible and (console.is_terminal or console.is_jupyter)
        self._most, self._title = console.width - 1, f"{counted} ({found})"
        self._total, self._done, self._found = dict(runs), dict.fromkeys(runs, 0), dict[str, str]()
        self._log_weights = {name: [0, 0.0] for name in runs}
        """Number and sum of log weights, by kind of run."""
        self._started, self._shown, self._length = time.monotonic(), 0.0, 0

    def __enter__(self) -> "ChainProgress":
        self._show()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._show()
        if self._visible:
            print(flush=True)

    def __str__(self) -> str:
        told = [
            f"{name} {self._done[name]}/{total}"
            + (f" ({self._found[name]})" if name in self._found else "")
            for name, total in self._total.items()
        ]
        done, total = sum(self._done.values()), sum(self._total.values())
        seconds = time.monotonic() - self._started
        left = f", {_clock(seconds * (total - done) / done)} left" if 0 < done < total else ""
        return f"{self._title}: {', '.join(told)}. {_clock(seconds)}{left}"

    def finished(self, run: str, *log_weights: float) -> None:
        """Count more chains of a run and update its mean log weight."""
        totals = self._log_weights[run]
        totals[0] += len(log_weights)
        totals[1] += sum(log_weights)
        self.advance(run, len(log_weights), totals[1] / totals[0])

    def advance(self, run: str, count: int, found: float) -> None:
        """Add to the count of a kind of run and show a value."""
        self._done[run] += count
        self._found[run] = f"{found:.2f}"
        if time.monotonic() - self._shown > PAUSE:
            self._show()

    def complete(self, run: str) -> None:
        """Complete a kind of run that needed less than expected."""
        self._total[run] = self._done[run]

    def _show(self) -> None:
        if self._visible:
            line, self._shown = str(self)[: self._most], time.monotonic()
            print("\r" + line.ljust(self._length), end="", flush=True)
            self._length = len(line)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
