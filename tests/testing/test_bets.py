"""No bettor wins in the long run against fair odds; against others some do."""

import numpy as np
import pytest

from pymc_bdmc.testing.bets import Bets, fair_bets, odds_bets, order_bets, tilted_bets, unit_bets

ALPHA, PROCESSES, LENGTH = 0.1, 1000, 200


def share_that_ever_wins(pays) -> float:
    """Return the share of processes whose e-value reaches 1/α at any time."""
    bets, winners = Bets([str(i) for i in range(PROCESSES)]), set()
    for _ in range(LENGTH):
        bets.pay(pays())
        winners.update(bets.findings(ALPHA))
    return len(winners) / PROCESSES


def games(rng, fault: float) -> dict:
    """Return the payoffs of each kind of bets, at odds that are fair without a fault."""

    def odds():
        log_odds = rng.normal(size=PROCESSES)
        p = 1 / (1 + np.exp(-(1 + fault) * log_odds - fault))
        return odds_bets(log_odds, rng.random(PROCESSES) < p)

    def order():
        log_odds = rng.normal(size=PROCESSES)
        first = rng.random(PROCESSES) < 1 / (1 + np.exp(-(1 + fault) * log_odds))
        seen = np.where(first, log_odds, -log_odds)[None]
        return order_bets(seen, seen)

    def tilted():
        weights = np.exp(rng.normal(-0.125, 0.5, size=(1, PROCESSES)))
        reached, exact = np.tanh(rng.normal([[[fault]], [[0.0]]], size=(2, 1, PROCESSES)))
        return tilted_bets(weights, reached, exact)

    return {
        "fair": lambda: fair_bets(rng.uniform(-1 + fault / 2, 1, size=(1, PROCESSES))),
        "unit": lambda: unit_bets(np.exp(rng.normal(fault - 0.125, 0.5, size=(1, PROCESSES)))),
        "odds": odds,
        "order": order,
        "tilted": tilted,
    }


@pytest.mark.parametrize("kind", ["fair", "unit", "odds", "order", "tilted"])
def test_capital_reaches_one_over_alpha_with_probability_alpha_at_most(kind):
    """By Ville's inequality at most 10 % reach 1/α, plus 4 standard errors. Nearly all twins do."""
    error = np.sqrt(ALPHA * (1 - ALPHA) / PROCESSES)
    assert share_that_ever_wins(games(np.random.default_rng(1), 0.0)[kind]) < ALPHA + 4 * error
    assert share_that_ever_wins(games(np.random.default_rng(1), 0.8)[kind]) > 0.5


def test_payoffs_have_mean_one_at_fair_odds():
    """A value of two equally likely ones, or an order or an event with the probability claimed."""
    h, ones = np.array([[0.4]]), np.ones((1, 1))
    p, d, v = 1 / (1 + np.exp(-1.3)), np.array([[1.3]]), np.array([[0.4]])
    games = [
        (0.5, fair_bets(-0.5 * ones), fair_bets(0.5 * ones)),
        (0.5, unit_bets(0.5 * ones), unit_bets(1.5 * ones)),
        (0.5, tilted_bets(0.5 * ones, h, h), tilted_bets(1.5 * ones, h, h)),
        (p, odds_bets(d[0], np.array([True])), odds_bets(d[0], np.array([False]))),
        (p, order_bets(d, v), order_bets(-d, -v)),
    ]
    for chance, one, other in games:
        np.testing.assert_allclose(chance * np.exp(one) + (1 - chance) * np.exp(other), 1)


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
