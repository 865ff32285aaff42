"""The coefficients of pymc_bdmc/base/elementary.py, by Remez' exchange in 50 digits.

Run as ``python benchmarks/minimax.py``; a second. Prints each polynomial, its constant coefficient
first, and its largest error. Remez (1934), Comptes rendus 198, 2063-2065; Muller (2016), Elementary
Functions, Section 3.6.
"""

import math
from collections.abc import Callable
from decimal import Decimal, getcontext

getcontext().prec = 50
LOG2 = Decimal(2).ln()
TINY = Decimal(10) ** -50


def rest_of_exp(r: Decimal) -> Decimal:
    """(exp(r) − 1 − r) / r² by its series."""
    term, total, k = Decimal(1) / 2, Decimal(0), 2
    while abs(term) > TINY:
        total, k = total + term, k + 1
        term *= r / k
    return total


def rest_of_atanh(square: Decimal) -> Decimal:
    """(2 artanh(s) / s − 2) / s² by its series in s²."""
    power, total, k = Decimal(1), Decimal(0), 3
    while power > TINY:
        total, k = total + 2 * power / k, k + 2
        power *= square
    return total


def horner(coefficients: list[Decimal], x: Decimal) -> Decimal:
    value = Decimal(0)
    for each in reversed(coefficients):
        value = value * x + each
    return value


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """Solve n equations, given with the right side last, by elimination with pivots."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def alternating(errors: list[Decimal], n: int) -> list[int]:
    """Places of the largest errors of n runs of one sign; fewer where there are fewer runs."""
    tops: list[int] = []
    for i, error in enumerate(errors):
        if tops and (error > 0) == (errors[tops[-1]] > 0):
            tops[-1] = max(tops[-1], i, key=lambda k: abs(errors[k]))
        else:
            tops.append(i)
    while len(tops) > n:
        tops.pop(0 if abs(errors[tops[0]]) < abs(errors[tops[-1]]) else -1)
    return tops


def minimax(
    function: Callable, weight: Callable, low: Decimal, high: Decimal, degree: int
) -> tuple[list[float], float]:
    """Coefficients of the polynomial with the smallest maximum of the weighted error, and that."""
    n = degree + 2
    grid = [low + (high - low) * k / 4000 for k in range(4001)]
    values, weights = [*map(function, grid)], [*map(weight, grid)]
    places = [round(2000 * (1 - math.cos(math.pi * k / (n - 1)))) for k in range(n)]
    largest = level = Decimal(1)
    while len(places) == n:
        rows = [
            [
                Decimal(1),
                *(grid[p] ** k for k in range(1, n - 1)),
                (-1) ** i / weights[p],
                values[p],
            ]
            for i, p in enumerate(places)
        ]
        *coefficients, level = solve(rows)
        errors = [
            w * (v - horner(coefficients, x)) for x, v, w in zip(grid, values, weights, strict=True)
        ]
        largest = max(map(abs, errors))
        if largest <= abs(level) * Decimal("1.0001"):
            break
        places = alternating(errors, n)
    return [*map(float, coefficients)], float(largest)


def exp_coefficients(degree: int = 9) -> tuple[list[float], float]:
    """For |r| ≤ log(2) / 2, with the absolute error of exp(r)."""
    return minimax(rest_of_exp, lambda r: r * r + Decimal("1e-12"), -LOG2 / 2, LOG2 / 2, degree)


def atanh_coefficients(top: Decimal, degree: int) -> tuple[list[float], float]:
    """For s² up to the top, with the relative error of 2 artanh(s)."""
    return minimax(rest_of_atanh, lambda z: z / 2 + Decimal("1e-12"), Decimal(0), top, degree)


POLYNOMIALS: dict[str, Callable[[], tuple[list[float], float]]] = {
    "EXP": exp_coefficients,
    "ATANH": lambda: atanh_coefficients((3 - Decimal(8).sqrt()) ** 2, 6),
    "WIDE_ATANH": lambda: atanh_coefficients(Decimal(1) / 9, 9),
}


def main() -> None:
    for name, made in POLYNOMIALS.items():
        coefficients, error = made()
        print(f"{name} = {coefficients}  # {error:.1e}")


if __name__ == "__main__":
    main()
