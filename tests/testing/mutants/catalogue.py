"""Catalogue of mutants: a correct parent, a copy with one fault, and checks that may find it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Trial = Mapping[str, Callable[..., Any]]
"""Checks of one kind of specimen, by name: functions of the specimen and the check's settings."""

Specimen = TypeVar("Specimen", bound=Callable)


@dataclass(frozen=True)
class Mutant:
    """Specimen with one fault, and its parent without.

    Attributes
    ----------
    broken, parent : callable
        Class or function that makes a specimen (a sampler, a model, …) with the fault and without.
    trial : mapping of str to callable
        Checks that can judge it, by name.
    seen_by : str or None
        Quickest check that sees the fault, or None if no check of correctness can.
    """

    broken: Callable
    parent: Callable
    trial: Trial
    seen_by: str | None

    @property
    def name(self) -> str:
        """Return the name of the class or function with the fault."""
        return self.broken.__name__

    @property
    def fault(self) -> str:
        """Return what is wrong, the first line of the docstring."""
        return str(self.broken.__doc__).splitlines()[0]


MUTANTS: dict[str, Mutant] = {}
"""All mutants by name."""


def mutant_of(
    parent: Callable, trial: Trial, seen_by: str | None
) -> Callable[[Specimen], Specimen]:
    """Enter a class or function in the catalogue as a faulty copy of ``parent``."""

    def enter(broken: Specimen) -> Specimen:
        mutant = Mutant(broken, parent, trial, seen_by)
        MUTANTS[mutant.name] = mutant
        return broken

    return enter
