"""Anneal a restricted Boltzmann machine in one call, forward and in reverse."""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.schedules import Schedule, make_schedule
from pymc_bdmc.base.streams import Purpose, RandomSeed
from pymc_bdmc.base.types import Annealing, Direction
from pymc_bdmc.campaign.blocks import Block, anneal_blocks
from pymc_bdmc.rbm.machine import RBM

__all__ = ["anneal"]

_BLOCK = 100
"""Chains annealed together: enough for BLAS, few enough for the cache."""


def anneal(
    rbm: RBM,
    *,
    chains: int = 100,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    burn_in: int = 1000,
    random_seed: RandomSeed = None,
    cores: int | None = None,
    executor: Executor | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Sandwich the log partition function of an RBM between forward and reverse chains.

    Parameters
    ----------
    rbm : RBM
        With the prior and the integrated layer that it was given.
    chains : int, default 100
        Chains per direction, at least 2. They are run 100 at a time.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        How the inverse temperatures are spaced.
    burn_in : int, default 1000
        Where both layers have more than 20 units, reverse chains start from the end of so many
        sweeps, half of them annealed from the prior; the upper bound is then burned-in, or
        heuristic without any sweep. With up to 20 units in a layer they start from exact samples
        (and with up to 25, `RBM.log_z` is exact).
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
        plots. After Ctrl-C, blocks of chains that were not finished are NaN.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or is pressed a second time.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(4), np.zeros(3), np.eye(4, 3))
    >>> dt = bdmc.rbm.anneal(rbm, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - rbm.log_z()) < 4 * error)
    True
    """
    if not isinstance(rbm, RBM):
        raise ValueError(f"rbm: a restricted Boltzmann machine is needed, got {rbm!r}.")
    check_counts(burn_in=burn_in)
    annealer = _Annealer(rbm, make_schedule(schedule, temperatures, default=1000), burn_in)
    status = rbm.posterior_status(burn_in)
    attrs = {
        "system": f"RBM {rbm.a.size}x{rbm.b.size}",
        "step": rbm.description,
        "upper_bound": status,
        "independent_starts": 1,
        "burn_in": burn_in if status == "burned-in" else 0,
    }
    return anneal_blocks(
        annealer, attrs,
        chains=chains, cores=cores, executor=executor, random_seed=random_seed,
        progressbar=progressbar,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Annealer:
    """A machine, and how its chains are annealed."""

    rbm: RBM
    schedule: Schedule
    burn_in: int
    block_size: int = _BLOCK

    def run(self, block: Block) -> Annealing:
        """Anneal the chains of a block; their log weights are NaN where it ends early."""
        rng = np.random.default_rng(block.stream(Purpose.ANNEAL))
        if block.direction is Direction.FORWARD:
            state = self.rbm.draw_prior(block.chains, rng)
        else:
            state = self.rbm.draw_posterior(block.chains, rng, self.burn_in, block.stop)
        return self.rbm.run(state, self.schedule.betas, block.direction, rng, block.stop)
