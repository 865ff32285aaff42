"""What every estimator returns."""

from dataclasses import dataclass

__all__ = ["Estimate"]


@dataclass(frozen=True)
class Estimate:
    """An estimate of log Z, or of a bound.

    Attributes
    ----------
    value : float
        Of log Z or of the bound, nats.
    error : float
        Standard error, nats.
    method : str
        How it was got.
    valid : bool
        Whether the estimator's own check finds its error trustworthy.
    reason : str
        What the check found.
    """

    value: float
    error: float
    method: str
    valid: bool
    reason: str
