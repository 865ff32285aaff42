"""List what to doubt in a result, each doubt with a remedy."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import bar, check_average, jeffreys_bound
from pymc_bdmc.model.hard_variables import sum_out
from pymc_bdmc.results.agreement import kept_agreement
from pymc_bdmc.results.burn_in import burn_in_effect
from pymc_bdmc.results.evidence import evidence
from pymc_bdmc.results.groups import (
    GROUPS,
    SIDES,
    by_data_set,
    check_result,
    data_sets,
    directions,
    interruption,
    is_null,
    is_simulated_tempering,
    log_ml_too_low,
    mean_of_logs,
)
from pymc_bdmc.results.missed import divergent_share_of
from pymc_bdmc.results.reverse import both_sides

__all__ = [
    "MAX_CHANCE",
    "MOST_DIVERGENT",
    "diagnose",
    "divergent_share",
    "doubts_of",
    "reach_draws",
]

MAX_DIVERGENT_SHARE = 0.01

MOST_DIVERGENT = 0.2
"""Largest share of divergent transitions of a good result; see `divergent_share`."""

MIN_ACCEPTANCE = 0.01

WIDE_GAP = 2.0
"""Gap that counts as wide, in nats, after subtracting two standard errors."""
NARROW_GAP = 0.25
"""Gap plus two standard errors, in nats, up to which runs whose kernel hardly moved do no harm: the
total variation is then at most 0.25, as in a good verdict, by Pinsker's inequality in both ways."""
MAX_SLOWNESS = 20
"""Ratio of the gap to the ideal gap above which a better kernel helps more than temperatures."""

MAX_UNEVENNESS = 0.1
"""Largest unevenness of the visits to the temperatures that `temper` accepts."""

MAX_CHANCE = 1e-3
"""Largest p-value at which forward runs and posterior draws are said to disagree."""

MORE_PARTICLES = "more particles"

KNOT_PARTS = 10
"""A knot is a tenth of the temperatures within which half of the gap opens."""


_REVERSE = {reverse for _, reverse in SIDES.values()}


def diagnose(dt: xr.DataTree) -> list[str]:
    """List the doubts about a result, the gravest first, each with a remedy.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.

    Returns
    -------
    list of str
        Unfinished chains, infinite weights, forward runs on the real data that disagree with the
        posterior draws they were given, a burn-in that is too short, a mean of log weights that
        does not exist, averages of weights whose check fails (`evidence`), dead chains,
        divergences, transitions that cause most of a wide gap, outlying weights, and any other wide
        gap. For `temper`: an interruption, few passages from end to end, uneven visits.

    Raises
    ------
    ValueError
        If the result has no chains, or lacks a variable; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> real = xr.Dataset(dict(log_weight=("chain", np.array([-1.0, -np.inf]))))
    >>> print(bdmc.diagnose(xr.DataTree.from_dict(dict(real=real)))[0])  # doctest: +ELLIPSIS
    real: 1 of 2 log weights are infinite; the kernel accepted states where ...
    """
    return [f"{finding}; {remedy}" if remedy else finding for finding, remedy in doubts_of(dt)]


def doubts_of(dt: xr.DataTree) -> list[tuple[str, str]]:
    """Return the findings of `diagnose`, each with its remedy, which may be empty."""
    if is_simulated_tempering(dt):
        return _tempering_doubts(dt)
    check_result(dt)
    if is_null(dt):
        return []
    doubts = [(text, "") for text in [interruption(dt)] if text]
    for find, remedy in _DOUBTS:
        groups = [group for group in GROUPS if group in dt.children]
        found = {group: find(dt, group) for group in groups}
        told = "; ".join(f"{group}: {text}" for group, text in found.items() if text)
        if told:
            doubts.append((told, remedy(dt)))
    return doubts


def divergent_share(dt: xr.DataTree) -> float:
    """Return the share of transitions that diverged in the forward runs.

    It is the larger share of the two kinds of data (real, simulated), over all temperatures and
    particles of the final runs; 0 if divergences were not counted.

    A divergent transition is rejected, so the weights are unbiased for any share. Measured on 108
    calls for a centred funnel, v ~ N(0, s²), x_i ~ N(0, e^v), y_i ~ N(x_i, σ²) with s = 3, 6, 10
    and 9 or 30 data (HMC and NUTS from the prior, log ML by quadrature): the share reached 0.83,
    and errors did not grow with it. Below 0.1, from 0.1 to 0.4 and above it log ML was at most
    0.33, 0.47 and 0.34 nats off, and the mean of v 0.15, 0.12 and 0.12 posterior standard
    deviations (root mean square). So a large share refutes nothing by itself. It says that the
    kernel hardly moves at the step size that the pilot chose, so that the result rests on the
    weights alone. Up to `MOST_DIVERGENT`, at least four transitions in five did not diverge.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.diagnose import divergent_share
    >>> real = dict(log_weight=("chain", np.zeros(5)), divergences=("beta", np.array([0, 1, 2, 1])))
    >>> round(divergent_share(xr.DataTree.from_dict(dict(real=xr.Dataset(real)))), 2)
    0.27
    """
    groups = [forward for forward, _ in SIDES.values() if forward in dt.children]
    return max((divergent_share_of(dt, group) for group in groups), default=0.0)


def _rows(dt: xr.DataTree, group: str) -> list[np.ndarray]:
    """Return log weights of finished chains by data set; reverse ones with the sign changed."""
    rows = by_data_set(dt, group, "log_weight")
    finished = [row[~np.isnan(row)] for row in (-rows if group in _REVERSE else rows)]
    return [row for row in finished if row.size]


def _n_chains(dt: xr.DataTree, group: str) -> int:
    return sum(row.size for row in _rows(dt, group))


def _unfinished(dt: xr.DataTree, group: str) -> str:
    return "" if _rows(dt, group) else "no chain was finished"


def _infinite(dt: xr.DataTree, group: str) -> str:
    infinite = sum(np.isinf(row).sum() for row in _rows(dt, group))
    return f"{infinite} of {_n_chains(dt, group)} log weights are infinite" if infinite else ""


def _no_mean(dt: xr.DataTree, group: str) -> str:
    tail = mean_of_logs(dt, group)
    return "" if tail.resolved or group in _REVERSE else f"the mean log weight is {tail.reason}"


def _bad_average(dt: xr.DataTree, group: str) -> str:
    reason, share = _worst_average(dt, group)
    return reason if share < 0.5 else ""


def _few_runs(dt: xr.DataTree, group: str) -> str:
    reason, share = _worst_average(dt, group)
    return reason if share >= 0.5 else ""


def _worst_average(dt: xr.DataTree, group: str) -> tuple[str, float]:
    """Return why an average fails its check, if it does, and its effective share of the runs."""
    if _bar_is_valid(dt, group):
        return "", 1.0  # both directions together give a valid estimate
    if group in SIDES["simulated"] and dt[group].sizes.get("dataset", 1) > 1:
        return "", 1.0  # log ML of several simulated data sets is of no use
    checks = [(check_average(row), len(row)) for row in _rows(dt, group)]
    failed = [(check.size / n, check.reason) for check, n in checks if not check.valid]
    share, reason = min(failed, default=(1.0, ""))
    return reason, share


def _bar_is_valid(dt: xr.DataTree, group: str) -> bool:
    data = next(data for data, groups in SIDES.items() if group in groups)
    if not {*SIDES[data]} <= set(dt.children):
        return False
    pairs = [(found[2], found[3]) for found in data_sets(dt) if found[0] == data]
    return bool(pairs) and all(bar(*pair).valid for pair in pairs)


def _dead(dt: xr.DataTree, group: str) -> str:
    if "lowest_acceptance" not in dt[group]:
        return ""
    if {*SIDES["simulated"]} <= set(dt.children) and group in SIDES["simulated"]:
        gap, error = _gap(dt)
        if gap + 2 * error <= NARROW_GAP:
            return ""
    dead = int((dt[group]["lowest_acceptance"] < MIN_ACCEPTANCE).sum())
    chains = _n_chains(dt, group)
    return f"{dead} of {chains} chains hardly moved along part of the path" if dead else ""


def _divergent(dt: xr.DataTree, group: str) -> str:
    share = divergent_share_of(dt, group)
    return f"{share:.1%} of the transitions diverged" if share > MAX_DIVERGENT_SHARE else ""


def _diverges(dt: xr.DataTree) -> bool:
    """Return whether the kernel diverges often, since other doubts follow from that."""
    return any(_divergent(dt, group) for group in GROUPS if group in dt.children)


def _straggling(dt: xr.DataTree, group: str) -> str:
    straggling = sum(map(_straggles, _rows(dt, group)))
    if not straggling:
        return ""
    chains = _n_chains(dt, group)
    return f"{straggling} of {chains} log weights are outliers that decide the mean"


def _straggles(signed: np.ndarray) -> int:
    """Count log weights so far below the median that each alone shifts the mean by an IQR."""
    finite = signed[np.isfinite(signed)]
    if len(finite) < 4:
        return 0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    return int(np.sum((middle - finite) / len(finite) > max(high - low, 0.1)))


def _wide_part(dt: xr.DataTree) -> tuple[str, bool]:
    """Say which small part of the path causes half of a wide gap, and whether it is the start."""
    if not {"forward", "reverse"} <= set(dt.children) or "log_likelihood_path" not in dt["forward"]:
        return "", False
    paths = [dt[group].dataset["log_likelihood_path"] for group in ("reverse", "forward")]
    apart = (paths[0] - paths[1]).mean("dataset").values[:-1]
    betas = dt["forward"].dataset["beta"].values
    opened = np.concatenate([[0.0], np.cumsum(np.diff(betas) * apart)])
    width = max(1, len(apart) // KNOT_PARTS)
    inside = opened[width:] - opened[:-width]
    if len(apart) < KNOT_PARTS or not min(_gap(dt)[0], opened[-1]) > 1:
        return "", False
    first = int(np.argmax(inside))
    share = inside[first] / opened[-1]
    if not share > 0.5:
        return "", False
    text = (
        f"{min(share, 1):.0%} of the difference between forward and reverse runs arises at "
        f"beta = {betas[first]:.3g} to {betas[first + width]:.3g}"
    )
    return text, first == 0


def _knot(dt: xr.DataTree, group: str) -> str:
    text, at_start = _wide_part(dt)
    if group != "forward" or at_start or not text:
        return ""
    if dt.attrs.get("path") == "data":
        return f"{text}, where observations are added that change the density much"
    return f"{text}, a transition that the kernel hardly crosses"


def _far_start(dt: xr.DataTree, group: str) -> str:
    text, at_start = _wide_part(dt)
    return text if group == "forward" and at_start else _straggling(dt, group)


def _even_gap(dt: xr.DataTree, group: str) -> str:
    """Describe a wide gap that opens along the whole path."""
    if group != "forward" or "reverse" not in dt.children or _wide_part(dt)[0]:
        return ""
    gap, error = _gap(dt)
    if not gap - 2 * error > WIDE_GAP or not mean_of_logs(dt, group).resolved:
        return ""
    return f"{gap:.2g} nats between forward and reverse runs arise along the whole path"


def _gap(dt: xr.DataTree) -> tuple[float, float]:
    """Return the Jeffreys bound and its error; nats."""
    return jeffreys_bound(*(by_data_set(dt, g, "log_weight") for g in SIDES["simulated"]))


def _slowness(dt: xr.DataTree) -> float:
    """Return the ratio of the gap on simulated data to the ideal gap; NaN if unknown."""
    if (
        not {"forward", "reverse"} <= set(dt.children)
        or "thermodynamic_length" not in dt["forward"]
    ):
        return np.nan
    lengths, n = dt["forward"]["thermodynamic_length"], dt["forward"].sizes["beta"] - 1
    return _gap(dt)[0] * n * dt.attrs.get("particles", 1) / float(np.mean(lengths**2))


def _closing(dt: xr.DataTree) -> str:
    """Say how many temperatures would reduce the gap to about one nat; it falls as 1/T."""
    if better := _better_moves(dt):
        return better
    needed = (dt["forward"].sizes["beta"] - 1) * _gap(dt)[0]
    return f"use temperatures={float(f'{needed:.2g}'):.0f}, for a gap of about one nat."


def _finer_start(dt: xr.DataTree) -> str:
    finer = (
        "use more temperatures"
        if dt.attrs.get("schedule") == "adaptive"
        else 'take smaller first steps, schedule="adaptive"'
    )
    other = _more_particles(dt) if _has_particles(dt) else "a prior with lighter tails"
    start = "prior" if dt.attrs.get("path", "prior") in ("prior", "data") else "reference"
    return f"chains that started far out in the tail of the {start}: {finer}, or {other}."


def _lighter_tails(dt: xr.DataTree) -> str:
    more = f"take {_more_particles(dt)}, or " if _has_particles(dt) else ""
    return f"{more}rely on medians and certified bounds."


def _more_effort(dt: xr.DataTree) -> str:
    if better := _better_moves(dt):
        return better
    if finite := dt.attrs.get("finite_variables"):
        return f"{sum_out(finite)}."
    more = f" or {_more_particles(dt)}" if _has_particles(dt) else ""
    kernel = _another_kernel(dt)
    return f"use more temperatures{more}{f', or try {kernel}' * (kernel != MORE_PARTICLES)}."


def _more_runs(dt: xr.DataTree) -> str:
    n = max(16, 2 * max(dt[g].sizes["chain"] for g in ("real", *directions(dt)) if g in dt))
    return f"too few runs to trust their averaged weights: take chains={n}."


def _better_moves(dt: xr.DataTree) -> str:
    """Return the remedy if the kernel is the cause, else an empty string."""
    if _diverges(dt):
        return "remove the divergences first."
    gap, error = _gap(dt) if {"forward", "reverse"} <= set(dt.children) else (0.0, 0.0)
    if gap - 2 * error > WIDE_GAP and _slowness(dt) > MAX_SLOWNESS:
        return (
            f"the gap is {_slowness(dt):.2g} times the ideal gap, so the kernel hardly mixes: "
            f"{_easier(dt, _another_kernel(dt))}."
        )
    return ""


def _easier(dt: xr.DataTree, kernel: str) -> str:
    """Return changes of the model that its variables suggest, then another kernel."""
    discrete, centred = map(dt.attrs.get, ("discrete_variables", "centred_effects"))
    finite = dt.attrs.get("finite_variables")
    remedies = [f"try {kernel}"]
    if centred:
        remedies.insert(0, f"write {centred} non-centred, as mean + scale * z with z of unit scale")
    if finite:
        remedies.insert(0, sum_out(finite))
    elif discrete:
        remedies.insert(0, f"sum {discrete} out of the likelihood, as pm.Mixture does")
    return ", or ".join(remedies)


def _has_particles(dt: xr.DataTree) -> bool:
    """Return whether runs of this system can have several particles (not lattices, machines)."""
    return "particles" in dt.attrs


def _more_particles(dt: xr.DataTree) -> str:
    return f"particles={max(4 * dt.attrs['particles'], 16)}"


def _another_kernel(dt: xr.DataTree) -> str:
    """Return the next kernel that may mix better."""
    step = str(dt.attrs.get("step", ""))
    if step.startswith("compiled"):
        if "HMC(" in step:
            return 'step="nuts"'
        if "NUTS(" in step:
            return 'step="autostep"'
        return MORE_PARTICLES  # for Metropolis, which uses no gradient
    return "another step method"


def _livelier(dt: xr.DataTree) -> str:
    """Return another kernel, or more particles where discrete variables have one kernel only."""
    if dt.attrs.get("discrete_variables") and str(dt.attrs.get("step", "")).startswith("compiled"):
        return _more_particles(dt)
    return _another_kernel(dt)


def _local_steps(dt: xr.DataTree) -> str:
    """Return a kernel with local step sizes, unless the run already used one."""
    step = str(dt.attrs.get("step", ""))
    if step.startswith("compiled") and "AutoStep" not in step:
        return 'step="autostep"'
    if "NUTS(" in step:
        return "step=functools.partial(pm.NUTS, target_accept=0.95)"
    return _another_kernel(dt)


def _disagreement(dt: xr.DataTree, group: str) -> str:
    if group != "real_reverse":
        return ""
    found, sides = kept_agreement(dt), both_sides(dt)
    if found and (found.status == "bad" or found.too_low):
        return found.text.split("\n")[0].rstrip(".")
    if sides and sides.pvalue <= MAX_CHANCE:
        return (
            f"the mean log weight is {sides.reverse:.3g}, and the forward runs predict "
            f"{sides.forward:.3g} (p = {sides.pvalue:.1g})"
        )
    return ""


def reach_draws(dt: xr.DataTree) -> str:
    """Return the remedy if draws show a part of the posterior that the runs miss."""
    if centred := dt.attrs.get("centred_effects"):
        return f"write {centred} non-centred, as mean + scale * z with z of unit scale."
    n = max(100, 2 * (dt["real"].sizes.get("beta", 1) - 1))
    return f"anneal from a fit to these draws: path=bdmc.FittedPath(idata), temperatures={n}."


def _too_short(dt: xr.DataTree, group: str) -> str:
    if group != "reverse" or "burn_in" not in dt.children:
        return ""
    before = burn_in_effect(dt).iloc[-2]
    if not before["pvalue"] <= MAX_CHANCE:
        return ""
    return (
        f"the mean log weight depends on the burn-in: after {before.name} steps it is "
        f"{before['difference']:.2g} nats above that after the longest"
    )


_DOUBTS: list[tuple[Callable, Callable]] = [
    (_unfinished, lambda dt: "run it again."),
    (
        _infinite,
        lambda dt: (
            "the kernel accepted states where the likelihood is zero, which a correct kernel "
            "never does: test it with testing.check_invariance."
        ),
    ),
    (
        _disagreement,
        lambda dt: (
            reach_draws(dt)
            if log_ml_too_low(dt)
            else (
                "the posterior draws or the forward runs miss part of the posterior. Compare the "
                "draws with the group posterior, run more chains of that sampler, or use more "
                "temperatures."
            )
        ),
    ),
    (_too_short, lambda dt: "use a longer burn_in."),
    (_no_mean, _lighter_tails),
    (_bad_average, lambda dt: f"the averaged weights cannot be trusted: {_more_effort(dt)}"),
    (_few_runs, _more_runs),
    (_dead, lambda dt: f"their log weights widen the gap: {_easier(dt, _livelier(dt))}."),
    (_divergent, lambda dt: f"{_easier(dt, _local_steps(dt))}."),
    (
        _knot,
        lambda dt: f"put temperatures there, or try {_another_kernel(dt)}; see plot_hysteresis.",
    ),
    (_far_start, _finer_start),
    (_even_gap, _closing),
]
"""Checks of each group with their remedies, the gravest first."""


def _tempering_doubts(dt: xr.DataTree) -> list[tuple[str, str]]:
    doubts = [(text, "") for text in [interruption(dt)] if text]
    row = evidence(dt, "RTS").iloc[0]
    if not row["valid"]:
        doubts.append((
            f"the evidence cannot be trusted ({row['reason']})",
            "take more draws, or more temperatures where plot_tempering shows a knot.",
        ))  # fmt: skip
    unevenness = dt.attrs.get("flatness", 0.0)
    if unevenness > MAX_UNEVENNESS:
        doubts.append((
            f"temperatures are visited unevenly, by up to {unevenness:.0%}",
            "use more temperatures, or a larger `initial`.",
        ))  # fmt: skip
    return doubts
