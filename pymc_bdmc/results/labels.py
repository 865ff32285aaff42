"""Say whether draws keep components that can change places, as those of a mixture, in one order."""

from collections.abc import Iterator
from math import lgamma

import numpy as np
from numpy import ndarray

from pymc_bdmc.results.particles import Unconstrained
from pymc_bdmc.results.score import BLOCKS

MOST_COMPONENTS = 20
"""Most places along an axis that are taken for components. Chosen: each takes evaluations of p."""


def one_labelling(space: Unconstrained, values: dict[str, ndarray]) -> Iterator[str]:
    """Name variables whose components can change places, if these draws keep their order.

    Components are places along axes of the same name, or of the same length. The first can change
    places with another one if log p(θ, y) stays the same at three draws.
    """
    few = {name: each[:: -(-len(each) // 3)] for name, each in values.items()}
    right = space.log_joint(space.rows(few))
    for axes, n in _shared_axes(space, values):

        def can_change(k: int, axes=axes, n=n) -> bool:
            moved, order = dict(few), np.r_[k, 1:k, 0, k + 1 : n]
            for name, axis in axes:
                moved[name] = moved[name].take(order, axis)
            return np.allclose(space.log_joint(space.rows(moved)), right, rtol=1e-10, atol=1e-8)

        def is_kept(k: int, axes=axes) -> bool:
            is_first = (
                values[name].take(0, axis) > values[name].take(k, axis) for name, axis in axes
            )
            blocks = [block for each in is_first for block in np.array_split(each, BLOCKS)]
            return any((block.all(axis=0) | ~block.any(axis=0)).any() for block in blocks)

        others = [k for k in range(1, n) if can_change(k)]
        if any(map(is_kept, others)):
            names, size = ", ".join(dict.fromkeys(name for name, _ in axes)), len(others) + 1
            yield (
                f"{size} components of {names} can change places, and these draws keep their "
                f"order: log ML is up to log {size}! = {lgamma(size + 1):.2f} too low."
            )


def _shared_axes(
    space: Unconstrained, values: dict[str, ndarray]
) -> set[tuple[tuple[tuple[str, int], ...], int]]:
    """Return variables with an axis of the same name or length, and its number, and the length."""
    dims, found = space.layout.model.named_vars_to_dims, dict[object, list[tuple[str, int]]]()
    sizes = {(name, i): n for name, each in values.items() for i, n in enumerate(each.shape) if i}
    for (name, axis), n in sizes.items():
        own = {n, (dims.get(name) or {axis - 1: None})[axis - 1]} - {None}
        for key in own:
            found.setdefault(key, []).append((name, axis))
    shared = {(tuple(axes), sizes[axes[0]]) for axes in found.values()}
    return {each for each in shared if 1 < each[1] <= MOST_COMPONENTS}
