"""Anneal a lattice model in one call: forward from the uniform prior, in reverse from β = 1."""

import os
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Literal, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, Purpose, RandomSeed, beside, stream
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.campaign.options import Ladder, Limits, Resources
from pymc_bdmc.campaign.systems import anneal_engine
from pymc_bdmc.engines.blocks import BlockEngine, anneal_block
from pymc_bdmc.engines.tasks import AnnealTask
from pymc_bdmc.testbeds.lattice.multispin import IsingChains
from pymc_bdmc.testbeds.lattice.potts import PottsChains
from pymc_bdmc.testbeds.lattice.random_cluster import perfect_state, random_cluster, swendsen_wang
from pymc_bdmc.testbeds.lattice.randomness import random_sites
from pymc_bdmc.testbeds.lattice.systems import Ising, Lattice

__all__ = ["anneal"]

_STATUS = {"exact": "exact", "swendsen-wang": "burned-in", "ordered": "heuristic"}


def anneal(
    system: Lattice,
    *,
    chains: int = 1000,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    kernel: Literal["metropolis", "heat bath"] = "metropolis",
    sites: Literal["checkerboard", "random"] = "checkerboard",
    updates: int | None = None,
    start: Literal["exact", "swendsen-wang", "ordered"] = "exact",
    burn_in: int = 100,
    target_gap: float | None = None,
    max_temperatures: int | None = None,
    max_time: float | None = None,
    random_seed: RandomSeed = None,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
    store: str | os.PathLike | None = None,
    callback: Callable[[xr.DataTree], object] | None = None,
) -> xr.DataTree:
    """Sandwich log(Z/Z_0) of an Ising or Potts model between forward and reverse chains.

    Parameters
    ----------
    system : Ising or Potts
        The model at β = 1.
    chains : int, default 1000
        Chains per direction, at least 2. Ising chains are run 1024 at a time, Potts chains 128:
        fewer take as long.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        How the inverse temperatures are spaced. A `Schedule` brings its own temperatures.
    kernel : {"metropolis", "heat bath"}, default "metropolis"
        What is done at a site. Metropolis on a checkerboard gives Ising models the smaller gap,
        although next to β = 0 it flips every spin in every sweep and so relaxes little there; the
        heat bath does so for Potts models of many colours.
    sites : {"checkerboard", "random"}, default "checkerboard"
        In which order sites are updated: those with an even and then those with an odd sum of
        coordinates, which needs an even L; or independently at random.
    updates : int, optional
        Single-site updates at each temperature; default L², a sweep. Checkerboard: a multiple of
        it.
    start : {"exact", "swendsen-wang", "ordered"}, default "exact"
        Reverse chains start from exact samples (coupling from the past), from ``burn_in`` sweeps
        of Swendsen and Wang after a state of one colour, or from that state; the upper bound is
        then exact, burned-in or heuristic.
    burn_in : int, default 100
        Sweeps with ``start="swendsen-wang"``.
    target_gap, max_temperatures, max_time : optional
        A target for the gap in nats, and the limits of its rounds: see `pymc_bdmc.anneal`.
    random_seed, cores, executor, progressbar, store, callback : optional
        The seed, the workers and the store of the call: see `pymc_bdmc.anneal`.

    Returns
    -------
    DataTree
        ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. After Ctrl-C, blocks of chains that were not finished are NaN. The attribute
        ``critical_beta`` is that of the infinite lattice.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    RuntimeError
        If an exact start takes too long, as near a phase transition of first order.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or is pressed a second time.

    Notes
    -----
    Random sites are drawn once: all chains of a run visit the same ones, in reverse in the opposite
    order. So the sequence is part of the kernels K_1 … K_T. Given it, chains are independent,
    E_f[w] = Z and Crooks' relation holds; and each chain has the law of one that draws its own.

    References
    ----------
    Habeck (2017), Model evidence from nonequilibrium simulations, Section 5.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), temperatures=50, random_seed=1,
    ...                          progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - bdmc.lattice.Ising(4).log_z()) < 4 * error)
    True
    """
    if not isinstance(system, Lattice):
        raise ValueError(f"system: an Ising or Potts model is needed, got {system!r}.")
    updates = system.n_sites if updates is None else updates
    check_counts(updates=updates, burn_in=burn_in)
    check_choice("kernel", kernel, ("metropolis", "heat bath"))
    check_choice("sites", sites, ("checkerboard", "random"))
    check_choice("start", start, _STATUS)
    if sites == "checkerboard" and system.L % 2:
        raise ValueError(f'sites: a checkerboard needs an even L, not {system.L}; use "random".')
    if sites == "checkerboard" and updates % system.n_sites:
        raise ValueError(
            f"updates: {updates} is no multiple of a checkerboard's {system.n_sites}; "
            'use sites="random".'
        )
    ladder = Ladder(temperatures, schedule, default=1000, default_name="linear")
    engine = _LatticeEngine(system, kernel, sites, updates, start, burn_in)
    attrs = {
        "system": repr(system),
        "upper_bound": _STATUS[start],
        "independent_starts": 1,
        "burn_in": burn_in if start == "swendsen-wang" else 0,
        "critical_beta": system.critical_beta,
    }
    return anneal_engine(
        engine, attrs, chains, ladder,
        Limits(target_gap, max_temperatures, max_time),
        Resources(random_seed, cores, executor, progressbar, store, callback),
    )  # fmt: skip


class _LatticeEngine(BlockEngine):
    """A lattice model, and how its chains move and start."""

    def __init__(
        self, system: Lattice, kernel: str, sites: str, updates: int, start: str, burn_in: int
    ):
        super().__init__()
        self.description = f"{kernel}, {sites} sites, {updates} updates"
        self._system, self._heat_bath = system, kernel == "heat bath"
        self._sites, self._updates = sites, updates
        self._start, self._burn_in = start, burn_in
        self._chains = IsingChains if isinstance(system, Ising) else PottsChains
        self.block_size = self._chains.lanes

    def site_order(self, task: AnnealTask) -> Callable[[int], np.ndarray]:
        """Return the sites that K_t visits, in this order; K_t† visits them in the opposite one."""
        way = 1 if task.direction is Direction.FORWARD else -1
        n, n_sites = self._updates, self._system.n_sites
        if self._sites == "checkerboard":
            parity = np.indices((self._system.L,) * 2).sum(axis=0).ravel() % 2
            order = np.resize(np.argsort(parity, kind="stable"), n)[::way].copy()
            return lambda t: order
        # One sequence for both directions and all blocks
        sites = stream(cast(Entropy, task.seed.entropy), Purpose.SITES, 0)
        (key,) = sites.generate_state(1, np.uint64)
        return lambda t: random_sites(key, t * n, n, n_sites)[::way].copy()

    def run_block(self, task: AnnealTask) -> Run:
        """Anneal the chains of a block; their log weights are NaN where it ends early."""
        seed, order = beside(task.seed, Purpose.ANNEAL), self.site_order(task)
        chains = self._chains(self._system, seed, self._heat_bath, self._starts(task))

        def move(t: int) -> float:
            changes = chains.move(task.betas[t], order(t))
            return np.nan if self._heat_bath else changes / (chains.lanes * self._updates)

        def log_likelihood() -> np.ndarray:
            return self._system.log_likelihood_of_bonds(chains.satisfied_bonds())

        return anneal_block(task, move, log_likelihood, self.stop)

    def _starts(self, task: AnnealTask) -> np.ndarray | None:
        """Return colours of every chain at β = 1, for reverse chains; None: the uniform prior."""
        if task.direction is Direction.FORWARD:
            return None
        system = self._system
        states = np.zeros((task.chains, system.n_sites), np.uint8)
        if self._start == "ordered":
            states[:] = np.arange(task.chains)[:, None] % system.n_colours
        model = random_cluster(system)
        keys = beside(task.seed, Purpose.START).generate_state(task.chains, np.uint64)
        for state, key in zip(states, keys, strict=True):
            if self.stop[0]:
                break
            if self._start == "exact":
                state[:] = perfect_state(system, 1.0, key, self.stop)
            elif self._start == "swendsen-wang":
                state[:] = swendsen_wang(model, state, key, self._burn_in)
        return np.resize(states, (self.block_size, system.n_sites))  # idle lanes repeat chains
