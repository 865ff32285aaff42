"""The version of the package, which a result carries."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["VERSION"]


def _installed() -> str:
    """What pip installed; a copy of the sources that it knows nothing of has no version."""
    try:
        return version("pymc-bdmc")
    except PackageNotFoundError:
        return "unknown"


VERSION = _installed()
