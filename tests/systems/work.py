"""Draw from pairs of work distributions that satisfy Crooks' relation exactly.

If forward log weights have density p_f(log w), reverse ones have density p_f(log w) w / Z. Both
families here are closed under this tilting, so reverse draws need no simulation.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp


@dataclass(frozen=True)
class GaussianWork:
    """Work distributed as a mixture of Gaussians: Gaussian, bimodal or with a hidden spike.

    Tilting N(m, s²) by w gives exp(m + s²/2) N(m + s², s²). So the components of the reverse
    mixture have the same spreads, shifted means and other weights than the forward components. The
    parameters describe forward log w − `log_z` up to a common shift, which E_f[w] = Z determines.

    Parameters
    ----------
    means, stds, weights : tuples of float, equally long
        Means, standard deviations and weights of the forward log weights, nats; the weights add up
        to one.
    log_z : float
        True log Z of the draws, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import GaussianWork
    >>> work = GaussianWork(stds=(2.0,), log_z=3.0)
    >>> forward = work.forward(100_000, np.random.default_rng(0))
    >>> round(float(forward.mean()), 1)  # log_z - std² / 2
    1.0
    """

    means: tuple[float, ...] = (0.0,)
    stds: tuple[float, ...] = (1.0,)
    weights: tuple[float, ...] = (1.0,)
    log_z: float = 0.0

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n forward log weights."""
        return self._draw(n, rng, np.array(self.weights), tilt=0.0)

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n reverse log weights."""
        masses = np.log(self.weights) + np.array(self.means) + np.array(self.stds) ** 2 / 2
        return self._draw(n, rng, np.exp(masses - logsumexp(masses)), tilt=1.0)

    def _draw(self, n, rng, weights, tilt):
        means, stds = np.array(self.means), np.array(self.stds)
        shift = self.log_z - logsumexp(np.log(self.weights) + means + stds**2 / 2)
        component = rng.choice(weights.size, size=n, p=weights)
        centre = means[component] + tilt * stds[component] ** 2 + shift
        return rng.normal(centre, stds[component])


@dataclass(frozen=True)
class GammaWork:
    """Skewed work: forward −log w is Gamma(shape, rate) up to a shift, reverse has rate + 1.

    Parameters
    ----------
    shape, rate : float
        Positive parameters. A smaller rate gives a longer tail of large work.
    log_z : float
        True log Z of the draws, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import GammaWork
    >>> work = GammaWork(shape=1.0, rate=1.0)
    >>> round(float(np.exp(work.forward(100_000, np.random.default_rng(0))).mean()), 1)
    1.0
    """

    shape: float = 1.0
    rate: float = 1.0
    log_z: float = 0.0

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n forward log weights."""
        return self._top() - rng.gamma(self.shape, 1 / self.rate, size=n)

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n reverse log weights."""
        return self._top() - rng.gamma(self.shape, 1 / (self.rate + 1), size=n)

    def _top(self):
        return self.log_z + self.shape * np.log1p(1 / self.rate)
