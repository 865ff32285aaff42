"""Exponentials and logarithms without branches: within two units in the last place, everywhere."""

import importlib
import platform
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features

from pymc_bdmc.base import elementary

Wide = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(Wide).nmant < 63, reason="NumPy has no wider floats here to compare with"
)


def wide_sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


REFERENCES = {
    "exp": np.exp,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": wide_sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
"""With 64 bits, a thousandth of a unit in the last place."""


def grid(n: int = 20_000) -> np.ndarray:
    """Return numbers of all scales and both signs, subnormal ones, and ones around zero and one."""
    rng = np.random.default_rng(1)
    scales = np.exp2(rng.uniform(-1074, 1024, n))
    small = np.exp2(rng.uniform(-54, 0, n))
    even = [np.linspace(-a, a, n) for a in (1, 4, 40, 760)]
    subnormal = 5e-324 * np.arange(1, 2000)
    found = [*even, scales, small, 1 + small, small - 1, 1 - small / 2, subnormal]
    return np.concatenate([*found, *(-x for x in found)])


@cache
def looped(function):
    """A function of arrays whose loop LLVM vectorises, compiled once for all tests."""

    @numba.njit
    def loop(x):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = function(x[i])
        return out

    return loop


def units_off(name: str, function, x: np.ndarray) -> float:
    """The largest error in units in the last place; infinite where it is NaN and should not be."""
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(Wide))
        rounded = exact.astype(float)
        value = looped(function)(x)
        unit = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), 1)).astype(Wide)
        errors = np.abs(value.astype(Wide) - np.where(np.isinf(rounded), rounded, exact)) / unit
    same = (value == rounded) | (np.isnan(value) & np.isnan(rounded))
    errors = np.where(np.isinf(rounded) | np.isnan(rounded), np.where(same, 0, np.inf), errors)
    return float(np.where(np.isnan(errors), np.inf, errors).max())


@pytest.mark.parametrize("name", REFERENCES)
def test_error_is_at_most_two_units(name):
    assert units_off(name, getattr(elementary, name), grid()) <= 2


@pytest.mark.parametrize(("name", "polynomial"), [("exp", "EXP"), ("log", "ATANH")])
def test_a_polynomial_one_degree_short_fails(name, polynomial, monkeypatch):
    """The polynomial of lower degree has the best coefficients for its degree."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    minimax = importlib.import_module("minimax")
    if polynomial == "EXP":
        shorter, _ = minimax.exp_coefficients(8)
    else:
        shorter, _ = minimax.atanh_coefficients((3 - Decimal(8).sqrt()) ** 2, 5)
    assert len(shorter) == len(getattr(elementary, polynomial)) - 1
    monkeypatch.setattr(elementary, polynomial, tuple(shorter))
    for inner in ("exp", "_log"):  # numba compiles constants in
        dispatcher = getattr(elementary, inner)
        monkeypatch.setattr(elementary, inner, elementary._inline(dispatcher.py_func))
    twin = elementary._inline(getattr(elementary, name).py_func)
    assert units_off(name, twin, grid()) > 2


TINY, HUGE, EPS = 5e-324, np.finfo(float).max, np.finfo(float).eps
NAN, INF = np.nan, np.inf
EDGES = {
    "exp": [
        [NAN, NAN], [INF, INF], [-INF, 0.0], [0.0, 1.0], [-0.0, 1.0], [TINY, 1.0], [-TINY, 1.0],
        [709.782712893384, 1.797693134862273e308], [709.7827128933841, INF], [HUGE, INF],
        [-745.1332191019411, TINY], [-745.1332191019412, 0.0], [-HUGE, 0.0],
    ],
    "log": [
        [NAN, NAN], [INF, INF], [-INF, NAN], [0.0, -INF], [-0.0, -INF], [-1.0, NAN], [-TINY, NAN],
        [TINY, -744.4400719213812], [1.0, 0.0], [1 + 2**-52, 2.220446049250313e-16],
        [1 - 2**-53, -(2.0**-53)], [HUGE, 709.782712893384],
    ],
    "log1p": [
        [NAN, NAN], [INF, INF], [-INF, NAN], [0.0, 0.0], [-0.0, -0.0], [-1.0, -INF],
        [-1 - 2**-52, NAN], [-1 + 2**-53, -36.7368005696771], [TINY, TINY], [-TINY, -TINY],
        [2**-60, 2**-60], [HUGE, 709.782712893384],
    ],
    "sigmoid": [
        [NAN, NAN], [INF, 1.0], [-INF, 0.0], [0.0, 0.5], [-0.0, 0.5], [-745.1332191019411, TINY],
        [-745.1332191019412, 0.0], [HUGE, 1.0], [-HUGE, 0.0],
    ],
    "softplus": [
        [NAN, NAN], [INF, INF], [-INF, 0.0], [-745.1332191019411, TINY],
        [-745.1332191019412, 0.0], [HUGE, HUGE], [-HUGE, 0.0],
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    """Results are the same alone and in a vector, and zeros have the right sign."""
    function, (at, expected) = getattr(elementary, name), np.transpose(EDGES[name])
    values = looped(function)(np.tile(at, 8))  # vectors and what is left over
    np.testing.assert_allclose(values, np.tile(expected, 8), rtol=2 * EPS, atol=0)
    signs, known = np.signbit(values), ~np.isnan(values)
    assert np.array_equal(signs[known], np.tile(np.signbit(expected), 8)[known])
    np.testing.assert_allclose([function(x) for x in at], expected, rtol=2 * EPS, atol=0)


@numba.njit
def c_exponential(x):
    return np.exp(x)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not get_host_cpu_features().get("avx2"),
    reason="the names of instructions differ, or there are too few of them",
)
@pytest.mark.parametrize("name", REFERENCES)
def test_loops_have_vector_instructions_and_no_calls(name):
    """The loop has vector instructions. The twin with the C library's exponential has none."""

    def packed(function) -> bool:
        loop = looped(function)
        loop(np.ones(3))
        [assembly] = loop.inspect_asm().values()
        return bool(re.search(r"\bv?(mul|fmadd\d+)pd\b", assembly))

    assert packed(getattr(elementary, name))
    assert not packed(c_exponential)
