"""Register estimators of log Z. A new one needs a file in this folder and an entry here.

`compare_estimators`, `evidence` and the plots of estimates go through this table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Literal

from numpy.typing import ArrayLike

from pymc_bdmc.estimators.bar import bar
from pymc_bdmc.estimators.cumulant import cumulant_combined, cumulant_forward, cumulant_reverse
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.histogram import histogram
from pymc_bdmc.estimators.jarzynski import jarzynski_forward, jarzynski_reverse


@dataclass(frozen=True)
class Estimator:
    """Estimator of log Z, with the directions that it needs.

    Attributes
    ----------
    function : callable
        Function that returns an `Estimate`. It has an argument ``forward``, an argument ``reverse``
        or both, which are log weights of shape (n,), nats.
    judged_as : {"average", "cumulant", ""}
        Check of an estimate from one direction by the chains of both, if BAR is valid: that of an
        exponential average, that of a cumulant expansion, or only the distance from BAR.

    Examples
    --------
    >>> from pymc_bdmc.estimators import ESTIMATORS
    >>> [name for name, each in ESTIMATORS.items() if each.needs == ("forward",)]
    ['forward average', 'cumulant forward']
    """

    function: Callable[..., Estimate]
    judged_as: Literal["average", "cumulant", ""] = ""

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Return the directions of its log weights, in the order of the arguments."""
        return tuple(signature(self.function).parameters)

    def estimate(self, **log_weights: ArrayLike) -> Estimate:
        """Return the estimate from log weights of ``forward`` and ``reverse`` runs, nats."""
        return self.function(*(log_weights[direction] for direction in self.needs))


ESTIMATORS = {
    "bar": Estimator(bar),
    "histogram": Estimator(histogram),
    "forward average": Estimator(jarzynski_forward, "average"),
    "reverse average": Estimator(jarzynski_reverse, "average"),
    "cumulant forward": Estimator(cumulant_forward, "cumulant"),
    "cumulant reverse": Estimator(cumulant_reverse, "cumulant"),
    "cumulant combined": Estimator(cumulant_combined),
}
"""Estimators by the name in `Estimate.method`."""
