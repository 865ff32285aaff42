"""Reject invalid or excessive arguments, with messages that name the argument and the remedy."""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from numbers import Number, Real
from typing import Any

import numpy as np

_MOST_CORES = 64
"""Most threads or processes that may be requested on a machine with fewer cores."""


def check_counts(**counts: int) -> None:
    """Raise an error unless counts are integers of at least the minimum.

    Raises
    ------
    ValueError
        Names the argument.
    """
    minimum = {"chains": 2, "burn_in": 0}
    for name, value in counts.items():
        least = minimum.get(name, 1)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name}: must be a whole number of at least {least}, got {value!r}.")


def check_positive(**values: float | None) -> None:
    """Raise an error unless values are None or positive, finite numbers.

    Raises
    ------
    ValueError
        Names the argument.
    """
    for name, value in values.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < np.inf):
            raise ValueError(f"{name}: must be a positive number, got {value!r}.")


def check_confidence(confidence: float) -> None:
    """Raise an error unless a confidence is a number between 0 and 1.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence!r}.")


def check_flags(**flags: bool) -> None:
    """Raise an error unless flags are True or False, since any other value would pass as one.

    Raises
    ------
    TypeError
        Names the argument.
    """
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool):
            raise TypeError(f"{name}: must be True or False, got {value!r}.")


def check_choice(name: str, value: object, choices: Iterable[str], *others: str) -> None:
    """Raise an error unless the value is one of the choices.

    The message also names ``others``, which are valid values that are not strings.

    Raises
    ------
    ValueError
        If the value is not a choice. The message names the argument and the choices.
    """
    if not isinstance(value, str) or value not in choices:
        *most, last = [*map(repr, choices), *others]
        known = f"{', '.join(most)} and {last}" if others else ", ".join([*most, last])
        told = repr(value) if isinstance(value, str | Number) else f"a {type(value).__name__}"
        raise ValueError(f"{name}: {told} is none of {known}.")


def lower(name: Any) -> Any:
    """Return a name in lower case, and anything else as it is.

    Examples
    --------
    >>> from pymc_bdmc.base.arguments import lower
    >>> lower("NUTS")
    'nuts'
    """
    return name.lower() if isinstance(name, str) else name


def check_memory(needed: Callable[..., float], **arguments: int) -> None:
    """Raise an error if the arguments need more memory than this machine has.

    Parameters
    ----------
    needed : callable
        Function that returns the least number of bytes needed, increasing in all arguments.
    **arguments : int
        Arguments of ``needed``.

    Raises
    ------
    ValueError
        If they do. The message names the arguments, the memory needed and available, and the
        largest values that would fit.

    Examples
    --------
    >>> from pymc_bdmc.base.arguments import check_memory
    >>> check_memory(lambda chains: 8 * chains, chains=10)
    """
    there = _memory()
    if needed(**arguments) <= there:
        return
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    fits = {
        name: bisect_right(range(1, value), there, key=lambda n: needed(**arguments | {name: n}))
        for name, value in arguments.items()
    }
    remedy = " or ".join(f"{name}={largest}" for name, largest in fits.items() if largest)
    raise ValueError(
        f"{given}: this takes at least {needed(**arguments) / 2**30:.3g} GiB of memory, and the "
        f"machine has {there / 2**30:.3g} GiB. Ask for less"
        + (f": {remedy} would fit." if remedy else " of each.")
    )


def _memory() -> float:
    """Return the memory of the machine in bytes, or a large number if it is not known."""
    if not hasattr(os, "sysconf"):  # Windows
        return 64 * 2.0**30
    return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")


def available_cores() -> int:
    """Return the number of CPUs that this process may use, including hardware threads.

    Examples
    --------
    >>> from pymc_bdmc.base.arguments import available_cores
    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def number_of_cores(cores: int | None, executor: Executor | None = None) -> int:
    """Return the number of threads or processes, by default the available ones but at most 4.

    Raises
    ------
    TypeError
        If ``executor`` is not an `Executor`.
    ValueError
        If ``cores`` is not a positive integer, is far more than the machine has, or is given
        together with an executor, or if the executor does not accept tasks.

    Examples
    --------
    >>> from pymc_bdmc.base.arguments import number_of_cores
    >>> number_of_cores(2)
    2
    """
    if not isinstance(executor, Executor | None):
        raise TypeError(
            "executor: a concurrent.futures.Executor is needed, as Client.get_executor() of Dask "
            f"returns, got {executor!r}."
        )
    if executor and cores is not None:
        raise ValueError("cores: the executor has its own workers; leave cores out.")
    if executor:
        _check_takes_tasks(executor)
    available = available_cores()
    if cores is None:
        return min(available, 4)
    check_counts(cores=cores)
    if cores > max(available, _MOST_CORES):
        raise ValueError(
            f"cores: {cores} are far more than the {available} of this machine; the result is the "
            "same for any number."
        )
    return int(cores)


def _check_takes_tasks(executor: Executor) -> None:
    """Raise an error if an executor is shut down or broken."""
    try:
        executor.submit(int).cancel()
    except Exception as error:
        raise ValueError(
            f"executor: it takes no tasks ({error!r}). Pass one that is not shut down and whose "
            "workers run."
        ) from error
