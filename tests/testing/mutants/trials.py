"""Small models on which mutants are tried, and the checks for each kind of specimen."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache

import numpy as np
import pymc as pm

from pymc_bdmc import testing
from pymc_bdmc.testing.subjects import Sampler
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


@cache
def sum_of_two() -> pm.Model:
    """Two normals whose sum was measured, and is known better than either."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Normal("y", x.sum(), 0.5, observed=1.5)
    return model


@cache
def known_mean() -> pm.Model:
    """A mean whose posterior is normal and known."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=1)
        pm.Normal("y", x, 0.5, observed=[1.5])
    return model


@cache
def eight_means() -> pm.Model:
    """Eight means, each with a datum, whose posterior is normal and known."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=8)
        pm.Normal("y", x, 0.5, observed=np.zeros(8))
    return model


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
def positive_mean() -> pm.Model:
    """A mean that ends at zero, on its own scale."""
    with pm.Model() as model:
        x = pm.HalfNormal("x", shape=1, default_transform=None)
        pm.Normal("y", x, 0.7, observed=[0.5])
    return model


@cache
def event_time() -> pm.Model:
    """Return a model of the time of an event, in seconds since 1970."""
    with pm.Model() as model:
        x = pm.Normal("x", 1.7e9, 60, shape=1)
        pm.Normal("y", x, 60, observed=[1.7e9])
    return model


@cache
def three_categories() -> pm.Model:
    """Two variables of three categories that are coupled by the data."""
    with pm.Model() as model:
        x = pm.Categorical("x", [0.2, 0.5, 0.3], shape=2)
        pm.Normal("y", x.sum(), 0.5, observed=1.4)
    return model


@cache
def tossed() -> pm.Model:
    """Two fair coins, and data that tell nothing of them."""
    with pm.Model() as model:
        pm.Bernoulli("x", 0.5, shape=2)
        pm.Normal("y", observed=0.3)
    return model


@cache
def counted() -> pm.Model:
    """A small number, measured."""
    with pm.Model() as model:
        x = pm.Poisson("x", 1.0, shape=1)
        pm.Normal("y", x, 1.0, observed=[1.4])
    return model


@cache
def barrier() -> pm.Model:
    """Four places, of which the second is hardly ever taken."""
    with pm.Model() as model:
        x = pm.Categorical("x", [0.4, 0.002, 0.3, 0.298], shape=1)
        pm.Normal("y", x, 5.0, observed=[1.0])
    return model


CHECKS_OF_SAMPLERS = (
    testing.check_invariance,
    testing.check_exact_rank,
    testing.check_geweke,
    testing.check_sampler,
)


def of_sampler(model: Callable[[], pm.Model]) -> Trial:
    """The checks of samplers, on a model."""

    def asked(check):
        return lambda specimen, **settings: check(specimen, model(), **settings)

    return {check.__name__: asked(check) for check in CHECKS_OF_SAMPLERS}


def of_model(sampler: Callable[[], Sampler]) -> Trial:
    """The checks of samplers with a sound one, and the check of draws from the prior."""

    def asked(check):
        return lambda specimen, **settings: check(sampler(), specimen, **settings)

    trial = {check.__name__: asked(check) for check in CHECKS_OF_SAMPLERS}
    return {"check_prior_sampler": testing.check_prior_sampler} | trial


@cache
def no_effect() -> pm.Model:
    """Data of which model 1 of `evidence` says that they have a mean."""
    with pm.Model() as model:
        pm.Normal("x")
        pm.Normal("y", 0.0, 1.0, observed=np.zeros(40))
    return model


of_evidence: Trial = {
    "check_bayes_factor": lambda specimen, **settings: testing.check_bayes_factor(
        specimen, no_effect(), **settings
    )
}
of_transform: Trial = {
    "check_transform": lambda specimen, **settings: testing.check_transform(
        specimen, pm.Gamma.dist(2.0, 1.0), **settings
    )
}
of_gradient: Trial = {"check_gradient": testing.check_gradient}
of_conditional: Trial = {
    "check_conditionals": lambda specimen, **settings: testing.check_conditionals(
        specimen, known_mean(), "x", **settings
    )
}
