"""The path from the prior."""

from collections.abc import Callable
from dataclasses import dataclass

from pymc_bdmc.base.types import Tuning
from pymc_bdmc.paths.contract import Path, PathEngine


@dataclass(frozen=True)
class PriorPath(Path):
    """The path from the prior, f_β(θ) = p(θ) p(y|θ)^β, as in BDMC and BREAD.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> bdmc.PriorPath().name
    'prior'
    """

    name = "prior"
    starts_at_prior = True
    fewest_temperatures = 100

    def check(self, engine: PathEngine) -> None:
        """Accept every model."""

    def reference(self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]) -> None:
        """Return None, for the prior."""
