"""Judge the draws of any sampler against the draws of an annealing run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.density.draws import as_idata
from pymc_bdmc.density.prior import joint_density
from pymc_bdmc.density.refuse import model_of, with_plain_tensors
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import (
    DrawsComparison,
    certified_lower,
    compare_draws,
    copies,
    differing_directions,
    log_mean_exp,
)
from pymc_bdmc.estimators.agreement import MARGINS, effective_runs, exceeded
from pymc_bdmc.reference.metric import estimate_metric
from pymc_bdmc.reference.student import Reference, make_reference, mix_references
from pymc_bdmc.results.checks.draws import (
    DIRECTIONS,
    MEASURES,
    MOST_COPIES,
    agreeing,
    enough_draws,
    own_doubts,
    which_is_wrong,
)
from pymc_bdmc.results.finding import Status, status_html
from pymc_bdmc.results.particles import Elements, Unconstrained, paired_elements
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.score import most_missed, score_of

LOG_JOINT = "log p(θ, y)"

ALPHA = 1e-3
"""Probability that a side that is right is said to miss something."""


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
        the draws, if it is larger than chance explains; ``away``, the distance from the median
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
    >>> import numpy as np
    >>> import pymc as pm
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(simulate=None, chains=64, random_seed=1, cores=1, progressbar=False)
    >>> exact = np.random.default_rng(1).beta(8, 4, size=(4, 1000))
    >>> bdmc.agreement(dt, xr.Dataset({"p": (("chain", "draw"), exact)})).status
    'good'
    """
    read, idata = Reading.of(dt), as_idata("idata", idata, model)
    given = None if model is None else model_of(model)
    free = [rv.name for rv in given.free_RVs] if given else None
    elements = paired_elements(read, idata, free, var_names)
    model = given or pm.Model.get_context(error_if_none=False)
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
    if status != "good" and model is not None:
        score = score_of(TemperedDensity(model).check(), as_idata("idata", idata), "idata")
        text = [score.text] * (score.status == "bad") + text
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


def missed_shares(
    elements: Elements, model: pm.Model, log_weights: np.ndarray, ess: tuple[float, float]
) -> tuple[float, float]:
    """Return by how many nats the run's log ML is too low, and the share that the draws miss.

    Both are lower bounds; 0 if nothing is shown. ``log_weights`` are log Ẑ of the runs on the real
    data, and ``ess`` are the effective sample sizes of draws and of particles.

    Let r be a t distribution that is fitted to the particles of the run, and u(θ) = log p(θ, y) −
    log r the surplus of a state. If the run is right, u of its n effective particles and of a
    further draw have the same distribution. So a region A = {u > c}, with c the largest u of the
    particles, holds a share above a of the posterior with a probability of at most (1 − a)^n. Draws
    in A alone prove nothing: a chain may be stuck at a narrow peak of the density. But importance
    sampling from a fit to these draws has the mean Z_A = ∫_A p(θ, y) dθ whatever the draws are. If
    a certified lower bound on Z_A/Z is too large for n particles outside of A, the run is wrong.
    Particles in turn refute draws if they have such a surplus over a fit to the draws; their share
    needs no importance sampling, since runs have weights.
    """
    # Discrete variables have no fit.
    if any(rv.dtype.startswith(("int", "uint", "bool")) for rv in model.free_RVs):
        return 0.0, 0.0
    density = Unconstrained(TemperedDensity(model).check())

    def side(source: np.ndarray, weights: np.ndarray, most: int, ess: float) -> _Side:
        every = -(-weights.size // most)
        values, weights = elements.values(source[:, ::every]), weights[:, ::every]
        theta = density.rows({rv.name: values[rv.name] for rv in model.free_RVs})
        log_density = np.nan_to_num(density.log_joint(theta), nan=-np.inf, neginf=-np.inf)
        weights = np.where(log_density > -np.inf, weights.ravel(), 0).reshape(weights.shape)
        weights /= weights.sum()
        return _Side(theta, log_density, weights, min(ess, 1 / np.sum(weights**2)))

    try:
        with np.errstate(all="ignore"):
            # At most so many densities are evaluated.
            equal = np.ones(elements.draws.shape[:2])
            draws = side(elements.draws, equal, 2000, ess[0])
            particles = side(elements.particles, elements.weights, 4000, ess[1])
            too_low = _too_low(density.log_joint, particles, draws, log_weights)
            found = too_low, _missed_by_draws(draws, particles)
    except FloatingPointError:  # a density that is +∞ shows nothing
        return 0.0, 0.0
    return found


class _Side(NamedTuple):
    """Draws or particles on the unconstrained scale."""

    theta: np.ndarray  # shape (n, d)
    log_density: np.ndarray  # log p(θ, y), shape (n,), nats
    weights: np.ndarray  # they add up to 1, by chain or run
    ess: float  # effective number

    def beyond(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return a test of states, with their log p(θ, y), for a surplus above all of this side."""
        fit = _fit(self.theta, self.weights.ravel())
        surplus = self.log_density - fit.log_density(self.theta)
        level = exceeded(surplus, self.weights, 1 / (self.ess + 1))
        return lambda theta, log_density: log_density - fit.log_density(theta) > level


def _fit(theta: np.ndarray, weights: np.ndarray) -> Reference:
    theta, weights = theta[weights > 0], weights[weights > 0]
    metric = estimate_metric(theta, np.zeros_like(theta), weights, for_moves=False)
    return make_reference(weights @ theta, metric)


def _too_low(
    log_joint: Callable[[np.ndarray], np.ndarray],
    particles: _Side,
    draws: _Side,
    log_weights: np.ndarray,
) -> float:
    """Return the nats that states beyond the particles add at least, if they refute the run."""
    is_beyond = particles.beyond()
    is_inside = is_beyond(draws.theta, draws.log_density)
    inside, density = draws.theta[is_inside], draws.log_density[is_inside]
    if len(inside) < 2 * draws.theta.shape[1]:
        return 0.0
    # A few of them may lie far from a narrow peak, where the density is low.
    parts = (inside, inside[density >= np.median(density)])
    fit = mix_references([_fit(each, np.full(len(each), 1 / len(each))) for each in parts])
    theta = fit.draw(8000, np.random.default_rng(0))
    found = log_joint(theta)
    terms = np.where(is_beyond(theta, found), found - fit.log_density(theta), -np.inf)
    averages = [log_mean_exp(batch) for batch in terms.reshape(32, -1)]
    share = 1 - ALPHA / 3
    lower = certified_lower(averages, share, kind="order statistics").lower
    scaled = np.exp(log_weights - log_weights.max())
    error = scaled.std(ddof=1) / scaled.mean() / np.sqrt(scaled.size)
    upper = log_mean_exp(log_weights) + stdtrit(scaled.size - 1, share) * error
    missed = np.exp(min(lower - upper, 30.0))
    return float(np.log1p(missed)) if missed > most_missed(particles.ess, ALPHA / 3) else 0.0


def _missed_by_draws(draws: _Side, particles: _Side) -> float:
    """Return the smallest share of the particles beyond the draws, if it refutes the draws."""
    w, of_runs = particles.weights, particles.weights.sum(axis=1)
    is_beyond = draws.beyond()(particles.theta, particles.log_density).reshape(w.shape)
    by_run = (w * is_beyond).sum(axis=1)
    share, degrees = by_run.sum(), effective_runs(of_runs) - 1
    if not degrees > 0:
        return 0.0
    jackknife = (len(w) - 1) / len(w) * np.sum(((by_run - of_runs * share) / (1 - of_runs)) ** 2)
    lower = float(share - stdtrit(degrees, 1 - ALPHA / 2) * np.sqrt(jackknife))
    return lower if lower > most_missed(draws.ess, ALPHA / 2) else 0.0


def agreement_dataset(found: Agreement) -> xr.Dataset:
    """Return the agreement as a group of a result, for `Reading.agreement`."""
    dataset = xr.Dataset.from_dataframe(found.table)
    return dataset.assign_attrs(
        status=found.status, text=found.text, too_low=found.too_low,
        contradicts=int(found.contradicts), sample_dims=[],
    )  # fmt: skip
