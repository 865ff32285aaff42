"""Models whose draws, densities, transforms, gradients or conditionals contradict each other."""

import numpy as np
import pymc as pm
from pymc.logprob.transforms import LogTransform
from pytensor import tensor as pt
from pytensor.compile.builders import OpFromGraph
from scipy import stats

from tests.testing.mutants.catalogue import mutant_of
from tests.testing.mutants.trials import of_conditional, of_gradient, of_model, of_transform
from tests.testing.mutants.walks import RandomWalk


def normal_log_density(value, mean, deviation):
    return pm.logp(pm.Normal.dist(mean, deviation), value)


def draw_normal(mean, deviation, rng=None, size=None):
    return rng.normal(mean, deviation, size)


def draw_by_variance(mean, deviation, rng=None, size=None):
    return rng.normal(mean, deviation**2, size)


def measured(draw_x=draw_normal, draw_y=draw_normal):
    """A normal x, and data with a normal error; both have a density and a simulator by hand."""
    with pm.Model() as model:
        x = pm.CustomDist("x", 0.0, 2.0, logp=normal_log_density, random=draw_x, shape=1)
        pm.CustomDist("y", x, 0.5, logp=normal_log_density, random=draw_y, observed=[0.3])
    return model


@mutant_of(measured, of_model(RandomWalk), seen_by="check_prior_sampler")
def wrong_scale():
    """The prior is drawn with its variance as the standard deviation."""
    return measured(draw_x=draw_by_variance)


@mutant_of(measured, of_model(RandomWalk), seen_by="check_prior_sampler")
def rounded():
    """Prior draws are rounded to one decimal, so single values have a positive probability."""

    return measured(draw_x=lambda *given, **options: draw_normal(*given, **options).round(1))


@mutant_of(measured, of_model(RandomWalk), seen_by="check_prior_sampler")
def seeded_anew():
    """Random stream reused: the simulator of the prior starts from one of ten seeds."""

    def draw(mean, deviation, rng=None, size=None):
        return np.random.default_rng(rng.integers(10)).normal(mean, deviation, size)

    return measured(draw_x=draw)


@mutant_of(measured, of_model(RandomWalk), seen_by="check_invariance")
def wrong_error():
    """Data are simulated with the variance of their error as its standard deviation."""
    return measured(draw_y=draw_by_variance)


COVARIANCE = np.array([[1.0, 0.8], [0.8, 1.0]])


def correlated(draw=None):
    """Two correlated normals, and data on their difference."""

    def log_density(value, mean):
        return pm.logp(pm.MvNormal.dist(mean, COVARIANCE), value)

    def draw_both(mean, rng=None, size=None):
        return rng.multivariate_normal(mean, COVARIANCE, size)

    with pm.Model() as model:
        x = pm.CustomDist(
            "x", np.zeros(2), logp=log_density, random=draw or draw_both, signature="(n)->(n)"
        )
        pm.Normal("y", x[0] - x[1], 0.5, observed=0.3)
    return model


@mutant_of(correlated, of_model(RandomWalk), seen_by="check_prior_sampler")
def diagonal_only():
    """Off-diagonal dropped: a multivariate normal is drawn with independent elements."""

    def draw(mean, rng=None, size=None):
        return rng.multivariate_normal(mean, np.diag(np.diag(COVARIANCE)), size)

    return correlated(draw)


@mutant_of(correlated, of_model(RandomWalk), seen_by="check_prior_sampler")
def transposed():
    """A multivariate normal is drawn with the transpose of its Cholesky factor."""

    def draw(mean, rng=None, size=None):
        factor = np.linalg.cholesky(COVARIANCE)
        return mean + rng.standard_normal((*(size or ()), 2)) @ factor

    return correlated(draw)


@mutant_of(LogTransform, of_transform, seen_by="check_transform")
class JacobianUpsideDown(LogTransform):
    """Wrong Jacobian: that of x ↦ log x instead of that of its inverse."""

    def log_jac_det(self, value, *inputs):
        return -super().log_jac_det(value, *inputs)


@mutant_of(LogTransform, of_transform, seen_by="check_transform")
class NoJacobian(LogTransform):
    """Wrong Jacobian: there is none."""

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value)


def misfit(gradient=lambda x: 2 * x):
    """A likelihood by an operation that has its own gradient."""
    x = pt.vector("x", shape=(2,))

    def pullback(inputs, outputs, output_gradients):
        return [gradient(inputs[0]) * output_gradients[0]]

    squares = OpFromGraph([x], [x**2], pullback=pullback)
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", squares(x).sum(), observed=1.0)
    return model


@mutant_of(misfit, of_gradient, seen_by="check_gradient")
def halved_gradient():
    """The gradient of x² is x: a sampler that uses it is slow, but its samples are right."""
    return misfit(gradient=lambda x: x)


def conditional(prior_precision=1.0):
    """Log p(x | y) of `trials.known_mean` by hand, as a function of a point."""

    def log_density(point):
        precision = prior_precision + 4.0
        return stats.norm.logpdf(point["x"], 4.0 * point["y"] / precision, precision**-0.5).sum()

    return log_density


@mutant_of(conditional, of_conditional, seen_by="check_conditionals")
def no_shrinkage():
    """A conditional written by hand in which the precision of the prior is missing."""
    return conditional(prior_precision=0.0)
