"""Exponentials and logarithms without branches: within two units in the last place, everywhere."""

import importlib
import platform
import re
from decimal import Decimal, getcontext
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
SHORTER = {"exp": "EXP", "log": "ATANH", "log1p": "ATANH", "sigmoid": "EXP", "softplus": "EXP"}
"""A polynomial of each, for a twin that has it one degree too short."""


def grid(n: int = 100_000) -> np.ndarray:
    """Return numbers of all scales and both signs, subnormal ones, and ones around zero and one."""
    rng = np.random.default_rng(1)
    scales = np.exp2(rng.uniform(-1074, 1024, n))
    small = np.exp2(rng.uniform(-54, 0, n))
    even = [np.linspace(-a, a, n) for a in (1, 4, 40, 760)]
    subnormal = 5e-324 * np.arange(1, 2000)
    found = [*even, scales, small, 1 + small, small - 1, 1 - small / 2, subnormal]
    return np.concatenate([*found, *(-x for x in found)])


def looped(function):
    """A function of arrays whose loop LLVM vectorises."""

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


@pytest.mark.parametrize("name", REFERENCES)
def test_a_polynomial_one_degree_short_fails(name, monkeypatch, minimax):
    """The polynomial of lower degree has the best coefficients for its degree."""
    which = SHORTER[name]
    made = {
        "EXP": lambda: minimax.exp_coefficients(8),
        "ATANH": lambda: minimax.atanh_coefficients((3 - Decimal(8).sqrt()) ** 2, 5),
    }
    degree = len(getattr(elementary, which)) - 1
    shorter, _ = made[which]()
    assert len(shorter) == degree
    monkeypatch.setattr(elementary, which, tuple(shorter))
    for inner in ("exp", "_log"):  # numba compiles constants in
        dispatcher = getattr(elementary, inner)
        monkeypatch.setattr(elementary, inner, elementary._inline(dispatcher.py_func))
    twin = elementary._inline(getattr(elementary, name).py_func)
    assert units_off(name, twin, grid()) > 2


TINY, HUGE, EPS = 5e-324, np.finfo(float).max, np.finfo(float).eps
EDGES = [
    ("exp", [np.nan, np.inf, -np.inf, 0.0, -0.0], [np.nan, np.inf, 0.0, 1.0, 1.0]),
    ("exp", [709.782712893384, 709.7827128933841, HUGE], [1.797693134862273e308, np.inf, np.inf]),
    ("exp", [-745.1332191019411, -745.1332191019412, -HUGE], [TINY, 0.0, 0.0]),
    ("exp", [TINY, -TINY], [1.0, 1.0]),
    ("log", [np.nan, np.inf, -np.inf, 0.0, -0.0], [np.nan, np.inf, np.nan, -np.inf, -np.inf]),
    ("log", [-1.0, -TINY, TINY, 1.0], [np.nan, np.nan, -744.4400719213812, 0.0]),
    ("log", [1 + 2**-52, 1 - 2**-53, HUGE], [2.220446049250313e-16, -(2.0**-53), 709.782712893384]),
    ("log1p", [np.nan, np.inf, -np.inf, 0.0, -0.0], [np.nan, np.inf, np.nan, 0.0, -0.0]),
    ("log1p", [-1.0, -1 - 2**-52, -1 + 2**-53], [-np.inf, np.nan, -36.7368005696771]),
    ("log1p", [TINY, -TINY, 2**-60, HUGE], [TINY, -TINY, 2**-60, 709.782712893384]),
    ("sigmoid", [np.nan, np.inf, -np.inf, 0.0, -0.0], [np.nan, 1.0, 0.0, 0.5, 0.5]),
    ("sigmoid", [-745.1332191019411, -745.1332191019412, HUGE, -HUGE], [TINY, 0.0, 1.0, 0.0]),
    ("softplus", [np.nan, np.inf, -np.inf], [np.nan, np.inf, 0.0]),
    ("softplus", [-745.1332191019411, -745.1332191019412, HUGE, -HUGE], [TINY, 0.0, HUGE, 0.0]),
]


@pytest.mark.parametrize(("name", "at", "expected"), EDGES)
def test_edges(name, at, expected):
    """Results are the same alone and in a vector, and zeros have the right sign."""
    function = getattr(elementary, name)
    values = looped(function)(np.tile(at, 8))  # vectors and what is left over
    np.testing.assert_allclose(values, np.tile(expected, 8), rtol=2 * EPS, atol=0)
    signs, known = np.signbit(values), ~np.isnan(values)
    assert np.array_equal(signs[known], np.tile(np.signbit(expected), 8)[known])
    np.testing.assert_allclose([function(x) for x in at], expected, rtol=2 * EPS, atol=0)


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
    assert not packed(numba.njit(lambda x: np.exp(x)))


@pytest.fixture
def minimax(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("minimax")


@pytest.mark.parametrize("name", ["EXP", "ATANH", "WIDE_ATANH"])
def test_coefficients_are_those_that_the_script_finds(name, minimax):
    coefficients, error = minimax.POLYNOMIALS[name]()
    assert tuple(coefficients) == getattr(elementary, name)
    assert error < 4e-18


def test_both_parts_of_log_two():
    getcontext().prec = 50
    log2 = Decimal(2).ln()
    assert Decimal(elementary.LN2_HIGH) * 2**40 % 1 == 0
    assert float(log2 - Decimal(elementary.LN2_HIGH)) == elementary.LN2_LOW
    assert float(1 / log2) == elementary.LOG2_E
    assert np.int64(elementary.ROOT_HALF).view(float) == np.sqrt(0.5)
