"""Check samplers, simulators and models in a project's own tests, with guaranteed α.

A check takes a subject, a model and keyword options, and returns a `Report`. A correct subject
fails with a probability of at most ``alpha``, whenever the check stops.
"""

from pymc_bdmc.testing.bayes_factor import check_bayes_factor
from pymc_bdmc.testing.conditionals import check_conditionals
from pymc_bdmc.testing.exact_rank import check_exact_rank
from pymc_bdmc.testing.geweke import check_geweke
from pymc_bdmc.testing.gradient import check_gradient
from pymc_bdmc.testing.invariance import check_invariance
from pymc_bdmc.testing.prior_sampler import check_prior_sampler
from pymc_bdmc.testing.report import CheckFailed, Report
from pymc_bdmc.testing.sampler import check_sampler
from pymc_bdmc.testing.transform import check_transform

__all__ = [
    "CheckFailed",
    "Report",
    "check_bayes_factor",
    "check_conditionals",
    "check_exact_rank",
    "check_geweke",
    "check_gradient",
    "check_invariance",
    "check_prior_sampler",
    "check_sampler",
    "check_transform",
]
