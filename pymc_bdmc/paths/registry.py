"""The paths that have a name. A new one is a file beside this one, and an entry here."""

from pymc_bdmc.base.arguments import check_choice
from pymc_bdmc.paths.contract import Path
from pymc_bdmc.paths.data import DataPath
from pymc_bdmc.paths.fitted import FittedPath
from pymc_bdmc.paths.prior import PriorPath

PATHS: dict[str, Path] = {path.name: path for path in (PriorPath(), FittedPath(), DataPath())}
"""By name; a path with arguments is passed as an object."""


def make_path(path: str | Path | None) -> Path | None:
    """Return the path of a name; an object, or None, is returned as it is.

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> from pymc_bdmc.paths import make_path
    >>> make_path("prior")
    PriorPath()
    """
    if isinstance(path, Path | None):
        return path
    check_choice("path", path, PATHS, "FittedPath(...)", "ReferencePath(...)", "None")
    return PATHS[path]
