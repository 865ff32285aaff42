"""Total variation, certified: its expectation by enumeration, its upper end over 10⁴ sets."""

import numpy as np
import pytest
from scipy.stats import binom, t

from pymc_bdmc.estimators import datasets_needed, total_variation, upper_confidence_bound

# ---- The expectation of a term, without Monte Carlo error ----


class Runs:
    """Runs with a few possible weights w and last states.

    `joint` of shape (weights, states) is the law of a forward run, which is properly weighted for
    the posterior. Reverse runs start from the posterior, or from the law `start`.
    """

    def __init__(self, weights, joint, start=None):
        joint = np.array(joint) / np.sum(joint)
        self.weights, self.forward = np.array(weights), joint.sum(axis=1)
        self.drawn = joint / self.forward[:, None]
        self.z = self.forward @ self.weights
        ends = joint * self.weights[:, None] / self.z
        self.posterior = ends.sum(axis=0)
        self.reverse = ends @ ((self.posterior if start is None else start) / self.posterior)

    def outcomes(self, forward_runs, reverse_runs):
        """Log weights of every possible data set, one a row, and its probability."""
        indices = np.indices([len(self.weights)] * (forward_runs + reverse_runs))
        indices = indices.reshape(forward_runs + reverse_runs, -1).T
        forward, reverse = np.split(indices, [forward_runs], axis=1)
        chance = self.forward[forward].prod(axis=1) * self.reverse[reverse].prod(axis=1)
        log_weights = np.log(self.weights)
        return log_weights[forward], log_weights[reverse], chance

    def of_runs(self, islands):
        """TV(F, R) of pooled runs, from the forward ones."""
        log_weights, _, chance = self.outcomes(islands, 0)
        return chance @ np.maximum(1 - np.exp(log_weights).mean(axis=1) / self.z, 0)

    def of_the_draw(self, islands):
        """TV(q, p) of a state drawn by weight from pooled runs."""
        indices = np.indices([len(self.weights)] * islands).reshape(islands, -1)
        chance, weights = self.forward[indices].prod(axis=0), self.weights[indices]
        q = np.einsum("k,mk,mks->s", chance, weights / weights.sum(axis=0), self.drawn[indices])
        return np.abs(q - self.posterior).sum() / 2


MODELS = [
    ([1.0, 4.5, 20.1], [[70, 6], [5, 7], [2, 10]]),
    ([1.0, 1.6, 2.7], [[30, 5], [15, 15], [5, 30]]),
    ([1.0, 7.4, 54.6], [[95, 0.3], [1, 1], [0.2, 2.5]]),
]
"""Values of w and shares of runs, for a posterior that is far, near, or rarely reached."""


@pytest.mark.parametrize("model", MODELS)
def test_terms_are_no_smaller_than_the_total_variation(model):
    """Pooling makes claims sharper."""
    runs = Runs(*model)
    assert runs.of_runs(1) == pytest.approx(np.abs(runs.forward - runs.reverse).sum() / 2)
    forward, reverse, chance = runs.outcomes(4, 2)

    def expected(forward, reverse, islands):
        return chance @ total_variation(forward, reverse, islands=islands).terms

    pooled, distances = np.transpose([(runs.of_runs(m), runs.of_the_draw(m)) for m in range(1, 5)])
    assert (np.diff(pooled) <= 0).all()
    for m in range(4):
        found = expected(forward, reverse, m + 1)
        assert found >= pooled[m] >= distances[m] > 1e-4
        assert found >= max(distances[m:])  # the claim holds for draws of more runs, too
    assert expected(forward, reverse, None) < expected(forward, reverse, 1)
    # Twins: reverse weights in the place of forward ones, and forward ones too high by a nat
    assert expected(reverse, reverse, 1) < distances[0]
    assert expected(forward + 1, reverse, 1) < pooled[0]


@pytest.mark.parametrize("model", MODELS)
def test_the_distance_of_wrong_starts_makes_up_for_them(model):
    """Exact, with Z in place of Ẑ. Twins: it is left out, or each sum with a term is cut at 1."""
    runs, sums = Runs(*model), []
    for share in (0.0, 0.3, 0.6, 1.0):
        start = np.array([share, 1 - share])
        _, reverse, chance = Runs(*model, start).outcomes(0, 1)
        forward = np.full_like(reverse, np.log(runs.z))
        distance = np.abs(start - runs.posterior).sum() / 2
        terms = total_variation(forward, reverse).terms
        sums.append(chance @ np.transpose([terms + distance, terms, np.fmin(terms + distance, 1)]))
    found = np.min(sums, axis=0) - runs.of_runs(1)
    assert found[0] >= 0 > found[1]
    if model == MODELS[-1]:  # terms that are near 0 or 1
        assert found[2] < 0


def test_terms_are_the_formula():
    """The terms equal those by plain loops without logarithms; the scale of weights cancels."""
    rng = np.random.default_rng(1)
    forward, reverse = rng.normal(size=(4, 5)), rng.normal(size=(4, 3))
    for m in range(1, 6):
        terms = []
        for f, r in zip(np.exp(forward), np.exp(reverse), strict=True):
            found = []
            for k in range(5):
                order = np.roll(f, -k)
                w = (r + order[: m - 1].sum()) / m
                found.append(np.maximum(1 - order[m - 1 :].mean() / w, 0).mean())
            terms.append(np.mean(found))
        result = total_variation(forward + 1e6, reverse + 1e6, islands=m)
        np.testing.assert_allclose(result.terms, terms, atol=1e-9)
        assert result.value == pytest.approx(np.mean(terms))
        assert result.upper == upper_confidence_bound(result.terms)
        moved = total_variation(forward + 1e6, reverse + 1e6, islands=m, start_distance=0.03)
        assert moved.value - result.value == pytest.approx(0.03)
        assert moved.upper - result.upper == pytest.approx(0.03)
    assert total_variation(forward, reverse).islands == 3
    assert total_variation(forward, reverse, start_distance=1).upper == 1


@pytest.mark.parametrize(
    ("forward", "reverse", "term"),
    [
        ([0.0, 0.0], [np.nan, 0.0], 1.0),
        ([0.0, np.nan], [0.0, 0.0], 1.0),
        ([np.inf, 0.0], [0.0, 0.0], 1.0),
        ([0.0, 0.0], [-np.inf, 0.0], 1.0),
        ([-np.inf, -np.inf], [0.0, -5.0], 1.0),
        ([0.0, 0.0], [np.inf, 0.0], 0.5),
        ([0.0, -np.inf], [np.log(2), np.log(2)], 0.75),
        ([1e300, 1e300], [-1e300, -1e300], 0.0),
        ([], [0.0, 0.0], 1.0),
        ([0.0, 0.0], [], 1.0),
    ],
)
def test_failed_runs_and_extreme_weights(forward, reverse, term):
    """A data set whose runs failed, or that has none, counts as 1."""
    result = total_variation([forward], [reverse], islands=None if not forward else 1)
    assert result.terms == pytest.approx([term])
    assert str(result).startswith(f"total variation about {term:.3f}, at most ")
    assert str(result).endswith(" with 95 % confidence (1 data set, single runs)")


# ---- The upper end ----

SETS, DELTA = 10_000, 0.05


@pytest.mark.parametrize(("datasets", "confidence"), [(1, 0.95), (20, 0.95), (60, 0.8)])
def test_failure_probability_for_terms_that_are_0_or_1(datasets, confidence):
    """Enumerated over the number of ones, at the means just above the ends that can occur."""
    ones = np.arange(datasets + 1)
    uppers = np.array([upper_confidence_bound(np.arange(datasets) < k, confidence) for k in ones])

    def failure(mean, uppers):
        return binom.pmf(ones, datasets, mean)[uppers < mean].sum()

    worst = [failure(mean, uppers) for mean in uppers[uppers < 1] + 1e-9]
    assert 0.9 * (1 - confidence) < max(worst) <= 1 - confidence
    # Twin: the upper end of Student's interval, which is 0 where all terms are
    if datasets > 2:
        error = np.sqrt(ones / datasets * (1 - ones / datasets) / (datasets - 1))
        student = ones / datasets + t.ppf(confidence, datasets - 1) * error
        assert failure(1 / datasets, student) > 1 - confidence


NOT_ALIKE = np.repeat([0.02, 0.8], 10)
LAWS = {
    "two points": (lambda rng: np.where(rng.random((SETS, 20)) < 0.95, 0.01, 0.9), 0.0545),
    "not alike": (lambda rng: rng.random((SETS, 20)) < NOT_ALIKE, NOT_ALIKE.mean()),
    "beta": (lambda rng: rng.beta(0.05, 0.45, (SETS // 5, 6)), 0.1),
}
"""Draws of sets, and the mean of their terms. Low terms may come first, or all be different."""


@pytest.mark.parametrize("law", LAWS)
def test_upper_end_covers(law):
    """It fails on at most δ of all sets (α = 1e-4 a law). The twin adds 2 % to their mean."""
    draw, mean = LAWS[law]
    sets = np.sort(draw(np.random.default_rng(3)), axis=1)  # of which a bound knows no order
    distinct, where = np.unique(sets, axis=0, return_inverse=True)
    uppers = np.array([upper_confidence_bound(row) for row in distinct])[where.ravel()]
    most = binom.isf(1e-4, len(sets), DELTA)
    assert (uppers < mean).sum() <= most < (sets.mean(axis=1) + 0.02 < mean).sum()


def test_upper_end_knows_no_order_and_grows_with_the_terms():
    terms = np.random.default_rng(5).beta(0.2, 1.0, 30)
    upper = upper_confidence_bound(terms)
    assert upper_confidence_bound(terms[::-1]) == upper
    assert terms.mean() < upper <= upper_confidence_bound(np.minimum(terms + 0.05, 1))
    assert upper < upper_confidence_bound(terms, 0.99)
    assert upper_confidence_bound(np.ones(1000)) == 1
    for datasets in (1, 20, 400):  # clean ones have a closed form
        exact = 1 - DELTA ** (1 / datasets)
        assert exact <= upper_confidence_bound(np.zeros(datasets)) <= exact + 0.001


# ---- How many data sets would do ----


@pytest.mark.parametrize(
    ("target", "confidence", "value"),
    [(0.05, 0.95, 0.0), (0.25, 0.99, 0.1), (0.9, 0.95, 0.3), (0.25, 0.95, [0.0, 0.0, 0.0, 0.5])],
)
def test_the_number_of_data_sets_is_the_smallest_that_does(target, confidence, value):
    number = datasets_needed(target, confidence, value)
    repeated = np.resize(value, number)
    assert upper_confidence_bound(repeated, confidence) <= target
    if np.ndim(value) == 0:
        assert target < upper_confidence_bound(repeated[1:], confidence)
    else:
        assert number > datasets_needed(target, confidence, np.mean(value))
    assert datasets_needed(0.1, value=0.1) is datasets_needed(0.1, value=[0.0, 0.3]) is None
    assert datasets_needed(0.0) is None


ROW = np.zeros((1, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: total_variation(np.zeros(3), np.zeros(3)), r"shapes \(data sets, runs\)"),
        (lambda: total_variation(np.zeros((2, 3)), np.zeros((3, 3))), r"not \(2, 3\) and \(3, 3\)"),
        (lambda: total_variation(np.zeros((0, 3)), np.zeros((0, 3))), "no data sets"),
        (lambda: total_variation(ROW, ROW, islands=4), "islands must be .* from 1 to 3"),
        (lambda: total_variation(ROW, ROW, islands=1.5), "islands must"),
        (lambda: total_variation(ROW, ROW, 95), "confidence must"),
        (lambda: total_variation(ROW, ROW, start_distance=np.nan), "start_distance must"),
        (lambda: upper_confidence_bound([]), "at least one"),
        (lambda: upper_confidence_bound([0.5, np.nan]), "between 0 and 1"),
        (lambda: upper_confidence_bound([0.5], 1.0), "confidence must"),
        (lambda: datasets_needed(0.1, value=-0.1), "value must be numbers between 0 and 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
