"""Results that the estimators return."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """Estimate of log Z, or of a bound.

    Attributes
    ----------
    value : float
        Estimate of log Z or of the bound, nats.
    error : float
        Standard error, nats.
    method : str
        Name of the method.
    valid : bool
        Whether the estimator's own check says that its error can be trusted.
    reason : str
        What the check found.
    """

    value: float
    error: float
    method: str
    valid: bool
    reason: str


@dataclass(frozen=True)
class EvidenceDraws:
    """Draws of log Z, from a posterior or a bootstrap.

    Attributes
    ----------
    log_z : ndarray of shape (draws,)
        Nats.
    estimate : Estimate
        Estimate whose error is the standard deviation of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import Estimate, EvidenceDraws
    >>> estimate = Estimate(0.5, 0.3, "histogram posterior", True, "")
    >>> lower, upper = EvidenceDraws(np.linspace(0, 1, 99), estimate).interval(0.5)
    >>> round(lower, 3), round(upper, 3)
    (0.245, 0.755)
    """

    log_z: np.ndarray
    estimate: Estimate

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return the central interval of the draws, nats.

        A further draw falls into the interval with this probability. With the usual sample
        quantiles, the interval of 300 draws would be half a per cent too short.
        """
        tail = (1 - probability) / 2
        lower, upper = np.quantile(self.log_z, [tail, 1 - tail], method="weibull")
        return float(lower), float(upper)
