"""The compiled kernels and loops as plain Python, with a fault in their source.

Python moves some thousand states in the time in which numba would compile one such twin.
"""

import inspect
import re
from types import ModuleType, SimpleNamespace

from pymc_bdmc.kernels import moves, state, transition
from pymc_bdmc.reference import metric, student
from pymc_bdmc.run import chain, resampling

MODULES = (metric, student, state, transition, moves, resampling, chain)
OWN_IMPORTS = r"^from pymc_bdmc\.(?:kernels|reference|run)\.\w+ import (\([^)]*\)|.*)\n"

FAULTS = {
    "wrong acceptance": ("np.exp(-error))\n    if rng", "np.exp(-0.5 * error))\n    if rng"),
    "missing half step": ("else OUTER\n", "else 0.0\n"),
    "energy without the momentum": (
        "dot(momentum, velocity) - tempered(proposal",
        "0.0 - tempered(proposal",
    ),
    "metric not inverted": ("1.0 / np.sqrt(1.0 + metric", "np.sqrt(1.0 + metric"),
    "energy without the metric": (
        "dot(momentum, velocity) - tempered(proposal",
        "dot(momentum, momentum) - tempered(proposal",
    ),
    "adaptation leaking": (
        "draw_trajectory(parameters.step_size, rng)\n    kick",
        "draw_trajectory(parameters.step_size * (0.2 + abs(state.theta[0])), rng)\n    kick",
    ),
    "far end not asked": ("for fewer in range(halvings)", "for fewer in range(0)"),
    "error of the other sign": ("np.exp(start - energy)", "np.exp(energy - start)"),
    "ends judge the sign of the error": (
        "if abs(far_energy - energy) <= MAX_ERROR",
        "if far_energy - energy <= MAX_ERROR",
    ),
    "turning back counts as diverging": (
        "n_pairs, diverging, gradients",
        "n_pairs, n_joined == 0, gradients",
    ),
    "inverse weight of a candidate": ("< -error - part_log_weight", "< error - part_log_weight"),
    "one direction alone": ("forward = rng.random() < 0.5", "forward = True"),
    "subtree without a weight": ("< part_log_weight - log_weight", "< 0.0"),
    "lenient walk": (
        "- tempered(state, beta)))\n    if",
        "- tempered(state, beta)) ** 0.5)\n    if",
    ),
    "draws accepted too often": ("log_ratio = beta *", "log_ratio = 0.5 * beta *"),
    "preferred steps": (
        "new = old + length if rng.random() < 0.5",
        "new = old + length if rng.random() < 0.6",
    ),
    "longer steps from larger states": (
        "length = 1.0 + np.floor(",
        "length = 1.0 + old + np.floor(",
    ),
    "values that are not proposed": ("if new >= old:", "if new >= old and old > 0:"),
    "particle 0 replaced": ("first = 1 if plan.reverse else 0", "first = 0"),
    "weights not started over": ("weights[:] = 1.0 / n", "weights /= weights.sum()"),
    "kept particle not among the ancestors": (
        "resample(weights, plan.reverse, rng.random())",
        "resample(np.where(np.arange(n) < first, 0.0, weights), plan.reverse, rng.random())",
    ),
    "no turn to the next step": ("+= turn(target, plan.betas, t, states, 0)", "+= 0"),
    "moved on another step": ("plan.betas, t - 1, states", "plan.betas, t, states"),
}
"""For each name, a text that the source contains once, and its replacement."""


def in_python(fault: str | None = None, *others: ModuleType) -> SimpleNamespace:
    """Return all that the modules define, and ``others``, uncompiled and with this fault."""
    source = "\n".join(map(inspect.getsource, MODULES + others))
    source = re.sub(OWN_IMPORTS, "", source, flags=re.MULTILINE).replace("@njit(", "@plain(")
    if fault:
        old, new = FAULTS[fault]
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    namespace = {"__name__": "twin", "plain": lambda **options: lambda function: function}
    exec(source, namespace)
    return SimpleNamespace(**namespace)
