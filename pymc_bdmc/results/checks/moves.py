"""Check whether the kernel moves: acceptance and divergences along the path."""

from collections.abc import Iterator

from pymc_bdmc.results.checks.gap import gap
from pymc_bdmc.results.finding import Finding, Message, message
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, Side

MAX_DIVERGENT_SHARE = 0.01
"""Share of divergent transitions of one kind of runs from which it is a doubt; chosen."""

MOST_DIVERGENT = 0.2
"""Largest share of divergent transitions of a good result; see `divergent_share`."""

MIN_ACCEPTANCE = 0.01
"""Acceptance along part of the path below which a run hardly moved; chosen."""

NARROW_GAP = 0.25
"""Gap plus two standard errors, in nats, up to which runs whose kernel hardly moved do no harm: the
total variation is then at most 0.25, as in a good verdict, by Pinsker's inequality in both ways."""


def dead(read: Reading, side: Side) -> Message | None:
    """Tell how many runs hardly moved, unless the gap is narrow all the same."""
    if "lowest_acceptance" not in side.run:
        return None
    if read.has(*SIDES["simulated"]) and side.name in SIDES["simulated"]:
        value, error = gap(read)
        if value + 2 * error <= NARROW_GAP:
            return None
    n = int((side.run["lowest_acceptance"] < MIN_ACCEPTANCE).sum())
    return message("dead", n=n, of=side.n_finished) if n else None


def divergent(read: Reading, side: Side) -> Message | None:
    """Tell which share of the transitions diverged, if more than a few did."""
    share = side.divergent_share
    return message("divergent", share=share) if share > MAX_DIVERGENT_SHARE else None


@once
def divergent_share(read: Reading) -> float:
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

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.checks.moves import divergent_share
    >>> real = dict(log_weight=("chain", np.zeros(5)), divergences=("beta", np.array([0, 1, 2, 1])))
    >>> round(divergent_share(xr.DataTree.from_dict(dict(real=xr.Dataset(real)))), 2)
    0.27
    """
    sides = [read.side(forward) for forward, _ in SIDES.values() if read.has(forward)]
    return max((side.divergent_share for side in sides), default=0.0)


def divergences(read: Reading) -> Iterator[Finding]:
    """Check whether most transitions did not diverge."""
    if (share := divergent_share(read)) > MOST_DIVERGENT:
        told = message("divergences", share=share)
        yield Finding("divergences", "open", (told,), value=share, upper=MOST_DIVERGENT)
