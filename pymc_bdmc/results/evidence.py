"""Estimate the evidence of a result by every estimator, in a labelled table."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    ESTIMATORS,
    Comparison,
    Estimate,
    compare_estimators,
    count_passages,
    mbar_error,
    rao_blackwellized,
    sequential_likelihood,
    thermodynamic_integration,
)
from pymc_bdmc.results.checks.missed import refuting_path, short_on_simulated, sign_of_a_miss
from pymc_bdmc.results.checks.runs import undefined_near
from pymc_bdmc.results.finding import Table, frame
from pymc_bdmc.results.reading import SIDES, DataSet, Reading, once

MAX_SHORTFALL = 1.0
"""Nats that runs on data like the simulated ones may miss at most (root mean square)."""

MIN_PASSAGES = 10
"""Fewest passages from end to end of the temperatures, over all chains, for a valid estimate."""

RULES = ("riemann", "trapezoid", "corrected")

TEMPERING_METHODS = [
    "RTS", "sequential likelihood", *(f"TI {rule}" for rule in RULES),
    *(f"TI-RB {rule}" for rule in RULES), "MBAR",
]  # fmt: skip
"""Names of all methods for simulated tempering."""


def evidence(dt: xr.DataTree, method: str = "all") -> pd.DataFrame:
    """Estimate log ML by one method or by all, with errors and checks; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.
    method : str, default "all"
        ``"all"``, or a name in `pymc_bdmc.estimators.ESTIMATORS`: ``"bar"``, ``"histogram"``,
        ``"forward average"``, ``"reverse average"``, ``"cumulant forward"``, ``"cumulant reverse"``
        or ``"cumulant combined"``. The real data have the forward methods only, unless reverse
        chains started from ``posterior`` draws; methods that use these are heuristic. For `temper`:
        ``"RTS"``, ``"sequential likelihood"`` (which uses the initial iterations too), ``"TI
        riemann"``, ``"TI trapezoid"``, ``"TI corrected"``, the same three as ``"TI-RB …"``, or
        ``"MBAR"``; without pymbar, ``"all"`` leaves the last one out.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset, method), with the data ``simulated``, ``real`` or ``tempering``.
        Columns: ``value``; ``error``, one standard error (for forward methods on the real data,
        what all runs may miss if these are like the simulated data is added in quadrature);
        ``valid``, whether the method's own check holds and nothing contradicts it (on the real
        data: runs on another path, simulated data or, without these, signs that all runs miss the
        same part of the posterior);
        ``recommended``, true for the method to use on that data set;
        ``reason``, what the checks found, and the kind of start of reverse chains that is not
        exact. If part of the prior makes the data impossible, value and error include log P(ℓ >
        −∞).

    Raises
    ------
    ValueError
        For a method that is unknown or that needs chains that were not run, or a result that lacks
        a group or a variable.
    ImportError
        For MBAR without pymbar.

    Notes
    -----
    No method of `temper` is valid if all chains together went from one end of the ladder to the
    other less than 10 times. RTS is recommended if it is valid.

    Reverse chains of one data set share their start θ*, but errors treat the chains as independent.
    These errors are right if the chains forget θ*, and conditional on θ* if the kernels mix too
    slowly for that. No check on a single data set can detect this; several data sets can, since
    their rows are independent and `summary` clusters its errors by data set.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> groups = {}
    >>> for name, mean in [("forward", -0.5), ("reverse", 0.5)]:
    ...     weights = ("dataset", "chain"), rng.normal(mean, 1, (1, 100))
    ...     draws = ("dataset", "chain"), np.ones((1, 100))
    ...     groups[name] = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> table = bdmc.evidence(xr.DataTree.from_dict(groups), "bar")
    >>> table["valid"].tolist()
    [True]
    """
    return Table.of(evidence_of(Reading.of(dt), method))


@once
def evidence_of(read: Reading, method: str = "all") -> pd.DataFrame:
    """Return the table of `evidence`."""
    if read.is_tempering:
        rows, names = tempering_rows(read, method), TEMPERING_METHODS
    else:
        rows = {key: row for data in SIDES for key, row in estimates_of(read, data).items()}
        if not rows:
            raise ValueError("dt: no data set has a finished chain in each of its directions.")
        names = list(dict.fromkeys(name for *_, name in rows))
    if method != "all":
        rows = {key: row for key, row in rows.items() if key[2] == method}
        if not rows:
            raise ValueError(f"method: {method!r} is not among {[*names, 'all']} for this result.")
    columns = {key: vars(row) for key, row in rows.items()}
    shown = ["value", "error", "valid", "recommended", "reason"]
    return frame(columns, shown, "data", "dataset", "method")


@dataclass(frozen=True)
class Listed(Estimate):
    """A row of `evidence`."""

    recommended: bool


type Rows = dict[tuple[str, int, str], Listed]


@once
def estimates_of(read: Reading, data: str) -> Rows:
    """Return the rows of `evidence` on one kind of data by (data, dataset, method)."""
    return {
        (*each[:2], row.method): row for each in read.sets_of(data) for row in _rows(read, each)
    }


def _rows(read: Reading, each: DataSet) -> list[Listed]:
    if read.is_null:
        reason = "the log density of a model without free variables"
        exact = Estimate(float(each.forward[0]), 0.0, "forward average", True, reason)
        found = Comparison({exact.method: exact}, exact.method, reason)
    elif not each.reverse.size:
        found = _forward_only(each.forward)
    else:
        found = compare_estimators(each.forward, each.reverse)
    mass, status = each.mass, read.start(each.data)
    bar_is_valid = each.reverse.size > 0 and found.estimates["bar"].valid
    rows = []
    for name, estimate in found.estimates.items():
        needs = ESTIMATORS[name].needs
        is_alone = each.data == "real" and "reverse" not in needs  # forward runs on real data only
        missed = short_on_simulated(read) if is_alone else 0.0
        doubt = _doubt(read, is_alone) if each.data == "real" else ""
        if status == "heuristic" and needs == ("reverse",) and not bar_is_valid:
            doubt = "reverse runs start from draws that forward runs do not confirm"
        if missed > MAX_SHORTFALL:
            doubt = (
                "if the data are like the simulated ones, such averages are too low by about "
                f"{missed:.2g} nats"
            )
        recommended = name == found.recommended and not doubt
        reason = found.reason if recommended else estimate.reason
        if doubt:
            reason = f"{doubt}; {reason}"
        if status != "exact" and "reverse" in needs:
            reason += f"; reverse chains from a {status} start"
        value = estimate.value + mass.estimate
        error = float(np.linalg.norm([estimate.error, mass.error, missed]))
        rows.append(Listed(value, error, name, estimate.valid and not doubt, reason, recommended))
    return rows


def _forward_only(forward: np.ndarray) -> Comparison:
    """Compare estimates without reverse chains; recommend the average if it is valid."""
    estimates = {
        name: each.estimate(forward=forward)
        for name, each in ESTIMATORS.items()
        if each.needs == ("forward",)
    }
    best = next((each for each in estimates.values() if each.valid), None)
    if not best:
        return Comparison(estimates, None, "no estimator's check holds")
    reason = f"its check holds: {best.reason}; no reverse chains to confirm it"
    return Comparison(estimates, best.method, reason)


def _doubt(read: Reading, is_alone: bool) -> str:
    """Return what contradicts an estimate of log ML of the real data."""
    if near := undefined_near(read):
        return near
    if read.too_low:
        return f"given draws show it to be too low by {read.too_low:.2g} nats or more"
    if path := refuting_path(read):
        return f"runs on path {path!r} give a higher log ML, beyond chance"
    if read.doubt:
        return f"runs start at a fit, and {read.doubt}"
    return sign_of_a_miss(read) if is_alone else ""


@once
def recommended_log_ml(read: Reading, data: str = "real") -> Estimate:
    """Return the recommended log ML of the first data set, else the average, not valid; nats."""
    rows = [row for key, row in estimates_of(read, data).items() if key[1] == 0]
    if not rows:
        raise ValueError("dt: it has no finished runs on the real data, whose log ML this is.")
    best = next((row for row in rows if row.recommended), None)
    average = next(row for row in rows if row.method == "forward average")
    return best or replace(average, valid=False)


@once
def tempering_rows(read: Reading, method: str) -> Rows:
    """Return the rows of `evidence` of a result of `temper`, by one method or by all."""
    run = read.tempering
    chosen = [name for name in TEMPERING_METHODS if method in ("all", name)]
    if method == "all" and not find_spec("pymbar"):
        chosen.remove("MBAR")
    passages = count_passages(run["place"].values, run.sizes["beta"]).sum()
    mass = read.required("log_prior_mass"), read.required("log_prior_mass_error")
    rows = {}
    for name in chosen:
        found = _tempering_estimate(read, name)
        valid = bool(found.valid and passages >= MIN_PASSAGES)
        value, error = found.value + mass[0], float(np.hypot(found.error, mass[1]))
        reason = f"{found.reason}; {passages} passages from end to end"
        row = Listed(value, error, found.method, valid, reason, valid and name == "RTS")
        rows["tempering", 0, name] = row
    return rows


def _tempering_estimate(read: Reading, name: str) -> Estimate:
    run = read.tempering
    ell, betas, guess = (run[each].values for each in ("log_likelihood", "beta", "log_z_guess"))
    if name == "RTS":  # the reason states the leading order of its bias
        found = rao_blackwellized(ell, betas, guess)
        reason = f"{found.estimate.reason}, bias {found.bias[-1]:.2g} nats"
        return replace(found.estimate, reason=reason)
    if name == "sequential likelihood":  # it uses the initial iterations too
        initial = read.group("initial")
        log_probability, guesses = (
            np.concatenate([initial[each].values, run[each].values[None]])
            for each in ("log_probability", "log_z_guess")
        )
        draws = np.append(initial["draws"].values, run.sizes["draw"])
        return sequential_likelihood(log_probability, guesses, draws).estimate
    if name == "MBAR":
        return _mbar(read)
    how, rule = name.split()
    options: dict[str, Any] = {"places": run["place"].values} if how == "TI" else {"log_z": guess}
    return thermodynamic_integration(ell, betas, **options | {"rule": rule})


def _mbar(read: Reading) -> Estimate:
    """Estimate log Z by the multistate Bennett acceptance ratio (Shirts and Chodera 2008)."""
    try:
        from pymbar import MBAR
    except ImportError as missing:
        raise ImportError(
            "MBAR needs pymbar: pip install 'pymc-bdmc[mbar]', or choose another method."
        ) from missing
    run = read.tempering
    # Thin long chains, since pymbar stores several matrices of size draws × temperatures.
    run = run.isel(draw=slice(None, None, -(-run["place"].size // 20_000)))
    ell, places, betas, guess = (
        run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")
    )
    order = np.argsort(places, axis=None, kind="stable")
    counts = np.bincount(places.ravel(), minlength=len(betas))
    energies = -betas[:, None] * ell.ravel()[order]
    # pymbar's own Newton iteration; its other solvers pass options that SciPy warns about
    protocol = ({"method": "adaptive", "options": {"min_sc_iter": 0}},)
    log_z = -MBAR(energies, counts, initial_f_k=-guess, solver_protocol=protocol).f_k
    log_z -= log_z[0]
    error = mbar_error(ell, places, betas, log_z)  # draws of a chain are correlated
    reason = f"{np.count_nonzero(counts)} of {len(betas)} temperatures visited"
    valid = bool(counts[0] and counts[-1])
    return Estimate(float(log_z[-1]), float(error[-1]), "MBAR", valid, reason)
