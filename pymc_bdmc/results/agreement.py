"""Judge the draws of any sampler against the draws of an annealing run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import (
    DrawsComparison,
    compare_draws,
    copies,
    differing_directions,
    refutes,
)
from pymc_bdmc.estimators.agreement import (
    FEWEST_RUNS,
    LEAST_ESS,
    MARGINS,
    MOST_RHAT,
    effective_runs,
)
from pymc_bdmc.model.checks import with_plain_tensors
from pymc_bdmc.model.joint import log_joint
from pymc_bdmc.results.elements import Elements, paired_elements
from pymc_bdmc.results.evidence import evidence, refuting_path
from pymc_bdmc.results.groups import real_log_weights
from pymc_bdmc.results.mixing import rhat_of_runs
from pymc_bdmc.results.notebook import Status, status_html
from pymc_bdmc.results.which_side import Missed, missed_shares

__all__ = ["Agreement", "agreement", "agreement_dataset", "kept_agreement"]

LOG_JOINT = "log p(θ, y)"

DIRECTIONS = ["wider direction", "narrower direction", "shifted direction"]
"""Names of the rows that combine several elements."""

MOST_COPIES = 1.5
"""Largest mean number of copies of a draw that is not reported."""

_MEASURES = ("shift", "ratio", "distance")


@dataclass(frozen=True, eq=False, repr=False)
class Agreement:
    """Result of `agreement`; it prints as its text, and notebooks show its table too.

    Attributes
    ----------
    status : {"good", "open", "bad"}
    text : str
        A few sentences.
    table : DataFrame
        A row for every element, the worst first. ``shift``, ``ratio`` and ``distance`` with their
        simultaneous 95 % limits ``…_lower`` and ``…_upper``; ``ess`` and ``own_ess``, the effective
        sample sizes of the draws and of the run's own particles in this row; ``rhat``, split R̂ of
        the draws, where it is larger than chance explains; ``away``, the distance from the median
        of the run, in posterior standard deviations, that nine tenths of the draws of some chain
        exceed, and ``reach``, its limit; ``status``.
    too_low : float
        Nats by which log ML of the run is shown to be too low, since it misses part of the
        posterior; 0 if nothing is shown.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> far = (dt["posterior"].dataset["p"] / 2).to_dataset()
    >>> bdmc.agreement(dt, far).status
    'bad'
    """

    status: Status
    text: str
    table: pd.DataFrame
    too_low: float = 0.0

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return status_html(self.status, self.text, self.table)


def agreement(
    dt: xr.DataTree,
    idata: Any,
    *,
    model: pm.Model | None = None,
    var_names: Sequence[str] | None = None,
) -> Agreement:
    """Judge draws of any sampler from the posterior against those of a run.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` with runs on the real data; ``simulate=None`` is enough.
    idata : DataTree, Dataset or InferenceData
        Draws of NUTS, ADVI, SMC or another sampler from the posterior of the same model and data,
        by ``chain`` and ``draw``; one chain is enough. Every free variable of the model must be
        there; Deterministics are compared if both sides have them.
    model : pymc.Model, optional
        Needed for the row log p(θ, y). Default: the model of the ``with`` block, if there is one.
    var_names : sequence of str, optional
        Variables to compare, if the draws lack some. Nothing is said about the others.

    Returns
    -------
    Agreement

    Raises
    ------
    ValueError
        If a free variable is missing or has another shape; for values that are not finite; for
        fewer than 100 draws; for a fit to other data; and if ``dt`` has no runs on the real data.
        The message names the variable and the remedy.

    Notes
    -----
    Rows are all elements of all variables, log p(θ, y), and three directions in which the
    covariance matrices or the means differ most (`pymc_bdmc.estimators.differing_directions`). Each
    has three columns, each with its own error (`pymc_bdmc.estimators.compare_draws` derives the
    errors and the margins):

    ============  =====================================================  ======================
    column        what                                                   margin
    ============  =====================================================  ======================
    ``shift``     mean of the draws less that of the run, in posterior   0.25
                  standard deviations (of the run)
    ``ratio``     standard deviation of the draws over that of the run   1.25, or 1/1.25
    ``distance``  largest error of any probability P(x ≤ c)              0.15
    ============  =====================================================  ======================

    *Good*: in every row and column both 95 % limits lie within the margins. If a row is off by more
    than its margin, draws are called good with a probability of at most 0.05. (The limits in the
    table are wider, since all of them hold together.) The directions can only make the status
    *bad*, since they are tested on half of the draws. *Bad*: simultaneous limits exclude *no
    difference*, and the estimate is beyond half of the margin; or a chain lies far off (column
    ``away``); or the draws are copies of each other. Draws from the posterior are called bad with a
    probability of at most 0.005, if the run's own are from it too. *Open*: neither. Apart from
    chains that lie far off, draws are not judged if their effective sample size is below 100 or if
    their R̂ is above 1.01; and none are if the runs contradict each other.

    *Which side is wrong?* If the draws are not good, the density p(θ, y) may show it, for a model
    with continuous variables only. If draws lie where it is far above all that the run saw, and
    importance sampling finds a part of the posterior there that the run cannot have missed by
    chance (p ≤ 0.001), the run is wrong. Then the status is *open*, and no log ML of the run should
    be used. If it is the particles that lie where the draws do not, the draws are wrong. A wrong
    side is not always found.

    The run's own draws are an estimate too; `verdict` says how far they can be trusted.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(simulate=None, chains=64, random_seed=1, cores=1, progressbar=False)
    ...     idata = pm.sample(1000, chains=2, cores=1, random_seed=1, progressbar=False)
    ...     found = bdmc.agreement(dt, idata)
    >>> found.status
    'good'
    """
    free = [rv.name for rv in model.free_RVs] if model else None
    elements = paired_elements(dt, idata, free, var_names)
    model = _matching_model(elements, model)
    labels, found = _compared(elements, model)
    hypotheses = found.estimate.size
    statuses = found.status(hypotheses)
    table = _table(labels, found, statuses, hypotheses)
    doubts = list(_own_doubts(dt, elements.weights))
    repeated = _copies(elements)
    is_direction = np.isin(labels, DIRECTIONS)
    status: Status = "open"
    if repeated > MOST_COPIES or (not doubts and (statuses == "bad").any()):
        status = "bad"
    elif not doubts and (statuses[~is_direction] == "good").all():
        status = "good"
    missed = Missed(0.0, 0.0)
    if status != "good" and model is not None and repeated <= MOST_COPIES:
        missed = _missed(dt, elements, model, found, ~is_direction)
    if missed.too_low:
        status = "open"
    told = list(_told(status, table, elements, repeated, missed))
    if status == "open" and not missed.too_low:
        differs = (statuses == "bad").any()
        told += doubts or ([] if differs else [_to_settle(table, found, labels, elements)])
    told += _whose_fault(dt, idata, status)
    return Agreement(status, "\n".join(told), table, missed.too_low)


def _missed(
    dt: xr.DataTree,
    elements: Elements,
    model: pm.Model,
    found: DrawsComparison,
    rows: np.ndarray,
) -> Missed:
    """Say which side misses part of the posterior; neither, if the model is not that of the run."""
    log_weights = real_log_weights(dt)
    if log_weights.size < 2 or not np.isfinite(log_weights).any():
        return Missed(0.0, 0.0)
    worth = float(found.ess[rows].min()), float(found.own_ess[rows].min())
    return missed_shares(elements, model, log_weights, worth)


def _matching_model(elements: Elements, model: pm.Model | None) -> pm.Model | None:
    """Return the model given or in context, if ``elements`` has all its free variables."""
    model = model or pm.Model.get_context(error_if_none=False)
    if model is None or not {rv.name for rv in model.free_RVs} <= set(elements.shapes):
        return None
    return with_plain_tensors(model)


def _compared(elements: Elements, model: pm.Model | None) -> tuple[list[str], DrawsComparison]:
    """Compare draws and particles in every row; return the names of the rows and the comparison."""
    labels, draws, particles = elements.labels, elements.draws, elements.particles
    if model is not None:
        of_draws, of_particles = _log_joints(elements, model)
        labels = [*labels, LOG_JOINT]
        draws = np.concatenate([draws, of_draws[..., None]], axis=-1)
        particles = np.concatenate([particles, of_particles[..., None]], axis=-1)
    found = compare_draws(draws, particles, elements.weights)
    moving = elements.free & ~np.isnan(found.estimate[: elements.free.size, 0])
    if moving.sum() > 1:
        part = elements.draws[..., moving], elements.particles[..., moving], elements.weights
        directions = differing_directions(*part)
        if directions:
            labels = [*labels, *DIRECTIONS]
            found = found.joined(directions[1])
    return labels, found


def _log_joints(elements: Elements, model: pm.Model) -> list[np.ndarray]:
    """Return log p(θ, y) of draws and particles, with a finite low value where it is −∞."""
    found = []
    for source in (elements.draws, elements.particles):
        found.append(log_joint(model, elements.values(source)).reshape(source.shape[:2]))
    possible = np.concatenate([each[np.isfinite(each)] for each in found])
    low, high = (possible.min(), possible.max()) if possible.size else (0.0, 0.0)
    floor = low - 10 * (high - low) - 1
    return [np.where(np.isfinite(each), each, floor) for each in found]


def _copies(elements: Elements) -> float:
    """Return the mean number of copies of a draw; 1 if no element could show copies."""
    chosen = np.flatnonzero(elements.continuous & elements.free)[:50]
    return copies(elements.draws[..., chosen]) if chosen.size else 1.0


def _table(
    labels: list[str], found: DrawsComparison, statuses: np.ndarray, hypotheses: int
) -> pd.DataFrame:
    columns: dict[str, np.ndarray] = {}
    limits = found.limits(0.95, hypotheses)
    for j, name in enumerate(_MEASURES):
        scale = np.exp if name == "ratio" else np.asarray
        parts = zip(("", "_lower", "_upper"), (found.estimate, *limits), strict=True)
        with np.errstate(over="ignore"):  # exp of a very wide limit may be infinite
            columns |= {f"{name}{end}": scale(values[:, j]) for end, values in parts}
    for name in ("ess", "own_ess", "rhat", "away", "reach"):
        columns[name] = getattr(found, name)
    columns["status"] = statuses
    table = pd.DataFrame(columns, index=pd.Index(labels, name="quantity"))
    rank = np.array([["bad", "open", "good"].index(status) for status in statuses])
    far = np.nanmax(np.abs(found.estimate) / MARGINS, axis=1)
    far = np.where(found.is_far, np.maximum(far, found.away / MARGINS[0]), far)
    return table.iloc[np.lexsort((-far, rank))]


def _told(
    status: Status, table: pd.DataFrame, elements: Elements, repeated: float, missed: Missed
) -> Iterator[str]:
    """Yield the sentences about the draws."""
    n = elements.draws.shape[0] * elements.draws.shape[1]
    worst = _worst(table)
    if repeated > MOST_COPIES:
        yield (
            f"The {n} draws that you gave are copies: each occurs {repeated:.2g} times on average, "
            "so every effective sample size and error computed from them is wrong."
        )
    elif missed.too_low:
        yield (
            f"The {n} draws that you gave differ from those of this run, and it is the run that is "
            "wrong: it misses part of the posterior, where some of your draws lie, and its log ML "
            f"is too low by at least {missed.too_low:.2g} nats. Do not use its draws or its log "
            f"ML. {_difference(worst)}."
        )
    elif status == "bad":
        count = int(np.sum(table["status"] == "bad"))
        yield (
            f"The {n} draws that you gave are not from the posterior that this run finds. "
            f"{_difference(worst)}; {count} of {len(table)} quantities differ."
        )
        if missed.by_draws:
            yield (
                f"They have nothing where at least {missed.by_draws:.1%} of the posterior lies "
                "that this run finds."
            )
    elif status == "good":
        count = int(np.sum(~table.index.isin(DIRECTIONS)))
        yield (
            f"The {n} draws that you gave agree with those of this run: of {count} quantities, no "
            f"mean is off by more than {MARGINS[0]:g} posterior standard deviations, no standard "
            f"deviation by more than a factor of {np.exp(MARGINS[1]):g}, and no probability "
            f"P(x ≤ c) by more than {MARGINS[2]:g} (95 % confidence)."
        )
        yield f"{_difference(worst)}."
    else:
        yield (
            f"It is open whether the {n} draws that you gave agree with those of this run. "
            f"{_difference(worst)}."
        )


def _worst(table: pd.DataFrame) -> pd.Series:
    """Return the worst row: a bad one before an open one, an element before a direction."""
    bad = table["status"] == "bad"
    rows = table[bad] if bad.any() else table
    elements = rows[~rows.index.isin(DIRECTIONS)]
    return (elements if len(elements) else rows).iloc[0]


def _difference(row: pd.Series) -> str:
    """Describe the largest difference of a row in words, with its simultaneous limits."""
    said = f"The largest difference is in {row.name!r}: "
    if row["away"] > row["reach"]:
        return (
            f"{said}nine tenths of the draws of a chain are more than {row['away']:.2g} posterior "
            "standard deviations from the median of the run"
        )
    size = np.abs([row["shift"], np.log(row["ratio"]), row["distance"]]) / MARGINS
    name = _MEASURES[int(np.nanargmax(size))]
    value, lower, upper = (row[f"{name}{end}"] for end in ("", "_lower", "_upper"))
    if name == "shift":
        lower, upper = sorted(np.array([lower, upper]) * np.sign(value))
        side = "higher" if value > 0 else "lower"
        said += f"the mean is {abs(value):.2g} posterior standard deviations {side}"
    elif name == "ratio":
        said += f"the standard deviation is {value:.2g} times that of the run"
    else:
        said += f"a probability P(x ≤ c) is off by {value:.2g}"
    limits = "" if row["status"] == "good" else f" ({lower:.2g} to {upper:.2g})"
    return said + limits


def _to_settle(
    table: pd.DataFrame, found: DrawsComparison, labels: list[str], elements: Elements
) -> str:
    """Say how many draws or runs would settle the row with the widest limits."""
    chains, draws = elements.draws.shape[:2]
    elements_only = table[~table.index.isin(DIRECTIONS)]
    few = (elements_only["rhat"] > MOST_RHAT) | (elements_only["ess"] < LEAST_ESS)
    mixing = elements_only[few]
    if len(mixing):
        row = mixing.loc[mixing["ess"].idxmin()]
        rhat = f", with an R̂ of {row['rhat']:.3g}" if row["rhat"] > MOST_RHAT else ""
        return (
            f"The effective sample size of {row.name} is only {row['ess']:.0f}{rhat}. Run that "
            f"sampler longer, until every R̂ is below {MOST_RHAT:g} and every effective sample "
            f"size is at least {LEAST_ESS}."
        )
    # If the draws are right, the largest of all estimates is noise, seldom beyond the half width of
    # an interval that holds for all rows in half of the cases. The limits of its own row add to it.
    own, of_all = found.limits(0.90, 1)[1], found.limits(0.5, found.estimate.size)[1]
    needed = (own + of_all - 2 * found.estimate) / MARGINS
    needed[[label in DIRECTIONS for label in labels]] = 0
    place, j = np.unravel_index(np.nanargmax(needed), needed.shape)
    factor, of_draws = max(needed[place, j] ** 2, 1.2), found.share[place, j]
    wanted = []
    if of_draws > 0.2:
        wanted.append(f"{int(np.ceil(chains * draws * factor))} draws")
    if of_draws < 0.8:
        wanted.append(f"chains={int(np.ceil(len(elements.weights) * factor))} in sample_bdmc")
    return (
        f"{labels[place]} is the least certain row; {' and '.join(wanted)} would be enough if its "
        "error falls with the square root of the number."
    )


def _own_doubts(dt: xr.DataTree, weights: np.ndarray) -> Iterator[str]:
    """Yield the reasons why the run's own draws cannot judge others."""
    runs = effective_runs(weights.sum(axis=1))
    if runs < FEWEST_RUNS:
        yield (
            f"The weights of the {len(weights)} runs on the real data are so uneven that they "
            f"count as {runs:.1f}, too few to judge anything. Use more particles."
        )
    name, rhat = rhat_of_runs(dt)
    if rhat > MAX_RHAT:
        yield (
            f"The runs on the real data end in different places (R̂ of {name} is {rhat:.2g}), so "
            "this run's own draws cannot judge others. Use more particles."
        )
    if path := refuting_path(dt):
        yield (
            f"A few runs on path {path!r} reach a higher log ML than these, so this run misses "
            f"part of the posterior and cannot judge. Pass path={path!r} to sample_bdmc."
        )


def _whose_fault(dt: xr.DataTree, idata: Any, status: Status) -> Iterator[str]:
    """Say which draws are wrong, or more likely so, by log ML of the runs that they come from."""
    runs = [real_log_weights(each) for each in (dt, idata)]
    if status == "bad" and runs[0].size and not evidence(dt).loc["real"]["valid"].any():
        yield (
            "No estimate of log ML of this run can be trusted, so it may be this run that is "
            "wrong. Sample again with more particles."
        )
    if status == "bad" and all(each.size for each in runs):
        for higher, lower, whose in ((0, 1, "this run"), (1, 0, "the run that you gave")):
            if refutes(runs[higher], runs[lower]):
                yield (
                    f"{whose[0].upper()}{whose[1:]} has a higher log ML, by more than chance "
                    "explains, so the other misses part of the posterior."
                )
    yield (
        "The draws of the run are an estimate too: bdmc.verdict(dt) says how far they can be "
        "trusted."
    )


def agreement_dataset(found: Agreement) -> xr.Dataset:
    """Return the agreement as a group of a result, for `kept_agreement` to read."""
    dataset = xr.Dataset.from_dataframe(found.table)
    return dataset.assign_attrs(
        status=found.status, text=found.text, too_low=found.too_low, sample_dims=[]
    )


def kept_agreement(dt: xr.DataTree) -> Agreement | None:
    """Return the agreement of the draws that ``posterior=`` gave in the call, if any."""
    if "agreement" not in dt.children:
        return None
    kept = dt["agreement"].dataset
    status, text, missed = (kept.attrs[name] for name in ("status", "text", "too_low"))
    return Agreement(status, text, kept.to_dataframe(), float(missed))
