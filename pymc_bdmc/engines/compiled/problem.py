"""The compiled path of densities on given data, with draws from its start."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.prior import MAX_PRIOR_DRAWS
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.kernels.state import Target, copy_vector, evaluate_terms, make_state


@dataclass(frozen=True, eq=False)
class Problem:
    """The compiled path of densities on given data, with draws from its start.

    Attributes
    ----------
    density : TemperedDensity
        The path in PyTensor, which draws from the prior and explains errors.
    jitted : JittedDensity
        The layout of θ and of the data.
    target : Target
        The path for the compiled loops.
    data : mapping of str to ndarray
        Observed data.
    stop : ndarray of shape (1,)
        Flag that ends all work once it is set.
    has_gradient : bool
        Whether the density has a gradient.
    """

    density: TemperedDensity
    jitted: JittedDensity
    target: Target
    data: Mapping[str, np.ndarray]
    stop: np.ndarray
    has_gradient: bool

    def on(self, data: Mapping[str, np.ndarray]) -> "Problem":
        """Return the same path on other data."""
        target = self.target._replace(data=self.jitted.ravel_data(data))
        return replace(self, data=data, target=target)

    @property
    def _has_reference(self) -> bool:
        return len(self.target.reference.locations) > 0

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw θ from the reference or the prior, one a row."""
        if self._has_reference:
            return self.target.reference.draw(n, rng)
        return self.jitted.ravel_many(self.density.draw_priors(n, rng, self.data))

    def terms(self, thetas: np.ndarray) -> np.ndarray:
        """Return log p and ℓ of every row, or log r and g; shape (rows, 2), nats."""
        terms = np.empty((len(thetas), 2))
        terms_of(self.target, np.ascontiguousarray(thetas), terms)
        return terms

    def log_likelihoods(self, thetas: np.ndarray) -> np.ndarray:
        """Return ℓ of every row, or g on the path from a reference, nats; an error if +∞."""
        terms = self.terms(thetas)
        for theta in thetas[~(terms.sum(axis=1) < np.inf)]:
            self.raise_at(0.0, theta)
        return terms[:, 1].copy()

    def supported(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of draws that lie in S = {ℓ > −∞}, and their ℓ."""
        for theta in thetas[np.isinf(thetas).any(axis=1)]:
            self.density.prior.supports(self.jitted.unravel(theta))  # the error names the variable
        rows = np.flatnonzero(np.isfinite(thetas).all(axis=1))
        ells = self.log_likelihoods(thetas[rows])
        possible = ells > -np.inf
        return rows[possible], ells[possible]

    def batches(
        self, n: int, rng: np.random.Generator
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield batches of n draws with their `supported` rows, until ``stop`` is set."""
        in_vain = 0
        while not self.stop[0]:
            draws = self.draw(n, rng)
            rows, ells = self.supported(draws)
            in_vain = 0 if len(rows) else in_vain + n
            if in_vain > MAX_PRIOR_DRAWS:
                raise self.impossible(draws, in_vain)
            yield draws, rows, ells

    def accepted(
        self, n: int, batch: int, rng: np.random.Generator
    ) -> tuple[list[np.ndarray], list[int]]:
        """Return n draws in S, and how many draws each took; fewer than n if stopped."""
        thetas: list[np.ndarray] = []
        trials: list[int] = []
        waited = 0
        for draws, rows, _ in self.batches(batch, rng):
            thetas += list(draws[rows])
            trials += np.diff([-1 - waited, *rows]).tolist()
            waited = len(draws) - 1 - rows[-1] if len(rows) else waited + len(draws)
            if len(trials) >= n:
                break
        return thetas[:n], trials[:n]

    def impossible(self, thetas: np.ndarray, n_draws: int) -> ValueError:
        """Return the error to raise if ℓ = −∞ at all of ``n_draws`` draws, with examples."""
        if self._has_reference:
            return ValueError(
                f"path: the model is impossible at all of {n_draws} draws from the reference. "
                "Shift or widen it, or use 'prior'."
            )
        points = [self.jitted.unravel(row) for row in thetas[:20]]
        return self.density.impossible(points, n_draws, self.data)

    def raise_at(self, beta: float, theta: np.ndarray) -> None:
        """Raise a FloatingPointError that names the variables whose log density is +∞ at θ."""
        raise self.density.infinite(self.jitted.unravel(theta), beta, self.data)


@njit(nogil=True, cache=True)
def terms_of(target, thetas, terms):
    """Write log p and ℓ of every row of ``thetas`` to ``terms``, of shape (rows, 2)."""
    size = thetas.shape[1]
    state = make_state(size, size - target.categories.size)
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate_terms(target, state)
        copy_vector(state.terms, terms[j])
