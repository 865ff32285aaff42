"""The estimators of log ML, all as functions of forward and reverse log weights."""

from pymc_bdmc.estimators import (
    bar,
    cumulant_combined,
    cumulant_forward,
    cumulant_reverse,
    histogram,
    jarzynski_forward,
    jarzynski_reverse,
)

ESTIMATORS = {
    "forward average": lambda f, r: jarzynski_forward(f),
    "reverse average": lambda f, r: jarzynski_reverse(r),
    "cumulant forward": lambda f, r: cumulant_forward(f),
    "cumulant reverse": lambda f, r: cumulant_reverse(r),
    "cumulant combined": cumulant_combined,
    "bar": bar,
    "histogram": histogram,
}
