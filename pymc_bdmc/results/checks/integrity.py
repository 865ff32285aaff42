"""Check whether a run is whole: interruptions, and where its density is not defined."""

from collections.abc import Iterator

from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.reading import Reading

AGAIN = Remedy("run it again.")

MOST_UNDEFINED = 1e-3
"""Largest share of moves from posterior states that may end where the density is NaN; chosen."""


def interruption(read: Reading) -> str:
    """Return what is left after Ctrl-C or a callback stopped the run; empty if nothing did."""
    if not read.interrupted:
        return ""
    if read.is_tempering:
        n = read.group("tempering").sizes["draw"]
        return f"Interrupted: {n} draws of each chain are kept."
    sides = read.sides.values()
    if any(side.variable("log_weight").isnull().any() for side in sides):
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
        yield Finding("interruption", None, (left,))


def interrupted(read: Reading) -> Iterator[Finding]:
    """Report an interruption."""
    if read.interrupted:
        told = "The run was interrupted, so the finished part may not be a random sample."
        yield Finding("interruption", "open", (told,), AGAIN)


def undefined_near(read: Reading) -> str:
    """Tell where the density is NaN, if the posterior lies next to it; else return nothing."""
    if not read.undefined or not read.undefined_posterior > MOST_UNDEFINED:
        return ""
    return (
        f"the log density of {read.undefined} is NaN at {read.undefined_prior:.2%} of the prior "
        f"draws and next to the posterior, of which {read.undefined_posterior:.1%} or more may be "
        "lost"
    )


def undefined_far(read: Reading) -> str:
    """Tell where the density is NaN, if the posterior is far from it; else return nothing."""
    if not read.undefined or undefined_near(read):
        return ""
    return (
        f"The log density of {read.undefined} is NaN at {read.undefined_prior:.2%} of the prior "
        "draws, and counts as −∞ there; the posterior is far from such values."
    )


def undefined(read: Reading) -> Iterator[Finding]:
    """Doubt a density that is NaN next to the posterior."""
    if near := undefined_near(read):
        remedy = Remedy(
            f"write {read.undefined} in a form that does not overflow, or bound the parameters."
        )
        yield Finding("undefined density", None, (near,), remedy)
