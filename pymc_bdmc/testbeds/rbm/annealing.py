"""Anneal a restricted Boltzmann machine in one call, forward and in reverse."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Purpose, beside
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.call import systems
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.testbeds.rbm.machine import RBM


def anneal(
    rbm: RBM,
    *,
    chains: int = 100,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    burn_in: int = 1000,
    **options: Any,
) -> xr.DataTree:
    """Sandwich the log partition function of an RBM between forward and reverse chains.

    Parameters
    ----------
    rbm : RBM
        Machine, with its prior and its integrated layer.
    chains : int, default 100
        Number of chains per direction, at least 2. They are run 100 at a time.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        Spacing of the inverse temperatures.
    burn_in : int, default 1000
        Number of sweeps before a reverse chain, if both layers have more than 20 units. Half of the
        sweeps anneal the state from the prior. The upper bound is then burned-in, or heuristic
        without any sweep. If a layer has at most 20 units, reverse chains start from exact samples.
        (With at most 25 units, `RBM.log_z` is exact.)
    **options
        The further options of `pymc_bdmc.anneal`: ``target_gap``, ``max_temperatures`` and
        ``max_time`` for rounds; ``random_seed``, ``cores``, ``executor``, ``progressbar``,
        ``store`` and ``callback``.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
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
    runs = MachineChains(rbm, burn_in)
    return systems.anneal(
        runs, chains=chains, temperatures=temperatures, schedule=schedule, **options
    )


@dataclass(frozen=True)
class MachineChains:
    """Chains of a machine, and the burn-in of their starts at β = 1.

    The fields are the arguments of `anneal`.

    Raises
    ------
    ValueError
        Names the field.
    """

    rbm: RBM
    burn_in: int = 1000
    block_size: ClassVar[int] = 100
    defaults: ClassVar[tuple[int, str]] = 1000, "linear"

    def __post_init__(self):
        if not isinstance(self.rbm, RBM):
            raise ValueError(f"rbm: a restricted Boltzmann machine is needed, got {self.rbm!r}.")
        check_counts(burn_in=self.burn_in)

    @property
    def description(self) -> str:
        """Return the name of a transition."""
        return self.rbm.description

    @property
    def attributes(self) -> dict[str, object]:
        """Return the attributes that describe the machine in a result."""
        status = self.rbm.posterior_status(self.burn_in)
        return {
            "system": f"RBM {self.rbm.a.size}x{self.rbm.b.size}",
            "upper_bound": status,
            "independent_starts": 1,
            "burn_in": self.burn_in if status == "burned-in" else 0,
        }

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a block; their log weights are NaN if ``stop`` is set."""
        rng = np.random.default_rng(beside(task.seed, Purpose.ANNEAL))
        if task.direction is Direction.FORWARD:
            state = self.rbm.draw_prior(task.chains, rng)
        else:
            state = self.rbm.draw_posterior(task.chains, rng, self.burn_in, stop)
        return self.rbm.run(state, task.betas, task.direction, rng, stop)
