"""The known answers of benchmarks/models.py: their densities are those of the models."""

import numpy as np
import pytest

from tests.models import SIGMAS, interpreted


@pytest.mark.parametrize(
    ("name", "log_joint", "size"),
    [
        ("logistic 768×8", "logistic_log_joint", 9),
        ("mixture of two normals", "mixture_log_joint", 5),
    ],
)
def test_log_joint_is_that_of_the_model(script, name, log_joint, size):
    models = script("models")
    points = np.random.default_rng(1).normal(size=(3, size))
    model = models.MODELS[name]()
    with interpreted():
        log_p, shapes = model.compile_logp(), model.initial_point()
    ends = np.cumsum([value.size for value in shapes.values()])[:-1]
    expected = [
        log_p({
            value: part.reshape(start.shape)
            for (value, start), part in zip(shapes.items(), np.split(row, ends), strict=True)
        })
        for row in points
    ]  # fmt: skip
    # PyTensor takes logarithms of small whole constants in single precision.
    np.testing.assert_allclose(getattr(models, log_joint)(points), expected, rtol=0, atol=2e-7)


def test_importance_sampling(script):
    """Two normals and the integral of their sum, 3; two-sided α = 6e-5. Twin: of one start."""

    def log_joint(points):
        return np.logaddexp(
            -0.5 * ((points - 5) ** 2).sum(axis=1),
            np.log(2) - 0.5 * ((points + 5) ** 2).sum(axis=1),
        ) - np.log(2 * np.pi)

    n, exact = 20_000, np.log(3)
    # Weights between 0 and 3 times their mean have a variance below 2 squares of it.
    error = np.sqrt(2 / n)
    importance_sampled = script("models").importance_sampled
    both = importance_sampled(log_joint, [4, 4], [-4, -4], n=n)
    assert abs(both - exact) < SIGMAS * error
    assert abs(importance_sampled(log_joint, [4, 4], n=n) - exact) > SIGMAS * error


@pytest.mark.slow
def test_factorisation(script):
    """A shorter sandwich; two-sided α = 6e-5. Twin: a nat beside."""
    models = script("models")
    found = models.sandwich_factorisation(temperatures=300, chains=16)
    assert found.valid
    error = np.hypot(found.error, 0.03)
    assert abs(found.value - models.FACTORISATION) < SIGMAS * error
    assert abs(found.value - models.FACTORISATION - 1) > SIGMAS * error
