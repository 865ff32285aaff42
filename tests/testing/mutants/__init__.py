"""Samplers, models and evidence with one fault each, beside the sound parents they deviate from.

Read a parent and its mutants side by side to learn what goes wrong in practice; run
``python -m tests.testing.mutants`` to see which check catches what, and how fast.
"""

from tests.testing.mutants import coordinates, evidence, hamiltonian, models, walks
from tests.testing.mutants.catalogue import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "coordinates", "evidence", "hamiltonian", "models", "walks"]
