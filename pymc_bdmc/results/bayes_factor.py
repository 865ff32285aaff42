"""Read the Bayes factor of two models: one number with its error, or none."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit

from pymc_bdmc.results.compare import certified_factors, check_comparable
from pymc_bdmc.results.log_ml import WithInterval, certain, decimals, log_ml_of
from pymc_bdmc.results.strength import MOST_TOLD, strength, times


@dataclass(frozen=True, repr=False)
class BayesFactor(WithInterval):
    """Result of `bayes_factor`; it prints as sentences.

    Attributes
    ----------
    value, error : float
        Logarithm of the Bayes factor of the first model against the second, and one standard error,
        nats; NaN if one of the two log ML cannot be trusted.
    valid : bool
        Whether both estimates pass their checks.
    probability : float
        Posterior probability of the first model, if both are equally probable beforehand.
    certified_lower, certified_upper : float
        Bounds that hold together with 95 % probability, nats; infinite if there are none.
    reason : str
        How the two estimates were found, and what their checks say.
    notes : str
        What else the two log ML contain; often empty.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> kernels = ["metropolis", "heat bath"]
    >>> a, b = [bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, random_seed=1,
    ...                             progressbar=False) for kernel in kernels]
    >>> found = bdmc.bayes_factor(a, b)  # of one system, so it is 0
    >>> abs(found.value) < 4 * found.error
    True
    """

    value: float
    error: float
    valid: bool
    probability: float
    certified_lower: float
    certified_upper: float
    reason: str
    notes: str = ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.sentence, self.notes]))

    @property
    def sentence(self) -> str:
        """Return the estimate, its bounds and the odds."""
        sure = odds = ""
        if np.isfinite(self.certified_lower):
            lower, upper = certain(self.certified_lower, self.certified_upper)
            sure = f" It is certified to be {lower:.2f} to {upper:.2f}."
        if not self.valid:
            return f"The Bayes factor is not known: {self.reason}.{sure}"
        ends, n = np.array(self.interval), decimals(self.error)
        if np.abs(ends).max() <= MOST_TOLD:
            low, high = map(times, np.exp(ends))
            shares = expit(ends)
            odds = (
                f" If both are equally probable beforehand, the odds are {low} to {high} for the "
                f"first, and its probability is {shares[0]:.3g} to {shares[1]:.3g}."
            )
        return (
            "The log Bayes factor of the first model against the second is "
            f"{self.value:.{n}f} ± {self.error:.{n}f}, with 95 % interval {ends[0]:.{n}f} to "
            f"{ends[1]:.{n}f}.{sure}{odds} {strength(*self.interval)}"
        )


def bayes_factor(a: xr.DataTree, b: xr.DataTree, *, same_data: bool = False) -> BayesFactor:
    """Return the log Bayes factor of two models of the same data, with its error; nats.

    It is the difference of their `log_ml`: above 0 where the data favour ``a``.

    Parameters
    ----------
    a, b : DataTree
        Results of `sample_bdmc` on the same data. Their errors are taken to be independent.
    same_data : bool, default False
        Results on data with other values are refused. True says that they are the same data in
        another form: in other units, on another scale, or split into variables or a Potential.
        Nothing is converted: if a model has z = g(y) in place of y, add ``Σ log |g′(y)|`` to its
        log ML yourself.

    Returns
    -------
    BayesFactor
        Not valid, with NaN as value, if one of the two log ML is not.

    Raises
    ------
    ValueError
        If the data differ, or a result has no runs on the real data.

    See Also
    --------
    compare : several models in a table.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> options = dict(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> with pm.Model():
    ...     heads = pm.Binomial("heads", 20, pm.Beta("p", 1, 1), observed=14)
    ...     free = pm.sample_bdmc(**options)
    >>> with pm.Model():
    ...     heads = pm.Binomial("heads", 20, pm.Beta("p", 100.0, 100.0), observed=14)
    ...     fair = pm.sample_bdmc(**options)
    >>> found = bdmc.bayes_factor(free, fair)  # exactly 0.155
    >>> abs(found.value - 0.155) < 0.05
    True
    """
    reads = check_comparable({"a": a, "b": b}, same_data)
    found = {name: log_ml_of(read) for name, read in reads.items()}
    first, second = found.values()
    notes = [
        f"{name}: {note}"
        for name, each in (("First model", first), ("Second model", second))
        for note in each.notes.split("\n")
        if note
    ]
    bounds = certified_factors(reads, pd.Index(["b", "a"]))
    lower, upper = bounds.loc["a"] if "a" in bounds.index else (-np.inf, np.inf)
    wrong = [
        f"the log ML of {name} cannot be trusted ({each.reason})"
        for name, each in found.items()
        if not each.valid
    ]
    reason = " and ".join(wrong) or f"{first.method} and {second.method}: {first.reason}"
    value, error = first.value - second.value, float(np.hypot(first.error, second.error))
    return BayesFactor(
        value, error, not wrong, float(expit(value)), float(lower), float(upper), reason,
        "\n".join(notes),
    )  # fmt: skip
