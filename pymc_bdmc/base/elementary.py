"""Exponentials and logarithms of float64 without branches, which LLVM vectorises in loops.

Numba calls the C library for each element instead. Infinities, NaN, signed zeros and subnormal
numbers are treated as in IEEE 754. Errors are at most two units in the last place.
"""

import numpy as np

from pymc_bdmc.base.compiling import njit

EXP = (
    0.5000000000000012, 0.166666666666667, 0.041666666666515535, 0.008333333333307224,
    0.001388888894698163, 0.00019841269917342767, 2.480148998066739e-05, 2.75572163378548e-06,
    2.76312656839096e-07, 2.5117849184558826e-08,
)  # fmt: skip
"""Minimax polynomial of (exp(r) − 1 − r) / r² for |r| ≤ log(2) / 2; error of exp(r) 3.4e-18."""
ATANH = (
    0.6666666666666734, 0.3999999999941468, 0.2857142874238747, 0.22222198573198354,
    0.1818356432548792, 0.15314050566297263, 0.14795949576272996,
)  # fmt: skip
"""Minimax polynomial of (2 artanh(s) / s − 2) / s² in s² for |s| ≤ 3 − √8; relative error 1.2e-18,
computed by ``benchmarks/minimax.py`` like the others."""
WIDE_ATANH = (
    0.6666666666666631, 0.40000000000157243, 0.2857142854785379, 0.22222223969737093,
    0.1818174392470677, 0.1538655992793755, 0.1330097352034952, 0.12106086781147936,
    0.08340099200993628, 0.1701857956389183,
)  # fmt: skip
"""Minimax polynomial of (2 artanh(s) / s − 2) / s² for |s| ≤ 1/3; relative error 1.3e-18."""

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.6931471805601177, -1.7239444525614835e-13
"""log(2) in two parts. The first has 40 bits, so its products with small integers are exact."""
ROUND = 1.5 * 2.0**52
"""Adding this constant rounds a number to an integer in the lowest bits of the sum."""
BIAS = 1023
"""Bias of the exponent of a float64, which occupies the bits from 52 on."""
MANTISSA = (1 << 52) - 1
ROOT_HALF = 0x3FE6A09E667F3BCD
"""Bits of √½."""
TO_ROOT_HALF = (BIAS << 52) - ROOT_HALF
INTEGER = (BIAS + 52) << 52
"""Bits of 2^52. With a small integer k in the lowest bits, they become the bits of 2^52 + k."""

# Sums may become fused multiply-adds, which changes no argument below; they are never reordered.
_inline = njit(allocates=False, fastmath={"contract"}, forceinline=True)


@_inline
def _bits(x):
    return np.float64(x).view(np.int64)


@_inline
def _number(bits):
    return np.int64(bits).view(np.float64)


@_inline
def _polynomial(x, coefficients):
    """Evaluate a polynomial by Horner's rule, the constant coefficient first."""
    value = coefficients[-1]
    for i in range(2, len(coefficients) + 1):
        value = value * x + coefficients[-i]
    return value


@_inline
def exp(x):
    """Return e^x = 2^k e^r with k the integer next to x / log(2).

    The reduction to r, with log(2) in two parts, is by Cody and Waite (1980), Software Manual for
    the Elementary Functions, chapter 6.
    """
    x = -750.0 if x < -750.0 else x  # NaN passes both comparisons
    x = 750.0 if x > 750.0 else x
    shifted = x * LOG2_E + ROUND
    k = shifted - ROUND
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    near = 1.0 + high
    rest = (high - (near - 1.0)) + (r * r * _polynomial(r, EXP) - low)
    half = k * 0.5 + ROUND  # two powers of two, so that subnormal results are rounded once
    first = _number((_bits(half) + BIAS) << 52)
    second = _number((_bits(shifted) - _bits(half) + BIAS) << 52)
    return (near + rest) * first * second


@_inline
def _curvature(f, coefficients):
    """Return f − log(1 + f) for 1 + f from √½ to √2, or to 2 with the wide coefficients.

    With s = f / (2 + f), log(1 + f) = 2 artanh(s) = f − s (f − R), R = 2/3 s² + 2/5 s⁴ + …: the
    first f is exact. Tang (1990), ACM Transactions on Mathematical Software 16(4), 378-400.
    """
    s = f / (2.0 + f)
    square = s * s
    return s * (f - square * _polynomial(square, coefficients))


@_inline
def _log(f, k):
    """Return log(1 + f) + k log(2)."""
    return k * LN2_HIGH - ((_curvature(f, ATANH) - k * LN2_LOW) - f)


@_inline
def log(x):
    """Return the natural logarithm, which is −∞ at zero and NaN for negative numbers."""
    is_subnormal = x < 2.0**-1022
    bits = _bits(x * 2.0**54 if is_subnormal else x) + TO_ROOT_HALF
    k = _number((bits >> 52) | INTEGER) - (2.0**52 + BIAS)
    k = k - 54.0 if is_subnormal else k
    value = _log(_number((bits & MANTISSA) + ROOT_HALF) - 1.0, k)
    value = value if x < np.inf else x
    value = -np.inf if x == 0.0 else value
    return np.nan if x < 0.0 else value


@_inline
def log1p(x):
    """Return log(1 + x), which is −∞ at −1 and NaN below.

    The rounding error of the sum 1 + x is computed exactly (Knuth, The Art of Computer Programming
    2, Section 4.2.2, Theorem B) and added to the reduced argument.
    """
    u = 1.0 + x
    back = u - 1.0
    lost = (1.0 - (u - back)) + (x - back)
    bits = _bits(u) + TO_ROOT_HALF
    exponent = bits >> 52
    k = _number(exponent | INTEGER) - (2.0**52 + BIAS)
    half_lost = 0.5 * lost * _number((2 * BIAS + 1 - exponent) << 52)  # times 2^(1 − k), half of it
    value = _log((_number((bits & MANTISSA) + ROOT_HALF) - 1.0) + half_lost, k)
    value = value if u < np.inf else x
    value = x if u == 1.0 else value  # and −0 stays −0
    value = -np.inf if x == -1.0 else value
    return np.nan if x < -1.0 else value


@_inline
def sigmoid(x):
    """Return 1 / (1 + e^−x), which is subnormal rather than zero for large negative x."""
    e = exp(-abs(x))
    t = 1.0 if x >= 0.0 else e
    return t - t * (e / (1.0 + e))  # no overflow, and no error of the division in the first term


@_inline
def softplus(x):
    """Return log(1 + e^x) = max(x, 0) + log(1 + e^−|x|)."""
    e = exp(-abs(x))
    return (x if x > 0.0 else 0.0) + (e - _curvature(e, WIDE_ATANH))
