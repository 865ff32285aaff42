"""Bridge of Gaussians with closed forms for all annealing quantities."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq


@dataclass(frozen=True)
class GaussianBridge:
    """Annealing between Gaussians with a kernel of known relaxation (Habeck 2017, Sec. 4).

    Distribution k has the unnormalised density f_k(x) = exp(−(x − μ_k)²/(2σ_k²)), so Z_k ∝ σ_k and
    log Z = log(σ_K/σ_0). Kernel k is N((1 − τ)μ_k + τx, (1 − τ²)σ_k²), which is its own reversal.
    With τ = 0 it draws independently, and for τ → 1 it does not move. A forward chain starts from
    x_0 ~ p_0. For k = 1..K it adds log f_k(x_{k−1}) − log f_{k−1}(x_{k−1}) to its log weight and
    then moves with kernel k. A reverse chain runs backwards from x_K ~ p_K.

    Parameters
    ----------
    means, stds : tuples of float, each of length K + 1
        μ_k and σ_k.
    correlation : float
        τ, in [0, 1).

    Examples
    --------
    Habeck's example goes from N(20, 10²) to N(0, 1):

    >>> from tests.systems import GaussianBridge
    >>> bridge = GaussianBridge.linear(50, correlation=0.5)
    >>> round(bridge.log_z, 6)
    -2.302585
    """

    means: tuple[float, ...]
    stds: tuple[float, ...]
    correlation: float = 0.0

    @classmethod
    def linear(
        cls,
        steps: int,
        *,
        start: tuple[float, float] = (20.0, 10.0),
        end: tuple[float, float] = (0.0, 1.0),
        correlation: float = 0.0,
    ) -> "GaussianBridge":
        """Make a bridge with K steps that is linear in mean and standard deviation, (μ, σ)."""
        return cls(*_linear(np.linspace(0, 1, steps + 1), start, end), correlation)

    @classmethod
    def geometric(
        cls,
        steps: int,
        *,
        start: tuple[float, float] = (20.0, 10.0),
        end: tuple[float, float] = (0.0, 1.0),
        correlation: float = 0.0,
    ) -> "GaussianBridge":
        """Make the geometric bridge f_0^(1 − β) f_1^β, which is linear in 1/σ² and μ/σ².

        Each f_k is scaled to a maximum of one, so log Z equals that of the linear bridge.
        """
        fractions = np.linspace(0, 1, steps + 1)
        precision = (1 - fractions) / start[1] ** 2 + fractions / end[1] ** 2
        pull = (1 - fractions) * start[0] / start[1] ** 2 + fractions * end[0] / end[1] ** 2
        means, stds = pull / precision, precision**-0.5
        return cls(tuple(means.tolist()), tuple(stds.tolist()), correlation)

    @classmethod
    def equal_divergence(cls, steps: int, *, correlation: float) -> "GaussianBridge":
        """Make a bridge like `linear`, with the same divergence KL(p_k‖p_{k+1}) for all k.

        This divergence is the dissipated work of step k in a chain at equilibrium.
        """
        start, end = (20.0, 10.0), (0.0, 1.0)

        def apart(here, there):
            means, stds = _linear(np.array([here, there]), start, end)
            ratio, shift = stds[0] / stds[1], (means[0] - means[1]) / stds[1]
            return shift**2 / 2 + (ratio**2 - 1) / 2 - np.log(ratio)

        def walk(step):
            """Return the fractions reached by steps of equal size, and the remaining distance."""
            path = [0.0]
            for _ in range(steps - 1):
                if apart(path[-1], 1.0) <= step:
                    return path, -step
                path.append(brentq(lambda x: apart(path[-1], x) - step, path[-1], 1.0, xtol=1e-15))
            return path, apart(path[-1], 1.0) - step

        path = [0.0]
        if steps > 1:
            step = brentq(lambda s: walk(s)[1], 1e-12, apart(0.0, 1.0), xtol=1e-15)
            path = walk(step)[0]
        return cls(*_linear(np.array([*path, 1.0]), start, end), correlation)

    @property
    def log_z(self) -> float:
        """Return log(Z_K/Z_0), nats."""
        return float(np.log(self.stds[-1] / self.stds[0]))

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n forward chains, nats."""
        x, log_weight = rng.normal(self.means[0], self.stds[0], n), np.zeros(n)
        for k in range(1, len(self.means)):
            log_weight += self._log_ratio(k, x)
            x = self._moved(k, x, rng)
        return log_weight

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n reverse chains, nats."""
        x, log_weight = rng.normal(self.means[-1], self.stds[-1], n), np.zeros(n)
        for k in range(len(self.means) - 1, 0, -1):
            x = self._moved(k, x, rng)
            log_weight += self._log_ratio(k, x)
        return log_weight

    def _moved(self, k, x, rng):
        tau = self.correlation
        mean = (1 - tau) * self.means[k] + tau * x
        return mean + np.sqrt(1 - tau**2) * self.stds[k] * rng.normal(size=x.size)

    def _log_ratio(self, k, x):
        """Return log f_k(x) − log f_{k−1}(x)."""
        before, after = ((x - self.means[i]) / self.stds[i] for i in (k - 1, k))
        return (before**2 - after**2) / 2


def _linear(fractions, start, end):
    means, stds = (a + fractions * (b - a) for a, b in zip(start, end, strict=True))
    return tuple(means.tolist()), tuple(stds.tolist())
