"""The models of benchmarks/hard_models.py: their sizes, and the two ways to write one density."""

import numpy as np
import pymc as pm
import pytest

from tests.models import interpreted

SIZES = {
    "seeds": (26, 21),
    "German credit, flat prior": (25, 1000),
    "sonar, wide prior": (61, 208),
    "ionosphere": (35, 351),
    "pines": (1600, 1600),
    "EPRV3 set 1, 0 planets": (2, 200),
    "EPRV3 set 3, 3 planets": (17, 200),
    "TOI-141, 1 planet": (11, 238),
}
"""Numbers of elements of θ and of observations."""


@pytest.fixture
def models(script):
    found = script("hard_models")
    if not found.FOLDER.exists():
        pytest.skip(f"the data are not at {found.FOLDER}")
    return found


@pytest.mark.parametrize("name", SIZES)
def test_sizes(models, name):
    model = models.TARGETS[name]()
    start = model.initial_point()
    observed = sum(np.size(model.rvs_to_values[rv].data) for rv in model.observed_RVs)
    assert (sum(value.size for value in start.values()), observed) == SIZES[name]
    with interpreted():
        assert np.isfinite(model.compile_logp()(start))


def test_keplers_equation(models):
    mean, eccentricity = np.meshgrid(np.linspace(-9, 9, 101), [0, 0.3, 0.9, 0.99])
    anomaly = np.vectorize(models.solve_kepler)(mean, eccentricity)
    apart = anomaly - eccentricity * np.sin(anomaly) - mean
    np.testing.assert_allclose(np.exp(1j * apart), 1, atol=1e-12)


def test_both_forms_have_the_same_prior(models):
    """Quantiles of K, e and both angles; at most 4 standard errors apart, α below 5e-3 in all.

    Twin: eccentricities of another scale.
    """
    n, shares = 2000, np.linspace(0.1, 0.9, 5)

    def drawn(form):
        with pm.Model(), interpreted():
            elements = models.orbits(1, form)
            _, amplitude, eccentricity, omega, longitude = pm.draw(elements, n, random_seed=1)
        angles = np.cos(omega), np.sin(longitude), np.cos(omega - longitude)
        return [np.log1p(amplitude).ravel(), eccentricity.ravel(), *map(np.ravel, angles)]

    def deviation(one, other):
        below = np.mean(one[:, None] <= np.quantile(other, shares), axis=0)
        return np.max(np.abs(below - shares) / np.sqrt(2 * shares * (1 - shares) / n))

    published, smooth = drawn("published"), drawn("smooth")
    assert all(deviation(*pair) < 4 for pair in zip(published, smooth, strict=True))
    assert deviation(1.2 * published[1], smooth[1]) > 4
