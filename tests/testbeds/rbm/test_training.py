"""Training: it learns, log Z is followed, and held-out data are scored between bounds."""

import signal
import sys

import numpy as np
import pytest

from pymc_bdmc.rbm import RBM, anneal, binary_digits, held_out_log_likelihood, train


@pytest.fixture(scope="module")
def digits():
    data = binary_digits()
    order = np.random.default_rng(1).permutation(len(data))
    return data[order[:1400]], data[order[1400:]]


@pytest.mark.parametrize("method", ["cd", "pcd"])
def test_log_z_is_followed(digits, method):
    data, held_out = digits
    training = train(data, 16, method=method, epochs=30, rate=0.2, held_out=held_out, random_seed=1)
    exact = training.rbm.log_z()
    # Of 200 nats of mean ℓ; the estimate that forgets the weights misses by more than one
    assert abs(training.log_z[-1] - exact) < 0.25
    assert abs(training.log_z[0] - exact) > 1
    assert training.log_likelihood[-1] > training.log_likelihood[0] + 2
    mean = training.rbm.log_marginal(held_out).mean()
    assert training.held_out[-1] == pytest.approx(mean - training.log_z[-1])
    if method == "pcd":  # CD's chains stay near the data: its likelihood is no better
        assert training.held_out[-1] > training.held_out[0] + 2


def test_held_out_data_between_bounds(digits):
    rbm = train(digits[0], 12, epochs=20, rate=0.2, random_seed=1).rbm
    dt = anneal(rbm, temperatures=10, random_seed=1, progressbar=False)
    found = held_out_log_likelihood(rbm, digits[1], dt)
    exact = rbm.log_marginal(digits[1]).mean() - rbm.log_z()
    assert found.lower.value < exact < found.upper.value
    unfinished = dt.copy()
    unfinished["forward"] = dt["forward"].dataset.pad(chain=(0, 5))
    assert held_out_log_likelihood(rbm, digits[1], unfinished) == found
    assert abs(found.estimate.value - exact) < 4 * found.estimate.error


def test_what_is_followed_begins_before_training(digits):
    few = train(digits[0], 4, epochs=2, random_seed=1)
    assert few.log_z.shape == few.log_likelihood.shape == (3,)
    assert np.isnan(few.held_out).all()
    # The weights begin near zero, and the visible units at their base rates
    assert few.log_z[0] == pytest.approx(few.rbm.log_prior_constant, abs=0.1)


@pytest.mark.parametrize("count", np.random.default_rng(4).integers(29, 200, 2))
def test_ctrl_c_keeps_finished_epochs(digits, monkeypatch, caplog, count):
    step, steps = RBM.step, 0

    def interrupted(self, *args, **kwargs):
        nonlocal steps
        steps += 1
        if steps == count:
            signal.raise_signal(signal.SIGINT)
        return step(self, *args, **kwargs)

    whole = train(digits[0], 4, epochs=9, random_seed=1, progressbar=False)
    monkeypatch.setattr(RBM, "step", interrupted)
    part = train(digits[0], 4, epochs=9, random_seed=1)
    n_finished = (count - 1) // 28  # two steps an update, 14 updates an epoch
    assert f"was trained for {n_finished} of 9 epochs" in caplog.text
    np.testing.assert_array_equal(part.log_z, whole.log_z[: n_finished + 1])
    mean = part.rbm.log_marginal(digits[0]).mean()
    assert part.log_likelihood[-1] == pytest.approx(mean - part.log_z[-1])
    steps = count - 20  # in the first epoch
    with pytest.raises(KeyboardInterrupt):
        train(digits[0], 4, epochs=9, random_seed=1)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([[0.5, 1.0]], {}, "zeros and ones"),
        ([[0, 1]], {"method": "sgd"}, "method"),
        ([[0, 1]], {"rate": 0.0}, "rate"),
        ([[0, 1]], {"held_out": [[0, 1, 1]]}, "held_out"),
        ([[0, 1]], {"progressbar": "no"}, "progressbar"),
        ([[0, 1]], {"epochs": 0}, "epochs"),
    ],
)
def test_refuses(data, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        train(data, 2, **options)


def test_says_how_to_install_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'pymc-bdmc\[digits\]'"):
        binary_digits()
