"""Check samplers, simulators and models in a project's own tests, with guaranteed α.

A check takes a subject, a model and keyword options, and returns a `Report`. A correct subject
fails with a probability of at most ``alpha``, whenever the check stops.
"""

from pymc_bdmc.base import public_names as _public_names
from pymc_bdmc.testing.models import check_bayes_factor as check_bayes_factor
from pymc_bdmc.testing.models import check_conditionals as check_conditionals
from pymc_bdmc.testing.models import check_gradient as check_gradient
from pymc_bdmc.testing.models import check_prior_sampler as check_prior_sampler
from pymc_bdmc.testing.models import check_transform as check_transform
from pymc_bdmc.testing.report import CheckFailed as CheckFailed
from pymc_bdmc.testing.report import Report as Report
from pymc_bdmc.testing.samplers import check_exact_rank as check_exact_rank
from pymc_bdmc.testing.samplers import check_geweke as check_geweke
from pymc_bdmc.testing.samplers import check_invariance as check_invariance
from pymc_bdmc.testing.samplers import check_sampler as check_sampler

__all__ = _public_names(globals())
