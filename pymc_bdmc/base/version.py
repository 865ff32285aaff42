"""Find the version of the package, for the attributes of a result."""

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    """Return the installed version; a copy of the sources that is not installed has none."""
    try:
        return version("pymc-bdmc")
    except PackageNotFoundError:
        return "unknown"


VERSION = _installed()
