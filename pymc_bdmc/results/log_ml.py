"""Estimate log ML of a result: by every estimator in a table, and as one number with its error."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.density.draws import as_idata
from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.estimators import (
    ESTIMATORS,
    Comparison,
    Estimate,
    compare_estimators,
    count_passages,
    log_prior_mass,
    mbar_error,
    rao_blackwellized,
    sequential_likelihood,
    thermodynamic_integration,
)
from pymc_bdmc.results.bridge import bridge_sampling
from pymc_bdmc.results.checks.missed import (
    gaps_on_simulated,
    refuting_path,
    short_on_simulated,
    sign_of_a_miss,
)
from pymc_bdmc.results.checks.runs import interruption, undefined_far, undefined_near
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy, Table, frame, outwards
from pymc_bdmc.results.reading import DataSet, Reading, once
from pymc_bdmc.results.sandwich import certified_of

TEMPERING_METHODS = [
    "RTS", "sequential likelihood", "TI riemann", "TI trapezoid", "TI corrected",
    "TI-RB riemann", "TI-RB trapezoid", "TI-RB corrected", "MBAR",
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
        rows = estimates_of(read, "simulated") | estimates_of(read, "real")
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


@once
def estimates_of(read: Reading, data: str) -> dict[tuple[str, int, str], Listed]:
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
        if missed > 1.0:  # nats (root mean square); chosen
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
def tempering_rows(read: Reading, method: str) -> dict[tuple[str, int, str], Listed]:
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
        valid = bool(found.valid and passages >= 10)  # of all chains; chosen
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


Z95 = 1.96
"""Half of a 95 % interval, in standard errors."""


@dataclass(frozen=True, repr=False)
class WithInterval:
    """A number with its standard error, nats; NaN if it is not valid."""

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

    def __repr__(self) -> str:
        return self.with_interval if self.valid else "not known"


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


def log_ml(dt: Any, model: pm.Model | None = None, *, random_seed: RandomSeed = None) -> LogML:
    """Return the log marginal likelihood of the data with its error and how it was found; nats.

    A result has the estimate that `evidence` recommends, and its error is widened as there. If the
    checks contradict every estimate, value and error are NaN, and the certified bounds remain.

    Draws of another sampler, given with their ``model``, have one by bridge sampling, without
    annealing. It is not valid if `score_test`, or importance sampling from a fit to the draws,
    contradicts them. It is one-sided: nothing shows what the draws miss. ``pm.sample_bdmc(model,
    posterior=idata)`` looks for that.

    Parameters
    ----------
    dt : DataTree, Dataset or InferenceData
        Result of `sample_bdmc`, `anneal`, `lattice.anneal`, `RBM.anneal` or `temper`; for a system
        without data log ML is log Z. Or draws from the posterior of ``model``, by ``chain`` and
        ``draw``: 400 or more, and four for every element of θ. Draws of the same chain should
        follow each other as they were made, since the error counts their autocorrelation.
    model : pymc.Model or object that has one, optional
        The model of draws: with a fit of Bambi, Bambi's own. Results need none.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the draws from the reference, in bridge sampling.

    Returns
    -------
    LogML

    Raises
    ------
    ValueError
        If there are no runs on the real data, or the result lacks a group or a variable. With a
        ``model``, if ``dt`` is a result, if draws are too few or of another model or data, or if a
        variable is discrete or lies on a circle.

    Notes
    -----
    Bridge sampling [1]_ is Bennett's acceptance ratio between the posterior and a reference. A t
    distribution is fitted to one half of the draws, mirrored at its centre so that skewness does
    not matter [2]_, and the other half is compared with as many draws from it; then the halves
    change places. The estimate is valid if 100 effective draws on either side cross to the other,
    if the halves agree, and if the draws have an effective sample size of 400 in every element of
    θ. Errors count the autocorrelation of the draws [3]_.

    Results of `sample_bdmc` have the same in attributes of their root, so that other programs can
    read it: ``log_ml``, ``log_ml_error`` (a standard error) and ``log_ml_certified_lower`` (95 %),
    all in ``log_ml_units``, nats, with ``log_ml_method`` and ``log_ml_notes``. The value is also in
    ``sample_stats["log_marginal_likelihood"]`` by chain, where `pymc.sample_smc` has its own. The
    four chains are parts of one sample, so their values are equal.

    References
    ----------
    .. [1] Meng and Wong (1996), Simulating ratios of normalizing constants via a simple identity: a
       theoretical exploration. Statistica Sinica 6, 831-860.
    .. [2] Meng and Schilling (2002), Warp bridge sampling. https://doi.org/10.1198/106186002457
    .. [3] Micaletto and Vehtari (2025), Bridge sampling diagnostics.
       https://doi.org/10.48550/arXiv.2508.14487

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     p = pm.Beta("p", 1, 1)
    ...     heads = pm.Binomial("heads", 20, p, observed=14)
    ...     dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> found = bdmc.log_ml(dt)  # every number of heads is equally probable: log(1/21) = -3.045
    >>> round(found.value, 1), found.valid, found.method
    (-3.0, True, 'forward average')

    Exact draws of the same posterior, Beta(15, 7), give log ML too:

    >>> import numpy as np
    >>> import xarray as xr
    >>> draws = np.random.default_rng(1).beta(15, 7, size=(4, 1000))
    >>> idata = xr.Dataset(dict(p=(("chain", "draw"), draws)))
    >>> found = bdmc.log_ml(idata, model, random_seed=1)
    >>> round(found.value, 1), found.valid, found.method
    (-3.0, True, 'bridge sampling')
    """
    read = Reading.of(dt)
    if model is None:
        if random_seed is not None:
            raise ValueError("random_seed: log ML of a result draws nothing; leave it out.")
        return log_ml_of(read)
    if read.has("real"):
        raise ValueError("model: dt is a result of sample_bdmc, which needs none: bdmc.log_ml(dt).")
    rng = np.random.default_rng(entropy_of(random_seed))
    idata = as_idata("idata", dt, model)
    found, notes = bridge_sampling(idata, checked_model(model), rng)
    value, error = (found.value, found.error) if found.valid else (np.nan, np.nan)
    method = found.method if found.valid else ""
    return LogML(
        value, error, found.valid, method, found.reason, -np.inf, np.inf, "\n".join(notes).strip()
    )


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
