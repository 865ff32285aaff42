"""The metric of the compiled kernels: found from few samples, and drawn from correctly."""

import numba
import numpy as np
import pytest
from scipy.linalg import eigh

from pymc_bdmc.reference import metric as module
from pymc_bdmc.reference.metric import NOTABLE, draw_momentum, estimate_metric, velocity_of

N_DIMENSIONS, N_SAMPLES = 20, 60


@pytest.fixture(scope="module")
def normal():
    """Covariance with a condition number of 10^4, a few draws, and gradients there."""
    rng = np.random.default_rng(1)
    q, _ = np.linalg.qr(rng.normal(size=(N_DIMENSIONS, N_DIMENSIONS)))
    covariance = (q * np.geomspace(0.01, 100, N_DIMENSIONS)) @ q.T
    draws = rng.multivariate_normal(np.arange(20.0), covariance, size=N_SAMPLES)
    return covariance, draws, -np.linalg.solve(covariance, (draws - np.arange(20.0)).T).T


def dense(metric):
    """The covariance that the metric stands for, by its action on unit vectors."""
    columns = np.empty((metric.scale.size, metric.scale.size))
    for unit, column in zip(np.eye(metric.scale.size), columns, strict=True):
        velocity_of(metric, unit * metric.scale, column)
    return columns * metric.scale


def worst(metric, covariance):
    """Largest ratio of variances, either way, along any direction."""
    return np.exp(np.abs(np.log(eigh(dense(metric), covariance, eigvals_only=True))).max())


def test_exact_for_a_normal_density_but_for_small_directions(normal):
    covariance, draws, gradients = normal
    assert worst(estimate_metric(draws, gradients), covariance) < 1.1 * NOTABLE
    assert worst(estimate_metric(draws, np.zeros_like(gradients)), covariance) > 100


def test_without_gradients_clear_directions_are_found():
    """Chains repeat their states; if no direction is clear, none is made of noise."""
    rng = np.random.default_rng(3)
    independent = np.repeat(rng.normal(size=(32, 5)), 8, axis=0)
    assert not estimate_metric(independent, np.zeros_like(independent)).excess.size
    covariance = np.full((5, 5), 0.98) + 0.02 * np.eye(5)
    draws = independent @ np.linalg.cholesky(covariance).T
    assert worst(estimate_metric(draws, np.zeros_like(draws)), covariance) < 4
    assert worst(estimate_metric(draws[:, :1], np.zeros((256, 1))), covariance[:1, :1]) < 4


def test_in_high_dimension_moves_are_as_short_as_the_gradients_ask(normal, monkeypatch):
    """Within the noise of so few samples, 4 standard errors of a logarithm."""
    covariance, draws, gradients = normal
    monkeypatch.setattr(module, "MAX_DENSE", N_DIMENSIONS - 1)
    conditional, marginal = np.diag(np.linalg.inv(covariance)) ** -0.5, np.diag(covariance) ** 0.5
    for for_moves, expected in [(True, conditional), (False, np.sqrt(conditional * marginal))]:
        found = estimate_metric(draws, gradients, for_moves=for_moves)
        assert not found.excess.size
        assert np.abs(np.log(found.scale / expected)).max() < 4 / np.sqrt(2 * N_SAMPLES)


def test_weights_count_as_copies(normal):
    covariance, draws, gradients = normal
    copies = np.arange(N_SAMPLES) % 3
    weighted = estimate_metric(draws, gradients, copies / copies.sum())
    repeated = estimate_metric(np.repeat(draws, copies, 0), np.repeat(gradients, copies, 0))
    np.testing.assert_allclose(dense(weighted), dense(repeated), rtol=1e-6)
    assert worst(weighted, covariance) < 1.1 * NOTABLE


def test_infinite_gradients_are_left_out(normal):
    covariance, draws, gradients = normal
    gradients = gradients.copy()
    gradients[:5] = [[np.nan], [np.inf], [-np.inf], [np.nan], [np.inf]]
    assert worst(estimate_metric(draws, gradients), covariance) < 1.1 * NOTABLE


def test_momenta_have_the_inverse_covariance(normal):
    """Kinetic energies of the drawn momenta average to d/2 within 4 standard errors."""
    _, draws, gradients = normal
    metric, n = estimate_metric(draws, gradients), 20_000

    @numba.njit
    def energies(metric, rng, n):
        momentum, velocity = np.empty(metric.scale.size), np.empty(metric.scale.size)
        found = np.empty((n, 2))
        for i in range(n):
            found[i, 0] = draw_momentum(metric, momentum, rng)
            velocity_of(metric, momentum, velocity)
            found[i, 1] = 0.5 * np.dot(momentum, velocity)
        return found

    stated, kinetic = energies(metric, np.random.default_rng(2), n).T
    np.testing.assert_allclose(stated, kinetic, rtol=1e-9)
    assert abs(kinetic.mean() - N_DIMENSIONS / 2) < 4 * np.sqrt(N_DIMENSIONS / 2 / n)


def test_samples_of_any_size_give_a_metric():
    """A scale without an upper end gives effects of 1e150 beside those of 1; squares overflow."""
    rng = np.random.default_rng(5)
    sizes = np.exp(rng.uniform(-3, 350, size=(200, 1)))
    effects = sizes * rng.normal(size=(200, 6))
    thetas = np.concatenate([-2 * np.log(sizes), effects], axis=1)
    gradients = np.concatenate([rng.normal(size=(200, 1)), -effects], axis=1)
    for slopes in (gradients, np.zeros_like(gradients)):
        metric = estimate_metric(thetas, slopes)
        assert all(np.isfinite(part).all() for part in metric)
        assert (metric.scale > 0).all()
        assert (metric.excess > -1).all()
