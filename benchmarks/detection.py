"""Transitions until a faulty sampler is found out, by bets and by the tests of other packages.

All have α = 1e-5 for a mutant and about 20,000 transitions to spend, as `check_invariance` does.

- Two samples: the idea of R's mcunit (Gandy and Scott 2020, arXiv:2001.06465, Algorithm 1). Exact
  draws of θ, and others that the sampler has moved five times on their own data; a
  Kolmogorov-Smirnov test of every quantity, of more and more draws while p-values are in doubt.
- Ranks: simulation-based calibration (Talts et al. 2018, arXiv:1804.06788). The rank of a prior draw
  among the states of a chain on data simulated from it; a χ² test for every quantity.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.common import shown, table
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.testing import check_invariance
from pymc_bdmc.testing.mutants import MUTANTS, trials
from pymc_bdmc.testing.subjects import ALPHA, Target

STEPS = 5
BATCHES = (250, 1000, 2750)
"""Draws of each sample in the stages of the sequential test: 20,000 transitions in all."""
DATASETS, BURN_IN, RANKS, THINNING = 200, 5, 19, 5
BINS = 20


class Subject:
    """A sampler and its model, and the quantities that the other tests look at."""

    def __init__(self, sampler, model, seed):
        self.rng, self.sampler = np.random.default_rng(seed), sampler
        self.density = TemperedDensity(model)
        self.target, self.joint = Target(self.density), self.density.joint()
        self.joint.seed(self.rng)

    def draw(self):
        """An exact draw of θ, given data that the density holds from now on."""
        point, data = self.joint.draw()
        self.density.set_data(data)
        return point

    def move(self, point, steps):
        for _ in range(steps):
            point = self.sampler(point, self.target, self.rng)
        return point

    def quantities(self, point) -> np.ndarray:
        """Elements of θ, their product, log p and ℓ."""
        x = point["x"].astype(float)
        return np.array([*x, np.prod(x), *self.density(point)])


def two_samples(subject: Subject) -> tuple[bool, int]:
    """Whether the sampler fails, and after how many transitions."""
    n_stages, cost = len(BATCHES), 0
    level = ALPHA / n_stages
    doubt = level ** (1 / n_stages)
    for n in BATCHES:
        kept = [subject.quantities(subject.draw()) for _ in range(n)]
        moved = [subject.quantities(subject.move(subject.draw(), STEPS)) for _ in range(n)]
        cost += n * STEPS
        pairs = zip(np.transpose(kept), np.transpose(moved), strict=True)
        pvalues = [stats.ks_2samp(a, b).pvalue for a, b in pairs]
        smallest = min(pvalues) * len(pvalues)
        if smallest <= level or smallest > doubt + level:
            return smallest <= level, cost
        level /= doubt
    return False, cost


def ranks(subject: Subject) -> tuple[bool, int]:
    """The same by calibration, which has one look at the end."""
    found = []
    for _ in range(DATASETS):
        drawn = subject.quantities(start := subject.draw())
        point, chain = subject.move(_elsewhere(subject, start), BURN_IN), []
        for _ in range(RANKS):
            point = subject.move(point, THINNING)
            chain.append(subject.quantities(point))
        below, equal = np.sum(chain < drawn, axis=0), np.sum(np.equal(chain, drawn), axis=0)
        found.append(below + subject.rng.integers(equal + 1))
    counts = [np.bincount(column, minlength=RANKS + 1) for column in np.transpose(found)]
    pvalues = [stats.chisquare(each).pvalue for each in counts]
    return min(pvalues) * len(pvalues) <= ALPHA, DATASETS * (BURN_IN + RANKS * THINNING)
