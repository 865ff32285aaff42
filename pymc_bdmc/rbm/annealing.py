"""Anneal a restricted Boltzmann machine in one call, forward and in reverse."""

import time

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.annealing.blocks import keep_finished, unfinished_block
from pymc_bdmc.arguments import check_counts
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.rbm.machine import RBM
from pymc_bdmc.results.blocks import to_datatree
from pymc_bdmc.schedules import Schedule, make_schedule
from pymc_bdmc.streams import RandomSeed, entropy_of, recorded, stream
from pymc_bdmc.types import Direction

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
    random_seed : int, sequence of int, SeedSequence or Generator, optional
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
    >>> rbm = bdmc.rbm.RBM(np.zeros(4), np.zeros(3), np.eye(4, 3))
    >>> dt = bdmc.rbm.anneal(rbm, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - rbm.log_z()) < 4 * error)
    True
    """
    started = time.perf_counter()
    check_counts(chains=chains, burn_in=burn_in)
    schedule = make_schedule(schedule, temperatures, default=1000)
    betas = schedule.betas
    entropy = entropy_of(random_seed)
    blocks = [(d, first) for first in range(0, chains, _BLOCK) for d in Direction]
    runs = [unfinished_block(min(_BLOCK, chains - first), len(betas)) for _, first in blocks]
    with ChainProgress({d.value: chains for d in Direction}, progressbar) as progress:
        try:
            for i, (direction, first) in enumerate(blocks):
                reverse = direction is Direction.REVERSE
                rng = np.random.default_rng(stream(entropy, 0, int(reverse), first))
                size = runs[i].log_weight.size
                if reverse:
                    state = rbm.draw_posterior(size, rng, burn_in)
                else:
                    state = rbm.draw_prior(size, rng)
                runs[i] = rbm.run(state, betas, direction, rng)
                progress.finished(direction.value, *runs[i].log_weight)
        except KeyboardInterrupt:
            keep_finished(runs)
    status = rbm.posterior_status(burn_in)
    attrs = {
        "system": f"RBM {rbm.a.size}x{rbm.b.size}",
        "schedule": schedule.name,
        "step": rbm.description,
        "upper_bound": status,
        "burn_in": burn_in if status == "burned-in" else 0,
        "random_seed": recorded(entropy),
        "sampling_time": time.perf_counter() - started,
    }
    return to_datatree([direction for direction, _ in blocks], runs, betas, attrs)
