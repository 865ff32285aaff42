"""Faults of the annealing loops are exposed, by short runs in plain Python.

A twin must exceed 3 standard errors, and the loops without a fault may not.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc.base.types import Direction
from pymc_bdmc.kernels.state import Target
from pymc_bdmc.reference.student import no_reference
from tests.engines import short_runs
from tests.engines.test_identities import STANDARD_ERRORS, forward_score, reverse_score
from tests.engines.test_populations import Enumerable, plan_of, starts_of
from tests.mutants import in_python
from tests.paths.test_data_path import Rows

FORWARD, REVERSE = Direction


def score(system, direction, particles, n, fault=None, whole=1.0):
    """Standard errors by which the weights of n runs miss the evidence.

    On a path of the data so much of the observations comes in all.
    """

    def density(theta, data, interval, *gradients):
        """log p and ℓ; on a path of the data ℓ is the slope of log f over the interval."""
        row = int(theta[0]) * len(system.p_c) + int(theta[1])
        if not plan.in_turn:
            return system.log_prior[row], ells[0, row]
        betas = np.minimum(interval, whole)
        now, then = (np.clip(3 * beta - np.arange(3), 0, 1) @ ells[:, row] for beta in betas)
        slope = (then - now) / (interval[1] - interval[0])
        return system.log_prior[row] + now - interval[0] * slope, slope

    starts, rng = starts_of(system, direction, particles, n)
    plan, twin = plan_of(system, direction, starts), in_python(fault, short_runs)
    ells = stats.norm.logpdf(np.reshape(system.y, (-1, 1)), system.states.sum(axis=1), system.sd)
    kinds, all_data = np.array([2, len(system.p_c)]), np.array([0.0, 1.0])
    target = Target(density, density, np.zeros(0), all_data, kinds, no_reference(), np.zeros(1))
    kernel = SimpleNamespace(transitions=twin.metropolis_transitions)
    draws = np.empty((n, *plan.draws.shape))
    weights = twin.run(target, kernel, plan, starts, draws, rng)
    return (forward_score if direction is FORWARD else reverse_score)(system, weights)


@pytest.mark.parametrize(
    ("fault", "make", "direction", "particles", "n"),
    [
        (None, Enumerable, FORWARD, 2, 500),
        (None, Enumerable, REVERSE, 2, 500),
        (None, Rows, FORWARD, 1, 500),
        (None, Rows, REVERSE, 1, 500),
        ("particle 0 replaced", Enumerable, REVERSE, 2, 500),
        ("kept particle not among the ancestors", Enumerable, REVERSE, 2, 6000),
        ("weights not started over", Enumerable, FORWARD, 8, 2500),
        ("no turn to the next step", Rows, FORWARD, 1, 500),
        ("moved on another step", Rows, REVERSE, 1, 500),
    ],
)
def test_faults_of_the_loops_are_exposed(fault, make, direction, particles, n):
    found = score(make(), direction, particles, n, fault)
    assert (found < STANDARD_ERRORS) == (fault is None)


def test_an_observation_that_does_not_come_whole_is_exposed():
    assert score(Rows(), FORWARD, 1, 500, whole=0.9) > STANDARD_ERRORS
