"""Anneal a lattice model in one call, forward from the uniform prior and in reverse from β = 1."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, Purpose, beside, stream
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.call import systems
from pymc_bdmc.run.loop import anneal_block
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.testbeds.lattice import Ising, Lattice
from pymc_bdmc.testbeds.lattice_kernels import IsingChains, PottsChains, random_sites
from pymc_bdmc.testbeds.random_cluster import perfect_state, random_cluster, swendsen_wang

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
    **options: Any,
) -> xr.DataTree:
    """Sandwich log(Z/Z_0) of an Ising or Potts model between forward and reverse chains.

    Parameters
    ----------
    system : Ising or Potts
        The model at β = 1.
    chains : int, default 1000
        Number of chains per direction, at least 2. Ising chains are run 1024 at a time and Potts
        chains 128 at a time, so fewer chains take as long.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        Spacing of the inverse temperatures. A `Schedule` has its own temperatures.
    kernel : {"metropolis", "heat bath"}, default "metropolis"
        Update of a site. For Ising models Metropolis on a checkerboard gives the smaller gap,
        although near β = 0 it flips every spin in every sweep and so relaxes little there. For
        Potts models with many colours the heat bath gives the smaller gap.
    sites : {"checkerboard", "random"}, default "checkerboard"
        Order in which sites are updated. ``"checkerboard"`` updates the sites with an even sum of
        coordinates and then those with an odd sum, and needs an even L. ``"random"`` chooses sites
        independently.
    updates : int, optional
        Number of single-site updates at each temperature, by default L², which is one sweep. On a
        checkerboard it must be a multiple of L².
    start : {"exact", "swendsen-wang", "ordered"}, default "exact"
        States from which reverse chains start: exact samples by coupling from the past, the result
        of ``burn_in`` Swendsen-Wang sweeps from a state of one colour, or this state itself. The
        upper bound is exact, burned-in or heuristic, respectively.
    burn_in : int, default 100
        Number of sweeps with ``start="swendsen-wang"``.
    **options
        The further options of `pymc_bdmc.anneal`: ``target_gap``, ``max_temperatures`` and
        ``max_time`` for rounds; ``random_seed``, ``cores``, ``executor``, ``progressbar``,
        ``store`` and ``callback``.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. After Ctrl-C, blocks of chains that were not finished are NaN. The attribute
        ``critical_beta`` is the critical β of the infinite lattice.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    RuntimeError
        If an exact start takes too long, as it may near a first-order phase transition.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or is pressed a second time.

    Notes
    -----
    Random sites are drawn once. All chains of a run visit the same sites, and reverse chains visit
    them in the opposite order. So the sequence of sites is part of the kernels K_1 … K_T. Given the
    sequence, chains are independent, E_f[w] = Z, and Crooks' relation holds. Each single chain has
    the same distribution as a chain that draws its own sites.

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
    runs = LatticeChains(system, kernel, sites, updates, start, burn_in)
    return systems.anneal(
        runs, chains=chains, temperatures=temperatures, schedule=schedule, **options
    )


@dataclass(frozen=True)
class LatticeChains:
    """Chains of a lattice model with their kernel, sites and starts, as given to `anneal`."""

    system: Lattice
    kernel: Literal["metropolis", "heat bath"] = "metropolis"
    sites: Literal["checkerboard", "random"] = "checkerboard"
    updates: int | None = None
    start: Literal["exact", "swendsen-wang", "ordered"] = "exact"
    burn_in: int = 100
    defaults: ClassVar[tuple[int, str]] = 1000, "linear"

    def __post_init__(self):
        system = self.system
        if not isinstance(system, Lattice):
            raise ValueError(f"system: an Ising or Potts model is needed, got {system!r}.")
        check_counts(updates=self.n_updates, burn_in=self.burn_in)
        check_choice("kernel", self.kernel, ("metropolis", "heat bath"))
        check_choice("sites", self.sites, ("checkerboard", "random"))
        check_choice("start", self.start, _STATUS)
        if self.sites == "checkerboard" and system.L % 2:
            raise ValueError(
                f'sites: a checkerboard needs an even L, not {system.L}; use "random".'
            )
        if self.sites == "checkerboard" and self.n_updates % system.n_sites:
            raise ValueError(
                f"updates: {self.n_updates} is no multiple of a checkerboard's {system.n_sites}; "
                'use sites="random".'
            )

    @property
    def n_updates(self) -> int:
        """Number of single-site updates at each temperature."""
        return self.system.n_sites if self.updates is None else self.updates

    @property
    def description(self) -> str:
        """Kernel, order of the sites and number of updates."""
        return f"{self.kernel}, {self.sites} sites, {self.n_updates} updates"

    @property
    def chain_type(self) -> type[IsingChains] | type[PottsChains]:
        """Type of the compiled chains of a block."""
        return IsingChains if isinstance(self.system, Ising) else PottsChains

    @property
    def block_size(self) -> int:
        """Number of chains that move side by side."""
        return self.chain_type.lanes

    @property
    def attributes(self) -> dict[str, object]:
        """Attributes that describe the lattice in a result."""
        return {
            "system": repr(self.system),
            "upper_bound": _STATUS[self.start],
            "independent_starts": 1,
            "burn_in": self.burn_in if self.start == "swendsen-wang" else 0,
            "critical_beta": self.system.critical_beta,
        }

    def site_order(self, task: AnnealTask) -> Callable[[int], np.ndarray]:
        """Return the sites of K_t in order, or those of K_t†, as a function of t."""
        way = 1 if task.direction is Direction.FORWARD else -1
        n, n_sites = self.n_updates, self.system.n_sites
        if self.sites == "checkerboard":
            parity = np.indices((self.system.L,) * 2).sum(axis=0).ravel() % 2
            order = np.resize(np.argsort(parity, kind="stable"), n)[::way].copy()
            return lambda t: order
        # One sequence for both directions and all blocks
        sites = stream(cast(Entropy, task.seed.entropy), Purpose.SITES, 0)
        (key,) = sites.generate_state(1, np.uint64)
        return lambda t: random_sites(key, t * n, n, n_sites)[::way].copy()

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a block; their log weights are NaN if ``stop`` is set."""
        seed, order = beside(task.seed, Purpose.ANNEAL), self.site_order(task)
        heat_bath = self.kernel == "heat bath"
        starts = None if task.direction is Direction.FORWARD else self._starts(task, stop)
        chains = self.chain_type(self.system, seed, heat_bath, starts)

        def move(t: int) -> float:
            changes = chains.move(task.betas[t], order(t))
            return np.nan if heat_bath else changes / (chains.lanes * self.n_updates)

        def log_likelihood() -> np.ndarray:
            ells = self.system.log_likelihood_of_bonds(chains.satisfied_bonds())
            return ells[: task.chains]

        return anneal_block(task.direction, task.betas, move, log_likelihood, stop)

    def _starts(self, task: AnnealTask, stop: np.ndarray) -> np.ndarray:
        """Return the colours of reverse chains at β = 1, shape (block_size, n_sites)."""
        system = self.system
        states = np.zeros((task.chains, system.n_sites), np.uint8)
        keys = beside(task.seed, Purpose.START).generate_state(task.chains, np.uint64)
        if self.start == "ordered":
            states[:] = np.arange(task.chains)[:, None] % system.n_colours
        for state, key in zip(states, keys, strict=True):
            if stop[0]:
                break
            if self.start == "exact":
                state[:] = perfect_state(system, 1.0, key, stop)
            elif self.start == "swendsen-wang":
                state[:] = swendsen_wang(*random_cluster(system), state, key, self.burn_in)
        return np.resize(states, (self.block_size, system.n_sites))  # idle lanes repeat chains
