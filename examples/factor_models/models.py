"""The three factor models of Grosse, Ghahramani and Adams (2015)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import override

import numpy as np
import pymc as pm

from factor_models.features import (
    BINARY,
    NORMAL,
    ONE_HOT,
    Factors,
    features_of,
    log_prior,
)
from pymc_bdmc.base.arguments import check_counts, check_positive
from pymc_bdmc.base.compiling import load_numba
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream


@dataclass(frozen=True)
class FactorModel(ABC):
    """Model of observations Y = L R + noise, shape (n, size), with normal features R and noise.

    The models differ only in the rows of L. R is integrated out except in `pymc_model`, so a state
    consists of L.

    Parameters
    ----------
    n_features : int
        K, columns of L and rows of R.
    n : int, default 50
        Number of observations.
    size : int, default 25
        D, number of elements of an observation.
    feature_scale, noise : float, default 1
        Standard deviations of the elements of R and of the noise.

    Raises
    ------
    ValueError
        If a parameter is not positive; the message names it.
    """

    n_features: int
    n: int = 50
    size: int = 25
    feature_scale: float = field(default=1.0, kw_only=True)
    noise: float = field(default=1.0, kw_only=True)

    def __post_init__(self):
        check_counts(n_features=self.n_features, n=self.n, size=self.size)
        check_positive(feature_scale=self.feature_scale, noise=self.noise)
        load_numba()  # here, since loading in several threads at once fails

    @property
    @abstractmethod
    def factors(self) -> Factors:
        """Return the model in the form of the compiled kernels."""

    @abstractmethod
    def draw_rows(self, rng: np.random.Generator, draws: int = 1) -> np.ndarray:
        """Draw L from the prior, shape (draws, n, n_features)."""

    @abstractmethod
    def _pymc_rows(self):
        """Return L as a variable of the PyMC model in the context."""

    def simulate(self, random_seed: RandomSeed = None) -> "Problem":
        """Draw rows, features and observations together.

        Parameters
        ----------
        random_seed : int, sequence of int, SeedSequence or Generator, optional

        Returns
        -------
        Problem
        """
        rng = np.random.default_rng(stream(entropy_of(random_seed), Purpose.SIMULATE))
        (rows,) = self.draw_rows(rng)
        features = self.feature_scale * rng.normal(size=(self.n_features, self.size))
        noise = self.noise * rng.normal(size=(self.n, self.size))
        return Problem(self, rows @ features + noise, rows)

    def log_likelihood(self, rows: np.ndarray, y: np.ndarray) -> float:
        """Return log p(y | L), nats."""
        return features_of(self.factors, rows, y, np.ones(self.n))[1]

    def log_joint(self, rows: np.ndarray, y: np.ndarray) -> float:
        """Return log p(L, y), nats."""
        return log_prior(self.factors, rows) + self.log_likelihood(rows, y)

    def pymc_model(self, y: np.ndarray) -> pm.Model:
        """Return the same model as a PyMC model, with rows and features."""
        with pm.Model() as model:
            rows = self._pymc_rows()
            shape = self.n_features, self.size
            features = pm.Normal("features", 0, self.feature_scale, shape=shape)
            pm.Normal("y", rows @ features, self.noise, observed=y)
        return model


@dataclass(frozen=True)
class Problem:
    """Observations of a model, and the rows behind them, which are a posterior sample.

    Attributes
    ----------
    model : FactorModel
    y : ndarray of shape (n, size)
    rows : ndarray of shape (n, n_features)
        Rows from which the observations were simulated, for reverse runs. Leave them out for other
        observations.

    Raises
    ------
    ValueError
        If an array does not have the model's shape.
    """

    model: FactorModel
    y: np.ndarray
    rows: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self):
        model = self.model
        _check_shape("y", self.y, (model.n, model.size))
        if self.rows.size:
            _check_shape("rows", self.rows, (model.n, model.n_features))


def _check_shape(name: str, array: np.ndarray, expected: tuple[int, int]) -> None:
    """Raise an error for a wrong shape, since compiled loops do not check array bounds."""
    if np.shape(array) != expected:
        raise ValueError(f"{name}: must have the model's shape {expected}, got {np.shape(array)}.")


def _discrete(
    model: FactorModel, kind: int, values: np.ndarray, log_probabilities: np.ndarray, odds: float
) -> Factors:
    return Factors(
        kind, values, log_probabilities, np.log(odds), 1.0, model.feature_scale, model.noise
    )


@dataclass(frozen=True)
class Clustering(FactorModel):
    """Mixture of spherical normals in equal proportions, where every row chooses one centre.

    Examples
    --------
    >>> from factor_models import Clustering
    >>> Clustering().simulate(random_seed=1).rows.sum(axis=1)[:4]
    array([1., 1., 1., 1.])
    """

    n_features: int = 10

    @cached_property
    @override
    def factors(self) -> Factors:
        k = self.n_features
        return _discrete(self, ONE_HOT, np.eye(k), np.full(k, -np.log(k)), 1.0)

    @override
    def draw_rows(self, rng, draws=1):
        return np.eye(self.n_features)[rng.integers(self.n_features, size=(draws, self.n))]

    def _pymc_rows(self):
        labels = pm.Categorical(
            "labels", np.full(self.n_features, 1 / self.n_features), shape=self.n
        )
        return pm.math.eq(labels[:, None], np.arange(self.n_features))


@dataclass(frozen=True)
class LowRank(FactorModel):
    """Low-rank matrix, where every row is a vector of normal loadings.

    Parameters
    ----------
    row_scale : float, default 1
        Standard deviation of the loadings.

    Examples
    --------
    >>> from factor_models import LowRank
    >>> LowRank().simulate(random_seed=1).rows.shape
    (50, 5)
    """

    n_features: int = 5
    row_scale: float = field(default=1.0, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        check_positive(row_scale=self.row_scale)

    @cached_property
    @override
    def factors(self) -> Factors:
        none = np.empty((0, self.n_features))
        return Factors(
            NORMAL, none, none[:, 0].copy(), 0.0, self.row_scale, self.feature_scale, self.noise
        )

    @override
    def draw_rows(self, rng, draws=1):
        return self.row_scale * rng.normal(size=(draws, self.n, self.n_features))

    def _pymc_rows(self):
        return pm.Normal("loadings", 0, self.row_scale, shape=(self.n, self.n_features))


@dataclass(frozen=True)
class BinaryAttributes(FactorModel):
    """Sums of features, where every row is a set of features.

    Parameters
    ----------
    probability : float, default 0.5
        Probability of a feature to be in a set.

    Examples
    --------
    >>> from factor_models import BinaryAttributes
    >>> BinaryAttributes(3, n=2).simulate(random_seed=1).rows.shape
    (2, 3)
    """

    n_features: int = 10
    probability: float = field(default=0.5, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.probability < 1:
            raise ValueError(f"probability: must lie between 0 and 1, got {self.probability!r}.")

    @cached_property
    @override
    def factors(self) -> Factors:
        values = (np.arange(1 << self.n_features)[:, None] >> np.arange(self.n_features) & 1) * 1.0
        odds = self.probability / (1 - self.probability)
        log_p = values.sum(axis=1) * np.log(odds) + self.n_features * np.log1p(-self.probability)
        return _discrete(self, BINARY, values, log_p, odds)

    @override
    def draw_rows(self, rng, draws=1):
        return (rng.random((draws, self.n, self.n_features)) < self.probability) * 1.0

    def _pymc_rows(self):
        return pm.Bernoulli("attributes", self.probability, shape=(self.n, self.n_features))
