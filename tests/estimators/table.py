"""The estimators of log ML, all as functions of forward and reverse log weights."""

from pymc_bdmc import estimators as est

ESTIMATORS = {
    "forward average": lambda f, r: est.jarzynski_forward(f),
    "reverse average": lambda f, r: est.jarzynski_reverse(r),
    "cumulant forward": lambda f, r: est.cumulant_forward(f),
    "cumulant reverse": lambda f, r: est.cumulant_reverse(r),
    "cumulant combined": est.cumulant_combined,
    "bar": est.bar,
    "histogram": est.histogram,
}
