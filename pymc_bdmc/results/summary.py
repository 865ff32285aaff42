"""Summarise a result: the table of bounds and evidence, and the doubts about it."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.arguments import check_flags
from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import Estimate, clustered_mean
from pymc_bdmc.results.evidence import estimates_of, tempering_rows
from pymc_bdmc.results.finding import MAX_CHANCE, Table, frame, half_interval, upwards
from pymc_bdmc.results.reading import SIDES, Reading, once
from pymc_bdmc.results.sandwich import (
    bound_of,
    certified_of,
    certified_total_variation,
    gap_of,
    independent_gaps,
    quartiles,
    start_of,
)
from pymc_bdmc.results.verdict import doubts_of

QUARTILES = ["q25", "median", "q75"]


def summary(dt: xr.DataTree, *, details: bool = False) -> pd.DataFrame:
    """Summarise the bounds on log ML, the Jeffreys bound and the evidence, with errors; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.
    details : bool, default False
        Whether the table has quartiles over runs too, ``q25``, ``median`` and ``q75``.

    Returns
    -------
    DataFrame
        Indexed by (data, quantity). Columns: ``value``; ``error``, one standard error, for
        simulated data clustered by data set (with one data set: conditional on it); ``valid``,
        false if the value is not what its name says or if its error cannot be trusted; ``kind``,
        how the value was found, and why it is not valid. The doubts are in ``attrs["warnings"]``;
        see `diagnose`. All columns are printed.

        For each of ``simulated`` and ``real``: ``lower bound`` ⟨log w⟩_f; ``evidence``, log of the
        averaged weights; ``certified lower``, a bound that holds with 95 % probability for any
        number of chains (`certified`). For ``simulated`` also ``upper bound`` ⟨log w⟩_r, ``jeffreys
        bound`` (their gap), ``total variation`` (the largest error of a probability, with its
        certified upper end in ``kind``), ``ideal gap`` (the gap under perfect mixing, by the
        pilot; not valid if that of the runs is significantly smaller, p ≤ 0.001) and, with one
        data set, ``evidence, reverse`` and ``certified upper``; for ``real`` with ``posterior``
        draws also ``upper bound``, ``jeffreys bound``, ``evidence, reverse`` and ``evidence, both``
        (by BAR). The start of the reverse chains, on which the upper bound rests, is ``exact`` (θ*
        from the joint distribution), ``burned-in`` (from fitted hyperparameters) or ``heuristic``
        (from some sampler on the real data). For ``tempering``: ``evidence`` by RTS.

    Raises
    ------
    ValueError
        If the result lacks a group, a variable or an attribute; the message names it.

    Notes
    -----
    The mean of the log weights gives a bound; the log of the mean weight gives an estimate. If part
    of the prior makes the data impossible, bounds and evidence include log P(ℓ > −∞).

    If ℓ of draws from the start of the path has no mean, the log weights of runs have none either:
    their expectation is −∞ and the expected gap ∞, whatever the sample mean is. If ℓ has no
    variance, the sample mean has no error. In both cases certified bounds come first in the table,
    the lower bound is the median, which is below log ML + log 2 by Markov's inequality, and the gap
    is that of the medians.

    In the row of the gap, ``median`` is the gap of the medians of the two directions; with several
    data sets, the median of these gaps, between their quartiles. The error of an evidence is left
    out if its check fails.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> log_weight = ("chain", np.array([-1.0, -1.1, -0.9]))
    >>> real = xr.Dataset(dict(log_weight=log_weight, prior_draws=("chain", np.ones(3))))
    >>> table = bdmc.summary(xr.DataTree.from_dict(dict(real=real)))
    >>> round(float(table.loc[("real", "lower bound"), "error"]), 3)
    0.058
    """
    check_flags(details=details)
    table = summary_of(Reading.of(dt))
    return Table.of(table if details else table.drop(columns=QUARTILES))


@once
def summary_of(read: Reading) -> pd.DataFrame:
    """Return the table of `summary`."""
    if read.is_tempering:
        found = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
        rows = {("tempering", "evidence"): _withheld(found, "RTS")}
    else:
        rows = _annealed_rows(Reading.annealed(read))
    table = frame(rows, ["value", "error", *QUARTILES, "valid", "kind"], "data", "quantity")
    table = table.sort_index(level="data", sort_remaining=False)
    table.attrs["warnings"] = [doubt.with_remedy for doubt in doubts_of(read)]
    return table


def _annealed_rows(read: Reading) -> dict[tuple[str, str], dict]:
    """Return all rows; certified bounds come first if the mean of log weights does not exist."""
    rows = {
        (data, name): row
        for data, (forward, _) in SIDES.items()
        if read.has(forward)
        for name, row in _sandwich(read, data).items()
    }
    kind = "holds with 95%, any number of chains"
    certain = {
        (data, f"certified {side}"): {"value": row[side], "valid": True, "kind": kind}
        for (data, _), row in certified_of(read).iterrows()
        if data == "real" or len(read.side("forward").log_weight) == 1
        for side in ("lower", "upper")
        if np.isfinite(row[side])
    }
    tails = {data: read.side(SIDES[data][0]).tail for data, _ in certain}
    first = {key: row for key, row in certain.items() if not tails[key[0]].resolved}
    return first | rows | certain


def _sandwich(read: Reading, data: str) -> dict[str, dict]:
    """Return the rows of one kind of data; the real data may have no reverse runs."""
    forward, reverse = SIDES[data]
    rows = {"lower bound": bound_of(read, read.side(forward), data)}
    both = data == "simulated" or read.has(reverse)
    start = start_of(read, data) if both else ""
    if both:
        rows["upper bound"] = bound_of(read, read.side(reverse), data)
        rows["jeffreys bound"] = dict(gap_of(read, data))
    if data == "simulated":
        rows |= _total_variation(read, start) | _ideal_gap(read)
    if len(read.side(forward).log_weight) > 1:  # only the bounds on log ML are of use
        return rows
    rows["evidence"] = _evidence(read, data, "forward average")
    if both:
        given = f", {start}, error given it"
        rows["evidence, reverse"] = _evidence(read, data, "reverse average", given)
        if data == "real":  # of no use on simulated data
            rows["evidence, both"] = _evidence(read, data, "bar", f", {start}")
    return rows


def _total_variation(read: Reading, start: str) -> dict[str, dict]:
    """Return the row of the total variation, with its certified upper end in ``kind``."""
    if not (found := certified_total_variation(read)):
        return {}
    sets = "data sets" if found.datasets > 1 else "data set"
    kind = (
        f"a probability, at most {upwards(found.upper)} with "
        f"{100 * found.confidence:.4g}%, {found.datasets} {sets}, {start}"
    )
    error = clustered_mean(found.terms[:, None])[1]
    row = {"value": found.value, "error": error, "valid": True, "kind": kind}
    return {"total variation": row | quartiles(found.terms)}


def _ideal_gap(read: Reading) -> dict[str, dict]:
    """Return the row of the gap under perfect mixing, not valid if the gap of the runs is less."""
    forward = read.side("forward")
    if not (lengths := forward.lengths).size:
        return {}
    value = float(np.mean(lengths**2) / (forward.n_temperatures * read.n_particles))
    rhat, most = forward.pilot_rhat, np.inf
    if forward.tail.resolved:  # the upper 99.9 % limit of the mean gap
        row, n = gap_of(read, "simulated"), independent_gaps(read)
        limit = row["value"] + half_interval(row["error"], n, 1 - 2 * MAX_CHANCE)
        most = float(limit) if np.isfinite(limit) else np.inf
    effort, length = "T" if read.n_particles == 1 else "TN", np.mean(lengths)
    kind = f"Λ²/{effort}, perfect mixing; Λ = {length:.3g} nats^½, from the pilot"
    if rhat > MAX_RHAT:
        kind += f", which may have missed a part: R̂ {rhat:.2g}"
    if value > most:
        kind += f"; not valid: the gap of the runs is smaller, at most {most:.2g}"
    valid = not (rhat > MAX_RHAT or value > most)
    # At T = 1 nothing mixes, and draws far out in the tails of a fit make Λ very large.
    is_shown = valid or forward.n_temperatures > 1
    return {"ideal gap": {"value": value, "valid": valid, "kind": kind}} if is_shown else {}


def _evidence(read: Reading, data: str, method: str, more: str = "") -> dict:
    """Return the row of one method of `evidence` on the only data set."""
    row = estimates_of(read, data).get((data, 0, method))
    if not row:
        return {"valid": False, "kind": "no chain was finished in one of the directions"}
    return _withheld(row, ("BAR" if method == "bar" else "averaged weights") + more)


def _withheld(row: Estimate, kind: str) -> dict:
    """Return the row of an estimate, without its error if its check in `evidence` fails."""
    if not row.valid:
        kind += f"; not valid: {row.reason}"
    error = row.error if row.valid else np.nan
    return {"value": row.value, "error": error, "valid": bool(row.valid), "kind": kind}
