"""Blocks of chains of a finite model that ran side by side, joined to one run."""

from collections.abc import Sequence

import numpy as np

from pymc_bdmc.types import AnnealingRun, Direction

__all__ = ["finished_block", "is_finished", "keep_finished", "pool_blocks", "unfinished_block"]


def finished_block(
    direction: Direction,
    log_weight: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    acceptance: np.ndarray | None = None,
) -> AnnealingRun:
    """A block by its log weights (n,), moments of ℓ and acceptance (T + 1,)."""
    start = float(direction is Direction.FORWARD)
    return _block(log_weight, np.full(len(log_weight), start), mean, sd, acceptance)


def unfinished_block(n: int, n_betas: int) -> AnnealingRun:
    """A block of n chains that is yet to run."""
    return _block(*np.full((2, n), np.nan), *np.full((2, n_betas), np.nan))


def _block(log_weight, prior_draws, mean, sd, acceptance=None) -> AnnealingRun:
    blank = np.full(len(mean), np.nan)
    return AnnealingRun(
        log_weight=log_weight,
        prior_draws=prior_draws,
        # Where a lattice is ordered few changes are accepted, rightly: that says nothing.
        lowest_acceptance=np.full(len(log_weight), np.nan),
        log_likelihood_mean=mean,
        log_likelihood_sd=sd,
        acceptance=blank if acceptance is None else acceptance,
        step_size=blank,
        divergences=np.zeros(len(mean), dtype=int),
        gradient_evaluations=0,
    )


def is_finished(run: AnnealingRun) -> bool:
    """Whether every chain of a block came to its end."""
    return not np.isnan(run.log_weight).any()


def keep_finished(runs: Sequence[AnnealingRun]) -> None:
    """After Ctrl-C, raise again if there is nothing to keep."""
    if not any(map(is_finished, runs)):
        raise KeyboardInterrupt


def pool_blocks(blocks: list[AnnealingRun]) -> AnnealingRun:
    """Blocks of one direction as one run; the moments of ℓ are over all finished chains."""
    finished = [run for run in blocks if is_finished(run)] or blocks[:1]
    shares = np.array([float(run.log_weight.size) for run in finished])
    shares /= shares.sum()
    means = np.array([run.log_likelihood_mean for run in finished])
    variances = np.array([run.log_likelihood_sd for run in finished]) ** 2
    mean = shares @ means
    return _block(
        np.concatenate([run.log_weight for run in blocks]),
        np.concatenate([run.prior_draws for run in blocks]),
        mean,
        np.sqrt(shares @ (variances + (means - mean) ** 2)),
        shares @ np.array([run.acceptance for run in finished]),
    )
