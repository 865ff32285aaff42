"""A compiled density on given data: a path with draws from its start, and log p + ℓ for fits."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.sparse import csr_array

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.density.compiled import JittedDensity, NotJittable
from pymc_bdmc.density.prior import MAX_PRIOR_DRAWS
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.kernels.state import Target, copy_vector, evaluate, evaluate_terms, make_state
from pymc_bdmc.kernels.transition import CompiledKernel
from pymc_bdmc.reference.contract import Blocks, Density, Slopes
from pymc_bdmc.reference.nested import MOST_NUMBERS
from pymc_bdmc.run.loop import Stopped


@dataclass(eq=False)
class Problem(Density):
    """The compiled path of densities on given data, its draws, and the kernel that moves along it.

    As a `Density`, log p + ℓ from the prior on, it counts evaluations and is stopped by Ctrl-C.
    """

    density: TemperedDensity
    """The path in PyTensor, which draws from the prior and explains errors."""
    jitted: JittedDensity
    moves: CompiledKernel
    target: Target
    data: Mapping[str, ndarray]
    stop: ndarray
    """Flag that ends all work once it is set, shape (1,)."""

    evaluations = 0
    seconds = np.nan

    def __post_init__(self):
        super().__init__()
        self.has_gradient = bool(self.jitted.n_continuous) and self.moves.needs_gradient
        self._is_conditional, self._n_timed = False, 0

    def on(self, data: Mapping[str, ndarray]) -> "Problem":
        """Return the same path on other data."""
        target = self.target._replace(data=self.jitted.ravel_data(data))
        return replace(self, data=data, target=target)

    @property
    def _has_reference(self) -> bool:
        return len(self.target.reference.locations) > 0

    def draw(self, n: int, rng: Generator) -> ndarray:
        """Draw θ from the reference or the prior, one a row."""
        if self._has_reference:
            return self.target.reference.draw(n, rng)
        return self.draw_prior(n, rng)

    def draw_prior(self, n: int, rng: Generator) -> ndarray:
        """Draw θ from the prior, one a row."""
        return self.jitted.ravel_many(self.density.draw_priors(n, rng, self.data))

    def evaluated(self, thetas: ndarray) -> ndarray:
        """Return `terms` that are not counted; log r and g on the path from a reference."""
        terms = np.empty((len(thetas), 2))
        terms_of(self.target, np.ascontiguousarray(thetas), terms)
        return terms

    def log_likelihoods(self, thetas: ndarray) -> ndarray:
        """Return ℓ of every row, or g on the path from a reference, nats."""
        return self.evaluated(thetas)[:, 1].copy()

    def supported(self, thetas: ndarray) -> tuple[ndarray, ndarray]:
        """Return the rows of draws that lie in S = {ℓ > −∞}, and their ℓ."""
        for theta in thetas[np.isinf(thetas).any(axis=1)]:
            self.density.prior.supports(self.jitted.unravel(theta))  # the error names the variable
        rows = np.flatnonzero(np.isfinite(thetas).all(axis=1))
        ells = self.log_likelihoods(thetas[rows])
        possible = ells > -np.inf
        return rows[possible], ells[possible]

    def batches(self, n: int, rng: Generator) -> Iterator[tuple[ndarray, ndarray, ndarray]]:
        """Yield batches of n draws with their `supported` rows, until ``stop`` is set."""
        in_vain = 0
        while not self.stop[0]:
            draws = self.draw(n, rng)
            rows, ells = self.supported(draws)
            in_vain = 0 if len(rows) else in_vain + n
            if in_vain > MAX_PRIOR_DRAWS:
                raise self.impossible(draws, in_vain)
            yield draws, rows, ells

    def accepted(self, n: int, batch: int, rng: Generator) -> tuple[list[ndarray], list[int]]:
        """Return n draws in S, and how many draws each took; fewer than n if stopped."""
        thetas: list[ndarray] = []
        trials: list[int] = []
        waited = 0
        for draws, rows, _ in self.batches(batch, rng):
            thetas += list(draws[rows])
            trials += np.diff([-1 - waited, *rows]).tolist()
            waited = len(draws) - 1 - rows[-1] if len(rows) else waited + len(draws)
            if len(trials) >= n:
                break
        return thetas[:n], trials[:n]

    def impossible(self, thetas: ndarray, n_draws: int) -> ValueError:
        """Return the error to raise if ℓ = −∞ at all of ``n_draws`` draws, with examples."""
        if self._has_reference:
            return ValueError(
                f"path: the model is impossible at all of {n_draws} draws from the reference. "
                "Shift or widen it, or use 'prior'."
            )
        points = [self.jitted.unravel(row) for row in thetas[:20]]
        return self.density.impossible(points, n_draws, self.data)

    def likelihood(self, theta: ndarray) -> tuple[float, ndarray]:
        """ℓ and its gradient."""
        (value,), (gradient,) = self.slopes(theta[None], of_prior=False)
        return float(value), gradient

    def prior(self, theta: ndarray) -> tuple[float, ndarray]:
        """Log p and its gradient."""
        (value,), (gradient,) = self.slopes(theta[None], of_data=False)
        return float(value), gradient

    @contextmanager
    def _counting(self, n: int) -> Iterator[None]:
        """Count n evaluations, and time the first calls, since to read the clock can take longer.

        The least time counts, since calls for few states take longer for each.
        """
        if self.stop[0]:
            raise Stopped
        self.evaluations += n
        is_timed = n > 0 and self._n_timed < 32
        started = time.thread_time() if is_timed else np.nan
        yield
        if is_timed:
            self.seconds = np.fmin(self.seconds, (time.thread_time() - started) / n)
            self._n_timed += 1

    def terms(self, thetas: ndarray) -> ndarray:
        """Return log p and ℓ of every row, shape (rows, 2)."""
        with self._counting(len(thetas)):
            return self.evaluated(thetas)

    def slopes(
        self, thetas: ndarray, *, of_prior: bool = True, of_data: bool = True
    ) -> tuple[ndarray, ndarray]:
        """Return log p + ℓ of every row, shape (rows,), and its gradient; or one of both alone."""
        return self._filled(partial(slopes_of, self.target, of_prior, of_data), thetas)

    def _filled(self, fill: Callable[..., None], thetas: ndarray) -> tuple[ndarray, ndarray]:
        values, gradients = np.empty(len(thetas)), np.empty(thetas.shape)
        with self._counting(len(thetas)):
            fill(np.ascontiguousarray(thetas), values, gradients)
        return values, gradients

    def slopes_in(self, latent: ndarray) -> Slopes:
        """Return a function like `slopes`, with gradients in some elements of θ and zeros else.

        If rows differ in these elements alone, the part without them is computed once.
        """
        conditional = self.jitted.conditional(latent)
        if conditional is None:
            return self.slopes
        if not self._is_conditional:
            self._is_conditional, self.seconds, self._n_timed = True, np.nan, 0
        others = np.setdiff1d(np.arange(self.jitted.size), latent)
        return partial(self._filled, partial(conditional_slopes, conditional, self.target, others))

    def split(self, latent: ndarray, of_latent: ndarray, thetas: ndarray) -> Blocks | None:
        """Return the blocks with the terms of each; None if the density cannot be taken apart."""
        labels = np.full(self.jitted.size, -1)
        labels[latent] = of_latent
        number = int(of_latent.max()) + 1
        of_terms = self._labels_of_terms(labels, number, thetas)
        if of_terms is None:
            return None
        n, _ = self._numbers_of_terms(thetas[0])
        blocks = Blocks(number, of_latent, of_terms[:n], of_terms[n:])
        return None if self._whole_by_block(blocks, thetas) is None else blocks

    def separate(
        self, latent: ndarray, thetas: ndarray, steps: ndarray
    ) -> tuple[Blocks, csr_array] | None:
        """Return every term as a block, and on which elements each depends, as two rows show."""
        n, total = self._numbers_of_terms(thetas[0])
        blocks = Blocks(total, np.full(len(latent), -1), np.arange(n), np.arange(n, total))
        if (whole := self._whole_by_block(blocks, thetas)) is None:
            return None
        terms_of, places, at_once = self.by_block(blocks), [], max(MOST_NUMBERS // total, 1)
        for theta, base in zip(thetas, whole, strict=True):
            for first in range(0, len(latent), at_once):
                moving = np.arange(first, min(first + at_once, len(latent)))
                moved = np.tile(theta, (len(moving), 1))
                moved[np.arange(len(moving)), latent[moving]] += steps[moving]
                of_moving, term = np.nonzero((terms_of(moved) != base)[:, :-1])
                places.append([term, moving[of_moving]])
        term, element = np.hstack(places)
        depends = csr_array((np.ones(len(term)), (term, element)), shape=(total, len(latent)))
        return blocks, depends

    def _numbers_of_terms(self, theta: ndarray) -> tuple[int, int]:
        """Return the number of terms of log p, and of all terms."""
        sizes = np.cumsum([each.size for each in self._factors(theta)])
        return int(sizes[len(self.density.model.free_RVs) - 1]), int(sizes[-1])

    def _whole_by_block(self, blocks: Blocks, thetas: ndarray) -> ndarray | None:
        """Return the density of every block at some rows; None if these do not add up to all."""
        try:
            found = self.by_block(blocks)(thetas)
        except NotJittable:
            return None
        return found if np.allclose(found.sum(axis=1), self.heights(thetas), rtol=1e-9) else None

    def _labels_of_terms(self, labels: ndarray, number: int, thetas: ndarray) -> ndarray | None:
        """Return the label of every term, or the last one; None if a term has several.

        Terms are evaluated where the elements of half of the labels come from another row, once
        for either half and for every bit of the labels; and all that for every row and the first.
        """
        bits, moves = np.arange(number.bit_length()), []
        for base, other in [(thetas[0], row) for row in thetas[1:]]:
            before = np.concatenate(self._factors(base), axis=None)
            for side, bit in product((0, 1), bits):
                is_other = (labels >= 0) & ((labels + 1) >> bit & 1 == side)
                moved = np.concatenate(self._factors(np.where(is_other, other, base)), axis=None)
                moves.append((moved != before) & ~(np.isnan(moved) & np.isnan(before)))
        either = np.array(moves).reshape(-1, 2, len(bits), len(before)).any(axis=0)
        without, found = (either << bits[:, None]).sum(axis=1)
        if ((without + found > 0) & (without ^ found != 2 ** len(bits) - 1)).any():
            return None
        return np.where(found == 0, number, found - 1)

    def _factors(self, theta: ndarray) -> list[ndarray]:
        factors = self.density.factors(self.jitted.unravel(theta), self.density.data)
        return [each for _, each in factors]

    def by_block(self, blocks: Blocks) -> Callable[[ndarray], ndarray]:
        """Return a function from rows of θ to log p + ℓ of every block, and what is of none."""
        number, _, *labels = blocks
        return partial(self._by_block, self.jitted.in_blocks(number, *labels), number)

    def _by_block(self, function: Callable, number: int, thetas: ndarray) -> ndarray:
        values = np.empty((len(thetas), number + 1))
        with self._counting(len(thetas)):
            blocks_of(function, self.target, np.ascontiguousarray(thetas), values)
        return values


@njit(nogil=True, cache=True)
def blocks_of(function, target, thetas, values):
    """Write log p + ℓ of every block at every row of ``thetas``; −∞ for NaN or +∞."""
    log_prior, ell = np.zeros(values.shape[1]), np.zeros(values.shape[1])
    for j in range(len(thetas)):
        failed, _ = function(thetas[j], target.data, target.interval, log_prior, ell)
        for i in range(values.shape[1]):
            value = log_prior[i] + ell[i] + failed
            values[j, i] = value if value < np.inf else -np.inf


@njit(nogil=True, cache=True)
def terms_of(target, thetas, terms):
    """Write log p and ℓ of every row of ``thetas`` to ``terms``, of shape (rows, 2)."""
    size = thetas.shape[1]
    state = make_state(size, size - target.categories.size)
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate_terms(target, state)
        copy_vector(state.terms, terms[j])


@njit(nogil=True, cache=True)
def slopes_of(target, of_prior, of_data, thetas, values, gradients):
    """Write log p + ℓ of every row of continuous θ, or one of both, and the gradients."""
    size = thetas.shape[1]
    state = make_state(size, size)
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate(target, state)
        values[j] = (state.terms[0] if of_prior else 0.0) + (state.terms[1] if of_data else 0.0)
        for i in range(size):
            gradients[j, i] = state.log_prior_gradient[i] if of_prior else 0.0
            if of_data:
                gradients[j, i] += state.log_likelihood_gradient[i]


@njit(nogil=True, cache=True)
def conditional_slopes(conditional, target, others, thetas, values, gradients):
    """Write log p + ℓ of every row of θ, and the gradients, by a density in two parts."""
    size, data, interval = thetas.shape[1], target.data, target.interval
    first = np.empty((2, conditional.held))
    longer = np.empty(size + conditional.held)
    second = np.empty((2, size))
    for j in range(len(thetas)):
        is_new = j == 0
        for i in others:
            is_new |= thetas[j, i] != thetas[j - 1, i]
        if is_new:
            failed, _ = conditional.first(thetas[j], data, interval, first[0], first[1])
            copy_vector(first[0], longer[size:])
        copy_vector(thetas[j], longer)
        log_prior, ell = conditional.second(longer, data, interval, second[0], second[1])
        value = log_prior + ell + failed
        values[j] = value if value < np.inf else -np.inf
        for i in range(size):
            gradients[j, i] = second[0, i] + second[1, i]
