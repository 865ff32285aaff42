"""Ctrl-C as a flag that compiled loops, threads and Python loops all see."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[np.ndarray]:
    """Turn the first Ctrl-C into a flag, so that what is finished is kept; the second one raises.

    Yields
    ------
    ndarray of shape (1,), uint8
        0 until Ctrl-C, then 1. Loops end early where it is set, compiled ones too.

    Notes
    -----
    Signals come to the main thread alone; in any other the flag stays 0. So it does where the
    caller has Ctrl-C ignored.

    Examples
    --------
    >>> import signal
    >>> from pymc_bdmc.interrupts import interruptible
    >>> with interruptible() as stop:
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("kept", stop)
    kept [1]
    """
    stop = np.zeros(1, dtype=np.uint8)

    def note(signum, frame):
        if stop[0]:
            raise KeyboardInterrupt
        stop[0] = 1

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield stop
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
