"""Anneal a system with compiled samplers in blocks of chains, and join them to one result."""

import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr

from pymc_bdmc.base.arguments import check_counts, check_flags, check_memory, number_of_cores
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Annealing, Direction
from pymc_bdmc.engines import ExecutorPool, ThreadPool
from pymc_bdmc.results.attributes import run_attributes
from pymc_bdmc.results.convert import annealing_dataset
from pymc_bdmc.results.diagnose import warn

__all__ = ["Annealer", "Block", "anneal_blocks", "block_run"]


_BYTES_A_CHAIN = 100
"""Of both directions: log weights, prior draws and acceptance, while they are joined."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some chains of one direction that run side by side."""

    direction: Direction
    index: int
    chains: int
    entropy: Entropy
    stop: np.ndarray
    """Shape (1,), uint8. Where it is set, the chains end early and their log weights are NaN."""

    def stream(self, purpose: Purpose) -> np.random.SeedSequence:
        """The random stream of (purpose, data set 0, direction, block), whoever runs it."""
        return stream(
            self.entropy, purpose, 0, int(self.direction is Direction.REVERSE), self.index
        )

    def run(self, annealer: "Annealer") -> Annealing | None:
        """Anneal the chains; the result depends on the block and the annealer alone.

        None if they were stopped.

        Raises
        ------
        FloatingPointError
            If a log weight is not finite.
        """
        run = annealer.run(self)
        if np.isfinite(run.log_weight).all():
            return run
        if self.stop[0]:
            return None
        raise FloatingPointError(
            "Log weights are not finite, because energies overflow. Use smaller weights."
        )


class Annealer(Protocol):
    """A system, and how it is annealed."""

    @property
    def schedule(self) -> Schedule:
        """Inverse temperatures of both directions."""

    @property
    def block_size(self) -> int:
        """Chains of a block; the last block of a direction may have fewer."""

    def run(self, block: Block) -> Annealing:
        """Anneal a block, without holding the GIL for long."""


def anneal_blocks(
    annealer: Annealer,
    attrs: Mapping[str, object],
    *,
    chains: int,
    cores: int | None,
    executor: Executor | None = None,
    random_seed: RandomSeed,
    progressbar: bool,
) -> xr.DataTree:
    """Run forward and reverse chains on threads; what to doubt in them is logged.

    Parameters
    ----------
    annealer : Annealer
    attrs : mapping
        What the result says of this kind of system, besides what all results say.
    chains : int
        Chains per direction, at least 2.
    cores : int, optional
        Threads; default as many as the machine has, at most 4.
    executor : concurrent.futures.Executor, optional
        Whose workers run the blocks in place of threads.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Fixes the result, whatever ``cores``.
    progressbar : bool

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse``. After Ctrl-C, blocks that were not finished are NaN.

    Raises
    ------
    ValueError
        Names the argument.
    FloatingPointError
        If a log weight is not finite.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or if it is pressed a second time.
    """
    started = time.perf_counter()
    check_counts(chains=chains)
    check_flags(progressbar=progressbar)
    check_memory(lambda chains: _BYTES_A_CHAIN * chains, chains=chains)
    n_cores = number_of_cores(cores, executor)
    entropy = entropy_of(random_seed)
    with interruptible() as stop:
        blocks = [
            Block(direction, i, min(annealer.block_size, chains - first), entropy, stop)
            for i, first in enumerate(range(0, chains, annealer.block_size))
            for direction in Direction
        ]
        pool = (
            ExecutorPool(annealer, executor, stop)
            if executor
            else ThreadPool(annealer, n_cores, stop)
        )
        runs = _run(pool, blocks, progressbar)
        if not runs:
            raise KeyboardInterrupt
        betas = annealer.schedule.betas
        groups = {
            d.value: annealing_dataset([_joined(d, blocks, runs, len(betas))], betas)
            for d in Direction
        }
        dt = xr.DataTree.from_dict(groups)
        interrupted = len(runs) < len(blocks)
        dt.attrs |= attrs
        dt.attrs |= run_attributes(annealer.schedule, entropy, started, interrupted)
        warn(dt)
    return dt


def _run(
    pool: ThreadPool | ExecutorPool, blocks: list[Block], progressbar: bool
) -> dict[Block, Annealing]:
    """What the blocks found that came to their end."""
    runs = {}
    totals = {d.value: sum(b.chains for b in blocks if b.direction is d) for d in Direction}
    with ChainProgress(totals, progressbar) as progress, pool:
        for i, run in pool.run(blocks):
            runs[blocks[i]] = run
            progress.finished(blocks[i].direction.value, *run.log_weight)
    return runs


def block_run(
    direction: Direction,
    log_weight: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    acceptance: np.ndarray | None = None,
) -> Annealing:
    """What a block's chains found: log weights (n,), moments of ℓ and acceptance (T + 1,)."""
    blank = np.full(len(mean), np.nan)
    return Annealing(
        log_weight=log_weight,
        prior_draws=np.where(np.isnan(log_weight), np.nan, float(direction is Direction.FORWARD)),
        # Where a lattice is ordered few changes are accepted, rightly: that says nothing.
        lowest_acceptance=np.full(len(log_weight), np.nan),
        log_likelihood_mean=mean,
        log_likelihood_sd=sd,
        acceptance=blank if acceptance is None else acceptance,
        step_size=blank,
        divergences=np.zeros(len(mean), dtype=int),
        gradient_evaluations=0,
    )


def _joined(
    direction: Direction, blocks: list[Block], runs: Mapping[Block, Annealing], n_betas: int
) -> Annealing:
    """Blocks of one direction as one run; the moments of ℓ are over all finished chains."""
    blocks = [block for block in blocks if block.direction is direction]
    finished = [runs[block] for block in blocks if block in runs]
    log_weights = [
        runs[block].log_weight if block in runs else np.full(block.chains, np.nan)
        for block in blocks
    ]
    mean, variance, acceptance = np.full((3, n_betas), np.nan)
    if finished:
        shares = np.array([float(run.log_weight.size) for run in finished])
        shares /= shares.sum()
        means = np.array([run.log_likelihood_mean for run in finished])
        variances = np.array([run.log_likelihood_sd for run in finished]) ** 2
        mean = shares @ means
        variance = shares @ (variances + (means - mean) ** 2)
        acceptance = shares @ np.array([run.acceptance for run in finished])
    return block_run(direction, np.concatenate(log_weights), mean, np.sqrt(variance), acceptance)
