"""Check how wide the gap between forward and reverse runs is, and where along the path it opens."""

import numpy as np

from pymc_bdmc.estimators import jeffreys_bound
from pymc_bdmc.results.checks.weights import straggling
from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, Side

WIDE_GAP = 2.0
"""Gap that counts as wide, in nats, after subtracting two standard errors; chosen."""

KNOT_PARTS = 10
"""A knot is a tenth of the temperatures within which half of the gap opens; chosen."""


@once
def gap(read: Reading) -> tuple[float, float]:
    """Return the Jeffreys bound and its error; nats."""
    return jeffreys_bound(*(side.log_weight for side in read.pair))


def is_wide(read: Reading) -> bool:
    """Return whether the gap is wide beyond its error."""
    value, error = gap(read)
    return value - 2 * error > WIDE_GAP


@once
def slowness(read: Reading) -> float:
    """Return the ratio of the gap on simulated data to the ideal gap of the best schedule.

    NaN if it is unknown, or says nothing: of a single step, or of log weights without a mean.
    """
    forward = read.side("forward") if read.has(*SIDES["simulated"]) else None
    if not forward or not forward.lengths.size:
        return np.nan
    n = forward.n_temperatures
    if n == 1 or not forward.tail.resolved:
        return np.nan
    return gap(read)[0] * n * read.n_particles / float(np.mean(forward.lengths**2))


@once
def wide_part(read: Reading) -> tuple[Message | None, bool]:
    """Return the small part of the path that causes half of a wide gap, and whether it is first."""
    nothing = None, False
    if not read.has(*SIDES["simulated"]) or "log_likelihood_path" not in read.side("forward").run:
        return nothing
    forward, reverse = (side.variable("log_likelihood_path") for side in read.pair)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        apart = (reverse - forward).mean("dataset").values[:-1]
    betas = forward["beta"].values
    opened = np.concatenate([[0.0], np.cumsum(np.diff(betas) * apart)])
    width = max(1, len(apart) // KNOT_PARTS)
    inside = opened[width:] - opened[:-width]
    if len(apart) < KNOT_PARTS or not min(gap(read)[0], opened[-1]) > 1:
        return nothing
    first = int(np.argmax(inside))
    share = inside[first] / opened[-1]
    if not share > 0.5:
        return nothing
    told = message("wide part", share=min(share, 1), low=betas[first], high=betas[first + width])
    return told, first == 0


def knot(read: Reading, side: Side) -> Message | None:
    """Tell where the gap opens, if it opens at a part of the path after its start."""
    part, at_start = wide_part(read)
    if side.name != "forward" or at_start or not part:
        return None
    return message("knot of data" if read.path == "data" else "knot", part=part)


def far_start(read: Reading, side: Side) -> Message | None:
    """Tell if the gap opens at the start of the path, or by outliers."""
    part, at_start = wide_part(read)
    return part if side.name == "forward" and at_start else straggling(read, side)


def even_gap(read: Reading, side: Side) -> Message | None:
    """Tell how wide a gap is that opens along the whole path."""
    if side.name != "forward" or not read.has("reverse") or wide_part(read)[0]:
        return None
    return message("even gap", gap=gap(read)[0]) if is_wide(read) and side.tail.resolved else None
