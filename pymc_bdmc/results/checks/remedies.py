"""Choose what to do about a doubt, by what the run was and what it can be."""

from pymc_bdmc.estimators.checks import MIN_EFFECTIVE_SAMPLE_SIZE
from pymc_bdmc.results.checks.gap import gap, is_wide, slowness
from pymc_bdmc.results.checks.moves import divergent
from pymc_bdmc.results.finding import NOTHING, Message, message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import SIDES

MAX_SLOWNESS = 20
"""Ratio of the gap to the ideal gap above which a better kernel helps more than temperatures;
chosen."""

LEAST_TEMPERATURES = 100
"""Fewest temperatures proposed to anneal from a fit to given draws; chosen."""


def another_kernel(read: Reading) -> Message:
    """Return the next kernel that may mix better."""
    moves = read.moves
    if not moves.is_compiled:
        return message("another step")
    if "HMC" in moves.names or "AutoStep HMC" in moves.names:
        return message("step", step="nuts")
    if "NUTS" in moves.names:
        return message("step", step="autostep")
    return message("some particles")  # Metropolis uses no gradient


def livelier(read: Reading) -> Message:
    """Return another kernel, or more particles if discrete variables have one kernel only."""
    if read.discrete_variables and read.moves.is_compiled:
        return _more_particles(read)
    return another_kernel(read)


def local_steps(read: Reading) -> Message:
    """Return a kernel with local step sizes, unless the run already used one."""
    moves = read.moves
    if moves.is_compiled and "AutoStep HMC" not in moves.names:
        return message("step", step="autostep")
    return message("careful nuts") if "NUTS" in moves.names else another_kernel(read)


def easier(read: Reading, kernel: Message) -> Message:
    """Return changes of the model that its variables suggest, then another kernel."""
    ways = [message("try", what=kernel)]
    if read.centred_effects:
        ways.insert(0, message("non-centred", names=read.centred_effects))
    if read.finite_variables:
        ways.insert(0, message("sum out", names=read.finite_variables))
    elif read.discrete_variables:
        ways.insert(0, message("mixture", names=read.discrete_variables))
    return message("any of", parts=ways)


def _particles(read: Reading) -> int:
    return max(4 * read.n_particles, 16)


def _more_particles(read: Reading) -> Message:
    return message("particles", n=_particles(read))


def _better_moves(read: Reading) -> Message | None:
    """Return the remedy if the kernel or the schedule is the cause."""
    if any(divergent(read, side) for side in read.sides.values()):
        return message("divergences first")
    if read.has(*SIDES["simulated"]) and is_wide(read) and slowness(read) > MAX_SLOWNESS:
        if read.schedule not in ("adaptive", "unknown"):
            return message("better schedule", slowness=slowness(read))
        ways = easier(read, another_kernel(read))
        return message("slow kernel", slowness=slowness(read), ways=ways)
    return None


def closing(read: Reading) -> Message:
    """Say how many temperatures would reduce the gap to about one nat; it falls as 1/T."""
    needed = read.side("forward").n_temperatures * gap(read)[0]
    return _better_moves(read) or message("close the gap", n=float(f"{needed:.2g}"))


def finer_start(read: Reading) -> Message:
    """Return the remedy for runs that start far out."""
    if read.is_system:  # it has one prior, and no adaptive schedule
        return message("efforts", particles=NOTHING, kernel=NOTHING)
    return message(
        "finer start",
        start="prior" if read.path in ("", "prior", "data") else "reference",
        finer=message("use temperatures" if read.schedule == "adaptive" else "adaptive schedule"),
        other=_more_particles(read) if read.particles else message("lighter prior"),
    )


def lighter_tails(read: Reading) -> Message:
    """Return what to do if means of log weights do not exist."""
    more = message("take particles", n=_particles(read)) if read.particles else NOTHING
    return message("medians", more=more)


def more_effort(read: Reading) -> Message:
    """Return the remedy for weights that are too uneven."""
    if read.needs_other_data:
        return message("data like yours")
    if better := _better_moves(read):
        return better
    if read.finite_variables:
        return message("stop", what=message("sum out", names=read.finite_variables))
    kernel = another_kernel(read)
    return message(
        "efforts",
        particles=message("or particles", n=_particles(read)) if read.particles else NOTHING,
        kernel=NOTHING if kernel.kind == "some particles" else message("or try", what=kernel),
    )


def more_runs(read: Reading) -> Message:
    """Return the number of runs whose average could be trusted."""
    names = {"real", *read.directions}
    most = max(side.chains for name, side in read.sides.items() if name in names)
    few = most < MIN_EFFECTIVE_SAMPLE_SIZE
    leave_out = message("or leave out") if few else NOTHING
    return message("more runs", n=max(16, 2 * most), leave_out=leave_out)


def reach_draws(read: Reading) -> Message:
    """Return the remedy if draws show a part of the posterior that the runs miss."""
    if read.centred_effects:
        return message("stop", what=message("non-centred", names=read.centred_effects))
    n = max(LEAST_TEMPERATURES, 2 * read.side("real").n_temperatures)
    return message("fit to draws", n=n)
