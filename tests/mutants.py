"""The compiled kernels and loops, built anew from their source with faults in it.

Compiling a kernel takes seconds, so one compiled copy contains all faults. Wherever one of them
belongs, it reads from memory the number of the fault that is switched on.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from itertools import count
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.extending import intrinsic

from pymc_bdmc.kernels import moves, state, transition
from pymc_bdmc.reference import metric, student
from pymc_bdmc.run import chain, resampling

MODULES = (metric, student, state, transition, moves, resampling, chain)
LOOPS = (resampling, chain)
MOVES = tuple(each for each in MODULES if each not in (student, state, *LOOPS))
"""The others are then those of the package, and compiled already."""

Faults = Mapping[str, tuple[str, str]]
"""For each name, a text that the source contains once, and its replacement."""

_numbers = count()
_present = np.zeros(1, np.int64)
"""Number of the fault that is switched on; 0 for none."""
_REPLACEABLE = ast.expr | ast.stmt

FAULTS_OF_KERNELS: Faults = {
    "wrong acceptance": ("np.exp(-error))\n    if rng", "np.exp(-0.5 * error))\n    if rng"),
    "missing half step": ("else OUTER\n", "else 0.0\n"),
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
    "ends judge the sign of the error": (
        "if abs(far_energy - energy) <= MAX_ERROR",
        "if far_energy - energy <= MAX_ERROR",
    ),
    "wrong acceptance with local steps": (
        "np.exp(start - energy)",
        "np.exp(0.5 * (start - energy))",
    ),
    "turning back counts as diverging": (
        "n_pairs, diverging, gradients",
        "n_pairs, n_joined == 0, gradients",
    ),
    "unweighted candidate": ("< -error - part_log_weight", "< -np.log(leaf + 1.0)"),
    "preferred direction": ("forward = rng.random() < 0.5", "forward = rng.random() < 0.9"),
    "subtree without a weight": ("< part_log_weight - log_weight", "< 0.0"),
    "wrong walk acceptance": (
        "- tempered(state, beta)))\n    if",
        "- tempered(state, beta)) ** 0.7)\n    if",
    ),
    "lenient walk": (
        "- tempered(state, beta)))\n    if",
        "- tempered(state, beta)) ** 0.5)\n    if",
    ),
    "draws accepted too often": ("log_ratio = beta *", "log_ratio = 0.5 * beta *"),
    "preferred steps": (
        "new = old + length if rng.random() < 0.5",
        "new = old + length if rng.random() < 0.6",
    ),
    "steps as long as the state": (
        "length = 1.0 + np.floor(2.4 * widths[j]",
        "length = 1.0 + np.floor(2.4 * abs(old)",
    ),
    "values that are not proposed": ("if new >= old:", "if new >= old and old > 0:"),
}

FAULTS_OF_LOOPS: Faults = {
    "particle 0 replaced": ("first = 1 if plan.reverse else 0", "first = 0"),
    "weights not started over": ("weights[:] = 1.0 / n", "weights /= weights.sum()"),
    "kept particle not among the ancestors": (
        "resample(weights, plan.reverse, rng.random())",
        "resample(np.where(np.arange(n) < first, 0.0, weights), plan.reverse, rng.random())",
    ),
    "unconditional resampling": (
        "resample(weights, plan.reverse, rng.random())",
        "resample(weights, False, rng.random()) * np.minimum(np.arange(n), 1)",
    ),
    "threshold that looks at the path": (
        "sizes[t] < THRESHOLD * n",
        "sizes[t] < THRESHOLD * n and (not plan.reverse or trail[row, 1] > 1)",
    ),
    "no turn to the next step": ("+= turn(target, plan.betas, t, states, 0)", "+= 0"),
    "moved on another step": ("plan.betas, t - 1, states", "plan.betas, t, states"),
}


@cache
def broken_kernels() -> "Twin":
    """Return the kernels with all of `FAULTS_OF_KERNELS` in them."""
    return compile_kernels(FAULTS_OF_KERNELS, MOVES)


@cache
def broken_loops() -> "Twin":
    """Return the loops with all of `FAULTS_OF_LOOPS` in them."""
    return compile_kernels(FAULTS_OF_LOOPS, LOOPS)


def slow_but(*quick, of):
    """Parameters of a test: the quick ones, and slow ones that take as long to compile."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in of]


class Twin(SimpleNamespace):
    """Everything that the modules define, with faults that can be switched on."""

    @contextmanager
    def having(self, fault: str) -> Iterator[None]:
        """Switch one fault on within this context."""
        _present[0] = 1 + list(self.faults).index(fault)
        try:
            yield
        finally:
            _present[0] = 0


def compile_kernels(faults: Faults | None = None, modules: Sequence[ModuleType] = MODULES) -> Twin:
    """Return a copy of these modules, with these faults in it."""
    faults = faults or {}
    names = "|".join(module.__name__.split(".")[-1] for module in modules)
    imports = rf"^from pymc_bdmc\.(?:kernels|reference|run)\.(?:{names}) import (\([^)]*\)|.*)\n"
    source = "\n".join(map(inspect.getsource, modules)).replace("cache=True", "cache=False")
    source = re.sub(imports, "", source, flags=re.MULTILINE)
    if state in modules:  # Numba tells types of functions apart by what they print.
        renamed = f"Target.__name__ += '{next(_numbers)}'\nSIGNATURE ="
        source = source.replace("SIGNATURE =", renamed)
    sound = ast.parse(source)
    tree = deepcopy(sound)
    for number, (old, new) in enumerate(faults.values(), start=1):
        assert source.count(old) == 1, old
        tree = _joined(tree, sound, ast.parse(source.replace(old, new)), number)
    namespace = {"__name__": "twin", "present_fault": numba.njit(lambda: present_fault())}
    exec(compile(ast.fix_missing_locations(tree), "<twin>", "exec"), namespace)
    return Twin(**namespace, faults=faults)


@intrinsic
def present_fault(typing_context):
    """Return the number of the fault that is switched on, read at every call."""

    def read(context, builder, signature, arguments):
        place = ir.Constant(ir.IntType(64), _present.ctypes.data)
        return builder.load(builder.inttoptr(place, ir.IntType(64).as_pointer()))

    return numba.int64(), read


def _joined(tree: ast.AST, sound: ast.AST, broken: ast.AST, number: int) -> ast.AST:
    """Return a copy of the sound tree that becomes the broken one if this fault is switched on.

    ``tree`` is such a copy for the faults before. Statements and expressions that differ become a
    choice between both.
    """
    if ast.dump(sound) == ast.dump(broken):
        return tree
    if hasattr(tree, "is_choice"):  # of an earlier fault
        of_list = isinstance(tree.orelse, list)
        other = _joined(tree.orelse[0] if of_list else tree.orelse, sound, broken, number)
        tree.orelse = [other] if of_list else other
    elif _alike_within(sound, broken):
        for name in sound._fields:
            parts = (getattr(each, name) for each in (tree, sound, broken))
            if isinstance(getattr(sound, name), list):
                setattr(tree, name, [_joined(*each, number) for each in zip(*parts, strict=True)])
            elif isinstance(getattr(sound, name), ast.AST):
                setattr(tree, name, _joined(*parts, number))
    else:
        has = ast.parse(f"present_fault() == {number}", mode="eval").body
        one = isinstance(tree, ast.expr)
        tree = ast.IfExp(has, broken, tree) if one else ast.If(has, [broken], [tree])
        tree.is_choice = True
    return tree


def _alike(a, b) -> bool:
    """Whether two nodes are the same but for expressions and statements in them."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, _REPLACEABLE):
        return isinstance(b, _REPLACEABLE)
    return _alike_within(a, b) if isinstance(a, ast.AST) else a == b


def _alike_within(a, b) -> bool:
    """Whether two nodes are of one kind, and their parts alike."""
    return type(a) is type(b) and all(_alike(getattr(a, f), getattr(b, f)) for f in a._fields)
