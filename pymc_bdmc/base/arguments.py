"""Reject invalid, excessive or unknown arguments; messages name the argument and the remedy."""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from difflib import get_close_matches
from numbers import Number, Real
from typing import Any, get_args

import numpy as np
from pymc.progress_bar import ProgressBarOptions


def check_counts(**counts: int) -> None:
    """Raise a ValueError unless counts are integers of at least the minimum."""
    minimum = {"chains": 2, "burn_in": 0}
    for name, value in counts.items():
        least = minimum.get(name, 1)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name}: must be a whole number of at least {least}, got {value!r}.")


def check_positive(**values: float | None) -> None:
    """Raise a ValueError unless values are None or positive, finite numbers."""
    for name, value in values.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if value is not None and not (number and 0 < value < np.inf):
            raise ValueError(f"{name}: must be a positive number, got {value!r}.")


def check_confidence(confidence: float) -> None:
    """Raise a ValueError unless a confidence is a number between 0 and 1."""
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence!r}.")


def check_flags(**flags: bool) -> None:
    """Raise a TypeError unless flags are True or False, since any other value would pass as one."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool):
            raise TypeError(f"{name}: must be True or False, got {value!r}.")


def check_progressbar(progressbar: bool | str) -> None:
    """Raise an error unless `pymc.sample` takes this for ``progressbar``; all texts show a line."""
    if isinstance(progressbar, str):
        check_choice("progressbar", progressbar, get_args(ProgressBarOptions), "True", "False")
    else:
        check_flags(progressbar=progressbar)


def check_choice(name: str, value: object, choices: Iterable[str], *others: str) -> None:
    """Raise a ValueError unless the value is a choice; ``others`` are valid but no strings."""
    if not isinstance(value, str) or value not in choices:
        *most, last = [*map(repr, choices), *others]
        known = f"{', '.join(most)} and {last}" if others else ", ".join([*most, last])
        given = repr(value) if isinstance(value, str | Number) else f"a {type(value).__name__}"
        raise ValueError(f"{name}: {given} is none of {known}.")


def lower(name: Any) -> Any:
    """Return a name in lower case, and anything else as it is."""
    return name.lower() if isinstance(name, str) else name


REMEDIES = {
    "draws": "The group posterior has as many draws as the runs are worth. For more of them, pass "
    "chains, the number of independent runs, or target_error, the standard error of log ML.",
    "tune": "Pilots tune the kernels for as long as they need. For longer runs, pass temperatures.",
    "target_accept": "The compiled kernels need none. For PyMC's NUTS, pass "
    "step=functools.partial(pm.NUTS, target_accept=0.95).",
    "nuts_sampler": 'Kernels of this package anneal the runs, such as step="nuts". To judge the '
    "draws of another sampler, pass posterior=idata.",
    "return_inferencedata": "The result is always a DataTree, with draws in its group posterior.",
    "idata_kwargs": "Add log likelihoods by pm.compute_log_likelihood(dt, model=model).",
    "seed": "Pass random_seed.",
    "idata": "To judge draws, pass posterior=idata.",
    "var_names": "The result has all free variables; choose among them afterwards.",
    "trace": "The result is a DataTree. To save every finished run, pass store, a directory.",
    "mp_ctx": "Pass cores, or an executor with processes of your own.",
    "blas_cores": "Pass cores; every run uses one.",
    "kernel": "Pass step.",
    "threshold": "The adaptive schedule needs none. For another one, pass schedule.",
    **dict.fromkeys(
        ("nuts", "nuts_sampler_kwargs", "max_treedepth"),
        "Pass step=functools.partial(pm.NUTS, ...) with options of PyMC's NUTS.",
    ),
    **dict.fromkeys(
        ("init", "initvals", "n_init", "jitter_max_retries", "start"),
        "Runs start at draws from the prior or from a fit; the bounds would not hold otherwise.",
    ),
}
"""Remedies by the name of an argument of `pymc.sample` or `pymc.sample_smc`."""


def refuse_unknown(unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError for the first unknown argument, with what to pass in its place."""
    for name in unknown:
        close = get_close_matches(name, list(known), n=1)
        meant = f"Did you mean {close[0]}?" if close else "See help(bdmc.sample_bdmc)."
        remedy = REMEDIES.get(name, meant)
        raise TypeError(f"{name}: sample_bdmc has no such argument. {remedy}")


def check_memory(needed: Callable[..., float], **arguments: int) -> None:
    """Raise a ValueError, with what would fit, if the machine's memory is too small.

    ``needed`` returns bytes, and increases in all arguments.
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


def number_of_cores(cores: int | None, executor: Executor | None = None) -> int:
    """Return the number of threads or processes, by default the available ones but at most 4."""
    if not isinstance(executor, Executor | None):
        raise TypeError(
            "executor: a concurrent.futures.Executor is needed, as Client.get_executor() of Dask "
            f"returns, got {executor!r}."
        )
    if executor and cores is not None:
        raise ValueError("cores: the executor has its own workers; leave cores out.")
    if executor:
        try:
            executor.submit(int).cancel()
        except Exception as error:
            raise ValueError(
                f"executor: it takes no tasks ({error!r}). Pass one that is not shut down and "
                "whose workers run."
            ) from error
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    if cores is None:
        return min(available, 4)
    check_counts(cores=cores)
    if cores > max(available, 64):  # 64 are allowed on any machine
        raise ValueError(
            f"cores: {cores} are far more than the {available} of this machine; the result is the "
            "same for any number."
        )
    return int(cores)
