"""Turn Ctrl-C into a flag for compiled loops, threads and Python loops."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

NOTHING_FINISHED = (
    "Ctrl-C came before any part of the result was finished, so there is nothing to keep."
)


class _Interrupted(BaseException):
    """Interruption, no KeyboardInterrupt, since `pymc.sample` returns draws at those."""


class _Handler:
    def __init__(self):
        self.stop = np.zeros(1, dtype=np.uint8)
        self.raises = False

    def __call__(self, signum, frame):
        again = self.stop[0]
        self.stop[0] = 1
        if self.raises:
            if frame.f_code not in nothing_to_keep.AT_THE_EDGE:
                raise _Interrupted
        elif again:
            raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[np.ndarray]:
    """Turn the first Ctrl-C into a flag, to keep finished work, and raise at the second one.

    The flag has shape (1,); it is 1 after Ctrl-C, and loops, also compiled ones, then end early.
    Only the main thread receives signals, and none if the caller ignores Ctrl-C. Calls that block
    in C code continue, so give them a time limit and check the flag in a loop.
    """
    with _handler() as handler:
        yield handler.stop


class nothing_to_keep:
    """Raise KeyboardInterrupt at the first Ctrl-C, even if code within suppresses it."""

    def __enter__(self) -> None:
        self._context = _handler()
        self._handler = self._context.__enter__()
        self._outside, self._handler.raises = self._handler.raises, _in_main_thread()
        if self._handler.stop[0]:
            self.__exit__(None, None, None)

    def __exit__(self, kind, error, traceback) -> None:
        self._handler.raises = self._outside
        self._context.__exit__(None, None, None)
        if self._handler.stop[0]:
            raise KeyboardInterrupt(NOTHING_FINISHED) from error

    AT_THE_EDGE = (__enter__.__code__, __exit__.__code__)
    """Code that checks the flag itself, since nothing around it converts `_Interrupted`."""


@contextmanager
def unbroken() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, where it is raised unless inside `interruptible`."""
    keeps = isinstance(signal.getsignal(signal.SIGINT), _Handler)
    with _handler() as handler:
        outside, handler.raises = handler.raises, False
        try:
            yield
        finally:
            handler.raises = outside
        if handler.stop[0] and (outside or not keeps):
            raise KeyboardInterrupt


@contextmanager
def _handler() -> Iterator[_Handler]:
    """Yield the active handler or a new one, which gets no signals unless Ctrl-C raises here."""
    before = signal.getsignal(signal.SIGINT)
    if isinstance(before, _Handler):
        yield before
        return
    handler = _Handler()
    if not _in_main_thread() or not callable(before):  # SIG_IGN and SIG_DFL are not
        yield handler
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
