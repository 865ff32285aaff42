"""Check whether the kernel moves: acceptance, divergences, and where the runs end."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.results.evidence import tempering_rows
from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, Side
from pymc_bdmc.results.sandwich import gap

MAX_DIVERGENT_SHARE = 0.01
"""Share of divergent transitions of one kind of runs from which it is a doubt; chosen."""

MOST_DIVERGENT = 0.2
"""Largest share of divergent transitions of a good result; see `divergent_share`."""

MIN_ACCEPTANCE = 0.01
"""Acceptance along part of the path below which a run hardly moved; chosen."""

NARROW_GAP = 0.25
"""Gap plus two standard errors, in nats, up to which runs whose kernel hardly moved do no harm: the
total variation is then at most 0.25, as in a good verdict, by Pinsker's inequality in both ways."""

FEWEST = np.array([4, 8])
"""Fewest runs and particles for R̂; with fewer, means of good runs differ as much as states."""

ROUNDING = 1e-9
"""Relative standard deviation up to which a quantity counts as constant."""

MAX_UNEVENNESS = 0.1
"""Largest unevenness of the visits to the temperatures that is no doubt; chosen."""


def dead(read: Reading) -> Iterator[Finding]:
    """Doubt runs that hardly moved, unless the gap is narrow all the same."""

    def counted(side: Side) -> str:
        if "lowest_acceptance" not in side.run:
            return ""
        if read.has(*SIDES["simulated"]) and side.name in SIDES["simulated"]:
            value, error = gap(read)
            if value + 2 * error <= NARROW_GAP:
                return ""
        n = int((side.run["lowest_acceptance"] < MIN_ACCEPTANCE).sum())
        return f"{n} of {side.n_finished} chains hardly moved along part of the path" if n else ""

    if found := read.by_group(counted):
        # Discrete variables have one compiled kernel only.
        only_kernel = read.discrete_variables and read.moves.is_compiled
        kernel = more_particles(read) if only_kernel else another_kernel(read)
        remedy = Remedy(f"their log weights widen the gap: {easier(read, kernel)}.")
        yield Finding("acceptance", None, (found,), remedy)


def divergent(read: Reading) -> Iterator[Finding]:
    """Doubt more than a few divergent transitions."""

    def counted(side: Side) -> str:
        share = side.divergent_share
        return f"{share:.1%} of the transitions diverged" if share > MAX_DIVERGENT_SHARE else ""

    if found := read.by_group(counted):
        remedy = Remedy(f"{easier(read, local_steps(read))}.")
        yield Finding("divergences", None, (found,), remedy)


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
    """Check whether most transitions did not diverge, if there are runs on the real data."""
    if read.has("real") and (share := divergent_share(read)) > MOST_DIVERGENT:
        told = (
            f"{share:.0%} of the transitions diverged, so the kernel hardly moves where the "
            "posterior is narrow."
        )
        yield Finding("divergences", "open", (told,), value=share, upper=MOST_DIVERGENT)


def ends(read: Reading) -> Iterator[Finding]:
    """Check whether the runs on the real data end alike."""
    name, rhat = rhat_of_runs(read)
    if rhat > MAX_RHAT:
        told = (
            f"The runs on your data end in different places: R̂ of {name} between them is "
            f"{rhat:.2g}."
        )
        remedy = Remedy("use more particles, so that every run reaches all of these places.")
        yield Finding("ends", "open", (told,), remedy, rhat, upper=MAX_RHAT)


@once
def rhat_of_runs(read: Reading) -> tuple[str, float]:
    """Return the variable whose means differ most between the final runs, and its R̂.

    Every run is a weighted population, and runs are weighted by their share of the total. With W
    the mean variance within runs and B the variance of their means, R̂ is √(1 + B/W): 1 if the runs
    agree, 1.4 if each of them has collapsed to a single ancestor, and far more if they end in
    different modes. A single run with all the weight hides what the others found.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`, with the group ``particles``.

    Returns
    -------
    str, float
        Name of the variable, with the index of its element, and R̂. R̂ is NaN if there are too few
        particles or runs (`FEWEST`), or if every weight is zero.

    References
    ----------
    Gelman and Rubin (1992), Inference from iterative simulation using multiple sequences.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.checks.moves import rhat_of_runs
    >>> x = np.repeat([0.0, 0.0, 10.0, 10.0], 8).reshape(4, 8) + np.arange(8) / 7
    >>> weights = (("chain", "particle"), np.full((4, 8), 1 / 32))
    >>> particles = xr.Dataset(dict(x=(("chain", "particle"), x)), dict(bdmc_weight=weights))
    >>> name, rhat = rhat_of_runs(xr.DataTree.from_dict(dict(particles=particles)))
    >>> name, round(rhat, 1)
    ('x', 15.3)
    """
    worst, highest = "", np.nan
    if not read.has("particles"):
        return worst, highest
    last = read.last_particles
    weights = xr.DataArray(last.weights, dims=("chain", "particle"))
    of_runs = weights.sum("particle")
    at_once = weights.sizes["particle"] // last.sweeps
    if not np.isfinite(of_runs).all() or (np.array([len(of_runs), at_once]) < FEWEST).any():
        return worst, highest
    within = weights / of_runs.where(of_runs > 0)
    for name, values in last.states.data_vars.items():
        means = (values * within).sum("particle")
        spread = (((values - means) ** 2 * within).sum("particle") * of_runs).sum("chain")
        between = ((means - (means * of_runs).sum("chain")) ** 2 * of_runs).sum("chain")
        size = abs(values).max(("chain", "particle")).values
        moves = (spread + between).values > (ROUNDING * size) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):  # constant elements say nothing
            rhat = np.where(moves, np.sqrt(1 + between.values / spread.values), np.nan)
        if not np.isnan(rhat).all() and not np.nanmax(rhat) <= highest:
            place = np.unravel_index(np.nanargmax(rhat), rhat.shape)
            worst = f"{name}{[int(i) for i in place] if place else ''}"
            highest = float(rhat[place])
    return worst, highest


def few_passages(read: Reading) -> Iterator[Finding]:
    """Doubt log ML of simulated tempering whose chains seldom pass from end to end."""
    row = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
    if not row.valid:
        found = f"the evidence cannot be trusted ({row.reason})"
        remedy = Remedy("take more draws, or more temperatures where plot_tempering shows a knot.")
        yield Finding("passages", None, (found,), remedy)


def uneven_visits(read: Reading) -> Iterator[Finding]:
    """Doubt simulated tempering that visits temperatures unevenly."""
    if read.flatness > MAX_UNEVENNESS:
        found = f"temperatures are visited unevenly, by up to {read.flatness:.0%}"
        remedy = Remedy("take more chains, or a larger `initial`.")
        yield Finding("visits", None, (found,), remedy)


def another_kernel(read: Reading) -> str:
    """Return the next kernel that may mix better, or more particles."""
    return kernel_left(read) or "more particles"


def kernel_left(read: Reading) -> str:
    """Return the next kernel that may mix better; empty after Metropolis, without gradients."""
    moves = read.moves
    if not moves.is_compiled:
        return "another step method"
    if "HMC" in moves.names or "AutoStep HMC" in moves.names:
        return 'step="nuts"'
    return 'step="autostep"' if "NUTS" in moves.names else ""


def local_steps(read: Reading) -> str:
    """Return a kernel with local step sizes, unless the run already used one."""
    moves = read.moves
    if moves.is_compiled and "AutoStep HMC" not in moves.names:
        return 'step="autostep"'
    careful = "step=functools.partial(pm.NUTS, target_accept=0.95)"
    return careful if "NUTS" in moves.names else another_kernel(read)


def easier(read: Reading, kernel: str) -> str:
    """Return changes of the model that its variables suggest, then another kernel."""
    ways = [f"try {kernel}"]
    if read.centred_effects:
        ways.insert(0, non_centred(read.centred_effects))
    if read.finite_variables:
        ways.insert(0, sum_out(read.finite_variables))
    elif read.discrete_variables:
        ways.insert(0, f"sum {read.discrete_variables} out of the likelihood, as pm.Mixture does")
    return ", or ".join(ways)


def non_centred(names: str) -> str:
    """Say how to write effects non-centred."""
    return f"write {names} non-centred, as mean + scale * z with z of unit scale"


def larger_number(read: Reading) -> int:
    """Return the next number of particles."""
    return max(4 * read.n_particles, 16)


def more_particles(read: Reading) -> str:
    """Return the option for the next number of particles."""
    return f"particles={larger_number(read)}"
