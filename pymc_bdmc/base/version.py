"""Find the version of the package, and tell whether it was tested with the PyMC at hand."""

import logging
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_log = logging.getLogger("pymc.bdmc")

NEWEST_PYMC = "6.4"
"""The newest minor version of PyMC with which all tests passed; pyproject.toml says the same."""


def _installed() -> str:
    """Return the installed version; a copy of the sources that is not installed has none."""
    try:
        return version("pymc-bdmc")
    except PackageNotFoundError:
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
