"""Small models on which mutants are tried, and the checks for each kind of specimen."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache

import numpy as np
import pymc as pm

from pymc_bdmc import testing
from pymc_bdmc.testing.subjects import Sampler
from tests.models import interpreted
from tests.testing.mutants.catalogue import Trial


class VectorSampler(ABC):
    """A sampler of the one variable x, a vector; a subclass writes `move`.

    It is a `pymc_bdmc.testing.Transition`, of which a new one is made for every check. All here
    are their own reversal.
    """

    def __call__(self, point, target, rng):
        self.target, self.rng = target, rng
        return {"x": self.move(point["x"])}

    @abstractmethod
    def move(self, q):
        """The next state."""

    @property
    def reversal(self):
        return self

    def log_p(self, q):
        return self.target({"x": q})

    def gradient(self, q):
        return self.target.gradient({"x": q})["x"]


def measured(x, deviation, y, mean=lambda x: x) -> Callable[[], pm.Model]:
    """Return a function that makes one model of x and of normal data y with this mean."""

    @cache
    def make():
        with pm.Model() as model:
            pm.Normal("y", mean(x()), deviation, observed=y)
        return model

    return make


sum_of_two = measured(lambda: pm.Normal("x", shape=2), 0.5, 1.5, lambda x: x.sum())
"""Two normals whose sum was measured, and is known better than either."""

known_mean = measured(lambda: pm.Normal("x", shape=1), 0.5, [1.5])
"""A mean whose posterior is normal and known."""

eight_means = measured(lambda: pm.Normal("x", shape=8), 0.5, np.zeros(8))
"""Eight means, each with a datum, whose posterior is normal and known."""

positive_mean = measured(lambda: pm.HalfNormal("x", shape=1, default_transform=None), 0.7, [0.5])
"""A mean that ends at zero, on its own scale."""

event_time = measured(lambda: pm.Normal("x", 1.7e9, 60, shape=1), 60, [1.7e9])
"""The time of an event, in seconds since 1970."""

three_categories = measured(
    lambda: pm.Categorical("x", [0.2, 0.5, 0.3], shape=2), 0.5, 1.4, lambda x: x.sum()
)
"""Two variables of three categories that are coupled by the data."""

counted = measured(lambda: pm.Poisson("x", 1.0, shape=1), 1.0, [1.4])
"""A small number, measured."""

barrier = measured(lambda: pm.Categorical("x", [0.4, 0.002, 0.3, 0.298], shape=1), 5.0, [1.0])
"""Four places, of which the second is hardly ever taken."""


@cache
def mean_and_scale() -> pm.Model:
    """The mean of twenty data, and the logarithm of their scale."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", x[0], pm.math.exp(x[1]), observed=np.zeros(20))
    return model


@cache
def scale_of_twenty() -> pm.Model:
    """The scale of twenty data, on its own scale."""
    with pm.Model() as model:
        x = pm.HalfNormal("x", shape=1, default_transform=None)
        pm.Normal("y", 0, x, observed=np.zeros(20))
    return model


@cache
def tossed() -> pm.Model:
    """Two fair coins, and data that tell nothing of them."""
    with pm.Model() as model:
        pm.Bernoulli("x", 0.5, shape=2)
        pm.Normal("y", observed=0.3)
    return model


CHECKS_OF_SAMPLERS = (
    testing.check_invariance,
    testing.check_exact_rank,
    testing.check_geweke,
    testing.check_sampler,
)


def asked(check, *given) -> Callable:
    """Return a check with these arguments after the specimen, each made when the check is asked."""
    return lambda specimen, **settings: check(specimen, *(make() for make in given), **settings)


def of_sampler(model: Callable[[], pm.Model]) -> Trial:
    """The checks of samplers, on a model."""
    return {check.__name__: asked(check, model) for check in CHECKS_OF_SAMPLERS}


def of_model(sampler: Callable[[], Sampler]) -> Trial:
    """The checks of samplers with a sound one, and the check of draws from the prior."""

    def of_sound(check):
        return lambda specimen, **settings: check(sampler(), specimen, **settings)

    trial = {check.__name__: of_sound(check) for check in CHECKS_OF_SAMPLERS}
    return {"check_prior_sampler": testing.check_prior_sampler} | trial


@cache
def no_effect() -> pm.Model:
    """Data of which model 1 of `evidence` says that they have a mean."""
    with pm.Model() as model:
        pm.Normal("x")
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(40))
    return model


of_evidence: Trial = {"check_bayes_factor": asked(testing.check_bayes_factor, no_effect)}
of_transform: Trial = {
    "check_transform": asked(testing.check_transform, lambda: pm.Gamma.dist(2.0, 1.0))
}


def check_gradient(specimen, **settings):
    """The check, of a gradient that takes longer to compile than to run."""
    with interpreted():
        return testing.check_gradient(specimen, **settings)


of_gradient: Trial = {"check_gradient": check_gradient}
of_conditional: Trial = {
    "check_conditionals": asked(testing.check_conditionals, known_mean, lambda: "x")
}
