"""Foundations that all rooms share, starting with its version and its lists of names."""

import logging
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import ismodule

_log = logging.getLogger("pymc.bdmc")

NEWEST_PYMC = "6.4"
"""Newest minor version of PyMC with which all tests passed; pyproject.toml says the same."""


def _installed() -> str:
    try:
        return version("pymc-bdmc")
    except PackageNotFoundError:  # a copy of the sources that is not installed
        return "unknown"


VERSION = _installed()


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
