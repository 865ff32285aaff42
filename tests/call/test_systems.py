"""Campaigns on lattices, machines and systems of users: one seed, one result, Ctrl-C, stores."""

import importlib
import signal
import time
from contextlib import suppress

import numpy as np
import pytest
import xarray as xr
from threadpoolctl import threadpool_info, threadpool_limits

import pymc_bdmc as bdmc
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.lattice import LatticeChains, Potts
from pymc_bdmc.rbm import RBM, MachineChains
from pymc_bdmc.run.loop import BlockSystem

rng = np.random.default_rng(1)
MACHINE = RBM(rng.normal(size=6), rng.normal(size=4), rng.normal(size=(6, 4)))
QUIET = {"random_seed": 3, "progressbar": False}


class TwoSpins:
    """Two variables of three values, uniform a priori, that are drawn given each other in turn."""

    description = "Gibbs"
    ell = 3.0 * np.random.Generator(np.random.PCG64(4)).normal(size=(3, 3))  # one system

    def draw_prior(self, chains, rng):
        return rng.integers(3, size=(2, chains))

    def draw_posterior(self, chains, rng):
        p = np.exp(self.ell).ravel() / np.exp(self.ell).sum()
        return np.array(np.unravel_index(rng.choice(9, chains, p=p), (3, 3)))

    def log_likelihood(self, state):
        return self.ell[state[0], state[1]]

    def _drawn(self, state, betas, rng, order):
        state = state.copy()
        for which in order:
            ell = (self.ell if which == 1 else self.ell.T)[state[1 - which]]
            state[which] = np.argmax(betas[:, None] * ell + rng.gumbel(size=ell.shape), axis=1)
        return state

    def step(self, state, betas, rng):
        return self._drawn(state, betas, rng, (0, 1))

    def step_back(self, state, betas, rng):
        return self._drawn(state, betas, rng, (1, 0))


class Forgetful(TwoSpins):
    """The broken twin: it takes the transition for its own reversal."""

    step_back = TwoSpins.step


def anneal(system=None, **changes):
    """Six blocks of 20 transitions, three each way; the last of them is not full."""
    options = {"chains": 295, "temperatures": 20, "cores": 1} | QUIET
    return bdmc.anneal(system or TwoSpins(), **options | changes)


def weights(dt):
    return np.concatenate([dt[group]["log_weight"].values[0] for group in ("forward", "reverse")])


def press():
    signal.raise_signal(signal.SIGINT)


def test_cores_do_not_change_the_result():
    one, three = anneal(), anneal(cores=3)
    for group in ("forward", "reverse"):
        xr.testing.assert_identical(
            one[group].dataset.drop_attrs(), three[group].dataset.drop_attrs()
        )
    fewer = anneal(chains=100)["forward"]["log_weight"]
    np.testing.assert_array_equal(fewer, one["forward"]["log_weight"][:, :100])
    assert (weights(anneal(random_seed=4)) != weights(one)).any()


@pytest.mark.parametrize(
    "make",
    [lambda: np.random.SeedSequence(5), lambda: [5, 6], lambda: np.random.default_rng(5)],
    ids=["SeedSequence", "list", "Generator"],
)
def test_seeds_of_all_kinds_give_one_result_and_are_recorded(make):
    first, second = (anneal(random_seed=make(), chains=20) for _ in range(2))
    recorded = [int(word) for word in first.attrs["random_seed"].split()]
    again = anneal(random_seed=recorded if len(recorded) > 1 else recorded[0], chains=20)
    for each in (second, again):
        np.testing.assert_array_equal(weights(first), weights(each))


def test_every_front_is_a_form_of_one():
    """With the same bits for any cores, and the same attributes of a result."""
    said, options = [], {"chains": 140, "temperatures": 5} | QUIET
    for thin, subject, system in [
        (bdmc.lattice.anneal, Potts(4, 3), LatticeChains),
        (bdmc.rbm.anneal, MACHINE, MachineChains),
    ]:
        assert isinstance(system(subject), BlockSystem)
        found = thin(subject, cores=3, **options)
        same = bdmc.anneal(system(subject), cores=1, **options)
        np.testing.assert_array_equal(weights(found), weights(same))
        said.append(set(found.attrs))
        assert said[-1] == set(same.attrs)
    assert said[0] == said[1] | {"critical_beta"}
    assert said[1] > {"schedule", "random_seed", "sampling_time", "interrupted", "upper_bound"}


@pytest.mark.parametrize("number", [1, 5])
def test_ctrl_c_keeps_finished_blocks(number, monkeypatch):
    finished, begun = ChainProgress.finished, []

    def pressed(self, *run):
        finished(self, *run)
        begun.append(run)
        if len(begun) == number:
            press()

    monkeypatch.setattr(ChainProgress, "finished", pressed)
    dt = anneal(cores=2)
    monkeypatch.undo()
    kept = np.isfinite(weights(dt))
    assert kept.any()
    np.testing.assert_array_equal(weights(dt)[kept], weights(anneal())[kept])
    assert dt.attrs["interrupted"] == int(not kept.all())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    bdmc.summary(dt)


def anneal_lattice(**changes):
    return bdmc.lattice.anneal(Potts(16, 3), **QUIET | changes)


@pytest.mark.parametrize("call", [anneal, anneal_lattice])
def test_ctrl_c_ends_blocks_at_work(call, ctrl_c_after):
    """A million transitions take minutes; nothing is finished yet."""
    call(temperatures=2, chains=200)  # compiles
    with ctrl_c_after(0.15), pytest.raises(KeyboardInterrupt):
        call(temperatures=1_000_000, chains=200)


def test_a_ladder_and_a_target_go_in_rounds():
    """The last round confirms the one that met the target, with runs of its own."""
    assert anneal(temperatures=[5, 10])["rounds"]["temperatures"].values.tolist() == [5, 10]
    rounds = anneal(temperatures=5, target_gap=1e3, max_temperatures=80)["rounds"]
    assert rounds["confirms"].values.tolist() == [False, True]
    before, after = rounds["forward_log_weight"].values
    assert (before != after).any()


def test_a_callback_sees_the_result_so_far_and_may_end_it():
    finished = []

    class Slow(TwoSpins):
        def step(self, state, betas, rng):
            time.sleep(0.02)
            return super().step(state, betas, rng)

    def watch(dt):
        finished.append(int(np.isfinite(weights(dt)).sum()))
        if len(finished) == 2:
            raise KeyboardInterrupt

    dt = anneal(Slow(), callback=watch)
    assert finished == sorted(finished)
    assert dt.attrs["interrupted"]
    assert np.isfinite(weights(dt)).sum() >= finished[-1]


@pytest.mark.parametrize("system", [TwoSpins(), Forgetful()], ids=["sound", "broken"])
def test_crooks_relation_holds_for_a_system_of_a_user(system):
    """E_f[w; w < c] = Z P_r(w < c) for three c, α = 2e-4; the twin fails it by 17 errors.

    A weight has a few hundred values. No c is next to one, since rounding differs by direction.
    """
    dt = bdmc.anneal(system, chains=20_000, temperatures=3, random_seed=1, progressbar=False)
    forward, reverse = (dt[group]["log_weight"].values[0] for group in ("forward", "reverse"))
    log_z, worst = np.log(np.exp(system.ell).mean()), 0.0
    for c in np.quantile(reverse, [0.25, 0.5, 0.75]) + 1e-6:
        hits, share = (forward < c) * np.exp(forward - log_z), np.mean(reverse < c)
        error = np.sqrt((hits.var() + share * (1 - share)) / len(forward))
        worst = max(worst, abs(hits.mean() - share) / error)
    assert (worst > 4) == isinstance(system, Forgetful)
    assert dt.attrs["upper_bound"] == "exact"


def test_the_verdict_does_not_take_a_noisy_pair_for_a_missed_posterior():
    dt = anneal(chains=64, temperatures=10, random_seed=1)
    spread = dt["reverse"]["log_weight"].values - dt["forward"]["log_weight"].values
    assert (spread > 2).any()  # pairs whose total variation seems to be near 1
    assert "pairs of runs" in bdmc.verdict(dt).text
    assert "miss most" not in bdmc.verdict(dt).text


def test_a_system_says_what_it_starts_from_and_what_it_lacks():
    class Rough(TwoSpins):
        start_status = "heuristic"

    assert anneal(Rough(), chains=4).attrs["upper_bound"] == "heuristic"
    with pytest.raises(TypeError, match=r"^system: description, draw_prior, draw_posterior"):
        bdmc.anneal(object())

    class Short(TwoSpins):
        def log_likelihood(self, state):
            return np.zeros(3)

    with pytest.raises(ValueError, match=r"^system: log_likelihood must return shape \(10,\)"):
        anneal(Short(), chains=10)
    for options in ({"temperatures": 0}, {"chains": 1}, {"cores": 0}):
        with pytest.raises(ValueError, match=f"^{next(iter(options))}: must be"):
            anneal(**options)


@pytest.mark.parametrize("broken", [slice(None), slice(1)], ids=["all", "one"])
def test_broken_numbers_are_not_taken_for_ctrl_c(broken):
    class Overflowing(TwoSpins):
        def log_likelihood(self, state):
            ell = super().log_likelihood(state)
            ell[broken] = np.nan
            return ell

    with pytest.raises(FloatingPointError, match="not finite"):
        anneal(Overflowing())


@pytest.mark.parametrize(
    ("call", "method"),
    [
        (lambda: bdmc.rbm.anneal(MACHINE, chains=2, temperatures=2, **QUIET), "run"),
        (lambda: bdmc.temper(MACHINE, chains=2, draws=2, temperatures=2, **QUIET), "step"),
        (lambda: bdmc.rbm.train(np.eye(4), 2, epochs=1, **QUIET), "step"),
    ],
    ids=["anneal", "temper", "train"],
)
def test_products_of_matrices_use_one_thread(call, method, monkeypatch):
    """Else the bits would depend on the number of threads.

    OpenMP's limit is one of each thread, so one of the libraries that use it is loaded.
    """
    with suppress(ImportError):
        importlib.import_module("numba.np.ufunc.omppool")
    threads, inner = [], getattr(RBM, method)

    def watch(self, *args, **kwargs):
        threads.append(max(pool["num_threads"] for pool in threadpool_info()))
        return inner(self, *args, **kwargs)

    monkeypatch.setattr(RBM, method, watch)
    with threadpool_limits(2):
        call()
        assert max(pool["num_threads"] for pool in threadpool_info()) == 2
    assert set(threads) == {1}
