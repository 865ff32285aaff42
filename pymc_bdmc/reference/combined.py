"""Matrices that are combinations of a few known ones, so that a few columns give all entries."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

ACCURACY = 1e-6
"""Largest error of a combination, relative to its matrix. Chosen: far above the error of
differences of gradients, and too small to affect the weights of draws."""


class Combination(NamedTuple):
    """Matrices Σ c_i B_i, given their entries in some groups of columns."""

    basis: np.ndarray
    """Entries of B_1 … B_r, shape (r, E)."""
    groups: np.ndarray
    """Groups of columns that are measured."""
    measured: np.ndarray
    """Places of the entries in these columns among all E."""
    solver: np.ndarray
    """Matrix that turns the measured entries into c, shape (measured, r)."""

    def complete(self, entries: np.ndarray) -> np.ndarray:
        """Return all entries of matrices, shape (n, E), given the measured ones."""
        return entries @ self.solver @ self.basis


def combination_of(entries: np.ndarray, groups: np.ndarray) -> Combination | None:
    """Find the basis of matrices from examples; None if the examples do not show that it is small.

    Parameters
    ----------
    entries : ndarray of shape (n, E)
        Entries of n matrices.
    groups : ndarray of shape (E,)
        Group of columns of every entry.
    """
    if not np.isfinite(entries).all():
        return None
    entries = entries / np.linalg.norm(entries, axis=1, keepdims=True)
    _, sizes, basis = np.linalg.svd(entries, full_matrices=False)
    rank = int((sizes > ACCURACY * sizes[0]).sum())
    if 2 * rank > len(entries):
        return None
    basis = basis[:rank]
    _, pivots = qr(basis, mode="r", pivoting=True)
    chosen = np.unique(groups[pivots[:rank]])
    measured = np.flatnonzero(np.isin(groups, chosen))
    return Combination(basis, chosen, measured, np.linalg.pinv(basis[:, measured]))
