"""Total variation, certified: its expectation by enumeration, its upper end over 10⁴ sets."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import binom, t

from pymc_bdmc.estimators import datasets_needed, total_variation, upper_confidence_bound
from tests.systems import metropolis_transitions

# ---- The expectation of a term, without Monte Carlo error ----


class Population:
    """Runs of N particles on two states, at β = 0, ½, 1, with multinomial resampling.

    `weights` are the values that Ẑ can take, `forward` and `reverse` their probabilities, and
    `drawn` of shape (weights, states) the law of a particle drawn by weight, given Ẑ. Reverse runs
    start from the posterior, or from the law `start`.
    """

    def __init__(self, particles, prior, log_likelihood, flip, start=None):
        prior, ell = np.array(prior), np.array(log_likelihood)
        flips = [[1 - flip, flip], [flip, 1 - flip]]
        first, last = metropolis_transitions(np.log(prior), ell, flips)(np.array([0.5, 1.0]))
        self.z, self.posterior = prior @ np.exp(ell), softmax(np.log(prior) + ell)
        factor = np.exp(ell / 2)
        # The two states that the kept particle moves from: of the posterior after the reversal of
        # the last move, and of the prior, by the reversal of the first.
        half = prior * factor / (prior @ factor)
        after = self.posterior if start is None else start @ last
        kept = half[:, None] * first * after / half

        places = np.array(list(product(range(2), repeat=particles)))
        rows = []
        for x in places:
            parents = factor[x] / factor[x].sum()
            child = parents @ first[x]  # given x the children are independent
            for y in places:
                z_hat = factor[x].mean() * factor[y].mean()
                forward = prior[x].prod() * child[y].prod()
                reverse = kept[x[0], y[0]] * prior[x[1:]].prod() * child[y[1:]].prod()
                chosen = factor[y] / factor[y].sum() @ last[y]
                rows.append([z_hat, forward, reverse, *forward * chosen])
        rows = np.array(rows)
        # Round lest the order of the particles make a difference.
        self.weights, where = np.unique(np.round(rows[:, 0], 12), return_inverse=True)
        sums = np.array([np.bincount(where, column) for column in rows[:, 1:].T])
        self.forward, self.reverse = sums[:2]
        self.drawn = (sums[2:] / self.forward).T

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
        """TV(q, p) of a particle drawn by weight from pooled runs."""
        indices = np.indices([len(self.weights)] * islands).reshape(islands, -1)
        chance, weights = self.forward[indices].prod(axis=0), self.weights[indices]
        q = np.einsum("k,mk,mks->s", chance, weights / weights.sum(axis=0), self.drawn[indices])
        return np.abs(q - self.posterior).sum() / 2


MODELS = {
    "far": ([0.8, 0.2], [0.0, 3.0], 0.1),
    "near": ([0.5, 0.5], [0.0, 1.0], 0.3),
    "rare": ([0.97, 0.03], [0.0, 4.0], 0.02),
}
"""Moves that are rare or frequent, and a posterior that is far or near."""


@cache
def population(particles, model):
    return Population(particles, *MODELS[model])


CASES = [(1, 1, 1), (1, 2, 2), (1, 4, 2), (3, 1, 1), (3, 3, 1)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("particles", [1, 3])
def test_the_populations_obey_their_identities(particles, model):
    """R = (Ẑ/Z)·F, and the total variation of a single run is the same from both sides."""
    runs = population(particles, model)
    np.testing.assert_allclose(runs.reverse, runs.forward * runs.weights / runs.z, rtol=1e-9)
    assert runs.forward.sum() == pytest.approx(1)
    difference = np.abs(runs.forward - runs.reverse).sum() / 2
    assert runs.of_runs(1) == pytest.approx(difference)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("particles", "forward_runs", "reverse_runs"), CASES)
def test_terms_are_no_smaller_than_the_total_variation(
    particles, forward_runs, reverse_runs, model
):
    runs = population(particles, model)
    forward, reverse, chance = runs.outcomes(forward_runs, reverse_runs)

    def expected(forward, reverse, islands):
        return chance @ total_variation(forward, reverse, islands=islands).terms

    distances = [runs.of_the_draw(k) for k in range(1, forward_runs + 1)]
    for m in range(1, forward_runs + 1):
        found = expected(forward, reverse, m)
        assert found >= runs.of_runs(m) >= distances[m - 1] > 1e-4
        # The claim holds for the draws of more runs, too.
        assert found >= max(distances[m - 1 :])
    # Twin: the mean of the reverse weights in the place of that of the forward ones
    assert expected(reverse, reverse, 1) < distances[0]
    # Twin: Z is believed to be higher by one nat than the runs of this data set say.
    assert expected(forward + 1, reverse, 1) < runs.of_runs(1)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("particles", [1, 3])
def test_the_distance_of_wrong_starts_makes_up_for_them(particles, model):
    """Exact, with Z in place of Ẑ. Twins: it is left out, or each sum with a term is cut at 1."""
    runs, sums = population(particles, model), []
    for share in (0.0, 0.3, 0.6, 1.0):
        start = np.array([share, 1 - share])
        _, reverse, chance = Population(particles, *MODELS[model], start).outcomes(0, 1)
        forward = np.full_like(reverse, np.log(runs.z))
        distance = np.abs(start - runs.posterior).sum() / 2
        terms = total_variation(forward, reverse).terms
        mean, cut = chance @ terms, chance @ np.minimum(terms + distance, 1)
        sums.append((mean + distance, mean, cut))
    found = np.min(sums, axis=0) - runs.of_runs(1)
    assert found[0] >= 0 > found[1]
    if model == "rare" and particles == 1:  # terms that are near 0 or 1
        assert found[2] < 0


def test_the_distance_of_starts_is_added_to_the_mean_and_to_its_upper_end():
    plain = total_variation(np.zeros((20, 2)), np.full((20, 2), 0.1))
    moved = total_variation(np.zeros((20, 2)), np.full((20, 2), 0.1), start_distance=0.03)
    assert moved.value - plain.value == pytest.approx(0.03)
    assert moved.upper - plain.upper == pytest.approx(0.03)
    assert total_variation(np.zeros((20, 2)), np.zeros((20, 2)), start_distance=1).upper == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("particles", [1, 3])
def test_pooling_makes_the_claim_sharper(particles, model):
    runs = population(particles, model)
    distances = [runs.of_runs(m) for m in (1, 2, 3)]
    assert distances == sorted(distances, reverse=True)
    forward, reverse, chance = runs.outcomes(3, 1)
    one, half = (chance @ total_variation(forward, reverse, islands=m).terms for m in (1, None))
    assert half < one


def test_terms_are_the_formula():
    """The terms equal those by plain loops without logarithms."""
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
        result = total_variation(forward, reverse, islands=m)
        np.testing.assert_allclose(result.terms, terms, rtol=1e-12)
        assert result.value == pytest.approx(np.mean(terms))
        assert result.upper == upper_confidence_bound(result.terms)
        assert (result.islands, result.datasets, result.confidence) == (m, 4, 0.95)
    assert total_variation(forward, reverse).islands == 3


def test_what_is_printed():
    result = total_variation(np.zeros((1, 1)), np.zeros((1, 1)))
    assert str(result) == (
        "total variation about 0.000, at most 0.95 with 95 % confidence (1 data set, single runs)"
    )


def test_the_scale_of_the_weights_cancels():
    """The probability of a restricted support cancels as well, however small it is."""
    rng = np.random.default_rng(2)
    forward, reverse = rng.normal(size=(3, 4)), rng.normal(size=(3, 2))
    terms = total_variation(forward, reverse).terms
    for shift in (-1e6, 700.0, 1e6):
        shifted = total_variation(forward + shift, reverse + shift).terms
        np.testing.assert_allclose(shifted, terms, atol=1e-9)


@pytest.mark.parametrize(
    ("forward", "reverse", "term"),
    [
        ([0.0, 0.0], [np.nan, 0.0], 1.0),
        ([0.0, np.nan], [0.0, 0.0], 1.0),
        ([np.nan, np.nan], [np.inf, np.nan], 1.0),
        ([np.inf, 0.0], [0.0, 0.0], 1.0),
        ([0.0, 0.0], [-np.inf, 0.0], 1.0),
        ([-np.inf, -np.inf], [0.0, -5.0], 1.0),
        ([0.0, 0.0], [np.inf, 0.0], 0.5),
        ([0.0, 0.0], [np.inf, np.inf], 1.0),
        ([0.0, -np.inf], [np.log(2), np.log(2)], 0.75),
        ([1e300, 1e300], [-1e300, -1e300], 0.0),
    ],
)
def test_failed_runs_and_extreme_weights(forward, reverse, term):
    result = total_variation([forward, [0.0, 0.0]], [reverse, [0.0, 0.0]], islands=1)
    np.testing.assert_allclose(result.terms, [term, 0.0])


@pytest.mark.parametrize("shapes", [((3, 0), (3, 2)), ((3, 2), (3, 0)), ((3, 0), (3, 0))])
def test_data_sets_without_runs_count_as_one(shapes):
    result = total_variation(*map(np.zeros, shapes))
    assert (result.terms == 1).all()
    assert result.upper == 1


# ---- The upper end ----

SETS, DELTA = 10_000, 0.05


def upper_ends(sets, confidence=0.95):
    """Bounds of the rows; those that differ only in their order have the same one."""
    distinct, where = np.unique(np.sort(sets, axis=1), axis=0, return_inverse=True)
    return np.array([upper_confidence_bound(row, confidence) for row in distinct])[where.ravel()]


@pytest.mark.parametrize("datasets", [1, 2, 20, 60])
@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_failure_probability_for_terms_that_are_0_or_1(datasets, confidence):
    """Enumerated over the number of ones, at the means just above the ends that can occur."""
    ones = np.arange(datasets + 1)
    uppers = np.array([upper_confidence_bound(np.arange(datasets) < k, confidence) for k in ones])

    def failure(mean, uppers):
        return binom.pmf(ones, datasets, mean)[uppers < mean].sum()

    worst = [failure(mean, uppers) for mean in uppers[uppers < 1] + 1e-9]
    assert max(worst) <= 1 - confidence
    assert max(worst) > 0.9 * (1 - confidence)
    # Twin: the upper end of Student's interval, which is 0 where all terms are
    if datasets > 2:
        error = np.sqrt(ones / datasets * (1 - ones / datasets) / (datasets - 1))
        student = ones / datasets + t.ppf(confidence, datasets - 1) * error
        assert failure(1 / datasets, student) > 1 - confidence


def not_alike(datasets):
    """Means of terms that come in an adversarial order: the low ones first."""
    return np.where(np.arange(datasets) < datasets // 2, 0.02, 0.8)


LAWS = {
    "constant": (lambda rng, n: np.full((SETS, n), 0.3), 0.3),
    "two points": (lambda rng, n: np.where(rng.random((SETS, n)) < 0.95, 0.01, 0.9), 0.0545),
    "three points": (lambda rng, n: rng.choice([0.0, 0.2, 1.0], (SETS, n), p=[0.9, 0.08, 0.02]),
                     0.036),
    "rarely 1": (lambda rng, n: rng.random((SETS, n)) < 0.045, 0.045),
    "not alike": (lambda rng, n: rng.random((SETS, n)) < not_alike(n), not_alike),
    "one odd data set": (lambda rng, n: rng.random((SETS, n)) < np.eye(n)[-1] * 0.9,
                         lambda n: np.eye(n)[-1] * 0.9),
    "rising": (lambda rng, n: rng.random((SETS, n)) < np.linspace(0, 0.3, n),
               lambda n: np.linspace(0, 0.3, n)),
}  # fmt: skip


def most_failures(probability=DELTA, alpha=1e-4):
    """More of SETS than these fail with probability α at most, if each does with `probability`."""
    return binom.isf(alpha, SETS, probability)


@pytest.mark.parametrize("datasets", [1, 2, 20, 60])
@pytest.mark.parametrize("law", LAWS)
def test_upper_end_covers(law, datasets):
    """The bound fails on at most δ of 10⁴ sets for each law (α = 1e-4 per test)."""
    draw, mean = LAWS[law]
    mean = np.mean(mean(datasets)) if callable(mean) else mean
    sets = draw(np.random.default_rng(datasets), datasets)
    assert (upper_ends(sets) < mean).sum() <= most_failures()


@pytest.mark.parametrize("datasets", [2, 6])
def test_upper_end_covers_where_no_two_terms_are_equal(datasets):
    """Bounds hold on 10⁴ sets of beta variables (α = 1e-4). The twin adds 2 % to their mean."""
    sets = np.random.default_rng(3).beta(0.05, 0.45, (SETS, datasets))
    assert (upper_ends(sets) < 0.1).sum() <= most_failures()
    assert (sets.mean(axis=1) + 0.02 < 0.1).sum() > most_failures()


def test_bets_that_follow_the_terms_fail_where_they_are_not_alike():
    """A bettor who stakes a half after every low term is safe only if all means are the same.

    Sets of 30 terms, α = 1e-4 a law.
    """
    rng = np.random.default_rng(4)

    def rejections(sets, mean):
        stakes = np.where(sets[:, :-1] < mean, 0.5, 0.0)
        capital = np.prod(1 - stakes + stakes * (1 - sets[:, 1:]) / (1 - mean), axis=1)
        return (capital >= 1 / DELTA).sum()

    means = np.where(np.arange(30) < 15, 0.01, 0.99)
    sets = (rng.random((SETS, 30)) < means).astype(float)
    alike = (rng.random((SETS, 30)) < means.mean()).astype(float)
    assert rejections(alike, means.mean()) <= most_failures() < rejections(sets, means.mean())
    assert (upper_ends(sets) < means.mean()).sum() <= most_failures()


@pytest.mark.parametrize("delta", [0.05, 0.01])
@pytest.mark.parametrize("datasets", [1, 2, 5, 20, 60, 400])
def test_clean_data_sets_have_the_closed_form(datasets, delta):
    upper = upper_confidence_bound(np.zeros(datasets), 1 - delta)
    exact = 1 - delta ** (1 / datasets)
    assert exact <= upper <= exact + 0.001


def test_clean_data_sets_by_number():
    uppers = [upper_confidence_bound(np.zeros(n)) for n in (20, 60)]
    assert np.round(uppers, 2).tolist() == [0.14, 0.05]


def test_the_bets_are_those_of_the_formula():
    """The capital against the mean at which the bound stops, by root finding, is just short."""

    def capital(terms, m):
        def excess(a):
            kl = a * np.log(a / m) + (1 - a) * np.log((1 - a) / (1 - m))
            return len(terms) * kl - np.log(1 / DELTA)

        a = brentq(excess, 1e-12, m)
        stakes = (m - a) / (m * (1 - m)), 1 / (1 - m)
        return np.mean([np.prod(1 - stake * (terms - m)) for stake in stakes])

    rng = np.random.default_rng(6)
    for datasets in (10, 20, 60):
        for terms in (rng.beta(0.1, 0.9, datasets), 1.0 * (np.arange(datasets) < datasets / 10)):
            upper = upper_confidence_bound(terms)
            assert upper < 0.6
            assert capital(terms, upper - 1 / 2000) < 1 / DELTA <= capital(terms, upper)


def test_upper_end_knows_no_order_and_grows_with_the_terms():
    rng = np.random.default_rng(5)
    terms = rng.beta(0.2, 1.0, 30)
    upper = upper_confidence_bound(terms)
    assert upper_confidence_bound(terms[::-1]) == upper
    assert terms.mean() < upper <= upper_confidence_bound(np.minimum(terms + 0.05, 1))
    assert upper < upper_confidence_bound(terms, 0.99)
    assert upper_confidence_bound(np.ones(1000)) == 1


# A mode that holds 0.3 of the posterior and that no forward run finds: a term is 1 if θ* is in it.
MISSED, DATASETS = 0.3, 20


def weights_of(missed):
    """Log weights of 20 reverse runs whose θ* is in the mode that forward runs miss, or is not."""
    return np.where(missed, 50.0, 0.0)


def test_one_start_is_not_many_data_sets():
    def failure(count):
        """P(upper end < 0.3), over whether the only θ* is in the mode."""
        ends = [count(np.full(DATASETS, weights_of(missed))).upper for missed in (True, False)]
        return np.array([MISSED, 1 - MISSED]) @ (np.array(ends) < MISSED)

    assert failure(lambda r: total_variation(np.zeros((1, 2)), r[None])) <= DELTA
    # Twin: the runs of one θ* counted as a data set each
    assert failure(lambda r: total_variation(np.zeros((DATASETS, 2)), r[:, None])) > DELTA


def test_failed_data_sets_are_not_left_out():
    """Reverse runs fail whenever their θ* is in the mode, and their data sets count as 1."""
    failures = np.arange(DATASETS)  # all of them fail with probability 0.3^20
    chance = binom.pmf(failures, DATASETS, MISSED)

    def failure(keep):
        ends = []
        for count in failures:
            reverse = np.where(np.arange(DATASETS) < count, np.nan, 0.0)[:, None]
            kept = slice(None) if keep else ~np.isnan(reverse[:, 0])
            ends.append(total_variation(np.zeros((DATASETS, 2))[kept], reverse[kept]).upper)
        return chance[np.array(ends) < MISSED].sum()

    assert failure(keep=True) <= DELTA < failure(keep=False)


# ---- How many data sets would do ----


@pytest.mark.parametrize(
    ("target", "value"), [(0.05, 0.0), (0.25, 0.1), (0.25, [0.0, 0.0, 0.0, 0.5]), (0.9, 0.3)]
)
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_the_number_of_data_sets_is_the_smallest_that_does(target, value, confidence):
    number = datasets_needed(target, confidence, value)
    if np.ndim(value) == 0:
        ends = [upper_confidence_bound(np.full(n, value), confidence) for n in (number, number - 1)]
        assert ends[0] <= target < ends[1]
    else:
        assert number > datasets_needed(target, confidence, np.mean(value))
        repeated = np.tile(value, -(-number // len(value)))
        assert upper_confidence_bound(repeated, confidence) <= target


def test_no_number_of_data_sets_brings_a_mean_below_itself():
    assert datasets_needed(0.1, value=0.1) is datasets_needed(0.1, value=0.2) is None
    assert datasets_needed(0.0) is None
    assert datasets_needed(0.1, value=[0.0, 0.3]) is None


# ---- Input ----

ONES = np.ones((1, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: total_variation(np.zeros(3), np.zeros(3)), r"shapes \(data sets, runs\)"),
        (lambda: total_variation(np.zeros((2, 3)), np.zeros((3, 3))), r"not \(2, 3\) and \(3, 3\)"),
        (lambda: total_variation(np.zeros((0, 3)), np.zeros((0, 3))), "no data sets"),
        (lambda: total_variation(np.zeros((1, 3)), np.zeros((1, 3)), islands=4), "from 1 to 3"),
        (lambda: total_variation(np.zeros((1, 3)), np.zeros((1, 3)), islands=1.5), "islands must"),
        (lambda: total_variation(np.zeros((1, 3)), np.zeros((1, 3)), 95), "confidence must"),
        (lambda: total_variation(ONES, ONES, start_distance=-0.1), "start_distance must"),
        (lambda: total_variation(ONES, ONES, start_distance=np.nan), "start_distance must"),
        (lambda: upper_confidence_bound([]), "at least one"),
        (lambda: upper_confidence_bound([0.5, 1.1]), "between 0 and 1"),
        (lambda: upper_confidence_bound([0.5, np.nan]), "between 0 and 1"),
        (lambda: upper_confidence_bound([0.5], 1.0), "confidence must"),
        (lambda: datasets_needed(0.1, value=-0.1), "value must be numbers between 0 and 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
