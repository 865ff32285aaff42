"""Read the log marginal likelihood of a result: one number with its error, or none."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.results.checks.missed import gaps_on_simulated, short_on_simulated
from pymc_bdmc.results.checks.runs import interruption, undefined_far
from pymc_bdmc.results.evidence import estimates_of, tempering_rows
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy, outwards
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.sandwich import certified_of

Z95 = 1.96
"""Half of a 95 % interval, in standard errors."""


@dataclass(frozen=True, repr=False)
class WithInterval:
    """A number with its standard error, nats."""

    value: float
    error: float
    valid: bool

    @property
    def interval(self) -> tuple[float, float]:
        """Return the ends of the 95 % interval, nats."""
        return self.value - Z95 * self.error, self.value + Z95 * self.error

    @property
    def with_interval(self) -> str:
        """Return value, error and interval in words."""
        n, (low, high) = decimals(self.error), self.interval
        number = plus_minus(self.value, self.error)
        return f"{number}, with 95 % interval {low:.{n}f} to {high:.{n}f}"

    def __float__(self) -> float:
        return self.value


def decimals(error: float) -> int:
    """Return the number of decimals that shows two digits of an error; four if it is 0."""
    if error == 0:
        return 4
    return max(0, 1 - int(np.floor(np.log10(max(error, 1e-9)))))


def plus_minus(value: float, error: float) -> str:
    """Return a number with its error, as finely as two digits of the error."""
    n = decimals(error)
    return f"{value:.{n}f} ± {error:.{n}f}"


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
        lower, upper = outwards(self.certified_lower, self.certified_upper)
        ends = {f"at least {lower:.2f}": lower, f"at most {upper:.2f}": upper}
        sure = " and ".join(words for words, end in ends.items() if np.isfinite(end))
        sure = f"; it is certified to be {sure}" if sure else ""
        if not self.valid:
            return f"No estimate of log ML can be trusted{sure} ({self.reason})."
        if self.error == 0:
            return f"Log ML is {self.value:.4f}, the log density of the data."
        method = {"bar": "BAR"}.get(self.method, self.method)
        return f"Log ML is {self.with_interval} ({method}){sure}."


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
    Results of `sample_bdmc` have the same in attributes of their root, so that other programs can
    read it: ``log_ml``, ``log_ml_error`` (a standard error) and ``log_ml_certified_lower`` (95 %),
    all in ``log_ml_units``, nats, with ``log_ml_method`` and ``log_ml_notes``. The value is also in
    ``sample_stats["log_marginal_likelihood"]`` by chain, where `pymc.sample_smc` has its own. The
    four chains are parts of one sample, so their values are equal.

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
    return log_ml_of(Reading.of(dt))


@once
def log_ml_of(read: Reading) -> LogML:
    """Return log ML; see `log_ml`."""
    if read.is_tempering:
        rows, sure = list(tempering_rows(read, "all").values()), [-np.inf, np.inf]
    else:
        rows = [row for key, row in estimates_of(read, read.main).items() if not key[1]]
        if not rows:
            raise ValueError("dt: it has no finished runs on the real data, whose log ML this is.")
        sure = certified_of(read).loc[(read.main, 0), ["lower", "upper"]]
    best = next((row for row in rows if row.recommended), None)
    row = best or replace(rows[0], value=np.nan, error=np.nan, method="")
    reason = row.reason
    if not best and read.finite_variables:
        reason += f"; {sum_out(read.finite_variables)}"
    value, error, (lower, upper) = float(row.value), float(row.error), map(float, sure)
    more = "\n".join(notes(read))
    return LogML(value, error, bool(best), row.method, reason, lower, upper, more)


def notes(read: Reading) -> list[str]:
    """Return what log ML includes, such as the prior probability of constraints."""
    found = [interruption(read), *read.constraints.split("\n"), undefined_far(read)]
    if read.path in ("prior", "data") and read.has("real"):  # they count rejected prior draws
        draws = read.side("real").run.get("prior_draws", xr.DataArray(1.0)).values
        if np.nanmax(draws) > 1:
            mass = log_prior_mass(draws[~np.isnan(draws)])
            found.append(
                "The likelihood is 0 at some prior draws, by a constraint or by overflow; log ML "
                "includes the log probability of the others, "
                f"{plus_minus(mass.estimate, mass.error)}."
            )
    return [text for text in found if text]


def log_ml_finding(read: Reading, doubts: list[Finding]) -> Iterator[Finding]:
    """Report log ML; it is open if no estimate can be trusted."""
    if not read.sets_of(read.main):
        return
    found = log_ml_of(read)
    if found.valid:
        text = " ".join([found.sentence, *_on_simulated(read, found)])
        brief = f"Log ML: {plus_minus(found.value, found.error)} nats."
        numbers = found.value, found.error, *found.interval
        yield Finding("log ML", None, text, NO_REMEDY, *numbers, brief)
        return
    remedy = doubts[0].with_remedy if doubts else NO_REMEDY
    if not doubts and read.finite_variables:
        remedy = Remedy(f"{sum_out(read.finite_variables)}.")
    bounds = found.certified_lower, found.certified_upper
    yield Finding("log ML", "open", found.sentence, remedy, np.nan, np.nan, *bounds)


def _on_simulated(read: Reading, found: LogML) -> Iterator[str]:
    """Say what runs miss on simulated data, and whether the error of log ML contains it."""
    if not (gaps := gaps_on_simulated(read)):
        return
    if (missed := short_on_simulated(read)) > found.error / 2:
        yield (
            f"If your data are like the simulated ones, all runs on them may miss {missed:.2g} "
            "nats (root mean square), which the error contains."
        )
    elif max(gaps) > 1.0:  # nats; chosen
        yield (
            f"On a simulated data set reverse runs lie {max(gaps):.1f} nats above forward ones, "
            f"more than their errors explain. The {read.real.forward.size} runs on your data would "
            "hardly miss what this shows, so it adds little to the error."
        )


def write_log_ml(dt: xr.DataTree) -> None:
    """Write log ML to the attributes of a result and to its group ``sample_stats``."""
    read = Reading.of(dt)
    if not read.sets_of("real"):
        return
    found = log_ml_of(read)
    dt.attrs |= {"log_ml": found.value, "log_ml_error": found.error}
    dt.attrs |= {"log_ml_certified_lower": found.certified_lower, "log_ml_units": "nats"}
    dt.attrs |= {"log_ml_method": found.method, "log_ml_notes": found.notes}
    if read.has("posterior"):
        chains = read.group("posterior")["chain"]
        values = xr.full_like(chains, found.value, dtype=float)
        dt["sample_stats"] = xr.DataTree(xr.Dataset({"log_marginal_likelihood": values}))
