"""No bettor wins in the long run against fair odds; against others some do."""

import numpy as np
import pytest

from pymc_bdmc.testing.bets import Bets, fair_bets, odds_bets, order_bets, tilted_bets, unit_bets

ALPHA, PROCESSES, LENGTH = 0.1, 1000, 200


def share_that_ever_wins(lowest) -> float:
    """Return the share of processes whose e-value reaches 1/α at any time."""
    rng, bets, winners = np.random.default_rng(1), Bets([str(i) for i in range(PROCESSES)]), set()
    for _ in range(LENGTH):
        bets.pay(fair_bets(rng.uniform(lowest, 1, size=(1, PROCESSES))))
        winners.update(bets.findings(ALPHA))
    return len(winners) / PROCESSES


def test_capital_reaches_one_over_alpha_with_probability_alpha_at_most():
    """By Ville's inequality at most 10 % reach 1/α, plus 4 standard errors. Nearly all twins do."""
    assert share_that_ever_wins(-1) < ALPHA + 4 * np.sqrt(ALPHA * (1 - ALPHA) / PROCESSES)
    assert share_that_ever_wins(-0.6) > 0.5


P, D, V, H = 1 / (1 + np.exp(-1.3)), np.array([[1.3]]), np.array([[0.4]]), np.array([[0.4]])
ONES = np.ones((1, 1))


@pytest.mark.parametrize(
    ("chance", "one", "other"),
    [
        (0.5, fair_bets(-0.5 * ONES), fair_bets(0.5 * ONES)),
        (0.5, unit_bets(0.5 * ONES), unit_bets(1.5 * ONES)),
        (0.5, tilted_bets(0.5 * ONES, H, H), tilted_bets(1.5 * ONES, H, H)),
        (P, odds_bets(D[0], np.array([True])), odds_bets(D[0], np.array([False]))),
        (P, order_bets(D, V), order_bets(-D, -V)),
    ],
    ids=["fair", "unit", "tilted", "odds", "order"],
)
def test_payoffs_have_mean_one_at_fair_odds(chance, one, other):
    """A value of two equally likely ones, or an order or an event with the probability claimed.

    At other odds, there is a bettor who is paid a tenth more than the stake. The twins are such.
    """
    np.testing.assert_allclose(chance * np.exp(one) + (1 - chance) * np.exp(other), 1)
    assert max(np.max(p * np.exp(one) + (1 - p) * np.exp(other)) for p in (0.1, 0.95)) > 1.1


def test_who_has_lost_everything_stays_without():
    bets = Bets(["group"], ["another"])
    bets.pay(np.array([[-np.inf]]), 0.0)
    bets.pay(np.array([[np.inf]]), np.array([[0.0]]))
    assert bets.evidence == 0.5
    bets.pay(0.0, np.array([[np.inf]]))
    assert bets.evidence == np.inf
    assert bets.findings(alpha=0.01) == ("another",)


def test_an_impossible_event_ends_it():
    assert odds_bets(np.array([-np.inf]), np.array([True])).max() > 1e299
    assert order_bets(np.array([[-np.inf]]), np.array([[-np.inf]])).max() > 1e299
    assert np.isposinf(unit_bets(np.array([[np.inf]]))).all()
