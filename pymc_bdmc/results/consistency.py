"""Compare runs on real and on simulated data, in a labelled table."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtrit

from pymc_bdmc.estimators import (
    Shortfall,
    distances_to_others,
    log_mean_exp,
    log_prior_mass,
    rank_among,
    run_distance,
    shortfall_difference,
    spread_and_tails,
)
from pymc_bdmc.model.matching import Matched
from pymc_bdmc.results.groups import check_annealed, ladder, mean_of_logs, variable

__all__ = [
    "ALPHA",
    "FEWEST_RUNS",
    "FEWEST_SETS",
    "MARGIN",
    "SPREAD",
    "consistency",
    "features_of",
    "forward_ladder",
    "half_interval",
    "simulated_from_prior",
]

ALPHA = 0.05
"""Largest p-value that the rank test flags."""

FEWEST_SETS = 19
"""Smallest number of simulated data sets with which the rank test can flag anything."""

FEWEST_RUNS = 8
"""Smallest number of runs on each kind of data; fewer may all agree by chance."""

MARGIN = 0.25
"""Nats by which the shortfall on real data may exceed that on simulated data."""

SPREAD = "spread of "
"""Beginning of the name of a feature, before that of an observed variable."""

_CHOSEN = (
    "no p-value: Matched chose simulated data that resemble the real ones, so they are not "
    "exchangeable; use FromPrior or FromHyperparameters"
)

COLUMNS = ["value", "error", "lower", "upper", "reference", "p_value", "valid", "flagged", "kind"]


def consistency(dt: xr.DataTree) -> pd.DataFrame:
    r"""Test whether runs on real and simulated data behave alike, and whether the data are alike.

    The bound on a sampler's divergence is found on simulated data. It applies to the real data if
    the sampler finds both equally hard. Simulated data can be like the real ones only if the model
    is right.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, with runs on real and on simulated data.

    Returns
    -------
    DataFrame
        Indexed by (quantity, temperatures), the number T of temperatures of each round that the
        result holds. Columns: ``value``; ``error``, one standard error; ``lower`` and ``upper``, an
        interval at 95 % by Student's t, with one degree of freedom less than there are runs;
        ``reference``, the value if nothing differed; ``p_value``; ``valid``, whether the check
        could have failed; ``flagged``, whether it did; ``kind``, a description, and what would make
        the row valid. Quantities:

        ``log weights``
            Distance (Wasserstein's, nats) of the forward log weights on real data from those on
            simulated data, after subtracting the best estimate of log ML of each data set (that at
            the largest T). With one simulated data set the p-value comes from permuting runs. It
            tests whether *these two* data sets differ, as two data sets of a right model may, so it
            never flags. With several data sets it is the rank of the real data among all.
        ``shortfall``
            Distance of the mean log weight below the best estimate of log ML on the real data, less
            the same distance on simulated data (the ``reference``). The divergence may be larger by
            this many nats. Flagged if the interval lies above 0.25 nats; valid if half of the
            interval is at most 0.25 nats and there are 8 runs on each kind of data.
        ``log ML``, ``path length``, ``spread of y``, ``tails of y``
            Deviation of the real data from the mean of all data sets, in standard deviations, with
            the rank as the p-value. The features are log ML, the thermodynamic length, and the
            spread and tails of each observed variable, value by value against the mean and standard
            deviation of each element (`pymc_bdmc.estimators.spread_and_tails`). These rows need two
            or more simulated data sets.
        ``model``
            The largest of the deviations, including that of the log weights: one test of the model.
            It is flagged at p ≤ 0.05, and valid with 19 or more simulated data sets, since fewer
            cannot give such a p-value. If data are simulated from the prior, a small spread and a
            large log ML do not count: data narrower than the prior expects are no error.

        With T = 1 nothing is annealed, and the fit to the real data is made with more effort than
        the others. So the log weights do not count in ``model`` and there is no path length.

    Raises
    ------
    ValueError
        If runs on real data, runs on simulated data or a variable are missing.

    Notes
    -----
    If everything is simulated from the prior and the model is right, data sets are exchangeable
    with the real one. Then the p-values of spread and tails are exact, and those of features of the
    runs nearly so: runs on simulated data use the step sizes of the real data. If hyperparameters
    are held at draws from a fit, p-values are approximate and rather too large, since the fit has
    seen the data. Data sets of `Matched` were chosen to resemble the real ones and are not
    exchangeable with them, so no rank has a p-value, and ``model`` is not valid.

    Runs see the data through the likelihood function only. So heavy tails under a normal model with
    a free scale change nothing in the runs: only ``tails of y`` shows them. A missing covariate
    that is itself normal is not detected at all, since the data *are* then those of the model with
    a larger scale. Wide priors make data sets so different that no real one stands out; held
    hyperparameters give a sharper test.

    References
    ----------
    Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with bidirectional
    Monte Carlo, Section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> runs = xr.Dataset(
    ...     dict(log_weight=(("dataset", "chain"), rng.normal(size=(2, 60)))),
    ...     coords=dict(beta=np.linspace(0, 1, 31)),
    ... )
    >>> groups = dict(forward=runs.isel(dataset=[0]), real=runs.isel(dataset=1))
    >>> table = bdmc.consistency(xr.DataTree.from_dict(groups))
    >>> bool(table.loc[("log weights", 30), "p_value"] > 0.05)
    True
    """
    check_annealed(dt, "consistency")
    temperatures, real, simulated, finished = forward_ladder(dt)
    n, rng = 1 + len(simulated), np.random.default_rng(0)
    # Use the same number of runs of every data set.
    alike = real[:, : simulated.shape[-1]]
    ranked = n > 2 and dt.attrs.get("simulate") != Matched.name
    if n == 2:
        test = "p: runs permuted, given both data sets"
    else:
        test = f"p: rank among {n} data sets" if ranked else _CHOSEN
    places = range(-len(temperatures), 0)
    distances = [run_distance(alike, simulated, rng, place) for place in places]
    shortfalls = [shortfall_difference(real, simulated, rng, place) for place in places]
    rows: dict[tuple[str, int], dict] = {}
    for t, distance in zip(temperatures, distances, strict=True):
        kind = f"distance of shifted log weights; {test}"
        rows["log weights", t] = {**distance._asdict(), "kind": kind}
        if n > 2 and not ranked:
            rows["log weights", t]["p_value"] = np.nan
    for t, shortfall in zip(temperatures, shortfalls, strict=True):
        rows["shortfall", t] = _shortfall(dt, shortfall, real, simulated)
    if n > 2:
        features = features_of(dt, np.concatenate([alike[None], simulated]), finished)
        for name, row in _ranks(features, test, ranked, simulated_from_prior(dt)).items():
            rows[name, temperatures[-1]] = row
    rows = {key: {"valid": False, "flagged": False} | row for key, row in rows.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table.index = pd.MultiIndex.from_tuples(table.index, names=["quantity", "temperatures"])
    return table


def forward_ladder(dt: xr.DataTree) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
    """Return the forward log weights of every round, on real and on simulated data.

    Returns
    -------
    temperatures : list of int
        T of each round.
    real : ndarray of shape (n_rounds, L)
        Nats; NaN marks a run that was not finished.
    simulated : ndarray of shape (n_datasets, n_rounds, K)
    finished : ndarray of int
        Indices of the simulated data sets that have finished runs in every round.

    Raises
    ------
    ValueError
        If there are no finished runs on the real data, or none on simulated data.
    """
    for group, remedy in (("real", "real_data=True"), ("forward", "simulated data")):
        if group not in dt.children:
            raise ValueError(
                f"dt: it has no group {group!r}, and runs on real data are compared with runs on "
                f"simulated data; call sample_bdmc with {remedy}."
            )
    runs = ladder(dt, "real").transpose("round", "chain")
    simulated = ladder(dt, "forward").transpose("dataset", "round", "chain").values
    there = ~np.isnan(simulated).all(axis=-1).any(axis=-1)
    if np.isnan(runs.values).all(axis=-1).any() or not there.any():
        raise ValueError("dt: no run was finished on the real data, or none on simulated data.")
    temperatures = runs["temperatures"].values.tolist()
    return temperatures, runs.values, simulated[there], np.flatnonzero(there)


def half_interval(error: float, n: int, confidence: float = 0.95) -> float:
    """Return half of the t interval of a mean of n values; infinite if n < 2."""
    return float(error * stdtrit(n - 1, (1 + confidence) / 2)) if n > 1 else np.inf


def _shortfall(dt: xr.DataTree, found: Shortfall, real: np.ndarray, simulated: np.ndarray) -> dict:
    tail = min(
        (mean_of_logs(dt, group) for group in ("real", "forward")), key=lambda tail: tail.resolved
    )
    runs = min(int(np.sum(~np.isnan(each[..., -1, :]))) for each in (real, simulated))
    reach = half_interval(found.error, runs)
    valid = tail.resolved and runs >= FEWEST_RUNS and reach <= MARGIN
    kind = f"mean shortfall on real data, {found.real:.3g}, less that on simulated data"
    if not tail.resolved:
        kind += f"; the mean log weight is {tail.reason}"
    elif not valid:
        closer = (reach / MARGIN) ** 2 if np.isfinite(reach) else 1.0
        kind += (
            f"; more chains are needed: take chains={max(FEWEST_RUNS, int(np.ceil(runs * closer)))}"
        )
    return {
        "value": found.value,
        "error": found.error,
        "lower": found.value - reach,
        "upper": found.value + reach,
        "reference": found.simulated,
        "valid": valid,
        "flagged": bool(tail.resolved and found.value - reach > MARGIN),
        "kind": kind,
    }


def features_of(dt: xr.DataTree, sets: np.ndarray, finished: np.ndarray) -> dict[str, np.ndarray]:
    """Return numbers that describe each data set, the real one first, from `forward_ladder`."""

    def by_set(name: str) -> list[np.ndarray]:
        simulated = variable(dt, "forward", name).values[finished]
        return [np.atleast_1d(variable(dt, "real", name).values), *simulated]

    longest = [row[~np.isnan(row)] for row in sets[:, -1]]
    log_ml = [
        log_mean_exp(row) + log_prior_mass(draws).estimate
        for row, draws in zip(longest, _alike(by_set("prior_draws")), strict=True)
    ]
    features = {"log ML": np.array(log_ml)}
    if dt["real"].sizes["beta"] > 2:  # else runs depend on fits, and that of the real data differs
        with np.errstate(divide="ignore"):
            features["log weights"] = np.log(distances_to_others(sets[:, -1:]))
            if "thermodynamic_length" in dt["real"]:
                lengths = [np.ravel(each) for each in by_set("thermodynamic_length")]
                features["path length"] = np.log(np.concatenate(lengths))
    if {"observed_data", "simulated"} <= set(dt.children):
        observed = dt["observed_data"].dataset
        for name in observed.data_vars:
            simulated = dt["simulated"].dataset[name].transpose("dataset", ...).values[finished]
            spread, tails = spread_and_tails(
                np.concatenate([observed[name].values[None], simulated])
            ).T
            features |= {f"{SPREAD}{name}": spread, f"tails of {name}": tails}
    return features


def _alike(draws: list[np.ndarray]) -> list[np.ndarray]:
    """Cut the prior draws of the first data set to as many runs as the others have."""
    return [draws[0][: len(draws[1])], *draws[1:]]


def simulated_from_prior(dt: xr.DataTree) -> bool:
    """Return whether all variables of the simulated data sets come from their prior."""
    simulate = str(dt.attrs.get("simulate"))
    holds_none = not dt.attrs.get("hyperparameters")
    return simulate == "prior" or (simulate == "hyperparameters" and holds_none)


def _ranks(
    features: dict[str, np.ndarray], test: str, ranked: bool, from_prior: bool
) -> dict[str, dict]:
    """Rank the real data by each feature, and by the feature in which it deviates most.

    P-values are left out if the data sets may not be ranked.
    """
    one_sided = {"log ML": -1, SPREAD: 1} if from_prior else {}
    sides = [one_sided.get(name[: len(SPREAD)], 0) for name in features]
    found = rank_among(np.stack(list(features.values()), axis=1), sides)
    kind = f"deviation from the mean of all in standard deviations; {test}"
    rows = {
        name: {"value": value, "p_value": p_value if ranked else np.nan, "kind": kind}
        for name, value, p_value in zip(features, found.deviations, found.p_values, strict=True)
        if name != "log weights"  # which has rows of its own
    }
    least = 1 / len(features["log ML"])
    valid = ranked and least <= ALPHA
    kind = f"largest deviation: {list(features)[found.worst]}; {test}"
    if ranked and not valid:
        kind += f", at least {least:.2g}: simulate datasets={FEWEST_SETS} or more"
    rows["model"] = {
        "value": found.deviations[found.worst],
        "p_value": found.p_value if ranked else np.nan,
        "valid": valid,
        "flagged": ranked and found.p_value <= ALPHA,
        "kind": kind,
    }
    return rows
