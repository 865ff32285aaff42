"""Anneal a lattice model in one call: forward from the uniform prior, in reverse from β = 1."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.schedules import Schedule, make_schedule
from pymc_bdmc.base.streams import Purpose, RandomSeed, stream
from pymc_bdmc.base.types import Annealing, Direction
from pymc_bdmc.campaign.blocks import Block, anneal_blocks, block_run
from pymc_bdmc.lattice.multispin import IsingChains
from pymc_bdmc.lattice.potts import PottsChains
from pymc_bdmc.lattice.random_cluster import perfect_state, random_cluster, swendsen_wang
from pymc_bdmc.lattice.randomness import random_sites
from pymc_bdmc.lattice.systems import Ising, Lattice

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
    random_seed: RandomSeed = None,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
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
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Fixes the result, whatever ``cores``.
    cores : int, optional
        Threads. Default: as many as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        Whose workers run, in place of threads: see `sample_bdmc`.
    progressbar : bool, default True

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
    annealer = _Annealer(
        system=system,
        schedule=make_schedule(schedule, temperatures, default=1000),
        heat_bath=kernel == "heat bath",
        sites=sites,
        updates=updates,
        start=start,
        burn_in=burn_in,
    )
    attrs = {
        "system": repr(system),
        "step": f"{kernel}, {sites} sites, {updates} updates",
        "upper_bound": _STATUS[start],
        "independent_starts": 1,
        "burn_in": burn_in if start == "swendsen-wang" else 0,
        "critical_beta": system.critical_beta,
    }
    return anneal_blocks(
        annealer, attrs,
        chains=chains, cores=cores, executor=executor, random_seed=random_seed,
        progressbar=progressbar,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Annealer:
    """A lattice model, and how its chains move and start."""

    system: Lattice
    schedule: Schedule
    heat_bath: bool
    sites: str
    updates: int
    start: str
    burn_in: int

    @cached_property
    def chain_type(self) -> type[IsingChains] | type[PottsChains]:
        return IsingChains if isinstance(self.system, Ising) else PottsChains

    @cached_property
    def block_size(self) -> int:
        return self.chain_type.lanes

    def site_order(self, block: Block) -> Callable[[int], np.ndarray]:
        """Sites that K_t visits, in this order; K_t† visits them in the opposite one."""
        way = 1 if block.direction is Direction.FORWARD else -1
        if self.sites == "checkerboard":
            parity = np.indices((self.system.L,) * 2).sum(axis=0).ravel() % 2
            order = np.resize(np.argsort(parity, kind="stable"), self.updates)[::way].copy()
            return lambda t: order
        # One sequence for both directions and all blocks
        (key,) = stream(block.entropy, Purpose.SITES, 0).generate_state(1, np.uint64)
        n, n_sites = self.updates, self.system.n_sites
        return lambda t: random_sites(key, t * n, n, n_sites)[::way].copy()

    def run(self, block: Block) -> Annealing:
        """Anneal the chains of a block; their log weights are NaN where it ends early."""
        betas, last = self.schedule.betas, self.schedule.n_temperatures
        starts = self._starts(block)
        chains = self.chain_type(self.system, block.stream(Purpose.ANNEAL), self.heat_bath, starts)
        increments = np.append(self.schedule.increments, 0.0)
        log_weight = np.zeros(block.chains)
        mean, sd, acceptance = np.full((3, last + 1), np.nan)

        def measure(t: int) -> None:
            # In both directions ℓ of the state at β_t is weighed by the increment that follows.
            satisfied = chains.satisfied_bonds()[: block.chains]
            log_likelihood = self.system.log_likelihood_of_bonds(satisfied)
            mean[t], sd[t] = log_likelihood.mean(), log_likelihood.std()
            log_weight[:] += increments[t] * log_likelihood

        order = self.site_order(block)
        measure(block.direction.start(last))
        for t, arrival in block.direction.moves(last):
            if block.stop[0]:
                log_weight[:] = np.nan
                break
            changes = chains.move(betas[t], order(t))
            if not self.heat_bath:
                acceptance[t] = changes / (chains.lanes * self.updates)
            measure(arrival)
        return block_run(block.direction, log_weight, mean, sd, acceptance)

    def _starts(self, block: Block) -> np.ndarray | None:
        """Colours of every chain at β = 1, for reverse chains; None means the uniform prior."""
        if block.direction is Direction.FORWARD:
            return None
        states = np.zeros((block.chains, self.system.n_sites), np.uint8)
        if self.start == "ordered":
            states[:] = np.arange(block.chains)[:, None] % self.system.n_colours
        model = random_cluster(self.system)
        keys = block.stream(Purpose.START).generate_state(block.chains, np.uint64)
        for state, key in zip(states, keys, strict=True):
            if block.stop[0]:
                break
            if self.start == "exact":
                state[:] = perfect_state(self.system, 1.0, key, block.stop)
            elif self.start == "swendsen-wang":
                state[:] = swendsen_wang(model, state, key, self.burn_in)
        return np.resize(states, (self.block_size, self.system.n_sites))  # idle lanes repeat chains
