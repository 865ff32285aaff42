"""Check whether Ctrl-C or a callback stopped the run, and what is left."""

from collections.abc import Iterator

from pymc_bdmc.results.finding import Finding, Message, message
from pymc_bdmc.results.reading import Reading


def interruption(read: Reading) -> Message | None:
    """Return what is left after an interruption; None if nothing stopped the run."""
    if not read.interrupted:
        return None
    if read.is_tempering:
        return message("draws left", n=read.group("tempering").sizes["draw"])
    sides = read.sides.values()
    if any(side.variable("log_weight").isnull().any() for side in sides):
        done = [
            message("runs left", n=side.n_finished, of=side.log_weight.size, group=side.name)
            for side in sides
        ]
        return message("part left", done=message("list", parts=done))
    unconfirmed = read.last_round.get("meets_target", False) and not read.confirms
    return message("unconfirmed round" if unconfirmed else "round left")


def interrupted(read: Reading) -> Iterator[Finding]:
    """Report an interruption."""
    if read.interrupted:
        yield Finding("interruption", "open", (message("interrupted"),), message("again"))
