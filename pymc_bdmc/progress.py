"""A progress table in PyMC's style: chains done and the current bound of every run."""

from types import TracebackType

import numpy as np
from pymc.progress_bar import CustomProgress, default_progress_theme
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

__all__ = ["ChainProgress"]


class ChainProgress:
    """One row a run, with the mean log weight so far; shows nothing if ``visible`` is false.

    Parameters
    ----------
    runs : dict of str to int
        Number of chains by the name of the run.
    visible : bool
        Whether to show anything.
    """

    def __init__(self, runs: dict[str, int], visible: bool = True):
        self._progress = CustomProgress(
            TextColumn("{task.description}", table_column=Column("Run", ratio=2)),
            BarColumn(bar_width=None, table_column=Column("Progress", ratio=2)),
            TextColumn(
                "{task.completed:.0f}/{task.total:.0f}", table_column=Column("Chains", ratio=1)
            ),
            TextColumn("{task.fields[bound]}", table_column=Column("Bound", ratio=1)),
            TimeElapsedColumn(table_column=Column("Elapsed", ratio=1)),
            TimeRemainingColumn(table_column=Column("Remaining", ratio=1)),
            console=Console(theme=default_progress_theme),
            include_headers=True,
            expand=True,
            disable=not visible,
        )
        self._rows = {
            name: self._progress.add_task(name, total=total, bound="")
            for name, total in runs.items()
        }
        self._log_weights: dict[str, list[float]] = {name: [] for name in runs}

    def __enter__(self) -> "ChainProgress":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def finished(self, run: str, log_weight: float) -> None:
        """Count one more chain of a run and update its mean log weight."""
        self._log_weights[run].append(log_weight)
        mean = np.mean(self._log_weights[run])
        self._progress.update(self._rows[run], advance=1, bound=f"{mean:.2f}")
