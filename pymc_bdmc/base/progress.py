"""Show the progress of a call in one line, which each update replaces."""

import time
from collections.abc import Mapping
from datetime import timedelta
from threading import Event, Thread

from rich.console import Console

PAUSE, TICK = 0.1, 1.0  # seconds between two updates of the line, at least and at most; chosen


class ChainProgress:
    """Line in terminals and notebooks with the count and mean log weight of every kind of run.

    Its clock moves while nothing is finished. If ``found`` is empty, the line vanishes at its end.
    """

    def __init__(
        self,
        runs: Mapping[str, int],
        visible: bool | str = True,
        counted: str = "Runs",
        found: str = "mean log weight",
    ):
        console = Console()
        self._visible = bool(visible) and (console.is_terminal or console.is_jupyter)
        self._most, self._stays = console.width - 1, bool(found)
        self._title = f"{counted} ({found})" if found else counted
        self._total, self._done = dict(runs), dict.fromkeys(runs, 0)
        self._found = dict.fromkeys(runs, "")  # value to show
        self._sums = dict.fromkeys(runs, 0.0)  # of log weights
        self._started, self._shown, self._length = time.monotonic(), 0.0, 0
        self._ended, self._clock = Event(), Thread(target=self._tick, daemon=True)

    def __enter__(self) -> "ChainProgress":
        self._show()
        if self._visible:
            self._clock.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._visible:
            self._ended.set()
            self._clock.join()
            self._show()
            print("\n" if self._stays else f"\r{'':{self._length}}\r", end="", flush=True)

    def _tick(self) -> None:
        while not self._ended.wait(TICK):
            self._show()

    def __str__(self) -> str:
        runs = [
            f"{name} {self._done[name]}/{total}{self._found[name]}"
            for name, total in self._total.items()
        ]
        done, total = sum(self._done.values()), sum(self._total.values())
        seconds = time.monotonic() - self._started
        left = f", {_clock(seconds * (total - done) / done)} left" if 0 < done < total else ""
        return f"{self._title}: {', '.join(runs)}. {_clock(seconds)}{left}"

    def finished(self, run: str, *log_weights: float) -> None:
        """Count more chains and update the mean log weight."""
        self._sums[run] += sum(log_weights)
        count = len(log_weights)
        self.advance(run, count, self._sums[run] / (self._done[run] + count))

    def advance(self, run: str, count: int, found: float | None = None) -> None:
        """Add to the count of a kind of run and show a value."""
        self._done[run] += count
        self._found[run] = "" if found is None else f" ({found:.2f})"
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
