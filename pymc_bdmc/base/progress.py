"""Show a progress table in PyMC's style."""

from collections.abc import Mapping

from pymc.progress_bar import CustomProgress, default_progress_theme
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column


class ChainProgress:
    """Progress table with one row per kind of run, and its mean log weight so far.

    Parameters
    ----------
    runs : dict of str to int
        Number of chains of each kind of run.
    visible : bool
        Whether to show anything.
    counted, found : str
        Titles of the counts and of the values.
    """

    def __init__(
        self,
        runs: Mapping[str, int],
        visible: bool = True,
        counted: str = "Chains",
        found: str = "Bound",
    ):
        self._progress = CustomProgress(
            TextColumn("{task.description}", table_column=Column("Run", ratio=2)),
            BarColumn(bar_width=None, table_column=Column("Progress", ratio=2)),
            TextColumn(
                "{task.completed:.0f}/{task.total:.0f}", table_column=Column(counted, ratio=1)
            ),
            TextColumn("{task.fields[found]}", table_column=Column(found, ratio=1)),
            TimeElapsedColumn(table_column=Column("Elapsed", ratio=1)),
            TimeRemainingColumn(table_column=Column("Remaining", ratio=1)),
            console=Console(theme=default_progress_theme),
            include_headers=True,
            expand=True,
            disable=not visible,
        )
        self._rows = {
            name: self._progress.add_task(name, total=total, found="")
            for name, total in runs.items()
        }
        self._log_weights = {name: [0, 0.0] for name in runs}
        """Number and sum of log weights, by kind of run."""

    def __enter__(self) -> "ChainProgress":
        self._progress.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self._progress.stop()

    def finished(self, run: str, *log_weights: float) -> None:
        """Add finished chains to a row and update its mean log weight."""
        totals = self._log_weights[run]
        totals[0] += len(log_weights)
        totals[1] += sum(log_weights)
        self.advance(run, len(log_weights), totals[1] / totals[0])

    def advance(self, run: str, count: int, found: float) -> None:
        """Add to the count of a row and show a value."""
        self._progress.update(self._rows[run], advance=count, found=f"{found:.2f}")

    def complete(self, run: str) -> None:
        """Mark a row as complete, although it needed less than expected."""
        task = self._rows[run]
        self._progress.update(task, total=self._progress.tasks[task].completed)
