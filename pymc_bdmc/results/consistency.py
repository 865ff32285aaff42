"""Whether simulated data behaved as the real ones, as a labelled table."""

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
    "consistency",
    "features_of",
    "forward_ladder",
    "half_interval",
]

ALPHA = 0.05
"""The rank test flags a p-value of at most this."""

FEWEST_SETS = 19
"""Simulated data sets with which the rank test can flag anything."""

FEWEST_RUNS = 8
"""On either kind of data; fewer may all be good by chance, and then so is their spread."""

MARGIN = 0.25
"""Nats by which runs on real data may fall short more than those on simulated data."""

_CHOSEN = (
    "no p: Matched chose the simulated data for their likeness to the real ones, so these are not "
    "exchangeable with them; use FromPrior or FromHyperparameters"
)

COLUMNS = ["value", "error", "lower", "upper", "reference", "p_value", "valid", "flagged", "kind"]


def consistency(dt: xr.DataTree) -> pd.DataFrame:
    r"""Whether runs on the real data behave as those on simulated data, and the data are alike.

    The bound on a sampler's divergence is found on simulated data. It tells of the real ones if the
    sampler finds both equally hard, and simulated data can only be like the real ones if the model
    is.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`, with runs on real and on simulated data.

    Returns
    -------
    DataFrame
        Indexed by (quantity, temperatures), the number T of temperatures of each round that the
        result holds. Columns: ``value``; ``error``, one standard error; ``lower`` and ``upper``, an
        interval at 95 % by Student's t, with a run less one as degrees of freedom; ``reference``,
        what the value would be if nothing differed; ``p_value``; ``valid``, whether the check could
        have failed; ``flagged``, whether it did; ``kind``, what it is, and what would make it
        valid. Quantities:

        ``log weights``
            Distance (Wasserstein's, nats) of the forward log weights on real data from those on
            simulated data, each less the best estimate of its data set, which is that at the
            largest T. With one simulated data set the p-value is that of permuted runs: whether
            *these two* data sets differ, which two of a right model do too, so it never flags. With
            several it is the rank of the real data among all.
        ``shortfall``
            By how many more nats the mean log weight lies below the best estimate on the real
            data: so much more the divergence may be. The reference is the shortfall on simulated
            data. Flagged if its interval lies above 0.25 nats, valid if that is no wider to either
            side and there are 8 runs on either kind of data.
        ``log ML``, ``path length``, ``spread of y``, ``tails of y``
            Deviation of the real data from the mean of all data sets, in standard deviations, with
            the rank as the p-value: of log ML; of the thermodynamic length; of the
            observed variables, value by value against the mean and the standard deviation of its
            place (`pymc_bdmc.estimators.spread_and_tails`). With two or more simulated data sets.
        ``model``
            The largest of the deviations, that of log weights among them: one test of the model. It
            is flagged at p ≤ 0.05, and valid from 19 simulated data sets on, with which p
            can be as low.

    Raises
    ------
    ValueError
        If there are no runs on real or none on simulated data, or a variable is missing.

    Notes
    -----
    Where everything is simulated from the prior, data sets are exchangeable with the real one if
    the model is right, so the p-values of spread and tails are exact. Those of features of the runs
    are nearly so: runs on simulated data take over step sizes from the real data. Where
    hyperparameters are held at draws from a fit it is approximate, and rather too large, since the
    fit has seen the data. Data sets that `Matched` chose for their likeness to the real ones are
    not exchangeable with them, so with several of these no rank has a p-value, and ``model`` is not
    valid.

    Runs see the data through the likelihood function only. So fat tails under a normal model whose
    scale is free change nothing in them, nor in how hard the sampler finds its task: only ``tails
    of y`` shows them. A missing covariate that is normal itself is then seen by nothing here, for
    the data *are* those of the model with a larger scale. Wide priors make data sets so different
    that no real one stands out; held hyperparameters are sharper.

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
    # All data sets are treated alike: by as many runs.
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
        for name, row in _ranks(features, test, ranked).items():
            rows[name, temperatures[-1]] = row
    rows = {key: {"valid": False, "flagged": False} | row for key, row in rows.items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table.index = pd.MultiIndex.from_tuples(table.index, names=["quantity", "temperatures"])
    return table


def forward_ladder(dt: xr.DataTree) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
    """Forward log weights of every round, on the real data first and then on simulated ones.

    Returns
    -------
    temperatures : list of int
        T of each round.
    real : ndarray of shape (n_rounds, L)
        Nats; NaN marks a run that was not finished.
    simulated : ndarray of shape (n_datasets, n_rounds, K)
    finished : ndarray of int
        Simulated data sets that are there: those with finished runs in every round.

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
    """Half of the interval of a mean of n values by Student's t; infinite where n says nothing."""
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
    """Numbers that describe each data set, the real one first; of what `forward_ladder` gives."""

    def by_set(name: str) -> list[np.ndarray]:
        simulated = variable(dt, "forward", name).values[finished]
        return [np.atleast_1d(variable(dt, "real", name).values), *simulated]

    longest = [row[~np.isnan(row)] for row in sets[:, -1]]
    log_ml = [
        log_mean_exp(row) + log_prior_mass(draws).estimate
        for row, draws in zip(longest, _alike(by_set("prior_draws")), strict=True)
    ]
    with np.errstate(divide="ignore"):
        features = {
            "log weights": np.log(distances_to_others(sets[:, -1:])),
            "log ML": np.array(log_ml),
        }
        if "thermodynamic_length" in dt["real"]:
            lengths = np.concatenate([np.ravel(each) for each in by_set("thermodynamic_length")])
            features["path length"] = np.log(lengths)
    if {"observed_data", "simulated"} <= set(dt.children):
        observed = dt["observed_data"].dataset
        for name in observed.data_vars:
            simulated = dt["simulated"].dataset[name].transpose("dataset", ...).values[finished]
            spread, tails = spread_and_tails(
                np.concatenate([observed[name].values[None], simulated])
            ).T
            features |= {f"spread of {name}": spread, f"tails of {name}": tails}
    return features


def _alike(draws: list[np.ndarray]) -> list[np.ndarray]:
    """Return the prior draws of as many runs of the first data set as of the others."""
    return [draws[0][: len(draws[1])], *draws[1:]]


def _ranks(features: dict[str, np.ndarray], test: str, ranked: bool) -> dict[str, dict]:
    """The rank of the real data by each feature, and by the one in which it stands out most.

    Without p-values where the data sets are not to be ranked.
    """
    found = rank_among(np.stack(list(features.values()), axis=1))
    kind = f"deviation from the mean of all in standard deviations; {test}"
    rows = {
        name: {"value": value, "p_value": p_value if ranked else np.nan, "kind": kind}
        for name, value, p_value in zip(features, found.deviations, found.p_values, strict=True)
        if name != "log weights"  # which has rows of its own
    }
    least = 1 / len(features["log ML"])
    valid = ranked and least <= ALPHA
    worst = int(np.argmax(np.abs(found.deviations)))
    kind = f"largest deviation: {list(features)[worst]}; {test}"
    if ranked and not valid:
        kind += f", at least {least:.2g}: simulate datasets={FEWEST_SETS} or more"
    rows["model"] = {
        "value": found.deviations[worst],
        "p_value": found.p_value if ranked else np.nan,
        "valid": valid,
        "flagged": ranked and found.p_value <= ALPHA,
        "kind": kind,
    }
    return rows
