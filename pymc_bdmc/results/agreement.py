"""Judge the draws of any sampler against the draws of an annealing run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.density.prior import joint_density
from pymc_bdmc.density.refuse import with_plain_tensors
from pymc_bdmc.estimators import DrawsComparison, compare_draws, copies, differing_directions
from pymc_bdmc.estimators.agreement import MARGINS
from pymc_bdmc.results.checks.draws import (
    DIRECTIONS,
    MEASURES,
    MOST_COPIES,
    agreeing,
    enough_draws,
    own_doubts,
    which_is_wrong,
)
from pymc_bdmc.results.checks.which_side import missed_shares
from pymc_bdmc.results.finding import Status, status_html
from pymc_bdmc.results.particles import Elements, paired_elements
from pymc_bdmc.results.reading import Reading

LOG_JOINT = "log p(θ, y)"


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
        exceed, and ``reach``, its limit; ``lowest`` and ``highest``, the means of two chains that
        contradict each other, if chains do; ``status``.
    too_low : float
        Nats by which log ML of the run is shown to be too low, since it misses part of the
        posterior; 0 if nothing is shown.
    contradicts : bool
        Whether chains of the draws contradict each other.

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
    contradicts: bool = False

    @property
    def sentences(self) -> list[str]:
        """Return the lines of the text."""
        return self.text.split("\n")

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
    chains that lie far off or contradict each other, draws are not judged if their effective sample
    size is below 100 or if their R̂ is above 1.01; and none are if the runs contradict each other.

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
    read = Reading.of(dt)
    elements = paired_elements(read, idata, free, var_names)
    model = model or pm.Model.get_context(error_if_none=False)
    # The model may be another one, and its variables may be left out.
    is_known = model is not None and {rv.name for rv in model.free_RVs} <= set(elements.shapes)
    model = with_plain_tensors(model) if is_known else None
    labels, found = _compared(elements, model)
    statuses = found.status(found.estimate.size)
    table = _table(labels, found, statuses)
    doubts = list(own_doubts(read, elements.weights))
    chosen = np.flatnonzero(elements.continuous & elements.free)[:50]
    repeated = copies(elements.draws[..., chosen]) if chosen.size else 1.0
    is_element = ~np.isin(labels, DIRECTIONS)
    status: Status = "open"
    contradicts = bool(repeated <= MOST_COPIES and found.contradicts.any())
    if repeated > MOST_COPIES or contradicts or (not doubts and (statuses == "bad").any()):
        status = "bad"
    elif not doubts and (statuses[is_element] == "good").all():
        status = "good"
    missed, log_weights = (0.0, 0.0), read.real_log_weights
    has_weights = log_weights.size >= 2 and np.isfinite(log_weights).any()
    if status != "good" and model is not None and repeated <= MOST_COPIES and has_weights:
        ess = float(found.ess[is_element].min()), float(found.own_ess[is_element].min())
        missed = missed_shares(elements, model, log_weights, ess)
    too_low, _ = missed
    if too_low and not contradicts:
        status = "open"
    text = list(agreeing(status, table, elements.n_draws, repeated, missed))
    if status == "open" and not too_low:
        differs = (statuses == "bad").any()
        text += doubts or ([] if differs else [enough_draws(table, found, labels, elements)])
    text += which_is_wrong(read, Reading.of(idata), "open" if contradicts else status)
    return Agreement(status, "\n".join(text), table, too_low, contradicts)


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
        if directions := differing_directions(*part):
            labels = [*labels, *DIRECTIONS]
            found = found.joined(directions[1])
    return labels, found


def _log_joints(elements: Elements, model: pm.Model) -> list[np.ndarray]:
    """Return log p(θ, y) of draws and particles, with a finite low value where it is −∞."""
    log_joint = joint_density(model)
    found = [
        log_joint(elements.values(source)).reshape(source.shape[:2])
        for source in (elements.draws, elements.particles)
    ]
    possible = np.concatenate([each[np.isfinite(each)] for each in found])
    low, high = (possible.min(), possible.max()) if possible.size else (0.0, 0.0)
    floor = low - 10 * (high - low) - 1
    return [np.where(np.isfinite(each), each, floor) for each in found]


def _table(labels: list[str], found: DrawsComparison, statuses: np.ndarray) -> pd.DataFrame:
    columns: dict[str, np.ndarray] = {}
    limits = found.limits(0.95, found.estimate.size)
    for j, name in enumerate(MEASURES):
        scale = np.exp if name == "ratio" else np.asarray
        parts = zip(("", "_lower", "_upper"), (found.estimate, *limits), strict=True)
        with np.errstate(over="ignore"):  # exp of a very wide limit may be infinite
            columns |= {f"{name}{end}": scale(values[:, j]) for end, values in parts}
    for name in ("ess", "own_ess", "rhat", "away", "reach"):
        columns[name] = getattr(found, name)
    columns["lowest"], columns["highest"] = found.ends.T
    columns["status"] = statuses
    table = pd.DataFrame(columns, index=pd.Index(labels, name="quantity"))
    rank = np.array([["bad", "open", "good"].index(status) for status in statuses])
    far = np.nanmax(np.abs(found.estimate) / MARGINS, axis=1)
    far = np.where(found.is_far, np.maximum(far, found.away / MARGINS[0]), far)
    return table.iloc[np.lexsort((-far, rank))]


def agreement_dataset(found: Agreement) -> xr.Dataset:
    """Return the agreement as a group of a result, for `Reading.agreement`."""
    dataset = xr.Dataset.from_dataframe(found.table)
    return dataset.assign_attrs(
        status=found.status, text=found.text, too_low=found.too_low,
        contradicts=int(found.contradicts), sample_dims=[],
    )  # fmt: skip
