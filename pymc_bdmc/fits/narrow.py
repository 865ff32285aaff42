"""Find narrow modes of a posterior that samples miss, by optimisation."""

from numpy.random import Generator

from pymc_bdmc.fits.draws import draw_weighted, log_weights_at
from pymc_bdmc.fits.fit import share_beyond
from pymc_bdmc.fits.modes import find_modes
from pymc_bdmc.reference.contract import Density
from pymc_bdmc.reference.student import Reference, make_reference, mix_references

DRAWS, SEARCHES = 1000, 4
"""Numbers of draws and of searches; for the spike and slab each found the spike."""
LEAST_SHARE = 0.1
"""Smallest share of the posterior near a narrow mode that is missed."""


def add_narrow_modes(reference: Reference, density: Density, rng: Generator) -> Reference:
    """Add a component to a reference, of one component, at every narrow mode that it misses.

    Searches start at some of its draws. If log p + ℓ − log r is larger at a mode than at any draw,
    importance sampling with a component there estimates the share of the posterior that r misses.
    With more than 20 elements it cannot, and the reference stays as it is.
    """
    if reference.locations.shape[1] > 20:
        return reference
    parts, dof = [reference], reference.degrees_of_freedom
    drawn = draw_weighted(density, reference, DRAWS, rng)
    found = find_modes(
        density, drawn.thetas[:SEARCHES], reference.metric(0), SEARCHES, dof,
        has_gradient=density.has_gradient,
    ).reference  # fmt: skip
    if found is None:
        return reference
    for k, mode in enumerate(found.locations):
        log_r = drawn.reference.log_density(mode[None])
        if not log_weights_at(mode[None], log_r, density) > drawn.g.max():
            continue
        part = make_reference(mode, found.metric(k), dof)
        mixed = draw_weighted(density, mix_references([*parts, part]), DRAWS, rng)
        if share_beyond(drawn.reference, mixed) > LEAST_SHARE:
            parts, drawn = [*parts, part], mixed
    return drawn.reference
