"""Compare runs on real and on simulated data, and check whether results on these apply."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

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
from pymc_bdmc.results.checks.runs import AGAIN
from pymc_bdmc.results.finding import Finding, Remedy, Table, frame, half_interval
from pymc_bdmc.results.reading import Reading, once

ALPHA = 0.05
"""Largest p-value that the rank test flags."""

FEWEST_SETS = 19
"""Smallest number of simulated data sets with which the rank test can flag anything."""

FEWEST_RUNS = 8
"""Smallest number of runs on each kind of data; fewer may all agree by chance."""

MARGIN = 0.25
"""Nats by which the shortfall on real data may exceed that on simulated data."""

MOST_SHIFT = 0.25
"""Deviation by which a fit may lower the spread of the data that it has seen if small spreads are
to count. Derived: each fitted element lowers ⟨z²⟩ of n values by at most 2/n, and the standard
deviation of ⟨z²⟩ is √(2/n) for normal data."""

STANDS_OUT = 3.5
"""Deviation (in standard deviations) from which the most extreme data leave a verdict open. Among
21 data sets none can deviate by more than 4.5. Under a right model the real data deviate by 3.5 in
at most 1.4 % of cases, for normal or log-normal features, and are the most extreme in 5 %."""

SPREAD, TAILS = "spread of ", "tails of "
"""Beginnings of the names of features, before that of an observed variable."""

COLUMNS = ["value", "error", "lower", "upper", "reference", "p_value", "valid", "flagged", "kind"]


def consistency(dt: xr.DataTree) -> pd.DataFrame:
    r"""Test whether runs on real and simulated data behave alike, and whether the data are alike.

    The bound on a sampler's divergence is found on simulated data [1]_. It applies to the real data
    if the sampler finds both equally hard. Simulated data can be like the real ones only if the
    model is right.

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
            cannot give such a p-value. A large log ML does not count, nor does a small spread if
            data are simulated from the prior, which may expect more. If many elements were fitted,
            the data are closer to the fit than new data would be; then neither a small spread nor
            short tails count.

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
    are fixed at draws from a fit, p-values are approximate and rather too large, since the fit has
    seen the data. A deviation that this explains, such as a small spread, has no p-value. Data of
    `FromPosterior` are compared by their spread and tails alone, since runs on them are on the real
    data too; this is a posterior predictive check.

    Runs see the data through the likelihood function only. So heavy tails under a normal model with
    a free scale change nothing in the runs: only ``tails of y`` shows them. A missing covariate
    that is itself normal is not detected at all, since the data *are* then those of the model with
    a larger scale. Wide priors make data sets so different that no real one stands out; fixed
    hyperparameters give a sharper test.

    References
    ----------
    .. [1] Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
       bidirectional Monte Carlo, Section 4.2. https://doi.org/10.48550/arXiv.1606.02275

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
    return Table.of(consistency_of(Reading.annealed(dt, "consistency")))


@once
def consistency_of(read: Reading) -> pd.DataFrame:
    """Return the table of `consistency`."""
    temperatures, real, simulated, finished = forward_ladder(read)
    n, rng = 1 + len(simulated), np.random.default_rng(0)
    alike = real[:, : simulated.shape[-1]]  # as many runs as on every other data set
    test = f"p: rank among {n} data sets" if n > 2 else "p: runs permuted, given both data sets"
    larger = "no p-value: runs on simulated data are on the real data too"
    kind = f"distance of shifted log weights; {larger if read.contains_real else test}"
    places = list(zip(temperatures, range(-len(temperatures), 0), strict=True))
    rows: dict[tuple[str, int], dict] = {}
    for t, place in places:
        row = run_distance(alike, simulated, rng, place)._asdict()
        rows["log weights", t] = row | {"kind": kind}
        if read.contains_real:
            rows["log weights", t]["p_value"] = np.nan
    for t, place in places:
        found = shortfall_difference(real, simulated, rng, place)
        rows["shortfall", t] = _shortfall(read, found, real, simulated)
    sets = np.concatenate([alike[None], simulated])
    if n > 2 and (features := features_of(read, sets, finished)):
        ranks = _ranks(read, features, test)
        rows |= {(name, temperatures[-1]): row for name, row in ranks.items()}
    rows = {key: {"valid": False, "flagged": False} | row for key, row in rows.items()}
    return frame(rows, COLUMNS, "quantity", "temperatures")


@once
def forward_ladder(read: Reading) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
    """Return T of every round, forward log weights on real and simulated data, and used data sets.

    The weights have the shapes (n_rounds, L) and (n_datasets, n_rounds, K), in nats; NaN marks a
    run that was not finished. Used data sets, by number, have finished runs in every round.
    """
    for group, remedy in (("real", "real_data=True"), ("forward", "simulated data")):
        if not read.has(group):
            raise ValueError(
                f"dt: it has no group {group!r}, and runs on real data are compared with runs on "
                f"simulated data; call sample_bdmc with {remedy}."
            )
    temperatures, real = read.ladder("real")
    simulated = read.ladder("forward")[1].swapaxes(0, 1)
    there = ~np.isnan(simulated).all(axis=-1).any(axis=-1)
    if np.isnan(real).all(axis=-1).any() or not there.any():
        raise ValueError("dt: no run was finished on the real data, or none on simulated data.")
    return temperatures, real, simulated[there], np.flatnonzero(there)


def _shortfall(read: Reading, found: Shortfall, real: np.ndarray, simulated: np.ndarray) -> dict:
    tails = (read.side(group).tail for group in ("real", "forward"))
    tail = min(tails, key=lambda tail: tail.resolved)
    runs = min(int(np.sum(~np.isnan(each[..., -1, :]))) for each in (real, simulated))
    reach = half_interval(found.error, runs)
    valid = tail.resolved and runs >= FEWEST_RUNS and reach <= MARGIN
    kind = f"mean shortfall on real data, {found.real:.3g}, less that on simulated data"
    if not tail.resolved:
        kind += f"; the mean log weight is {tail.reason}"
    elif not valid:
        closer = (reach / MARGIN) ** 2 if np.isfinite(reach) else 1.0
        needed = max(FEWEST_RUNS, int(np.ceil(runs * closer)))
        kind += f"; more chains are needed: take chains={needed}"
    lower, upper = found.value - reach, found.value + reach
    flagged = bool(tail.resolved and lower > MARGIN)
    numbers = found.value, found.error, lower, upper, found.simulated, np.nan
    return dict(zip(COLUMNS, (*numbers, valid, flagged, kind), strict=True))


def features_of(
    result: xr.DataTree | Reading, sets: np.ndarray, finished: np.ndarray
) -> dict[str, np.ndarray]:
    """Return numbers that describe each data set, the real one first, from `forward_ladder`."""
    read = Reading.of(result)
    real, forward = read.side("real"), read.side("forward")
    features = {}
    if not read.contains_real:  # else runs on simulated data are on twice the data
        others = forward.variable("prior_draws").values[finished]
        # Of the real data as many runs as of the others.
        draws = [real.variable("prior_draws").values[: len(others[0])], *others]
        features["log ML"] = np.array([
            log_mean_exp(row[~np.isnan(row)]) + log_prior_mass(each).estimate
            for row, each in zip(sets[:, -1], draws, strict=True)
        ])  # fmt: skip
        if real.n_temperatures > 1:  # else runs depend on fits, which differ
            with np.errstate(divide="ignore"):
                features["log weights"] = np.log(distances_to_others(sets[:, -1:]))
                if real.lengths.size:
                    lengths = np.append(real.lengths, forward.lengths[finished])
                    features["path length"] = np.log(lengths)
    if read.has("simulated"):
        for name, values in read.observed.items():
            simulated = read.groups["simulated"][name].transpose("dataset", ...).values[finished]
            spread, tails = spread_and_tails(np.concatenate([values[None], simulated])).T
            features |= {f"{SPREAD}{name}": spread, f"{TAILS}{name}": tails}
    return features


def _fitted_elements(read: Reading) -> int:
    """Return how many elements were fitted to the real data, and fixed to simulate the others."""
    if read.data_source == "prior":
        return 0
    group = read.groups.get("simulated", xr.Dataset())
    fixed = read.hyperparameters.split(", ")
    names = set(group) - set(read.observed) if read.contains_real else filter(None, fixed)
    return sum(group[name][0].size if name in group else 1 for name in names)


def side_of(feature: str, fitted: int, n: int) -> int:
    """Return the side of the mean on which n values count, ``fitted`` to the data; 0 for both."""
    if feature == "log ML":
        return -1
    if fitted and fitted * np.sqrt(2 / n) <= MOST_SHIFT:
        return 0
    return int(feature.startswith((SPREAD, TAILS) if fitted else SPREAD))


def _ranks(read: Reading, features: dict[str, np.ndarray], test: str) -> dict[str, dict]:
    """Rank the real data by each feature, and by the one in which they deviate most."""
    fitted = _fitted_elements(read)
    sizes = {name: values.size for name, values in read.observed.items()}
    titles = [each.removeprefix(SPREAD).removeprefix(TAILS) for each in features]
    sides = [
        side_of(each, fitted, sizes.get(title, 1))
        for each, title in zip(features, titles, strict=True)
    ]
    found = rank_among(np.stack(list(features.values()), axis=1), sides)
    has_p = (not fitted) | (np.array(sides) * found.deviations >= 0)
    kind = f"deviation from the mean of all in standard deviations; {test}"
    p_values = np.where(has_p, found.p_values, np.nan)
    rows = {
        name: {"value": value, "p_value": p_value, "kind": kind}
        for name, value, p_value in zip(features, found.deviations, p_values, strict=True)
        if name != "log weights"  # which has rows of its own
    }
    least = 1 / len(next(iter(features.values())))
    valid = least <= ALPHA
    kind = f"largest deviation: {list(features)[found.worst]}; {test}"
    if not valid:
        kind += f", at least {least:.2g}: simulate datasets={FEWEST_SETS} or more"
    row = {"value": found.deviations[found.worst], "p_value": found.p_value, "kind": kind}
    rows["model"] = row | {"valid": valid, "flagged": found.p_value <= ALPHA}
    if read.misfit:  # found on other data sets of the call, which do not contain the real one
        row = {"value": read.misfit_value, "p_value": read.misfit_p_value, "valid": True}
        rows[read.misfit] = row | {"kind": "deviation among data sets that the model simulates"}
        kind = f"{read.misfit} among data sets that the model simulates"
        rows["model"] = row | {"kind": kind, "flagged": True}
    return rows


def likeness(read: Reading) -> Iterator[Finding]:
    """Check whether the sampler finds both alike, and whether the data are alike."""
    if not read.has("real"):
        if not read.is_system:
            text = "There are no runs on the real data, so nothing is known about them."
            yield Finding("real data", "open", text, Remedy("leave out real_data=False."))
        return
    try:
        table = consistency_of(read)
    except ValueError as error:  # one kind of data has no finished runs
        text = f"Real and simulated data cannot be compared: {str(error).removeprefix('dt: ')}"
        yield Finding("shortfall", "open", text, AGAIN)
        return
    yield check_shortfall(table.loc["shortfall"].iloc[-1])
    if "model" not in table.index:
        return
    yield check_model(table.loc["model"].iloc[0], read, _worst(table))
    if read.data_source == "prior":
        yield from wide_prior(table)


def _worst(table: pd.DataFrame) -> str:
    """Return the feature in which the real data deviate most."""
    values = table["value"].droplevel("temperatures")
    deviations = values.drop(["log weights", "shortfall", "model"]).abs()
    is_worst = np.isclose(deviations, abs(values["model"]))
    return str(deviations.index[is_worst][0]) if is_worst.any() else "log weights"


def misfit(dt: xr.DataTree) -> dict:
    """Return attributes that say how the real data stand out among others; empty if they do not."""
    read = Reading.of(dt)
    if not read.has("real", "forward"):
        return {}
    try:
        table = consistency_of(read)
    except ValueError:  # one kind of data has no finished runs
        return {}
    if "model" not in table.index:
        return {}
    row, worst = table.loc["model"].iloc[0], _worst(table)
    if check_model(row, read, worst).status != "open":
        return {}
    return {"misfit": worst, "misfit_value": row["value"], "misfit_p_value": row["p_value"]}


def check_shortfall(row: pd.Series) -> Finding:
    """Check whether runs on the real data fall short by no more than those on simulated data."""
    numbers = row[["value", "error", "lower", "upper"]].to_dict()
    if not row["flagged"]:
        good = row["valid"] and row["upper"] <= MARGIN
        return Finding("shortfall", "good" if good else None, **numbers)
    text = (
        "Runs on your data do not behave as those on simulated data: the mean log weight falls "
        f"short of log ML by {row['value']:.2g} ± {row['error']:.2g} nats more. So your data "
        "are harder for the sampler, and the bound does not apply to them."
    )
    remedy = Remedy("use more temperatures or particles until the boxes of plot_consistency agree.")
    return Finding("shortfall", "open", text, remedy, **numbers)


def check_model(row: pd.Series, read: Reading, feature: str) -> Finding:
    """Check whether the real data stand out among simulated ones, so the model does not fit."""
    if not row["valid"]:
        remedy = Remedy(f"to test the model too, simulate {FEWEST_SETS} data sets or more.")
        return Finding("model", None, remedy=remedy)
    p, kind, value = row["p_value"], row["kind"], f"{abs(row['value']):.2g}"
    if not row["flagged"]:
        text = f"Your data do not stand out among simulated ones (p = {p:.2g})."
        brief = f"Model: your data do not stand out among simulated ones (p = {p:.2g})."
        return Finding("model", "good", text, value=p, brief=brief)
    if abs(row["value"]) < STANDS_OUT:
        text = (
            f"Your data are the most extreme of all, by {value} standard deviations (p = {p:.2g}; "
            f"{kind}). This happens with one right model in twenty."
        )
        brief = (
            f"Model: your data have the most extreme {feature} of all, as with one right model in "
            "twenty."
        )
        return Finding("model", None, text, value=p, brief=brief)
    text = f"Your model does not fit: its data do not look like yours (p = {p:.2g}; {kind})."
    brief = f"Model: it does not fit your data, whose {feature} is {value} deviations off"
    if read.contains_real:  # these runs show that the draws may still be right
        remedy = Remedy(
            "change the model where your data differ; bdmc.consistency(dt) lists where."
        )
        return Finding("model", None, text, remedy, p, brief=f"{brief}.")
    text += " The bound is for data from the model, so it does not apply to your data."
    brief += ", so the bound does not apply to them."
    remedy = Remedy(
        'to judge the draws although the model does not fit, pass simulate="posterior"; to mend '
        "the model, see bdmc.consistency(dt)."
    )
    return Finding("model", "open", text, remedy, p, brief=brief)


def wide_prior(table: pd.DataFrame) -> Iterator[Finding]:
    """Report observed variables of which the prior expects far more spread than there is."""
    last = table.xs(table.index.get_level_values("temperatures")[-1], level="temperatures")
    rows = last[last.index.str.startswith(SPREAD)]
    narrow = rows[(rows["value"] <= -STANDS_OUT) & (rows["p_value"] <= ALPHA)]
    for name, row in narrow.iterrows():
        text = (
            f"Your prior expects data far more spread than yours: {name} is {-row['value']:.2g} "
            "standard deviations below that of data from the model."
        )
        yield Finding("wide prior", None, text, value=row["p_value"])
