"""Faults of the annealing loop are exposed, on both paths; one file, since they are compiled once.

At 10^5 runs; a twin must exceed 3 standard errors.
"""

import pytest

from pymc_bdmc.base.types import Direction
from tests.engines.test_identities import (
    STANDARD_ERRORS,
    crooks_scores,
    forward_score,
    reverse_score,
)
from tests.engines.test_populations import enumerable, log_weights
from tests.paths.test_data_path import rows

FORWARD, REVERSE = Direction


@pytest.mark.parametrize(
    "name",
    [
        "particle 0 replaced",
        "weights not started over",
        "kept particle not among the ancestors",
        "unconditional resampling",
        "threshold that looks at the path",
    ],
)
def test_populations(name):
    system = enumerable()
    forward = log_weights(system, FORWARD, 2)
    reverse = log_weights(system, REVERSE, 2, name)
    scores = [reverse_score(system, reverse), *crooks_scores(system, forward, reverse)]
    assert max(scores) > STANDARD_ERRORS


def test_forward_weights_that_are_not_started_over():
    twin = log_weights(enumerable(), FORWARD, 8, "weights not started over")
    assert forward_score(enumerable(), twin) > STANDARD_ERRORS


@pytest.mark.parametrize(
    ("name", "direction"),
    [("no turn to the next step", FORWARD), ("moved on another step", REVERSE)],
)
def test_paths_of_the_data(name, direction):
    weights = log_weights(rows(), direction, 1, name)
    score = forward_score if direction is FORWARD else reverse_score
    assert score(rows(), weights) > STANDARD_ERRORS
