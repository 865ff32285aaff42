"""Campaigns on lattices, machines and systems of users: one seed, one result, Ctrl-C, stores."""

import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress

import factor_models
import numpy as np
import pytest
import xarray as xr
from factor_models.annealing import ProblemRuns
from threadpoolctl import threadpool_info, threadpool_limits

import pymc_bdmc as bdmc
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.types import Direction
from pymc_bdmc.call import session
from pymc_bdmc.lattice import LatticeChains, Potts
from pymc_bdmc.rbm import RBM, MachineChains
from pymc_bdmc.run.loop import BlockSystem

rng = np.random.default_rng(1)
MACHINE = RBM(rng.normal(size=60), rng.normal(size=40), rng.normal(size=(60, 40)) / 5)
SYSTEMS = {
    "lattice": (bdmc.lattice.anneal, Potts(16, 3), 128),
    "machine": (bdmc.rbm.anneal, MACHINE, 100),
}


@pytest.fixture(params=SYSTEMS)
def anneal(request):
    """Six blocks of 20 transitions, three each way; the last of them is not full."""
    run, system, size = SYSTEMS[request.param]
    options = {"temperatures": 20, "random_seed": 3, "progressbar": False}

    def anneal(n_blocks=3, **changes):
        return run(system, **({"chains": n_blocks * size - 5 * (n_blocks > 1)} | options | changes))

    return anneal


def weights(dt):
    return np.concatenate([dt[group]["log_weight"].values[0] for group in ("forward", "reverse")])


def at_block(monkeypatch, number, action):
    """Do something when so many blocks are finished."""
    finished, count = ChainProgress.finished, 0

    def acting(self, run, *log_weights):
        nonlocal count
        finished(self, run, *log_weights)
        count += 1
        if count == number:
            action()

    monkeypatch.setattr(ChainProgress, "finished", acting)


def press():
    signal.raise_signal(signal.SIGINT)


def test_cores_do_not_change_the_result(anneal):
    one, three = anneal(cores=1), anneal(cores=3)
    for group in ("forward", "reverse"):
        xr.testing.assert_identical(
            one[group].dataset.drop_attrs(), three[group].dataset.drop_attrs()
        )
    fewer = anneal(n_blocks=1)["forward"]["log_weight"]
    np.testing.assert_array_equal(fewer, one["forward"]["log_weight"][:, : fewer.size])
    assert (weights(anneal(random_seed=4)) != weights(one)).any()


@pytest.mark.parametrize("seed", [np.random.SeedSequence(5), [5, 6], "Generator"], ids=str)
def test_seeds_of_all_kinds(anneal, seed):
    seeds = [np.random.default_rng(5) if seed == "Generator" else seed for _ in range(2)]
    first, second = (anneal(random_seed=each, chains=20) for each in seeds)
    np.testing.assert_array_equal(weights(first), weights(second))
    recorded = [int(word) for word in first.attrs["random_seed"].split()]
    again = anneal(random_seed=recorded if len(recorded) > 1 else recorded[0], chains=20)
    np.testing.assert_array_equal(weights(first), weights(again))


@pytest.mark.parametrize(
    ("thin", "subject", "system", "defaults"),
    [
        (bdmc.lattice.anneal, Potts(4, 3), LatticeChains, {"chains": 1000}),
        (bdmc.rbm.anneal, MACHINE, MachineChains, {}),
        (
            factor_models.anneal,
            factor_models.Clustering(2, n=4, size=2).simulate(random_seed=1),
            ProblemRuns,
            {"chains": 8, "schedule": "sigmoid"},
        ),
    ],
    ids=["lattice", "machine", "factor model"],
)
def test_every_front_is_a_form_of_one(thin, subject, system, defaults):
    options = {"temperatures": 5, "random_seed": 1, "progressbar": False}
    assert isinstance(system(subject), BlockSystem)
    found, same = thin(subject, **options), bdmc.anneal(system(subject), **defaults, **options)
    np.testing.assert_array_equal(weights(found), weights(same))
    assert set(found.attrs) == set(same.attrs)


def test_results_say_the_same_of_all_systems():
    said = [
        set(run(system, chains=2, temperatures=2, random_seed=1, progressbar=False).attrs)
        for run, system, _ in SYSTEMS.values()
    ]
    assert said[0] - said[1] == {"critical_beta"}
    assert said[1] - said[0] == set()
    assert said[1] > {"schedule", "random_seed", "sampling_time", "interrupted", "upper_bound"}


@pytest.mark.parametrize(
    ("options", "message"),
    [({"chains": 1}, "^chains: "), ({"chains": 2.5}, "^chains: "), ({"cores": 0}, "^cores: ")],
    ids=str,
)
def test_bad_input_is_named(anneal, options, message):
    with pytest.raises(ValueError, match=message):
        anneal(**options)


@pytest.mark.parametrize("broken", [list(Direction), [Direction.REVERSE]], ids=["all", "some"])
def test_broken_numbers_are_not_taken_for_ctrl_c(monkeypatch, broken):
    run = RBM.run

    def overflowing(self, state, betas, direction, *args):
        found = run(self, state, betas, direction, *args)
        if direction in broken:
            found.log_weight[0] = np.nan
        return found

    monkeypatch.setattr(RBM, "run", overflowing)
    with pytest.raises(FloatingPointError, match="not finite"):
        bdmc.rbm.anneal(MACHINE, chains=2, temperatures=5, burn_in=0, progressbar=False)


@pytest.mark.parametrize("number", np.random.default_rng(2).choice(np.arange(1, 6), 3, False))
def test_ctrl_c_keeps_finished_blocks(anneal, monkeypatch, number):
    whole = weights(anneal())
    at_block(monkeypatch, number, press)
    dt = anneal(cores=2)
    kept = np.isfinite(weights(dt))
    assert kept.any()
    np.testing.assert_array_equal(weights(dt)[kept], whole[kept])
    assert dt.attrs["interrupted"] == int(not kept.all())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    bdmc.summary(dt)


def test_ctrl_c_ends_blocks_at_work(anneal, ctrl_c_after):
    """A million transitions take a minute; nothing is finished yet."""
    anneal(temperatures=2)  # compiles
    with ctrl_c_after(0.5), pytest.raises(KeyboardInterrupt):
        anneal(temperatures=1_000_000)


def test_ctrl_c_twice_raises(anneal, monkeypatch):
    at_block(monkeypatch, 2, lambda: (press(), press()))
    with pytest.raises(KeyboardInterrupt):
        anneal()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_in_the_conversion_loses_nothing(anneal, monkeypatch):
    monkeypatch.setattr(session, "warn", lambda dt: press())
    dt = anneal()
    assert np.isfinite(weights(dt)).all()
    assert dt.attrs["interrupted"] == 0


def test_a_ladder_and_a_target_go_in_rounds(anneal):
    """The last round confirms the one that met the target, with runs of its own."""
    dt = anneal(temperatures=[5, 10])
    assert dt["rounds"]["temperatures"].values.tolist() == [5, 10]
    gap = float(dt["rounds"]["jeffreys_bound"][-1])
    dt = anneal(temperatures=5, target_gap=1.2 * gap, max_temperatures=80)
    *looked_at, confirming = dt["rounds"]["temperatures"].values
    assert confirming == looked_at[-1] == 5 * 2 ** (len(looked_at) - 1)
    assert dt["rounds"]["confirms"].values[-1]
    before, after = dt["rounds"]["forward_log_weight"].values[-2:]
    assert (before != after).any()


def test_a_store_goes_on_from_what_is_finished(anneal, monkeypatch, tmp_path):
    whole = weights(anneal())
    at_block(monkeypatch, 2, press)
    dt = anneal(store=tmp_path / "run", cores=1)
    assert dt.attrs["interrupted"]
    monkeypatch.undo()
    dt = anneal(store=tmp_path / "run")
    np.testing.assert_array_equal(weights(dt), whole)
    seen = xr.open_datatree(tmp_path / "run" / "result.nc")
    np.testing.assert_array_equal(weights(seen), whole)
    seen.close()
    with pytest.raises(ValueError, match=r"another temperatures \(argument\)"):
        anneal(store=tmp_path / "run", temperatures=10)


def test_a_callback_sees_the_result_so_far_and_may_end_it(anneal):
    finished = []

    def watch(dt):
        finished.append(int(np.isfinite(weights(dt)).sum()))
        if len(finished) == 2:
            raise KeyboardInterrupt

    dt = anneal(callback=watch, cores=1)
    assert finished == sorted(finished)
    assert dt.attrs["interrupted"]
    assert np.isfinite(weights(dt)).sum() >= finished[-1]


class TwoSpins:
    """Two variables of three values, uniform a priori, that are drawn given each other in turn."""

    description = "Gibbs"
    ell = 3.0 * np.random.default_rng(4).normal(size=(3, 3))

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


@pytest.mark.parametrize("system", [TwoSpins(), Forgetful()], ids=["sound", "broken"])
def test_crooks_relation_holds_for_a_system_of_a_user(system):
    """E_f[w; w < c] = Z P_r(w < c) for three c, α = 2e-4; the twin fails it."""
    dt = bdmc.anneal(system, chains=40_000, temperatures=3, random_seed=1, progressbar=False)
    forward, reverse = (dt[group]["log_weight"].values[0] for group in ("forward", "reverse"))
    log_z, worst = np.log(np.exp(system.ell).mean()), 0.0
    for c in np.quantile(reverse, [0.25, 0.5, 0.75]):
        hits, share = (forward < c) * np.exp(forward - log_z), np.mean(reverse < c)
        error = np.sqrt((hits.var() + share * (1 - share)) / len(forward))
        worst = max(worst, abs(hits.mean() - share) / error)
    assert (worst > 4) == isinstance(system, Forgetful)
    assert dt.attrs["upper_bound"] == "exact"


def test_the_verdict_does_not_take_a_noisy_pair_for_a_missed_posterior():
    dt = bdmc.anneal(TwoSpins(), chains=64, temperatures=10, random_seed=1, progressbar=False)
    spread = dt["reverse"]["log_weight"].values - dt["forward"]["log_weight"].values
    assert (spread > 2).any()  # pairs whose total variation seems to be near 1
    assert "pairs of runs" in bdmc.verdict(dt).text
    assert "miss most" not in bdmc.verdict(dt).text


def test_a_system_says_what_it_starts_from_and_what_it_lacks():
    class Rough(TwoSpins):
        start_status = "heuristic"

    dt = bdmc.anneal(Rough(), chains=4, temperatures=3, random_seed=1, progressbar=False)
    assert dt.attrs["upper_bound"] == "heuristic"
    with pytest.raises(TypeError, match=r"^system: description, draw_prior, draw_posterior"):
        bdmc.anneal(object())

    class Short(TwoSpins):
        def log_likelihood(self, state):
            return np.zeros(3)

    with pytest.raises(ValueError, match=r"^system: log_likelihood must return shape \(10,\)"):
        bdmc.anneal(Short(), chains=10, temperatures=3, progressbar=False)
    with pytest.raises(ValueError, match=r"^temperatures: must be at least 1"):
        bdmc.anneal(Rough(), temperatures=0)


def interrupted_calls(moments, kinds):
    """Press Ctrl-C after so many seconds of each call's work; put what it returns."""
    for (name, call), seconds in zip(CALLS.items(), moments, strict=True):
        call(2)  # compiles
        moment = time.process_time() + seconds
        threading.Thread(target=press_at, args=[moment]).start()
        kinds.put(f"{name} {type(call(200_000)).__name__}")


def press_at(moment):
    while time.process_time() < moment:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


QUIET = {"progressbar": False}
PIXELS = rng.integers(2, size=(200, 60))
CALLS = {
    "lattice": lambda n: bdmc.lattice.anneal(Potts(16, 2), temperatures=100, chains=n, **QUIET),
    "machine": lambda n: bdmc.rbm.anneal(MACHINE, temperatures=100, chains=n, **QUIET),
    "tempering": lambda n: bdmc.temper(MACHINE, temperatures=5, initial=2, draws=n, **QUIET),
    "training": lambda n: bdmc.rbm.train(PIXELS, 5, epochs=n, **QUIET),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_ctrl_c_from_outside():
    """A process that is sent SIGINT at a random moment of each call has a result of each.

    Moments are in seconds of its work, on however busy a machine.
    """
    moments = np.random.default_rng(3).uniform(0.5, 1.0, 4)
    context = multiprocessing.get_context("fork")
    kinds = context.SimpleQueue()
    child = context.Process(target=interrupted_calls, args=[moments, kinds])
    child.start()
    child.join()
    assert child.exitcode == 0
    returned = ["lattice DataTree", "machine DataTree", "tempering DataTree", "training Training"]
    assert [kinds.get() for _ in CALLS] == returned


@pytest.mark.parametrize("call", ["anneal", "temper", "train"])
def test_products_of_matrices_use_one_thread(call, monkeypatch):
    """Else the bits would depend on the number of threads.

    OpenMP's limit is one of each thread, so one of the libraries that use it is loaded.
    """
    with suppress(ImportError):
        importlib.import_module("numba.np.ufunc.omppool")
    threads = []

    def watched(name):
        method = getattr(RBM, name)

        def watch(self, *args, **kwargs):
            threads.append(max(pool["num_threads"] for pool in threadpool_info()))
            return method(self, *args, **kwargs)

        monkeypatch.setattr(RBM, name, watch)

    watched("run" if call == "anneal" else "step")
    with threadpool_limits(2):
        if call == "anneal":
            bdmc.rbm.anneal(MACHINE, chains=2, temperatures=2, progressbar=False)
        elif call == "temper":
            bdmc.temper(MACHINE, chains=2, draws=2, temperatures=2, progressbar=False)
        else:
            bdmc.rbm.train(np.eye(4), 2, epochs=1, progressbar=False)
        assert max(pool["num_threads"] for pool in threadpool_info()) == 2
    assert set(threads) == {1}
