"""Check the log weights of single runs: that they are there, finite, and none decides alone."""

import numpy as np

from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import Side


def unfinished(read: Reading, side: Side) -> Message | None:
    """Tell if no run was finished."""
    return None if side.finished else message("no chain")


def infinite(read: Reading, side: Side) -> Message | None:
    """Tell how many weights are zero or infinite."""
    n = sum(int(np.isinf(row).sum()) for row in side.finished)
    return message("infinite", n=n, of=side.n_finished) if n else None


def no_mean(read: Reading, side: Side) -> Message | None:
    """Tell if the mean of forward log weights does not exist, or is not resolved."""
    if side.is_reverse or side.tail.resolved:
        return None
    return message("no mean", reason=side.tail.reason)


def straggling(read: Reading, side: Side) -> Message | None:
    """Tell how many log weights decide the mean alone."""
    n = sum(map(_stragglers, side.finished))
    return message("straggling", n=n, of=side.n_finished) if n else None


def _stragglers(signed: np.ndarray) -> int:
    """Count log weights so far below the median that each alone shifts the mean by an IQR."""
    finite = signed[np.isfinite(signed)]
    if len(finite) < 4:
        return 0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    return int(np.sum((middle - finite) / len(finite) > max(high - low, 0.1)))
