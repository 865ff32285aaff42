"""Check how wide the gap between forward and reverse runs is, and where along the path it opens."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.results.checks.runs import (
    MAX_DIVERGENT_SHARE,
    another_kernel,
    easier,
    more_particles,
)
from pymc_bdmc.results.finding import MAX_CHANCE, Finding, Remedy, half_interval
from pymc_bdmc.results.reading import SIDES, Reading, Side, once
from pymc_bdmc.results.sandwich import gap, gap_of, independent_gaps, is_wide, slowness
from pymc_bdmc.simulations import Given

WINDOWS = 10
"""Half of the gap opens suddenly if it does so within a tenth of the temperatures; chosen."""

MAX_SLOWNESS = 20
"""Ratio of the gap to the ideal gap above which a better kernel helps more than temperatures;
chosen."""


def order(read: Reading) -> Iterator[Finding]:
    """Report the mean gap (as in BREAD, without a confidence), and whether it is below zero.

    The mean gap of a correct sampler is not.
    """
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


@once
def wide_part(read: Reading) -> tuple[str, bool]:
    """Return the small part of the path that causes half of a wide gap, and whether it is first."""
    if not read.has(*SIDES["simulated"]) or "log_likelihood_path" not in read.side("forward").run:
        return "", False
    forward, reverse = (side.variable("log_likelihood_path") for side in read.pair)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        apart = (reverse - forward).mean("dataset").values[:-1]
    betas = forward["beta"].values
    opened = np.concatenate([[0.0], np.cumsum(np.diff(betas) * apart)])
    width = max(1, len(apart) // WINDOWS)
    inside = opened[width:] - opened[:-width]
    if len(apart) < WINDOWS or not min(gap(read)[0], opened[-1]) > 1:
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


def sudden_gap(read: Reading) -> Iterator[Finding]:
    """Doubt a part of the path, after its start, at which the gap opens."""
    part, at_start = wide_part(read)
    if part and not at_start:
        why = ", a transition that the kernel hardly crosses"
        if read.path == "data":
            why = ", where observations are added that change the density much"
        kernel = another_kernel(read)
        remedy = Remedy(f"put temperatures there, or try {kernel}; see plot_hysteresis.")
        yield Finding("sudden gap", None, f"forward: {part}{why}", remedy)


def far_start(read: Reading) -> Iterator[Finding]:
    """Doubt a start of the path at which the gap opens, or outliers."""
    part, at_start = wide_part(read)

    def outliers(side: Side) -> str:
        if side.name == "forward" and at_start:
            return part
        n = sum(map(_outlying, side.finished))
        return f"{n} of {side.n_finished} log weights are outliers that decide the mean" * (n > 0)

    if not (found := read.by_group(outliers)):
        return
    remedy = Remedy("use more temperatures.")  # a system has one prior, and no adaptive schedule
    if not read.is_system:
        start = "prior" if read.path in ("", "prior", "data") else "reference"
        finer = 'take smaller first steps, schedule="adaptive"'
        if read.schedule == "adaptive":
            finer = "use more temperatures"
        other = more_particles(read) if read.particles else "a prior with lighter tails"
        remedy = Remedy(
            f"chains that started far out in the tail of the {start}: {finer}, or {other}."
        )
    yield Finding("start of the path", None, found, remedy)


def _outlying(signed: np.ndarray) -> int:
    """Count log weights so far below the median that each alone shifts the mean by an IQR."""
    finite = signed[np.isfinite(signed)]
    if len(finite) < 4:
        return 0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    return int(np.sum((middle - finite) / len(finite) > max(high - low, 0.1)))


def even_gap(read: Reading) -> Iterator[Finding]:
    """Doubt a wide gap that opens along the whole path."""
    if not read.has(*SIDES["simulated"]) or wide_part(read)[0]:
        return
    forward, value = read.side("forward"), gap(read)[0]
    if is_wide(read) and forward.tail.resolved:
        text = (
            f"forward: {value:.2g} nats between forward and reverse runs arise along the whole path"
        )
        needed = float(f"{forward.n_temperatures * value:.2g}")  # the gap falls as 1/T
        closing = Remedy(f"use temperatures={needed:.0f}, for a gap of about one nat.")
        yield Finding("gap", None, text, better_moves(read) or closing)


def better_moves(read: Reading) -> Remedy | None:
    """Return the remedy if the kernel or the schedule is the cause of uneven weights."""
    if any(side.divergent_share > MAX_DIVERGENT_SHARE for side in read.sides.values()):
        return Remedy("remove the divergences first.")
    if not (read.has(*SIDES["simulated"]) and is_wide(read) and slowness(read) > MAX_SLOWNESS):
        return None
    times = f"{slowness(read):.2g} times"
    if read.schedule not in ("adaptive", "unknown"):
        return Remedy(f'the gap is {times} that of the best schedule: pass schedule="adaptive".')
    ways = easier(read, another_kernel(read))
    return Remedy(f"the gap is {times} the ideal gap, so the kernel hardly mixes: {ways}.")
