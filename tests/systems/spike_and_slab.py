"""Narrow spike that contains most of the evidence, and that forward chains do not find."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pymc_bdmc.testsystems import ContinuousSystem

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class SpikeAndSlab(ContinuousSystem):
    """Posterior that is a narrow Gaussian spike on a slab equal to the prior; log Z = 0.

    The likelihood is (1 − a) + a N(x; 0, s²)/N(x; 0, 1), so the posterior is a mixture of the prior
    with weight 1 − a and a spike of width s. The path has a first-order transition. A forward chain
    almost never enters the spike. Its log weight is log(1 − a), without any sign of the missing
    mass. Most reverse chains start in the spike, stay there, and have much larger log weights.

    Parameters
    ----------
    dimension : int
    spike_std : float
        s, below 1.
    spike_weight : float
        a.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import SpikeAndSlab
    >>> system, rng = SpikeAndSlab(), np.random.default_rng(0)
    >>> round(float(np.median(system.forward(100, rng))), 2)
    -2.3
    >>> bool(np.median(system.reverse(100, rng)) > 2)
    True
    """

    dimension: int = 5
    spike_std: float = 0.02
    spike_weight: float = 0.9
    prior_std: float = 1.0

    @property
    def log_z(self) -> float:
        """Return the log evidence, 0 nats."""
        return 0.0

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), nats."""
        spike = self._log_spike(np.sum(x**2, axis=0))
        return np.logaddexp(np.log1p(-self.spike_weight), spike)

    def model(self) -> "pm.Model":
        """Return the PyMC model: x ~ N(0, σ_p²), with ℓ as a Potential."""
        import pymc as pm

        with pm.Model() as model:
            x = pm.Normal("x", 0, self.prior_std, shape=self.dimension)
            spike = self._log_spike(pm.math.sum(x**2))
            pm.Potential("likelihood", pm.math.logaddexp(np.log1p(-self.spike_weight), spike))
        return model

    def _log_spike(self, squared):
        """Return the log of a N(x; 0, s²)/N(x; 0, σ_p²) for the squared norm of x."""
        excess, width = self.spike_std**-2 - self.prior_std**-2, self.spike_std / self.prior_std
        return np.log(self.spike_weight) - self.dimension * np.log(width) - excess * squared / 2

    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states."""
        stds = np.where(rng.random(n) < self.spike_weight, self.spike_std, self.prior_std)
        return stds * rng.normal(size=(self.dimension, n))

    def step_size(self, beta: float) -> float:
        """Return a step size that fits the slab up to β = 1/2 and then shrinks to fit the spike."""
        shrink = self.spike_std ** np.clip(2 * beta - 1, 0, 1)
        return 2.4 / np.sqrt(self.dimension) * self.prior_std * shrink
