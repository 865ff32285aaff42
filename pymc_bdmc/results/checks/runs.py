"""Check runs: whether they are whole, the density defined everywhere, and whether kernels move."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.reading import SIDES, Reading, Side, once
from pymc_bdmc.results.sandwich import gap

AGAIN = Remedy("run it again.")

MAX_DIVERGENT_SHARE = 0.01
"""Share of divergent transitions of one kind of runs from which it is a doubt; chosen."""

MOST_DIVERGENT = 0.2
"""Largest share of divergent transitions of a good result; see `divergent_share`."""


def interruption(read: Reading) -> str:
    """Return what is left after Ctrl-C or a callback stopped the run; empty if nothing did."""
    if not read.interrupted:
        return ""
    if read.is_tempering:
        return f"Interrupted: {read.tempering.sizes['draw']} draws of each chain are kept."
    sides = read.sides.values()
    if any(np.isnan(side.log_weight).any() for side in sides):
        done = ", ".join(
            f"{each.n_finished} of {each.log_weight.size} {each.name}" for each in sides
        )
        return (
            f"Interrupted: {done} chains were finished. They may not be a random sample of all, so "
            "nothing is certified."
        )
    if read.last_round.get("meets_target", False) and not read.confirms:
        return (
            "Interrupted: the result is the round that met the target, and no new round has "
            "confirmed it. It may have met the target by noise: its lower bound may be too high "
            "and its gap too small. Certified bounds allow for this."
        )
    return "Interrupted: the result is the last finished round."


def cut_short(read: Reading) -> Iterator[Finding]:
    """Doubt an interrupted run."""
    if left := interruption(read):
        yield Finding("interruption", None, left)


def interrupted(read: Reading) -> Iterator[Finding]:
    """Report an interruption."""
    if read.interrupted:
        text = "The run was interrupted, so the finished part may not be a random sample."
        yield Finding("interruption", "open", text, AGAIN)


def undefined_near(read: Reading) -> str:
    """Say where the density is NaN or +∞, if the posterior lies next to it; else return nothing."""
    # So many moves from posterior states may end there; chosen.
    if not read.undefined or not read.undefined_posterior > 1e-3:
        return ""
    return (
        f"the {_undefined_at(read)} and next to the posterior, of which "
        f"{read.undefined_posterior:.1%} or more may be lost"
    )


def undefined_far(read: Reading) -> str:
    """Say where the density is NaN or +∞, if the posterior is far from it; else return nothing."""
    if not read.undefined or undefined_near(read):
        return ""
    return (
        f"The {_undefined_at(read)}, and counts as −∞ there; the posterior is far from such values."
    )


def _undefined_at(read: Reading) -> str:
    raised = f" ({read.undefined_error})" if read.undefined_error else ""
    share = f"{read.undefined_prior:.2%} of the prior draws"
    return f"log density of {read.undefined} is NaN or +∞ at {share}{raised}"


def undefined(read: Reading) -> Iterator[Finding]:
    """Doubt a density that is NaN or +∞ next to the posterior."""
    if near := undefined_near(read):
        remedy = Remedy(
            f"write {read.undefined} in a form that does not overflow, or bound the parameters."
        )
        yield Finding("undefined density", None, near, remedy)


def dead(read: Reading) -> Iterator[Finding]:
    """Doubt runs that hardly moved, unless the gap is narrow all the same."""

    def stuck(side: Side) -> int:
        if "lowest_acceptance" not in side.run:
            return 0
        if read.has(*SIDES["simulated"]) and side.name in SIDES["simulated"]:
            value, error = gap(read)
            # The total variation is then at most 0.25, as in a good verdict, by Pinsker's
            # inequality in both ways.
            if value + 2 * error <= 0.25:
                return 0
        return int((side.run["lowest_acceptance"] < 0.01).sum())  # chosen

    if found := {side: n for side in read.sides.values() if (n := stuck(side))}:
        text = (
            f"{', '.join(side.name for side in found)}: {sum(found.values())} of "
            f"{sum(side.n_finished for side in found)} chains hardly moved along part of the path"
        )
        # Discrete variables have one compiled kernel only.
        only_kernel = read.discrete_variables and read.moves.is_compiled
        kernel = more_particles(read) if only_kernel else another_kernel(read)
        remedy = Remedy(f"their log weights widen the gap: {easier(read, kernel)}.")
        yield Finding("acceptance", None, text, remedy)


def divergent(read: Reading) -> Iterator[Finding]:
    """Doubt more than a few divergent transitions."""

    def counted(side: Side) -> str:
        share = side.divergent_share
        return f"{share:.1%} of the transitions diverged" if share > MAX_DIVERGENT_SHARE else ""

    if found := read.by_group(counted):
        yield Finding("divergences", None, found, Remedy(f"{easier(read, local_steps(read))}."))


@once
def divergent_share(read: Reading) -> float:
    """Return the share of divergent transitions in the forward runs, the larger of both data.

    A divergent transition is rejected, so weights stay unbiased: in 108 calls for centred funnels
    (HMC and NUTS from the prior, log ML by quadrature) the share reached 0.83, and errors did not
    grow with it. A large share says only that the result rests on the weights alone.
    """
    sides = [read.side(forward) for forward, _ in SIDES.values() if read.has(forward)]
    return max((side.divergent_share for side in sides), default=0.0)


def divergences(read: Reading) -> Iterator[Finding]:
    """Check whether most transitions did not diverge, if there are runs on the real data."""
    if read.has("real") and (share := divergent_share(read)) > MOST_DIVERGENT:
        text = (
            f"{share:.0%} of the transitions diverged, so the kernel hardly moves where the "
            "posterior is narrow."
        )
        yield Finding("divergences", "open", text, value=share, upper=MOST_DIVERGENT)


def ends(read: Reading) -> Iterator[Finding]:
    """Check whether the runs on the real data end alike."""
    name, rhat = rhat_of_runs(read)
    if rhat > MAX_RHAT:
        text = (
            f"The runs on your data end in different places: R̂ of {name} between them is "
            f"{rhat:.2g}."
        )
        remedy = Remedy("use more particles, so that every run reaches all of these places.")
        yield Finding("ends", "open", text, remedy, rhat, upper=MAX_RHAT)


@once
def rhat_of_runs(read: Reading) -> tuple[str, float]:
    """Return the variable whose means differ most between the final runs, and its R̂.

    Every run is a weighted population, and runs are weighted by their share of the total. With W
    the mean variance within runs and B the variance of their means, R̂ is √(1 + B/W): 1 if the runs
    agree, 1.4 if each of them has collapsed to a single ancestor, and far more if they end in
    different modes (Gelman and Rubin 1992). A single run with all the weight hides what the others
    found. R̂ is NaN if there are too few particles or runs, or if every weight is zero.
    """
    worst, highest = "", np.nan
    if not read.has("particles"):
        return worst, highest
    last = read.last_particles
    weights = xr.DataArray(last.weights, dims=("chain", "particle"))
    of_runs = weights.sum("particle")
    at_once = weights.sizes["particle"] // last.sweeps
    # With fewer runs or particles, means of good runs differ as much as states.
    if not np.isfinite(of_runs).all() or len(of_runs) < 4 or at_once < 8:
        return worst, highest
    within = weights / of_runs.where(of_runs > 0)
    for name, values in last.states.data_vars.items():
        means = (values * within).sum("particle")
        spread = (((values - means) ** 2 * within).sum("particle") * of_runs).sum("chain")
        between = ((means - (means * of_runs).sum("chain")) ** 2 * of_runs).sum("chain")
        size = abs(values).max(("chain", "particle")).values
        # A relative standard deviation of 1e-9 is rounding of a constant, which says nothing.
        moves = np.sqrt((spread + between).values) > 1e-9 * size
        with np.errstate(divide="ignore", invalid="ignore"):
            rhat = np.where(moves, np.sqrt(1 + between.values / spread.values), np.nan)
        if not np.isnan(rhat).all() and not np.nanmax(rhat) <= highest:
            place = np.unravel_index(np.nanargmax(rhat), rhat.shape)
            worst = f"{name}{[int(i) for i in place] if place else ''}"
            highest = float(rhat[place])
    return worst, highest


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


def more_particles(read: Reading) -> str:
    """Return the option for the next number of particles."""
    return f"particles={max(4 * read.n_particles, 16)}"
