"""Foundations that all rooms share, starting with its version and its lists of names."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import ismodule
from types import SimpleNamespace

NEWEST_PYMC = "6.4"
"""Newest minor version of PyMC with which all tests passed; pyproject.toml says the same."""


def _installed() -> str:
    try:
        return version("pymc-bdmc")
    except PackageNotFoundError:  # a copy of the sources that is not installed
        return "unknown"


VERSION = _installed()

LIBRARY = SimpleNamespace(__name__="pymc_bdmc", __version__=VERSION)
"""This package, as ArviZ writes it into the attributes of groups."""


def logger(module: str) -> logging.Logger:
    """Return the logger of a module: ``pymc.bdmc…``, so that PyMC's handler shows its lines."""
    return logging.getLogger(f"pymc.bdmc{module.removeprefix('pymc_bdmc')}")


_log = logger("pymc_bdmc")


@contextmanager
def silenced(quiet: bool) -> Iterator[None]:
    """Context in which neither PyMC nor this package logs, if ``quiet``."""
    loggers = [logging.getLogger(name) for name in ("pymc", "pymc.bdmc") if quiet]
    levels = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


@cache
def warn_if_newer(found: str) -> None:
    """Log, once a process, that a version of PyMC is of a newer minor than `NEWEST_PYMC`."""
    major, minor = map(int, NEWEST_PYMC.split("."))
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers and tuple(map(int, numbers.groups())) > (major, minor):
        _log.warning(
            f"PyMC {found} is newer than {NEWEST_PYMC}, the newest with which this version of "
            "pymc_bdmc was tested, and private parts of PyMC are used: results may be wrong. "
            f'Install "pymc<{major}.{minor + 1}", or a newer pymc_bdmc.'
        )


def public_names(module: Mapping[str, object]) -> list[str]:
    """Return the names that a module imports or defines for its users, from its `globals`."""
    return sorted(
        name for name, each in module.items() if not (name.startswith("_") or ismodule(each))
    )
