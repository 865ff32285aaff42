"""Bridge of Gaussians with closed forms for all annealing quantities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq


@dataclass(frozen=True)
class GaussianBridge:
    """Annealing between Gaussians with a kernel of known relaxation (Habeck 2017, Sec. 4).

    Distribution k has the unnormalised density f_k(x) = exp(−(x − μ_k)²/(2σ_k²)), so Z_k ∝ σ_k and
    log Z = log(σ_K/σ_0). Kernel k is N((1 − τ)μ_k + τx, (1 − τ²)σ_k²), which is its own reversal.
    With τ = 0 it draws independently, and for τ → 1 it does not move. A forward chain starts from
    x_0 ~ p_0. For k = 1..K it adds log f_k(x_{k−1}) − log f_{k−1}(x_{k−1}) to its log weight and
    then moves with kernel k. A reverse chain runs backwards from x_K ~ p_K. The states of a chain
    are a Gaussian vector and its log weight is a quadratic form of them, which gives the moments.

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
    >>> mean, variance = bridge.log_weight_moments("forward")
    >>> mean < bridge.log_z < bridge.log_weight_moments("reverse")[0]
    True
    """

    means: tuple[float, ...]
    stds: tuple[float, ...]
    correlation: float = 0.0

    def __post_init__(self):
        if len(self.means) != len(self.stds) or len(self.means) < 2:
            raise ValueError("means and stds must have the same length, at least 2.")
        if min(self.stds) <= 0 or not 0 <= self.correlation < 1:
            raise ValueError("stds must be positive and the correlation in [0, 1).")

    @classmethod
    def linear(
        cls,
        steps: int,
        *,
        start: tuple[float, float] = (20.0, 10.0),
        end: tuple[float, float] = (0.0, 1.0),
        correlation: float = 0.0,
        path: ArrayLike | None = None,
    ) -> "GaussianBridge":
        """Make a bridge that is linear in mean and standard deviation.

        Parameters
        ----------
        steps : int
            K.
        start, end : pair of float
            (μ, σ) at either end.
        correlation : float
        path : array_like of shape (K + 1,), optional
            Fractions of the path from 0 to 1; evenly spaced by default.
        """
        return cls(*_linear(_fractions(steps, path), start, end), correlation)

    @classmethod
    def geometric(
        cls,
        steps: int,
        *,
        start: tuple[float, float] = (20.0, 10.0),
        end: tuple[float, float] = (0.0, 1.0),
        correlation: float = 0.0,
        path: ArrayLike | None = None,
    ) -> "GaussianBridge":
        """Make the geometric bridge f_0^(1 − β) f_1^β, which is linear in 1/σ² and μ/σ².

        Each f_k is scaled to a maximum of one, so log Z equals that of the linear bridge. The
        parameters are those of `linear`.
        """
        return cls(*_geometric(_fractions(steps, path), start, end), correlation)

    @classmethod
    def equal_divergence(
        cls,
        steps: int,
        *,
        bridge: str = "linear",
        start: tuple[float, float] = (20.0, 10.0),
        end: tuple[float, float] = (0.0, 1.0),
        correlation: float = 0.0,
    ) -> "GaussianBridge":
        """Make a bridge with the same divergence KL(p_k‖p_{k+1}) for all k.

        This divergence is the dissipated work of step k in a chain at equilibrium.

        Parameters
        ----------
        steps : int
            K.
        bridge : {"linear", "geometric"}
        start, end, correlation
            As for `linear`.

        Raises
        ------
        ValueError
            If the bridge is unknown or a parameter out of range.
        """
        curve = {"linear": _linear, "geometric": _geometric}.get(bridge)
        if curve is None:
            raise ValueError(f"bridge must be 'linear' or 'geometric', not {bridge!r}.")

        def apart(here, there):
            means, stds = curve(np.array([here, there]), start, end)
            return _divergence(means[0], stds[0], means[1], stds[1])

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
        means, stds = curve(np.array([*path, 1.0]), start, end)
        return cls(means, stds, correlation)

    @property
    def log_z(self) -> float:
        """Return log(Z_K/Z_0), nats."""
        return float(np.log(self.stds[-1] / self.stds[0]))

    def marginals(self, direction: str) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of x_0, …, x_K along a chain, by increasing k.

        In the forward direction they are those of q_k; the targets p_k have `means` and `stds`.

        Parameters
        ----------
        direction : {"forward", "reverse"}

        Returns
        -------
        means, stds : ndarrays of shape (K + 1,)

        Raises
        ------
        ValueError
            If the direction is unknown.
        """
        mu, sigma, order = self._along(direction)
        tau, means, variances = self.correlation, [mu[0]], [sigma[0] ** 2]
        for k in order:
            means.append((1 - tau) * mu[k] + tau * means[-1])
            variances.append((1 - tau**2) * sigma[k] ** 2 + tau**2 * variances[-1])
        step = 1 if direction == "forward" else -1
        return np.array(means)[::step], np.sqrt(variances)[::step]

    def divergence(self) -> tuple[float, float]:
        """Return KL(q_K‖p_K) and KL(p_K‖q_K) of the last state of a forward chain, nats."""
        means, stds = self.marginals("forward")
        here, target = (means[-1], stds[-1]), (self.means[-1], self.stds[-1])
        return float(_divergence(*here, *target)), float(_divergence(*target, *here))

    def log_weight_moments(self, direction: str) -> tuple[float, float]:
        """Return the exact mean and variance of log w, in nats and nats².

        The log weight is log w = c + Σ_k b_k x_k + a_k x_k² over k = 0..K−1. Here x is a Gaussian
        chain with means m and variances v, whose correlations decay by τ per step. So log w is a
        quadratic form with the variance Σ_jk (2 a_j a_k S_jk² + h_j h_k S_jk), with S the
        covariance of x and h = b + 2am.

        Parameters
        ----------
        direction : {"forward", "reverse"}

        Returns
        -------
        mean, variance : float

        Raises
        ------
        ValueError
            If the direction is unknown.
        """
        mu, sigma = np.array(self.means), np.array(self.stds)
        half = 1 / (2 * sigma**2)
        a = half[:-1] - half[1:]
        b = 2 * (mu * half)[1:] - 2 * (mu * half)[:-1]
        c = np.sum((mu**2 * half)[:-1] - (mu**2 * half)[1:])
        means, stds = self.marginals(direction)
        m, v = means[:-1], stds[:-1] ** 2
        h = b + 2 * a * m
        mean = c + np.sum(b * m + a * (m**2 + v))
        if direction == "reverse":  # order of the chain, along which correlations decay
            a, h, v = a[::-1], h[::-1], v[::-1]
        variance = 2 * _chain_sum(a, v**2, self.correlation**2) + _chain_sum(h, v, self.correlation)
        return float(mean), float(variance)

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n forward chains, nats."""
        return self._draw(n, rng, "forward")

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n reverse chains, nats."""
        return self._draw(n, rng, "reverse")

    def _along(self, direction):
        """Return parameters with the start of the chain first, and kernels in order of use."""
        mu, sigma, steps = self.means, self.stds, len(self.means) - 1
        if direction == "forward":
            return (mu, sigma, range(1, steps + 1))
        if direction == "reverse":
            # x_K ~ p_K comes first, and kernel k leads from x_k to x_{k−1}.
            return ((mu[-1], *mu[1:]), (sigma[-1], *sigma[1:]), range(steps, 0, -1))
        raise ValueError(f"direction must be 'forward' or 'reverse', not {direction!r}.")

    def _draw(self, n, rng, direction):
        mu, sigma, order = self._along(direction)
        tau = self.correlation
        x, log_weight = rng.normal(mu[0], sigma[0], n), np.zeros(n)
        for k in order:
            if direction == "forward":
                log_weight += self._log_ratio(k, x)
            x = (1 - tau) * self.means[k] + tau * x
            x += np.sqrt(1 - tau**2) * self.stds[k] * rng.normal(size=n)
            if direction == "reverse":
                log_weight += self._log_ratio(k, x)
        return log_weight

    def _log_ratio(self, k, x):
        """Return log f_k(x) − log f_{k−1}(x)."""
        before, after = ((x - self.means[i]) / self.stds[i] for i in (k - 1, k))
        return (before**2 - after**2) / 2


_Parameters = tuple[tuple[float, ...], tuple[float, ...]]


def _linear(fractions, start, end) -> _Parameters:
    means, stds = (a + fractions * (b - a) for a, b in zip(start, end, strict=True))
    return tuple(means.tolist()), tuple(stds.tolist())


def _geometric(fractions, start, end) -> _Parameters:
    precision = (1 - fractions) / start[1] ** 2 + fractions / end[1] ** 2
    pull = (1 - fractions) * start[0] / start[1] ** 2 + fractions * end[0] / end[1] ** 2
    return tuple((pull / precision).tolist()), tuple((precision**-0.5).tolist())


def _fractions(steps, path):
    path = np.linspace(0, 1, steps + 1) if path is None else np.asarray(path, dtype=float)
    if path.shape != (steps + 1,) or path[0] != 0 or path[-1] != 1 or (np.diff(path) <= 0).any():
        raise ValueError(f"path must increase from 0 to 1 in {steps} steps.")
    return path


def _divergence(mean, std, target_mean, target_std):
    """Return KL(N(mean, std²)‖N(target_mean, target_std²)), nats."""
    ratio = std / target_std
    return ((mean - target_mean) / target_std) ** 2 / 2 + (ratio**2 - 1) / 2 - np.log(ratio)


def _chain_sum(weights, variances, decay):
    """Return Σ_jk weights_j weights_k variances_min(j,k) decay^|j−k|, in linear time."""
    later = 0.0
    total = np.sum(weights**2 * variances)
    for j in range(len(weights) - 2, -1, -1):
        later = decay * (weights[j + 1] + later)
        total += 2 * weights[j] * variances[j] * later
    return total
