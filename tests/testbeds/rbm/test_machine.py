"""Restricted Boltzmann machines against enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import chi2

from pymc_bdmc import rbm as rbm_module
from pymc_bdmc.base.types import Direction
from pymc_bdmc.rbm import RBM

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 a comparison, at most 30 comparisons
ALPHA = 1e-3  # of a χ² test


def machine(V, H, seed=1, scale=1.0):
    rng = np.random.default_rng(seed)
    return RBM(rng.normal(size=V), rng.normal(size=H), scale * rng.normal(size=(V, H)))


def states(n):
    return np.arange(1 << n)[:, None] >> np.arange(n) & 1


def log_weights(m, beta=1.0):
    """Log p_1(v, h) + β ℓ(v, h) of all states, of shape (2^V, 2^H)."""
    v, h = states(m.a.size), states(m.b.size)
    log_f = (v @ m.a)[:, None] + h @ m.b + v @ m.W @ h.T
    log_prior = np.broadcast_to((v @ m.prior_log_odds)[:, None], log_f.shape)
    log_prior = log_prior - logsumexp(log_prior)
    return (1 - beta) * log_prior + beta * log_f


@pytest.mark.parametrize("shape", [(6, 4), (3, 8)])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_log_z(shape, beta):
    m = machine(*shape).with_base_rate(np.eye(shape[0]))
    assert m.log_z(beta) == pytest.approx(logsumexp(log_weights(m, beta)), abs=1e-10)
    v = states(shape[0])
    np.testing.assert_allclose(m.log_marginal(v), logsumexp(log_weights(m), axis=1), atol=1e-10)


def test_log_z_in_blocks_and_without_overflow(monkeypatch):
    m = machine(9, 12)
    whole = m.log_z()
    monkeypatch.setattr(rbm_module, "_BLOCK", 3)
    assert m.log_z() == pytest.approx(whole, abs=1e-10)
    huge = RBM(np.full(3000, 500.0), np.zeros(2), np.zeros((3000, 2)))
    assert huge.log_z() == pytest.approx(1.5e6 + 2 * np.log(2), rel=1e-12)


def test_log_likelihood_of_states():
    m = machine(4, 3).with_base_rate(np.eye(4))
    state = m.draw_prior(50, np.random.default_rng(2))
    v, h = (units @ (1 << np.arange(units.shape[1])) for units in state[:2])
    exact = (log_weights(m, 1.0) - log_weights(m, 0.0))[v.astype(int), h.astype(int)]
    np.testing.assert_allclose(m.log_likelihood(state), exact, atol=1e-5)
    swept = m.step(state, np.linspace(0, 1, 50), np.random.default_rng(3))
    np.testing.assert_allclose(swept.log_likelihood, m.scored(swept).log_likelihood, atol=1e-5)


def p_value(visible, exact):
    counts = np.bincount((visible @ (1 << np.arange(visible.shape[1]))).astype(int), minlength=16)
    expected = len(visible) * exact
    return chi2.sf(np.sum((counts - expected) ** 2 / expected), exact.size - 1)


def test_sweeps_leave_every_temperature_invariant():
    m, rng = machine(4, 3).with_base_rate(np.eye(4)), np.random.default_rng(4)
    betas = np.repeat([0.0, 0.5, 1.0], 8_000)
    state = m.step(m.draw_prior(betas.size, rng), betas, rng, sweeps=30)
    marginals = {b: np.exp(logsumexp(log_weights(m, b), axis=1)) for b in (0.0, 0.5, 1.0)}
    for beta, marginal in marginals.items():
        assert p_value(state.visible[betas == beta], marginal / marginal.sum()) > ALPHA
    # Broken twin: chains at another temperature
    wrong = marginals[0.5] / marginals[0.5].sum()
    assert p_value(state.visible[betas == 1.0], wrong) < 1e-6


def test_exact_draws():
    for m in (machine(4, 3), machine(4, 7)):
        state = m.draw_posterior(20_000, np.random.default_rng(5), burn_in=0)
        marginal = np.exp(m.log_marginal(states(4)) - m.log_z())
        assert p_value(state.visible, marginal) > ALPHA
        prior = m.draw_prior(20_000, np.random.default_rng(6))
        assert p_value(prior.visible, marginal) < 1e-6


def test_units_are_on_with_their_probability():
    logits = np.linspace(-9, 9, 37)
    m = RBM(logits, [0.0], np.zeros((37, 1)))
    rng, n = np.random.default_rng(7), 100_000
    state = m.step(m.draw_prior(n, rng), np.ones(n), rng)
    z = (state.visible.mean(axis=0) - expit(logits)) / np.sqrt(expit(logits) * expit(-logits) / n)
    assert (np.abs(z) < Z_ALPHA).all()
    # Neighbouring units and neighbouring chains share nothing
    centred = (state.visible - expit(logits))[:, 10:27]
    pairs = [centred[:, 1:] * centred[:, :-1], centred[1:] * centred[:-1]]
    pairs += [centred[:, :1] * centred[:, 16:]]  # the same lane of the generator
    assert all(abs(p.mean() / (p.std() / np.sqrt(p.size))) < Z_ALPHA for p in pairs)


def both(m, n, betas, rng):
    forward = m.run(m.draw_prior(n, rng), betas, Direction.FORWARD, rng)
    reverse = m.run(m.draw_posterior(n, rng, 0), betas, Direction.REVERSE, rng)
    return forward, reverse


def crooks(forward, reverse, exact):
    """Z-score of E_f[√(w/Z)] = E_r[√(Z/w)], which needs the reversal and not only invariance."""
    f, r = np.exp((forward - exact) / 2), np.exp((exact - reverse) / 2)
    return (f.mean() - r.mean()) / np.hypot(*(x.std() / np.sqrt(x.size) for x in (f, r)))


@pytest.mark.parametrize("integrated", ["none", "hidden", "visible"])
def test_reverse_chains_are_reversed(integrated, monkeypatch):
    m, rng = replace(machine(12, 2, scale=2.0), integrated=integrated), np.random.default_rng(9)
    betas, exact, n = np.linspace(0, 1, 6), m.log_z(), 200_000 if integrated == "none" else 50_000
    forward, reverse = both(m, n, betas, rng)
    assert abs(crooks(forward.log_weight, reverse.log_weight, exact)) < Z_ALPHA
    if integrated == "none":  # Broken twin: the same order of the layers in both directions
        straight = RBM._ordered
        monkeypatch.setattr(
            RBM, "_ordered", lambda self, state, _, rng: straight(self, state, True, rng)
        )
        _, broken = both(m, n, betas, rng)
        assert abs(crooks(forward.log_weight, broken.log_weight, exact)) > Z_ALPHA


def test_large_layers_are_burned_in():
    large = machine(22, 21, scale=0.1)
    drawn, step = large.draw_posterior(1000, np.random.default_rng(12), burn_in=40), 1e-3
    slope = (large.log_z() - large.log_z(1 - step)) / step
    assert abs(drawn.log_likelihood.mean() - slope) < 0.2
    assert large.posterior_status(40) == "burned-in"
    assert large.posterior_status(0) == "heuristic"
    assert machine(22, 20).posterior_status(0) == "exact"


def test_saved_and_loaded(tmp_path):
    m = machine(5, 3)
    m.save(tmp_path / "m.npz")
    back = RBM.load(tmp_path / "m.npz")
    for name in ("a", "b", "W"):
        np.testing.assert_array_equal(getattr(back, name), getattr(m, name))
    np.savez(tmp_path / "bad.npz", a=m.a)
    with pytest.raises(ValueError, match=r"\['W', 'b'\] are missing"):
        RBM.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"W": np.zeros((2, 2))}, "W: expected the shape"),
        ({"a": [0.0, np.nan, 0.0]}, "a: must be finite"),
        ({"W": np.full((3, 2), 1e307)}, "W: must be finite, also in float32"),
        ({"integrated": "both"}, "integrated"),
        ({"prior_log_odds": np.zeros(2)}, "prior_log_odds: expected"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        RBM(**({"a": np.zeros(3), "b": np.zeros(2), "W": np.zeros((3, 2))} | change))


def test_refuses_to_enumerate_too_much():
    with pytest.raises(ValueError, match="too many to enumerate"):
        machine(26, 26).log_z()
