"""Check where reverse runs start, and whether their burn-in is long enough."""

from collections.abc import Iterator

from pymc_bdmc.results.attributes import CERTAIN
from pymc_bdmc.results.burn_in import burn_in_of
from pymc_bdmc.results.checks.chance import MAX_CHANCE
from pymc_bdmc.results.finding import Finding, Message, message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import Side


def start(read: Reading) -> Iterator[Finding]:
    """Check whether the start of reverse runs is known to come from the posterior."""
    found = read.start("simulated")
    exact = message("exact states" if read.is_system else "exact start")
    remedy = exact if found not in ("exact", "posterior draw") else None
    if found in CERTAIN:
        yield Finding("start", "good", (), remedy)
    else:
        yield Finding("start", "open", (message("unknown start", start=found),), remedy)


def too_short(read: Reading, side: Side) -> Message | None:
    """Tell if the mean log weight depends on the burn-in."""
    if side.name != "reverse" or not read.has("burn_in"):
        return None
    before = burn_in_of(read).iloc[-2]
    if not before["pvalue"] <= MAX_CHANCE:
        return None
    return message("burn-in", steps=before.name, difference=before["difference"])
