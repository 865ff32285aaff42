"""Sparse precision matrices: which entries are not zero, how they are found, and their factors."""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.linalg import qr
from scipy.sparse import csr_array

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.contract import Blocks


class Sparsity(NamedTuple):
    """Pattern of symmetric d × d matrices and of their Cholesky factors L."""

    groups: ndarray
    """Group of every column, shape (d,): the sum of its columns has every entry of them once."""
    rows: ndarray
    """Row of every entry on one side of the diagonal, or on it, shape (E,)."""
    columns: ndarray
    """Column of every such entry, shape (E,); the sum of its group has the entry in that row."""
    order: ndarray
    """Order of elimination, shape (d,)."""
    slots: ndarray
    """Place of every entry among those of L, shape (E,)."""
    starts: ndarray
    """Place of the diagonal entry of every column of L, then their number, shape (d + 1,)."""
    indices: ndarray
    """Row of every entry of L, column by column."""
    row_starts: ndarray
    """First of the entries of every row in the two arrays below, shape (d + 1,)."""
    row_columns: ndarray
    """Columns of the entries of L below the diagonal, row by row."""
    row_slots: ndarray
    """Places of these entries."""


class Combination(NamedTuple):
    """Matrices Σ c_i B_i, given their entries in some groups of columns."""

    basis: ndarray
    """Entries of B_1 … B_r, shape (r, E)."""
    measured: ndarray
    """Places of the entries in these columns among all E."""
    solver: ndarray
    """Matrix that turns the measured entries into c, shape (measured, r)."""

    def complete(self, entries: ndarray) -> ndarray:
        """Return all entries of matrices, shape (n, E), given the measured ones."""
        return entries @ self.solver @ self.basis


class Separable(NamedTuple):
    """Matrices of second derivatives of a sum of terms of which each depends on a few elements.

    No term depends on two elements of a colour. So if all of a colour move, every term shows the
    effect of one: Griewank and Toint (1982), On the unconstrained optimization of partially
    separable functions.
    """

    terms: Blocks
    """Every term as a block of its own."""
    moves: ndarray
    """Signs of the moves of every element, shape (1 + 2p, d): none, those of the colours of each of
    p pairs, and their opposites."""
    sums: csr_array
    """Every entry as a sum of second differences of terms, shape (p · terms, E)."""

    def entries(self, values: ndarray) -> ndarray:
        """Return second differences of the sum, shape (n, E), from terms at all moves."""
        at, (up, down) = values[:, :1], np.split(values[:, 1:], 2, axis=1)
        return (up + down - 2 * at).reshape(len(values), -1) @ self.sums


def separable_of(
    terms: Blocks, depends: csr_array, rows: ndarray, columns: ndarray, most: int
) -> Separable | None:
    """Return how entries are found from terms, given on which elements each depends.

    None if that takes more evaluations than ``most``.
    """
    colours = _coloured(depends.T @ depends)
    k = int(colours.max()) + 1
    if 1 + k + k**2 > most:
        return None
    first, second = np.triu_indices(k)
    pairs = np.maximum(np.eye(k)[first], np.eye(k)[second])
    moves = np.concatenate([np.zeros((1, k)), pairs, -pairs])
    place = np.empty((k, k), dtype=int)
    place[first, second] = place[second, first] = np.arange(len(pairs))
    both = depends[:, rows].multiply(depends[:, columns]).tocoo()
    one, other = colours[rows[both.col]], colours[columns[both.col]]
    # Of f(x + u, y + v), f(x + u, y) and f(x, y + v), with those of the opposite moves.
    sizes = np.where(one == other, [[1.0], [0.0], [0.0]], [[0.5], [-0.5], [-0.5]])
    of_pair = place[[one, one, other], [other, one, other]]
    of_term, entry = (np.tile(each, (3, 1)) for each in (both.row, both.col))
    found = of_pair * depends.shape[0] + of_term, entry
    shape = len(pairs) * depends.shape[0], len(rows)
    sums = csr_array((sizes.ravel(), tuple(each.ravel() for each in found)), shape=shape)
    return Separable(terms, moves[:, colours], sums)


def combination_of(entries: ndarray, groups: ndarray) -> Combination | None:
    """Find the basis of matrices from examples; None if these do not show that it is small.

    Entries of n matrices have shape (n, E), and the groups of their columns shape (E,).
    """
    if not np.isfinite(entries).all():
        return None
    entries = entries / np.linalg.norm(entries, axis=1, keepdims=True)
    _, sizes, basis = np.linalg.svd(entries, full_matrices=False)
    # Far above the error of differences of gradients, and too small to affect weights of draws.
    rank = int((sizes > 1e-6 * sizes[0]).sum())
    if 2 * rank > len(entries):
        return None
    basis = basis[:rank]
    _, pivots = qr(basis, mode="r", pivoting=True)
    chosen = np.unique(groups[pivots[:rank]])
    measured = np.flatnonzero(np.isin(groups, chosen))
    return Combination(basis, measured, np.linalg.pinv(basis[:, measured]))


def sparsity_of(pattern: csr_array) -> Sparsity:
    """Return how matrices with a symmetric pattern are found and factorised."""
    d = pattern.shape[0]
    groups, is_dense = groups_of(pattern)
    rows, columns = pattern.nonzero()
    rank = np.where(is_dense, -1, np.arange(d))
    once = (rank[columns] < rank[rows]) | ((rank[columns] == rank[rows]) & (columns <= rows))
    rows, columns = rows[once], columns[once]
    order, below = _elimination(pattern)
    place = np.empty(d, dtype=int)
    place[order] = np.arange(d)
    lists = [np.sort(np.append(place[each], j)) for j, each in enumerate(below)]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    indices = np.concatenate(lists)
    of_column = np.repeat(np.arange(d), np.diff(starts))
    low, high = np.sort([place[rows], place[columns]], axis=0)
    slots = np.searchsorted(of_column * d + indices, low * d + high)
    inner = np.flatnonzero(indices > of_column)
    inner = inner[np.argsort(indices[inner], kind="stable")]
    row_starts = np.searchsorted(indices[inner], np.arange(d + 1))
    return Sparsity(
        groups, rows, columns, order, slots, starts, indices, row_starts, of_column[inner], inner
    )


def groups_of(pattern: csr_array) -> tuple[ndarray, ndarray]:
    """Group the columns of a symmetric pattern, and say which columns are dense.

    A few dense columns are alone. Others of a group have no row in common but dense ones, whose
    entries come from the dense columns: Curtis, Powell and Reid (1974), On the estimation of sparse
    Jacobian matrices; Coleman and Moré (1984).
    """
    d = pattern.shape[0]
    counts = np.diff(pattern.indptr)
    order = np.argsort(-counts, kind="stable")
    best, n_best, n_dense = np.arange(d), d, d
    for dense in range(d):
        if dense >= n_best:
            break
        rest = np.sort(order[dense:])
        part = pattern[rest][:, rest]
        if dense + np.diff(part.indptr).max() >= n_best:
            continue
        colours = _coloured(csr_array(part.astype(np.int64) @ part.astype(np.int64)))
        if dense + colours.max() + 1 < n_best:
            n_best, n_dense = dense + int(colours.max()) + 1, dense
            best = np.empty(d, dtype=int)
            best[order[:dense]] = np.arange(dense)
            best[rest] = dense + colours
    is_dense = np.zeros(d, dtype=bool)
    is_dense[order[:n_dense]] = True
    return best, is_dense


def _coloured(meets: csr_array) -> ndarray:
    """Return a colour of every column such that no two with the same one meet."""
    colours = np.full(meets.shape[0], -1)
    for i in range(meets.shape[0]):
        taken = set(colours[meets.indices[meets.indptr[i] : meets.indptr[i + 1]]])
        colour = 0
        while colour in taken:
            colour += 1
        colours[i] = colour
    return colours


def _elimination(pattern: csr_array) -> tuple[ndarray, list[ndarray]]:
    """Return an order of elimination, and the rows below the diagonal in each column of L.

    The next column is one with the fewest entries: minimum degree (Tinney and Walker 1967).
    """
    d = pattern.shape[0]
    if pattern.nnz > 0.6 * d**2:  # as good as full, so that no order saves much
        return np.arange(d), [np.arange(j + 1, d) for j in range(d)]
    near = [
        set(pattern.indices[pattern.indptr[i] : pattern.indptr[i + 1]].tolist()) - {i}
        for i in range(d)
    ]
    candidates = [(len(each), i) for i, each in enumerate(near)]
    heapify(candidates)
    order: list[int] = []
    below, is_done = [], np.zeros(d, dtype=bool)
    while candidates:
        degree, i = heappop(candidates)
        if is_done[i] or degree != len(near[i]):
            continue
        is_done[i] = True
        order.append(i)
        below.append(np.array(sorted(near[i]), dtype=int))
        for j in near[i]:
            near[j] |= near[i]
            near[j] -= {i, j}
            heappush(candidates, (len(near[j]), j))
    return np.array(order), below


@njit(nogil=True, cache=True)
def factorise(sparsity, entries, factors, is_definite):
    """Write the Cholesky factors of matrices, from the values of their entries, one a row.

    If one is not positive definite, this is noted, and its diagonal enlarged.
    """
    d = sparsity.order.size
    work = np.zeros(d)
    for i in range(len(entries)):
        shift, tries = 0.0, 0
        while not _factorised(sparsity, entries[i], shift, factors[i], work):
            tries += 1
            shift = 1e-3 if tries == 1 else 10.0 * shift
            if tries > 12:  # each has a ten times larger diagonal
                factors[i] = 0.0
                for j in range(d):
                    factors[i, sparsity.starts[j]] = 1.0
                break
        is_definite[i] = tries == 0


@njit(nogil=True, cache=True)
def _factorised(sparsity, entries, shift, factor, work):
    """Write one factor, column by column; return whether the matrix is positive definite."""
    starts, indices = sparsity.starts, sparsity.indices
    for p in range(factor.size):
        factor[p] = 0.0
    for e in range(entries.size):
        factor[sparsity.slots[e]] = entries[e]
    for j in range(sparsity.order.size):
        first, last = starts[j], starts[j + 1]
        for p in range(first, last):
            work[indices[p]] = factor[p]
        work[j] += shift * abs(work[j]) + (shift if work[j] == 0.0 else 0.0)
        for q in range(sparsity.row_starts[j], sparsity.row_starts[j + 1]):
            begin = sparsity.row_slots[q]
            end = starts[sparsity.row_columns[q] + 1]
            _subtract(factor[begin], factor, indices, begin, end, work)
        if not work[j] > 0.0 or work[j] == np.inf:
            return False
        root = np.sqrt(work[j])
        factor[first] = root
        for p in range(first + 1, last):
            factor[p] = work[indices[p]] / root
    return True


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def _subtract(scale, values, rows, first, last, work):
    """Subtract multiples of some values from the given rows of a vector; several if adjacent."""
    n = last - first
    if n and rows[last - 1] - rows[first] == n - 1:
        start = rows[first]
        part, source = work[start : start + n], values[first:last]
        for p in range(source.size):
            part[p] -= scale * source[p]
    else:
        for p in range(first, last):
            work[rows[p]] -= scale * values[p]


@njit(nogil=True, cache=True)
def solve(sparsity, factors, vectors):
    """Solve L Lᵀ x = b for every row b of ``vectors``, in place."""
    unroot_transposed(sparsity, factors, vectors)
    unroot(sparsity, factors, vectors)


@njit(nogil=True, cache=True)
def unroot_transposed(sparsity, factors, vectors):
    """Solve L z = b for every row b, in place; z is in the order of elimination, b in that of θ."""
    starts, indices, order = sparsity.starts, sparsity.indices, sparsity.order
    work = np.empty(order.size)
    for i in range(len(vectors)):
        factor = factors[i]
        for j in range(order.size):
            work[j] = vectors[i, order[j]]
        for j in range(order.size):
            work[j] /= factor[starts[j]]
            begin, end = starts[j] + 1, starts[j + 1]
            _subtract(work[j], factor, indices, begin, end, work)
        for j in range(order.size):
            vectors[i, j] = work[j]


@njit(nogil=True, cache=True)
def unroot(sparsity, factors, vectors):
    """Solve Lᵀ x = z for every row z, in the order of elimination, in place; x is in that of θ."""
    starts, indices, order = sparsity.starts, sparsity.indices, sparsity.order
    work = np.empty(order.size)
    for i in range(len(vectors)):
        for j in range(order.size):
            work[j] = vectors[i, j]
        for j in range(order.size - 1, -1, -1):
            for p in range(starts[j] + 1, starts[j + 1]):
                work[j] -= factors[i, p] * work[indices[p]]
            work[j] /= factors[i, starts[j]]
        for j in range(order.size):
            vectors[i, order[j]] = work[j]


@njit(nogil=True, cache=True)
def times_root(sparsity, factors, vectors):
    """Write z = Lᵀ x for every row x, in place; z is in the order of elimination."""
    starts, indices, order = sparsity.starts, sparsity.indices, sparsity.order
    work = np.empty(order.size)
    for i in range(len(vectors)):
        for j in range(order.size):
            total = 0.0
            for p in range(starts[j], starts[j + 1]):
                total += factors[i, p] * vectors[i, order[indices[p]]]
            work[j] = total
        for j in range(order.size):
            vectors[i, j] = work[j]
