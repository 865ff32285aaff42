"""Transitions until a faulty sampler is found out, by bets and by the tests of other packages.

All have α = 1e-5 for a mutant and about 20,000 transitions to spend.

- Two samples: the idea of R's mcunit (Gandy and Scott 2020, arXiv:2001.06465, Algorithm 1). Exact
  draws of θ, and others that the sampler has moved five times on their own data; a
  Kolmogorov-Smirnov test of every quantity, of more and more draws while p-values are in doubt.
- Ranks: simulation-based calibration (Talts et al. 2018, arXiv:1804.06788). The rank of a prior
  draw among the states of a chain on data simulated from it; a χ² test for every quantity.
"""

import numpy as np
from common import shown
from scipy import stats

from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.testing.subjects import ALPHA, Target
from tests.testing.mutants import MUTANTS, coordinates, hamiltonian, walks
from tests.testing.mutants.trials import barrier, known_mean, sum_of_two, three_categories

STEPS = 5
BATCHES = (250, 1000, 2750)
"""Draws of each sample in the stages of the sequential test: 20,000 transitions in all."""
DATASETS, BURN_IN, RANKS, THINNING = 200, 55, 9, 5
"""Each data set takes 100 transitions."""


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
        """Where the sampler leads in so many steps."""
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
        drawn = subject.quantities(subject.draw())
        elsewhere, _ = subject.joint.draw()
        point, chain = subject.move(elsewhere, BURN_IN), []
        for _ in range(RANKS):
            point = subject.move(point, THINNING)
            chain.append(subject.quantities(point))
        below, equal = np.sum(chain < drawn, axis=0), np.sum(np.equal(chain, drawn), axis=0)
        found.append(below + subject.rng.integers(equal + 1))
    counts = [np.bincount(column, minlength=RANKS + 1) for column in np.transpose(found)]
    pvalues = [stats.chisquare(each).pvalue for each in counts]
    return min(pvalues) * len(pvalues) <= ALPHA, DATASETS * (BURN_IN + RANKS * THINNING)


TRIED = {
    walks.HalvedRatio: sum_of_two,
    walks.UntilAccepted: sum_of_two,
    walks.NoVolume: known_mean,
    walks.NoDrift: sum_of_two,
    walks.SharedStream: known_mean,
    hamiltonian.NoHalfStep: sum_of_two,
    hamiltonian.PotentialOnly: sum_of_two,
    coordinates.VarianceForDeviation: sum_of_two,
    coordinates.OldData: known_mean,
    coordinates.NoShrinkage: known_mean,
    coordinates.Simultaneous: three_categories,
    coordinates.Renormalised: three_categories,
    coordinates.Adapting: barrier,
}


def bets(sampler, mutant) -> tuple[bool, int]:
    """By `check_invariance`."""
    report = mutant.trial["check_invariance"](sampler, random_seed=1, budget=20_000)
    return not report.passed, report.cost


def row(name, specimen, mutant, model) -> None:
    """Print the transitions of each test: bold if it finds a fault, in brackets if it passes."""
    found = [bets(specimen(), mutant)]
    found += [test(Subject(specimen(), model(), 1)) for test in (two_samples, ranks)]
    shown([name, *(f"**{cost}**" if failed else f"({cost})" for failed, cost in found)])


def main() -> None:
    shown(["sampler", "bets", "two samples", "ranks"])
    for broken, model in TRIED.items():
        mutant = MUTANTS[broken.__name__]
        row(f"`{mutant.name}`", broken, mutant, model)
    sound = {MUTANTS[broken.__name__].parent: broken for broken in TRIED}
    for parent, broken in sound.items():
        mutant = MUTANTS[broken.__name__]
        row(f"{parent.__name__}, sound", parent, mutant, TRIED[broken])


if __name__ == "__main__":
    main()
