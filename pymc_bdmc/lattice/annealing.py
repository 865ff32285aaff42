"""Anneal a lattice model in one call: forward from the uniform prior, in reverse from β = 1."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.annealing import ThreadPool, available_cores
from pymc_bdmc.annealing.blocks import finished_block, keep_finished, unfinished_block
from pymc_bdmc.arguments import check_choice, check_counts
from pymc_bdmc.lattice.multispin import IsingChains
from pymc_bdmc.lattice.potts import PottsChains
from pymc_bdmc.lattice.random_cluster import perfect_state, swendsen_wang
from pymc_bdmc.lattice.randomness import random_sites
from pymc_bdmc.lattice.systems import Ising, Lattice, neighbours
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.results.blocks import to_datatree
from pymc_bdmc.schedules import Schedule, make_schedule
from pymc_bdmc.streams import Entropy, Purpose, RandomSeed, entropy_of, recorded, stream
from pymc_bdmc.types import AnnealingRun, Direction

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
        Threads; default all cores.
    progressbar : bool, default True

    Returns
    -------
    DataTree
        ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. On Ctrl-C, blocks of chains that were not finished are NaN. The attribute
        ``critical_beta`` is that of the infinite lattice.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    RuntimeError
        If an exact start takes too long, as near a phase transition of first order.

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
    started = time.perf_counter()
    if not isinstance(system, Lattice):
        raise ValueError(f"system: an Ising or Potts model is needed, got {system!r}.")
    cores = available_cores() if cores is None else cores
    updates = system.n_sites if updates is None else updates
    check_counts(chains=chains, updates=updates, burn_in=burn_in, cores=cores)
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
    plan = _Plan(
        system=system,
        schedule=make_schedule(schedule, temperatures, default=1000),
        heat_bath=kernel == "heat bath",
        sites=sites,
        updates=updates,
        start=start,
        burn_in=burn_in,
        entropy=entropy_of(random_seed),
    )
    blocks = [
        _Block(direction, index, min(plan.lanes, chains - index * plan.lanes))
        for index in range(-(-chains // plan.lanes))
        for direction in Direction
    ]
    runs = _run(plan, blocks, cores, progressbar)
    attrs = {
        "system": repr(system),
        "schedule": plan.schedule.name,
        "step": f"{kernel}, {sites} sites, {updates} updates",
        "upper_bound": _STATUS[start],
        "burn_in": burn_in if start == "swendsen-wang" else 0,
        "critical_beta": system.critical_beta,
        "random_seed": recorded(plan.entropy),
        "sampling_time": time.perf_counter() - started,
    }
    return to_datatree([block.direction for block in blocks], runs, plan.schedule.betas, attrs)


@dataclass(frozen=True, eq=False)
class _Plan:
    """What all blocks of chains share."""

    system: Lattice
    schedule: Schedule
    heat_bath: bool
    sites: str
    updates: int
    start: str
    burn_in: int
    entropy: Entropy
    stop: np.ndarray = field(default_factory=lambda: np.zeros(1))
    """Set where the blocks at work shall end early."""

    @property
    def chain_type(self) -> type[IsingChains] | type[PottsChains]:
        return IsingChains if isinstance(self.system, Ising) else PottsChains

    @property
    def lanes(self) -> int:
        return self.chain_type.lanes

    def stream(self, purpose: Purpose, *key: int) -> np.random.SeedSequence:
        """The random stream of (purpose, data set 0, direction, block), whoever runs it."""
        return stream(self.entropy, purpose, 0, *key)

    def site_order(self, direction: Direction) -> Callable[[int], np.ndarray]:
        """Sites that K_t visits, in this order; K_t† visits them in the opposite one."""
        way = 1 if direction is Direction.FORWARD else -1
        if self.sites == "checkerboard":
            parity = np.indices((self.system.L,) * 2).sum(axis=0).ravel() % 2
            order = np.resize(np.argsort(parity, kind="stable"), self.updates)[::way].copy()
            return lambda t: order
        (key,) = self.stream(Purpose.SITES).generate_state(1, np.uint64)
        n, n_sites = self.updates, self.system.n_sites
        return lambda t: random_sites(key, t * n, n, n_sites)[::way].copy()


class _Block(NamedTuple):
    """Some chains of one direction that run side by side."""

    direction: Direction
    index: int
    n: int

    @property
    def key(self) -> tuple[int, int]:
        return int(self.direction is Direction.REVERSE), self.index

    def run(self, plan: _Plan) -> AnnealingRun | None:
        """Anneal the chains; the result depends on the plan alone. None if told to stop."""
        betas, last = plan.schedule.betas, plan.schedule.n_temperatures
        seed = plan.stream(Purpose.ANNEAL, *self.key)
        chains = plan.chain_type(plan.system, seed, plan.heat_bath, self._starts(plan))
        increments = np.append(plan.schedule.increments, 0.0)
        log_weight = np.zeros(self.n)
        mean, sd, acceptance = np.full((3, last + 1), np.nan)

        def measure(t: int) -> None:
            # In both directions ℓ of the state at β_t is weighed by the increment that follows.
            log_likelihood = plan.system.log_likelihood(chains.satisfied_bonds()[: self.n])
            mean[t], sd[t] = log_likelihood.mean(), log_likelihood.std()
            log_weight[:] += increments[t] * log_likelihood

        order = plan.site_order(self.direction)
        measure(self.direction.start(last))
        for t, arrival in self.direction.moves(last):
            if plan.stop[0]:
                return None
            changes = chains.move(betas[t], order(t))
            if not plan.heat_bath:
                acceptance[t] = changes / (chains.lanes * plan.updates)
            measure(arrival)
        return finished_block(self.direction, log_weight, mean, sd, acceptance)

    def _starts(self, plan: _Plan) -> np.ndarray | None:
        """Colours of every chain at β = 1, for reverse chains; None means the uniform prior."""
        if self.direction is Direction.FORWARD:
            return None
        system = plan.system
        states = np.zeros((self.n, system.n_sites), np.uint8)
        if plan.start == "ordered":
            states[:] = np.arange(self.n)[:, None] % system.n_colours
        keys = plan.stream(Purpose.START, *self.key).generate_state(self.n, np.uint64)
        for c, key in enumerate(keys):
            if plan.stop[0]:
                break
            if plan.start == "exact":
                states[c] = perfect_state(system, 1.0, key)
            elif plan.start == "swendsen-wang":
                kept = -np.expm1(-system.bond_strength)
                args = (neighbours(system.L), kept, system.n_colours, key, plan.burn_in)
                states[c] = swendsen_wang(states[c], *args)
        return np.resize(states, (plan.lanes, system.n_sites))  # idle lanes repeat chains


def _run(plan: _Plan, blocks: list[_Block], cores: int, progressbar: bool) -> list[AnnealingRun]:
    """Run all blocks on threads; after Ctrl-C those that were not finished are NaN."""
    totals = {d.value: sum(block.n for block in blocks if block.direction is d) for d in Direction}
    runs = [unfinished_block(block.n, len(plan.schedule.betas)) for block in blocks]
    with ChainProgress(totals, progressbar) as progress, ThreadPool(plan, cores, plan.stop) as pool:
        try:
            for i, run in pool.run(blocks):
                runs[i] = run
                progress.finished(blocks[i].direction.value, *run.log_weight)
        except KeyboardInterrupt:
            keep_finished(runs)
    return runs
