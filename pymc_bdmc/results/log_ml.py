"""Read the log marginal likelihood of a result: one number with its error, or none."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.model.hard_variables import sum_out
from pymc_bdmc.results.certified import certified
from pymc_bdmc.results.evidence import annealed_estimates, evidence
from pymc_bdmc.results.groups import (
    data_sets,
    interruption,
    is_simulated_tempering,
    is_system,
    variable,
)

__all__ = [
    "Z95",
    "LogML",
    "WithInterval",
    "decimals",
    "log_ml",
    "notes",
    "outwards",
    "write_log_ml",
]

Z95 = 1.96
"""Half of a 95 % interval, in standard errors."""


class WithInterval:
    """A number with its standard error, nats."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """Return the ends of the 95 % interval, nats."""
        return self.value - Z95 * self.error, self.value + Z95 * self.error

    def __float__(self) -> float:
        return self.value


def outwards(lower: float, upper: float) -> tuple[str, str]:
    """Return certified bounds with two decimals, rounded outwards."""
    return f"{np.floor(100 * lower) / 100:.2f}", f"{np.ceil(100 * upper) / 100:.2f}"


@dataclass(frozen=True, repr=False)
class LogML(WithInterval):
    """Result of `log_ml`; it prints as a sentence.

    Attributes
    ----------
    value, error : float
        Log ML and one standard error, nats; NaN if no estimate can be trusted.
    valid : bool
        Whether the check of the method holds.
    method : str
        Method that `evidence` recommends; empty if there is none.
    reason : str
        What the check found.
    certified_lower, certified_upper : float
        Bounds that hold together with 95 % probability, nats; infinite if there is none.
    notes : str
        What else log ML contains, such as the prior probability of an order, and whether the run
        was interrupted; often empty.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> system = bdmc.lattice.Ising(4)
    >>> found = bdmc.log_ml(bdmc.lattice.anneal(system, random_seed=1, progressbar=False))
    >>> abs(found.value - system.log_z()) < 4 * found.error
    True
    """

    value: float
    error: float
    valid: bool
    method: str
    reason: str
    certified_lower: float
    certified_upper: float
    notes: str = ""

    def __repr__(self) -> str:
        return "\n".join(filter(None, [self.sentence, self.notes]))

    @property
    def sentence(self) -> str:
        """Return the estimate and its bounds in a sentence, without notes."""
        bounds = (self.certified_lower, self.certified_upper)
        told = zip(("at least", "at most"), outwards(*bounds), bounds, strict=True)
        ends = " and ".join(f"{word} {end}" for word, end, bound in told if np.isfinite(bound))
        certain = f"; it is certified to be {ends}" if ends else ""
        if self.error == 0:
            return f"Log ML is {self.value:.{decimals(0.0)}f}, the log density of the data."
        if not self.valid:
            return f"No estimate of log ML can be trusted{certain} ({self.reason})."
        n, (lower, upper) = decimals(self.error), self.interval
        return (
            f"Log ML is {self.value:.{n}f} ± {self.error:.{n}f}, with 95 % interval "
            f"{lower:.{n}f} to {upper:.{n}f} ({self.method}){certain}."
        )


def decimals(error: float) -> int:
    """Return the number of decimals that shows two digits of an error; four if it is 0."""
    if error == 0:
        return 4
    return max(0, 1 - int(np.floor(np.log10(max(error, 1e-9)))))


def log_ml(dt: xr.DataTree) -> LogML:
    """Return the log marginal likelihood of the data with its error and how it was found; nats.

    The estimate is the one that `evidence` recommends, and its error is widened as there. If the
    checks contradict every estimate, value and error are NaN, and the certified bounds remain.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `anneal`, `lattice.anneal`, `RBM.anneal` or `temper`. For a system
        without data it is log Z.

    Returns
    -------
    LogML

    Raises
    ------
    ValueError
        If there are no runs on the real data, or the result lacks a group or a variable.

    Notes
    -----
    Results of `sample_bdmc` have the same in the attributes ``log_ml``, ``log_ml_error`` and
    ``log_ml_notes``, and the value in ``sample_stats["log_marginal_likelihood"]`` by chain, where
    `pymc.sample_smc` has its own. The four chains are parts of one sample, so their values are
    equal.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     heads = pm.Binomial("heads", 20, p, observed=14)
    ...     dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> found = bdmc.log_ml(dt)  # every number of heads is equally probable: log(1/21) = -3.045
    >>> round(found.value, 1), found.valid, found.method
    (-3.0, True, 'forward average')
    """
    if is_simulated_tempering(dt):
        rows, sure = evidence(dt).loc["tempering"].loc[0].to_dict("index"), (-np.inf, np.inf)
    else:
        data = "simulated" if is_system(dt) else "real"
        rows = {key[2]: row for key, row in annealed_estimates(dt, data).items() if not key[1]}
        if not rows:
            raise ValueError("dt: it has no finished runs on the real data, whose log ML this is.")
        sure = certified(dt).loc[(data, 0), ["lower", "upper"]]
    method = next((name for name, row in rows.items() if row["recommended"]), "")
    row = rows.get(method, {"value": np.nan, "error": np.nan})
    reason = row.get("reason") or next(iter(rows.values()))["reason"]
    if not method and (finite := str(dt.attrs.get("finite_variables", ""))):
        reason += f"; {sum_out(finite)}"
    lower, upper = map(float, sure)
    return LogML(
        float(row["value"]), float(row["error"]), bool(method), method, reason, lower, upper,
        notes(dt),
    )  # fmt: skip


def notes(dt: xr.DataTree) -> str:
    """Return what log ML includes, a line each.

    If the run was interrupted, quick runs may be more frequent among those that were finished.
    Log ML includes the prior probability of constraints. Runs from the prior show it: they count
    the draws that the constraints reject.
    """
    told = [*filter(None, [interruption(dt), *str(dt.attrs.get("constraints", "")).split("\n")])]
    from_prior = str(dt.attrs.get("path")) in ("prior", "data")
    if from_prior and "real" in dt.children and "prior_draws" in dt["real"]:
        draws = variable(dt, "real", "prior_draws").values
        if np.nanmax(draws) > 1:
            mass = log_prior_mass(draws[~np.isnan(draws)])
            n = decimals(mass.error)
            told.append(
                "Log ML includes the log prior probability of the parameters that constraints and "
                f"data allow, {mass.estimate:.{n}f} ± {mass.error:.{n}f}."
            )
    return "\n".join(told)


def write_log_ml(dt: xr.DataTree) -> None:
    """Write log ML to the attributes of a result and to its group ``sample_stats``."""
    if not any(data == "real" for data, *_ in data_sets(dt)):
        return
    found = log_ml(dt)
    dt.attrs |= {
        "log_ml": found.value,
        "log_ml_error": found.error,
        "log_ml_method": found.method,
        "log_ml_notes": found.notes,
    }
    if "posterior" in dt.children:
        chains = variable(dt, "posterior", "chain")
        values = xr.full_like(chains, found.value, dtype=float)
        dt["sample_stats"] = xr.DataTree(xr.Dataset({"log_marginal_likelihood": values}))
