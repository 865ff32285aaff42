"""Anneal a restricted Boltzmann machine in one call, forward and in reverse."""

import logging
import time
import warnings
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.checks import check_counts
from pymc_bdmc.convert import annealing_dataset
from pymc_bdmc.lattice.rbm import RBM
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.schedules import Schedule, make_schedule
from pymc_bdmc.stats import diagnose
from pymc_bdmc.types import AnnealingRun, Direction

__all__ = ["anneal_rbm"]

_log = logging.getLogger("pymc.bdmc")

_BLOCK = 100
"""Chains annealed together: enough for BLAS, few enough for the cache."""


def anneal_rbm(
    rbm: RBM,
    *,
    chains: int = 100,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    burn_in: int = 1000,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> xr.DataTree:
    """Sandwich the log partition function of an RBM between forward and reverse chains.

    Parameters
    ----------
    rbm : RBM
        With the prior and the integrated layer that it was given.
    chains : int, default 100
        Chains per direction, at least 2.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        How the inverse temperatures are spaced.
    burn_in : int, default 1000
        Where neither layer has at most 20 units, reverse chains start from the end of so many
        sweeps, half of them annealed from the prior; the upper bound is then burned-in, or
        heuristic without any sweep. Otherwise they start from exact samples.
    random_seed : int, optional
    progressbar : bool, default True

    Returns
    -------
    DataTree
        ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. On Ctrl-C, blocks of chains that were not finished are NaN.

    Raises
    ------
    ValueError
        Names the argument and the remedy.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.lattice.RBM(np.zeros(4), np.zeros(3), np.eye(4, 3))
    >>> dt = bdmc.lattice.anneal(rbm, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - rbm.exact_log_z()) < 4 * error)
    True
    """
    started = time.perf_counter()
    check_counts(chains=chains, burn_in=burn_in)
    schedule = make_schedule(schedule, temperatures, default=1000)
    betas = schedule.betas
    entropy = np.random.SeedSequence(random_seed).entropy
    blocks = [(d, first) for first in range(0, chains, _BLOCK) for d in Direction]
    runs = {}
    with ChainProgress({d.value: chains for d in Direction}, progressbar) as progress:
        try:
            for direction, first in blocks:
                key = (0, int(direction is Direction.REVERSE), first)
                rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
                size = min(_BLOCK, chains - first)
                if direction is Direction.FORWARD:
                    state = rbm.draw_prior(size, rng)
                else:
                    state = rbm.draw_posterior(size, rng, burn_in)
                run = rbm.run(state, betas, direction, rng)
                runs[direction, first] = run
                progress.finished(direction.value, *run.log_weight)
        except KeyboardInterrupt:
            if not runs:
                raise
            done = sum(run.log_weight.size for run in runs.values())
            warnings.warn(
                f"Interrupted: the result holds the {done} of {2 * chains} chains that were "
                "finished; the others are NaN.",
                stacklevel=2,
            )
    groups = {
        direction.value: annealing_dataset(
            [_pooled([r for (d, _), r in runs.items() if d is direction], chains, len(betas))],
            betas,
        )
        for direction in Direction
    }
    dt = xr.DataTree.from_dict(groups)
    dt.attrs.update(
        {
            "system": f"RBM {rbm.a.size}x{rbm.b.size}",
            "schedule": schedule.name,
            "step": rbm.description,
            "upper_bound": rbm.posterior_status(burn_in),
            "burn_in": burn_in if rbm.posterior_status(burn_in) == "burned-in" else 0,
            "random_seed": str(entropy),
            "interrupted": int(len(runs) < len(blocks)),
            "pymc_bdmc_version": version("pymc-bdmc"),
            "sampling_time": time.perf_counter() - started,
        }
    )
    for message in diagnose(dt):
        _log.warning(message)
    return dt


def _pooled(runs: list[AnnealingRun], chains: int, n_betas: int) -> AnnealingRun:
    """The finished blocks of one direction as one run; chains that were not finished are NaN."""
    blank = np.full(n_betas, np.nan)
    if not runs:
        lost = np.full(chains, np.nan)
        none = np.zeros(n_betas, dtype=int)
        return AnnealingRun(lost, lost, lost, blank, blank, blank, blank, none, 0)
    missing = chains - sum(run.log_weight.size for run in runs)

    def joined(name):
        return np.concatenate([*(getattr(run, name) for run in runs), np.full(missing, np.nan)])

    share = np.array([run.log_weight.size for run in runs]) / (chains - missing)
    means = np.array([run.log_likelihood_mean for run in runs])
    mean = share @ means
    variance = share @ (
        np.array([run.log_likelihood_sd for run in runs]) ** 2 + (means - mean) ** 2
    )
    return replace(
        runs[0],
        log_weight=joined("log_weight"),
        prior_draws=joined("prior_draws"),
        lowest_acceptance=joined("lowest_acceptance"),
        log_likelihood_mean=mean,
        log_likelihood_sd=np.sqrt(variance),
    )
