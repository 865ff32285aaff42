"""List the names that a module offers."""

from collections.abc import Mapping
from inspect import ismodule


def public_names(module: Mapping[str, object]) -> list[str]:
    """Return the names that a module imports or defines for its users, from its `globals`."""
    return sorted(
        name for name, each in module.items() if not (name.startswith("_") or ismodule(each))
    )
