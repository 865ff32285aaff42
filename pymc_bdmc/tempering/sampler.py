"""Simulated tempering: chains that wander up and down a ladder of inverse temperatures."""

import time
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.estimators.sandwich import log_prior_mass
from pymc_bdmc.estimators.tempering import (
    draw_places,
    log_mean_probabilities,
    place_probabilities,
)
from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.schedules import Schedule, make_schedule
from pymc_bdmc.streams import RandomSeed, entropy_of, recorded
from pymc_bdmc.tempering.systems import model_system

__all__ = ["TemperedSystem", "temper"]

FLAT = 0.5
"""Largest |r_k − ĉ_k| K at which a stage of the Wang-Landau start ends."""

STOP = 0.1
"""Largest |r_k − ĉ_k| K at which the initial iterations end: Carlson et al. (2016)."""

LAST_RATE = 1 / 64
"""Of the Wang-Landau start, which halves its rate of learning after every stage."""

_MOST_START = 40
"""Most sweeps of the Wang-Landau start, in lengths of the first initial iteration."""


@runtime_checkable
class TemperedSystem(Protocol):
    """What simulated tempering asks of a system; a state holds any number of chains."""

    description: str
    """What a transition does."""

    def draw_prior(self, chains: int, rng: np.random.Generator) -> Any:
        """Exact states at β = 0."""

    def step(self, state: Any, betas: np.ndarray, rng: np.random.Generator) -> Any:
        """Apply a kernel that leaves f_β invariant, for every chain's own β, and return states."""

    def log_likelihood(self, state: Any) -> np.ndarray:
        """ℓ of every chain, nats."""


class _Chains:
    """Chains on the ladder: states, places, and the guess log Ẑ."""

    def __init__(self, system, betas, chains, rng, progress):
        self.system, self.betas, self.rng, self.progress = system, betas, rng, progress
        self.state = system.draw_prior(chains, rng)
        self.places = np.zeros(chains, dtype=int)
        self.log_z = np.zeros(len(betas))
        self.sweeps = 0

    def sweep(self, phase: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw x | k by the kernel and k | x exactly; return ℓ, the places of x, and q(·|x)."""
        drawn_at = self.places
        self.state = self.system.step(self.state, self.betas[drawn_at], self.rng)
        ell = self.system.log_likelihood(self.state)
        q = place_probabilities(ell, self.betas, self.log_z)
        self.places = draw_places(q, self.rng)
        self.sweeps += 1
        self.progress.advance(phase, 1, self.log_z[-1] - self.log_z[0])
        return ell, drawn_at, q

    def learn(self, most: int) -> None:
        """Wang-Landau start: raise log Ẑ where chains are, ever less, each time visits are flat."""
        K, rate = len(self.betas), 1.0
        visits, length = np.zeros(K), 0
        while rate > LAST_RATE and self.sweeps < most:
            q = self.sweep("start")[2].mean(axis=0)
            self.log_z += rate * (K * q - 1)
            visits, length = visits + q, length + 1
            if np.abs(K * visits / length - 1).max() < FLAT:
                rate, visits, length = rate / 2, np.zeros(K), 0
        self.log_z -= self.log_z[0]
        self.progress.complete("start")

    def draw(self, draws: int, phase: str) -> dict[str, np.ndarray]:
        """Sweep with a fixed guess; on Ctrl-C keep what is drawn, if it is anything."""
        found = []
        interrupted = False
        try:
            for _ in range(draws):
                found.append(self.sweep(phase)[:2])
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
            warnings.warn(f"Interrupted: {len(found)} of {draws} draws are kept.", stacklevel=3)
        ell, places = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        log_c = log_mean_probabilities(ell, self.betas, self.log_z)
        return {
            "log_likelihood": ell,
            "place": places,
            "log_probability": log_c,
            "log_z_guess": self.log_z,
            "interrupted": interrupted,
        }

    def flatness(self, log_c: np.ndarray) -> float:
        """Largest |r_k − ĉ_k| in units of r_k = 1/K."""
        return float(np.abs(len(self.betas) * np.exp(log_c).mean(axis=0) - 1).max())


def temper(
    system: TemperedSystem | pm.Model | None = None,
    *,
    chains: int = 32,
    draws: int = 1000,
    temperatures: int | ArrayLike = 50,
    schedule: str | Schedule = "linear",
    initial: int = 50,
    iterations: int = 8,
    step: str | StepFactory | Sequence[StepFactory] | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool = True,
) -> xr.DataTree:
    r"""Draw states and their temperatures in turn, and learn log Z along the ladder.

    Chains start from the prior. A Wang-Landau start finds a first guess of log Z_k; initial
    iterations, each twice as long as the one before but no longer than the run, improve it by
    Ẑ_k ← Ẑ_k (r_1/r_k)(ĉ_k/ĉ_1) until no ĉ_k is further than 0.1/K from r_k; then the draws are
    made with a fixed guess. r_k is 1/K, and ĉ_k is the mean of the conditional probabilities
    q(β_k | x): Carlson, Stinson, Pakman and Paninski (2016). Read the result with
    `evidence` and `plot_tempering`.

    Parameters
    ----------
    system : RBM, TemperedLattice or another `TemperedSystem`, pymc.Model, or None
        Default: the model of the ``with`` block.
    chains : int, default 32
        Independent but for the guess that they share; errors come from their spread.
    draws : int, default 1000
        Of each chain, once the guess is fixed.
    temperatures : int or array_like of shape (K,), default 50
        K − 1, the number of steps of the ladder, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        How they are spaced.
    initial : int, default 50
        Draws of the first initial iteration. The Wang-Landau start takes at most 40 times as many
        sweeps.
    iterations : int, default 8
        Most initial iterations.
    step
        Of a PyMC model; as for `sample_bdmc`.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
    progressbar : bool, default True

    Returns
    -------
    DataTree
        Group ``tempering``: ``log_likelihood`` (ℓ) and ``place`` (index of the temperature at
        which the state was drawn) by (chain, draw), ``log_probability`` (log ĉ_k) by (chain,
        beta), ``log_z_guess`` by beta. Group ``initial``: the last two by iteration, and
        ``draws``. On Ctrl-C the draws that were made with the latest guess are the result.

    Raises
    ------
    ValueError
        For a model or an argument that cannot give a right answer.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(1)
    >>> rbm = bdmc.rbm.RBM(np.zeros(6), np.zeros(4), rng.normal(size=(6, 4)))
    >>> dt = bdmc.temper(rbm, temperatures=5, draws=200, random_seed=1, progressbar=False)
    >>> found = bdmc.evidence(dt, "RTS").iloc[0]
    >>> bool(abs(found["value"] - rbm.log_z()) < 4 * found["error"])
    True
    """
    started = time.perf_counter()
    check_counts(chains=chains, draws=draws, initial=initial, iterations=iterations)
    ladder = make_schedule(schedule, temperatures, default=50)
    entropy = entropy_of(random_seed)
    rng = np.random.default_rng(entropy)
    system = _as_system(system, ladder, step, rng.spawn(1)[0])
    lengths = [min(initial * 2**i, draws) for i in range(iterations)]
    phases = {"start": _MOST_START * initial, "initial": sum(lengths), "draws": draws}
    rounds, flatness = [], np.inf
    with ChainProgress(phases, progressbar, "Sweeps", "log Z") as progress:
        sampler = _Chains(system, ladder.betas, chains, rng, progress)
        sampler.learn(phases["start"])
        try:
            while flatness > STOP and len(rounds) < iterations:
                found = sampler.draw(lengths[len(rounds)], "initial")
                log_c = found["log_probability"]
                flatness = sampler.flatness(log_c)
                if found["interrupted"]:
                    break
                rounds.append(found)
                mean = np.logaddexp.reduce(log_c, axis=0)
                sampler.log_z = sampler.log_z + mean - mean[0]
            else:
                progress.complete("initial")
                found = sampler.draw(draws, "draws")
        except KeyboardInterrupt:  # before the first draw with a new guess
            if not rounds:
                raise
            found = rounds.pop() | {"interrupted": True}
            warnings.warn("Interrupted: the last initial iteration is kept.", stacklevel=2)
    if flatness > STOP:
        warnings.warn(
            f"After {len(rounds)} initial iterations the places are visited unevenly "
            f"(max |r - c| = {flatness:.2g}/K instead of {STOP:g}/K). Use more temperatures, or "
            "a larger `initial`.",
            stacklevel=2,
        )
    trials = getattr(system, "trials", [1, 1])
    mass = log_prior_mass(trials)
    return _to_datatree(
        found,
        rounds,
        ladder,
        {
            "step": system.description,
            "schedule": ladder.name,
            "flatness": flatness,
            "log_prior_mass": mass.estimate,
            "log_prior_mass_error": mass.error,
            "initial_sweeps": sampler.sweeps - found["place"].shape[1],
            "interrupted": int(found["interrupted"]),
            "random_seed": recorded(entropy),
            "sampling_time": time.perf_counter() - started,
        },
    )


def _as_system(system, ladder: Schedule, step, rng: np.random.Generator) -> TemperedSystem:
    if system is None or isinstance(system, pm.Model):
        return model_system(pm.modelcontext(system), ladder.betas, step, rng)
    if not isinstance(system, TemperedSystem):
        raise ValueError(
            f"system: {system!r} cannot be tempered; a PyMC model, an RBM, or a lattice model in "
            "lattice.TemperedLattice can."
        )
    if step is not None:
        raise ValueError("step: only a PyMC model takes step methods; the system has its own.")
    return system


def _to_datatree(found, rounds, ladder, attrs) -> xr.DataTree:
    coords = {"beta": ladder.betas}
    by_beta = {"log_probability": ("chain", "beta"), "log_z_guess": ("beta",)}
    by_draw = {"log_likelihood": ("chain", "draw"), "place": ("chain", "draw")}
    sizes = {"chain": len(found["place"]), "draw": found["place"].shape[1]}
    tempering = xr.Dataset(
        {name: (dims, found[name]) for name, dims in (by_draw | by_beta).items()},
        coords | {name: np.arange(size) for name, size in sizes.items()},
    )
    initial = xr.Dataset(
        {
            name: (
                ("iteration", *dims),
                np.array([each[name] for each in rounds]).reshape(-1, *found[name].shape),
            )
            for name, dims in by_beta.items()
        }
        | {"draws": ("iteration", np.array([each["place"].shape[1] for each in rounds], int))},
        coords,
    )
    dt = xr.DataTree.from_dict({"tempering": tempering, "initial": initial})
    dt.attrs.update(attrs)
    return dt
