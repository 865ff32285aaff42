"""The path from the prior on which one observation comes after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pymc_bdmc.base.types import Tuning
from pymc_bdmc.paths.contract import Path, PathEngine


@dataclass(frozen=True)
class DataPath(Path):
    """The path on which one observation comes after the other: at β, the first βN of N have.

    All densities on the way are posteriors of fewer data; a schedule may add several observations
    in a step, or one in several. Rows, along the first dimension of every observed variable, must
    be independent given θ. Of the observation that is only coming a part of its log density counts.
    Pilots do not see how long this way is: temperatures are spaced evenly, where no other schedule
    and no number is given ten an observation, but at least 100 and at most 2000 in all. If a
    temperature ends with each observation, as then with up to 2000 of them, `pointwise` reads their
    predictive densities.

    Parameters
    ----------
    order : sequence of int, optional
        Order in which the observations come, by their numbers from 0. Default: as they are.

    References
    ----------
    Habeck (2017), Section 6.4. Chopin (2002), A sequential particle filter method for static
    models.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 10), observed=[0.5, 1.0, 0.2])
    >>> dt = pm.sample_bdmc(model, path="data", chains=4, temperatures=30, random_seed=1, cores=1,
    ...                     progressbar=False)
    >>> dt.attrs["path"]
    'data'

    The last observation first:

    >>> dt = pm.sample_bdmc(model, path=bdmc.DataPath(order=[2, 0, 1]), chains=4, temperatures=30,
    ...                     random_seed=1, cores=1, progressbar=False)
    """

    order: Sequence[int] | None = None  # type: ignore[assignment]

    name = "data"
    starts_at_prior = True
    in_turn = True
    fewest_temperatures = 100

    def __post_init__(self):
        if self.order is not None:
            object.__setattr__(self, "order", tuple(map(int, self.order)))

    def check(self, engine: PathEngine) -> None:
        """Refuse step methods, whose observations come together."""
        if not engine.rows:
            raise ValueError(
                "path: 'data' is not possible here, since PyMC's step methods move along the path "
                "from the prior. Use 'prior', or leave step out."
            )

    def reference(self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]) -> None:
        """Return None, for the prior."""
