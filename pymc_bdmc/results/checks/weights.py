"""Check log weights: their averages, and the gap between both directions, along the path too."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.estimators import bar, check_average
from pymc_bdmc.estimators.checks import MIN_EFFECTIVE_SAMPLE_SIZE
from pymc_bdmc.results.checks.runs import (
    AGAIN,
    MAX_DIVERGENT_SHARE,
    another_kernel,
    easier,
    kernel_left,
    more_particles,
)
from pymc_bdmc.results.finding import MAX_CHANCE, Finding, Remedy, half_interval
from pymc_bdmc.results.log_ml import tempering_rows
from pymc_bdmc.results.reading import SIDES, Reading, Side, once
from pymc_bdmc.results.sandwich import gap, gap_of, independent_gaps, is_wide, slowness
from pymc_bdmc.simulations import Given


def lost_weights(read: Reading) -> Iterator[Finding]:
    """Doubt groups in which no run was finished, and weights that are zero or infinite."""

    def infinite(side: Side) -> str:
        n = int(np.isinf(side.log_weight).sum())
        return f"{n} of {side.n_finished} log weights are infinite" if n else ""

    if found := read.by_group(lambda side: "" if side.finished else "no chain was finished"):
        yield Finding("unfinished", None, found, AGAIN)
    if found := read.by_group(infinite):
        remedy = Remedy(
            "the kernel accepted states where the likelihood is zero, which a correct kernel never "
            "does: test it with testing.check_invariance."
        )
        yield Finding("infinite weights", None, found, remedy)


def averages(read: Reading) -> Iterator[Finding]:
    """Doubt means of log weights that are not resolved, and averages that fail their check."""

    def unresolved(side: Side) -> str:
        return "" if side.tail.resolved else f"the mean log weight is {side.tail.reason}"

    if found := read.by_group(unresolved):
        more = f"take {more_particles(read)}, or " if read.particles else ""
        remedy = Remedy(f"{more}rely on medians and certified bounds.")
        yield Finding("mean of log weights", None, found, remedy)
    if uneven := read.by_group(lambda side: _failed_average(read, side)[0]):
        remedy = Remedy(f"the averaged weights cannot be trusted: {more_effort(read)}")
        yield Finding("uneven weights", None, uneven, remedy)
    if few := read.by_group(lambda side: _failed_average(read, side)[1]):
        names = {"real", *read.directions}
        most = max(side.chains for name, side in read.sides.items() if name in names)
        leave_out = ", or leave chains out (these are independent runs, not Markov chains)"
        remedy = Remedy(
            f"too few runs to trust their averaged weights: take chains={max(16, 2 * most)}"
            f"{leave_out if most < MIN_EFFECTIVE_SAMPLE_SIZE else ''}."
        )
        yield Finding("few runs", None, few, remedy)


@once
def _failed_average(read: Reading, side: Side) -> tuple[str, str]:
    """Return why an average of uneven weights, or of a few even ones, fails its check."""
    data = "simulated" if side.name in SIDES["simulated"] else "real"
    if data == "simulated" and len(side.log_weight) > 1:
        return "", ""  # log ML of several simulated data sets is of no use
    sets = read.sets_of(data) if read.has(*SIDES[data]) else []
    if sets and all(bar(each.forward, each.reverse).valid for each in sets):
        return "", ""  # both directions together give a valid estimate
    checks = [(check_average(row), len(row)) for row in side.finished]
    failed = [(check.size / n, check.reason) for check, n in checks if not check.valid]
    share, reason = min(failed, default=(1.0, ""))
    # Below half of the runs, weights are too uneven for more runs to help; chosen.
    return (reason, "") if share < 0.5 else ("", reason)


def more_effort(read: Reading) -> Remedy:
    """Return the remedy for weights that are too uneven."""
    if better := better_moves(read):
        return better
    if read.finite_variables:
        return Remedy(f"{sum_out(read.finite_variables)}.")
    particles = f" or {more_particles(read)}" if read.particles else ""
    kernel = kernel_left(read)
    return Remedy(f"use more temperatures{particles}{f', or try {kernel}' if kernel else ''}.")


def order(read: Reading) -> Iterator[Finding]:
    """Report the mean gap, as in BREAD; that of a correct sampler is not below zero."""
    row, n = gap_of(read, "simulated"), independent_gaps(read)
    value, error = row["value"], row["error"]
    if not n:
        text = (
            "No run on simulated data was finished in one of the directions, so nothing is "
            "certified."
        )
        yield Finding("Jeffreys bound", "open", text)
    elif value + half_interval(error, n, 1 - 2 * MAX_CHANCE) < 0:
        text = (
            f"Reverse runs lie below forward ones, by {value:.2g} ± {error:.2g} nats, which cannot "
            "happen with a correct sampler. Either the kernel does not leave the posterior "
            "invariant, or reverse runs do not start from the posterior."
        )
        otherwise = ", or draw point and data together" if read.simulate == Given.name else ""
        if read.upper_bound == "burned-in":
            otherwise = ", or use a longer burn_in"
        remedy = Remedy(f"test the step method with bdmc.testing.check_invariance{otherwise}.")
        yield Finding("Jeffreys bound", "bad", text, remedy, value, error)
    elif value == np.inf:
        text = "A run on simulated data reached a state of probability zero."
        yield Finding("Jeffreys bound", "open", text, value=value)
    else:
        spread = ""
        if n > 1 and np.isfinite(row.get("q25", np.nan)):
            spread = f", with quartiles {row['q25']:.2g} and {row['q75']:.2g}"
        text = (
            "The gap between forward and reverse runs (BREAD) is "
            f"{value:.2g} ± {error:.2g} nats{spread}."
        )
        yield Finding("Jeffreys bound", None, text * row["valid"], value=value, error=error)


def _wide_part(read: Reading) -> tuple[str, bool]:
    """Return the small part of the path that causes half of a wide gap, and whether it is first."""
    if not read.has(*SIDES["simulated"]) or "log_likelihood_path" not in read.side("forward").run:
        return "", False
    forward, reverse = (side.variable("log_likelihood_path") for side in read.pair)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        apart = (reverse - forward).mean("dataset").values[:-1]
    betas = forward["beta"].values
    opened = np.concatenate([[0.0], np.cumsum(np.diff(betas) * apart)])
    if len(apart) < 10 or not min(gap(read)[0], opened[-1]) > 1:
        return "", False
    width = len(apart) // 10  # half of a gap that opens in a tenth of the path is sudden; chosen
    inside = opened[width:] - opened[:-width]
    first = int(np.argmax(inside))
    share = inside[first] / opened[-1]
    if not share > 0.5:
        return "", False
    text = (
        f"{min(share, 1):.0%} of the difference between forward and reverse runs arises at "
        f"beta = {betas[first]:.3g} to {betas[first + width]:.3g}"
    )
    return text, first == 0


def opening(read: Reading) -> Iterator[Finding]:
    """Doubt a wide gap, by where on the path it opens, and outliers, by the start of the path."""
    part, at_start = _wide_part(read)
    if part and not at_start:
        why = ", a transition that the kernel hardly crosses"
        if read.path == "data":
            why = ", where observations are added that change the density much"
        kernel = another_kernel(read)
        remedy = Remedy(f"put temperatures there, or try {kernel}; see plot_hysteresis.")
        yield Finding("sudden gap", None, f"forward: {part}{why}", remedy)

    def outliers(side: Side) -> str:
        if side.name == "forward" and at_start:
            return part
        n = sum(map(_outlying, side.finished))
        return f"{n} of {side.n_finished} log weights are outliers that decide the mean" * (n > 0)

    if found := read.by_group(outliers):
        yield Finding("start of the path", None, found, _nearer_start(read))
    if part or not (read.has(*SIDES["simulated"]) and is_wide(read)):
        return
    forward, value = read.side("forward"), gap(read)[0]
    if forward.tail.resolved:
        text = (
            f"forward: {value:.2g} nats between forward and reverse runs arise along the whole path"
        )
        needed = float(f"{forward.n_temperatures * value:.2g}")  # the gap falls as 1/T
        closing = Remedy(f"use temperatures={needed:.0f}, for a gap of about one nat.")
        yield Finding("gap", None, text, better_moves(read) or closing)


def _nearer_start(read: Reading) -> Remedy:
    """Return the remedy for chains that start too far from the posterior."""
    if read.is_system:  # which has one prior, and no adaptive schedule
        return Remedy("use more temperatures.")
    start = "prior" if read.path in ("", "prior", "data") else "reference"
    finer = 'take smaller first steps, schedule="adaptive"'
    if read.schedule == "adaptive":
        finer = "use more temperatures"
    other = more_particles(read) if read.particles else "a prior with lighter tails"
    return Remedy(f"chains that started far out in the tail of the {start}: {finer}, or {other}.")


def _outlying(signed: np.ndarray) -> int:
    """Count log weights so far below the median that each alone shifts the mean by an IQR."""
    finite = signed[np.isfinite(signed)]
    if len(finite) < 4:
        return 0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    return int(np.sum((middle - finite) / len(finite) > max(high - low, 0.1)))


def better_moves(read: Reading) -> Remedy | None:
    """Return the remedy if the kernel or the schedule is the cause of uneven weights."""
    if any(side.divergent_share > MAX_DIVERGENT_SHARE for side in read.sides.values()):
        return Remedy("remove the divergences first.")
    # Above 20 times the ideal gap, a better kernel helps more than temperatures; chosen.
    if not (read.has(*SIDES["simulated"]) and is_wide(read) and slowness(read) > 20):
        return None
    times = f"{slowness(read):.2g} times"
    if read.schedule not in ("adaptive", "unknown"):
        return Remedy(f'the gap is {times} that of the best schedule: pass schedule="adaptive".')
    ways = easier(read, another_kernel(read))
    return Remedy(f"the gap is {times} the ideal gap, so the kernel hardly mixes: {ways}.")


def passages(read: Reading) -> Iterator[Finding]:
    """Doubt simulated tempering that seldom passes from end to end, or visits unevenly."""
    row = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
    if not row.valid:
        text = f"the evidence cannot be trusted ({row.reason})"
        remedy = Remedy("take more draws, or more temperatures where plot_tempering shows a knot.")
        yield Finding("passages", None, text, remedy)
    if read.flatness > 0.1:  # chosen
        text = f"temperatures are visited unevenly, by up to {read.flatness:.0%}"
        remedy = Remedy("take more chains, or a larger `initial`.")
        yield Finding("visits", None, text, remedy)
