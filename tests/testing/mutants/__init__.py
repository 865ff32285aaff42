"""Samplers, models and evidence with one fault each, beside the sound parents they deviate from.

Read a parent and its mutants side by side to learn what goes wrong in practice; run
``python -m tests.testing.mutants`` to see which check catches what, and how fast.
"""

from tests.testing.mutants import coordinates as coordinates
from tests.testing.mutants import evidence as evidence
from tests.testing.mutants import hamiltonian as hamiltonian
from tests.testing.mutants import models as models
from tests.testing.mutants import walks as walks
from tests.testing.mutants.catalogue import MUTANTS as MUTANTS
