"""Refuse arguments that are no count, no positive number or none of the choices, by name."""

from collections.abc import Iterable
from numbers import Real

import numpy as np

__all__ = ["check_choice", "check_counts", "check_positive"]


def check_counts(**counts: int) -> None:
    """Refuse counts that are not whole numbers of at least the minimum.

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
    """Refuse what is neither None nor a positive number.

    Raises
    ------
    ValueError
        Names the argument.
    """
    for name, value in values.items():
        if value is not None and not (isinstance(value, Real) and value > 0):
            raise ValueError(f"{name}: must be a positive number, got {value!r}.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse what is not one of the choices.

    Raises
    ------
    ValueError
        Names the argument and the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(map(repr, choices))}.")
