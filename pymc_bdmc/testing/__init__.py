"""Check samplers, simulators and models in a project's own tests, with guaranteed α.

A check takes a subject, a model and keyword options, and returns a `Report`. A correct subject
fails with a probability of at most ``alpha``, whenever the check stops.
"""

from pymc_bdmc.base.names import public_names as _public_names
from pymc_bdmc.testing.bayes_factor import check_bayes_factor as check_bayes_factor
from pymc_bdmc.testing.conditionals import check_conditionals as check_conditionals
from pymc_bdmc.testing.exact_rank import check_exact_rank as check_exact_rank
from pymc_bdmc.testing.geweke import check_geweke as check_geweke
from pymc_bdmc.testing.gradient import check_gradient as check_gradient
from pymc_bdmc.testing.invariance import check_invariance as check_invariance
from pymc_bdmc.testing.prior_sampler import check_prior_sampler as check_prior_sampler
from pymc_bdmc.testing.report import CheckFailed as CheckFailed
from pymc_bdmc.testing.report import Report as Report
from pymc_bdmc.testing.sampler import check_sampler as check_sampler
from pymc_bdmc.testing.transform import check_transform as check_transform

__all__ = _public_names(globals())
