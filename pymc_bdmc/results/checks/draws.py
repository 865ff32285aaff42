"""Check the draws that the call was given, and the reverse runs that start from some of them."""

from collections.abc import Iterator

from pymc_bdmc.results.agreement import kept_agreement
from pymc_bdmc.results.checks.both_sides import both_sides
from pymc_bdmc.results.checks.chance import MAX_CHANCE
from pymc_bdmc.results.checks.remedies import reach_draws
from pymc_bdmc.results.finding import Finding, Message, message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import Side


def disagreement(read: Reading, side: Side) -> Message | None:
    """Tell if the draws or the reverse runs from them contradict the forward runs."""
    if side.name != "real_reverse":
        return None
    found, sides = kept_agreement(read), both_sides(read)
    if found and (found.status == "bad" or found.too_low):
        return message("clause", what=found.messages[0])
    if sides and sides.pvalue <= MAX_CHANCE:
        return message("both sides doubt", **sides._asdict())
    return None


def reconcile(read: Reading) -> Message:
    """Return the remedy if draws and runs contradict each other, or chains of the draws do."""
    if read.too_low:
        return reach_draws(read)
    found = kept_agreement(read)
    return message("each chain" if found and found.contradicts else "compare draws")


def draws(read: Reading) -> Iterator[Finding]:
    """Check the draws against the run's own, and forward against reverse runs."""
    if found := kept_agreement(read):
        # An open agreement does not leave the verdict open.
        status, remedy = None if found.status == "open" else found.status, None
        if found.too_low:
            status, remedy = "bad", reach_draws(read)
        elif found.status == "bad":
            remedy = message("each chain" if found.contradicts else "plot agreement")
        # The last message is about the run's own draws, as the verdict is.
        told = found.messages[: 1 if found.status == "good" else -1]
        brief = message("brief agreement") if found.status == "good" else found.messages[0]
        yield Finding("draws", status, told, remedy, found.too_low, brief=brief)
    sides = both_sides(read)
    if sides and sides.pvalue <= MAX_CHANCE:
        told = (message("both sides", **sides._asdict()),)
        yield Finding("both sides", "bad", told, message("both efforts"), sides.pvalue)
