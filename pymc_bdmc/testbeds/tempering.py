"""Run simulated tempering, with chains that move on a ladder of inverse temperatures."""

import time
from collections.abc import Sequence

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from pymc_bdmc.base.arguments import check_counts, check_memory, check_progressbar
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule, make_schedule
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import System
from pymc_bdmc.density.refuse import checked_model, model_of
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import make_engine
from pymc_bdmc.estimators.sandwich import log_prior_mass
from pymc_bdmc.estimators.simulated_tempering import (
    draw_places,
    log_mean_probabilities,
    place_probabilities,
)
from pymc_bdmc.kernels import Step
from pymc_bdmc.results.verdict import warn
from pymc_bdmc.results.write import run_attributes


class _Chains:
    """Chains on the ladder, with states, places, the guess log Ẑ, and ``drawn`` draws by guess.

    Every phase ends early if ``stop`` is set.
    """

    def __init__(self, system, betas, chains, rng, progress, stop):
        self.system, self.betas, self.rng = system, betas, rng
        self.progress, self.stop = progress, stop
        self.state = system.draw_prior(chains, rng)
        self.places = np.zeros(chains, dtype=int)
        self.log_z = np.zeros(len(betas))
        self.sweeps = 0
        self.drawn: list[xr.Dataset] = []
        self.flatness = np.inf

    def sweep(self, phase: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw x | k by the kernel and k | x exactly. Return ℓ, the places of x, and q(·|x)."""
        drawn_at = self.places
        self.state = self.system.step(self.state, self.betas[drawn_at], self.rng)
        ell = self.system.log_likelihood(self.state)
        q = place_probabilities(ell, self.betas, self.log_z)
        self.places = draw_places(q, self.rng)
        self.sweeps += 1
        self.progress.advance(phase, 1, self.log_z[-1] - self.log_z[0])
        return ell, drawn_at, q

    def learn(self, most: int) -> None:
        """Run the Wang-Landau start, which raises log Ẑ at visited β with decreasing rates."""
        K, rate = len(self.betas), 1.0
        visits, length = np.zeros(K), 0
        # The rate is halved when all |r_k − ĉ_k| K are below a half; both limits are chosen.
        while rate > 1 / 64 and self.sweeps < most and not self.stop[0]:
            q = self.sweep("start")[2].mean(axis=0)
            self.log_z += rate * (K * q - 1)
            visits, length = visits + q, length + 1
            if np.abs(K * visits / length - 1).max() < 0.5:
                rate, visits, length = rate / 2, np.zeros(K), 0
        self.log_z -= self.log_z[0]
        self.progress.complete("start")

    def improve(self, lengths: Sequence[int]) -> None:
        """Run initial iterations until all |r_k − ĉ_k| K are small: Carlson et al. (2016)."""
        for length in lengths:
            self.draw(length, "initial")
            if self.drawn:
                log_c = self.drawn[-1]["log_probability"].values
                shares = np.exp(log_c).mean(axis=0)
                self.flatness = float(np.abs(len(shares) * shares - 1).max())
            if self.stop[0]:
                return
            log_c = np.logaddexp.reduce(log_c, axis=0)
            self.log_z = self.log_z + log_c - log_c[0]  # Ẑ_k (r_1/r_k)(ĉ_k/ĉ_1)
            if self.flatness <= 0.1:
                break
        self.progress.complete("initial")

    def draw(self, count: int, phase: str) -> None:
        """Draw with a fixed guess, and keep the draws if there are any."""
        swept: list[tuple[np.ndarray, np.ndarray]] = []
        while len(swept) < count and not self.stop[0]:
            swept.append(self.sweep(phase)[:2])
        if swept:
            ell, places = (np.stack(part, axis=1) for part in zip(*swept, strict=True))
            log_c = log_mean_probabilities(ell, self.betas, self.log_z)
            found = {
                "log_likelihood": (("chain", "draw"), ell),
                "place": (("chain", "draw"), places),
                "log_probability": (("chain", "beta"), log_c),
                "log_z_guess": (("beta",), self.log_z),
            }
            self.drawn.append(xr.Dataset(found, {"beta": self.betas}))


def temper(
    system: System | pm.Model | None = None,
    *,
    chains: int = 32,
    draws: int = 1000,
    temperatures: int | ArrayLike = 50,
    schedule: str | Schedule = "linear",
    initial: int = 50,
    iterations: int = 8,
    step: Step = None,
    random_seed: RandomSeed = None,
    progressbar: bool | str = True,
) -> xr.DataTree:
    r"""Run simulated tempering, which draws states and temperatures in turn, to estimate log Z.

    Chains start from the prior. A Wang-Landau start finds a first guess of log Z_k. Initial
    iterations improve the guess by Ẑ_k ← Ẑ_k (r_1/r_k)(ĉ_k/ĉ_1) until no ĉ_k is further than 0.1/K
    from r_k. Each of them is twice as long as the one before, but no longer than the run. Then the
    draws are made with a fixed guess. Here r_k is 1/K, and ĉ_k is the mean of the conditional
    probabilities q(β_k | x) (Carlson, Stinson, Pakman and Paninski 2016). Read the result with
    `evidence` and `plot_tempering`.

    Parameters
    ----------
    system : Ising, Potts, RBM or another `System`, pymc.Model, or None
        Default: the model of the ``with`` block.
    chains : int, default 32
        Number of chains, which are independent except for their common guess. Errors come from the
        spread of the chains.
    draws : int, default 1000
        Number of draws of each chain after the guess is fixed.
    temperatures : int or array_like of shape (K,), default 50
        K − 1, the number of steps of the ladder, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        Spacing of the temperatures.
    initial : int, default 50
        Number of draws of the first initial iteration. The Wang-Landau start takes at most 40 times
        this number of sweeps.
    iterations : int, default 8
        Largest number of initial iterations.
    step
        Kernel of a PyMC model, as for `sample_bdmc`.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the result. Chains share a guess and move together in one thread.
    progressbar : bool or str, default True

    Returns
    -------
    DataTree
        The group ``tempering`` has ``log_likelihood`` (ℓ) and ``place`` (index of the temperature
        at which the state was drawn) by (chain, draw), ``log_probability`` (log ĉ_k) by
        (chain, beta), and ``log_z_guess`` by beta. The group ``initial`` has the last two and
        ``draws`` by iteration. After Ctrl-C the result has the draws with the latest guess.

    Raises
    ------
    ValueError
        For a model or an argument that cannot give a right answer.
    KeyboardInterrupt
        If Ctrl-C comes before the first initial iteration, or if it is pressed a second time.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(1)
    >>> rbm = bdmc.rbm.RBM(np.zeros(6), np.zeros(4), rng.normal(size=(6, 4)))
    >>> dt = bdmc.temper(rbm, temperatures=5, draws=200, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "RTS")[["value", "error"]].iloc[0]
    >>> bool(abs(value - rbm.log_z()) < 4 * error)
    True

    >>> ising = bdmc.lattice.Ising(4)
    >>> dt = bdmc.temper(ising, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "RTS")[["value", "error"]].iloc[0]
    >>> bool(abs(value - ising.log_z()) < 4 * error)
    True
    """
    started = time.perf_counter()
    check_counts(chains=chains, draws=draws, initial=initial, iterations=iterations)
    check_progressbar(progressbar)
    # Two copies of ℓ and of the place take 32 bytes per draw.
    check_memory(lambda chains, draws: 32 * chains * draws, chains=chains, draws=draws)
    ladder = make_schedule(schedule, temperatures, default=50)
    entropy = entropy_of(random_seed)
    with nothing_to_keep():
        pilot_rng = np.random.default_rng(stream(entropy, Purpose.PILOT))
        system = _as_system(system, ladder, step, pilot_rng)
    lengths = [min(initial * 2**i, draws) for i in range(iterations)]
    phases = {"start": 40 * initial, "initial": sum(lengths), "draws": draws}
    with (
        interruptible() as stop,
        threadpool_limits(1),  # rounding of matrix products depends on the number of threads
        ChainProgress(phases, progressbar, "Sweeps", "log Z") as progress,
    ):
        rng = np.random.default_rng(stream(entropy, Purpose.TEMPER))
        sampler = _Chains(system, ladder.betas, chains, rng, progress, stop)
        sampler.learn(phases["start"])
        sampler.improve(lengths)
        sampler.draw(draws, "draws")
        if not sampler.drawn:
            raise KeyboardInterrupt
        # The draws with the last guess, and the earlier guesses by iteration
        final, drawn = sampler.drawn[-1], sampler.drawn
        numbers = {name: np.arange(final.sizes[name]) for name in ("chain", "draw")}
        guesses = [each.drop_dims("draw").assign(draws=each.sizes["draw"]) for each in drawn]
        earlier = xr.concat(guesses, "iteration", data_vars="all").isel(iteration=slice(-1))
        dt = xr.DataTree.from_dict({"tempering": final.assign_coords(numbers), "initial": earlier})
        mass = log_prior_mass(getattr(system, "trials", [1, 1]))
        dt.attrs |= {
            "step": system.description,
            "flatness": sampler.flatness,
            "log_prior_mass": mass.estimate,
            "log_prior_mass_error": mass.error,
            "initial_sweeps": sampler.sweeps - final.sizes["draw"],
        }
        dt.attrs |= run_attributes(ladder, entropy, started, bool(stop[0]))
        warn(dt)
    return dt


def _as_system(system, ladder: Schedule, step, rng: np.random.Generator) -> System:
    if not isinstance(system, System) and isinstance(model_of(system), pm.Model):
        density = TemperedDensity(checked_model(system))
        density.check()
        return make_engine(density, ladder.betas, step).system(rng)
    if not isinstance(system, System):
        raise ValueError(
            f"system: {system!r} is not a System. Pass a PyMC model, an RBM, an Ising or a "
            "Potts model, or an object with the methods of a System."
        )
    if step is not None:
        raise ValueError("step: only a PyMC model takes step methods; the system has its own.")
    return system
