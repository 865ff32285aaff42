"""The three models on which Grosse, Ghahramani and Adams (2015) compared evidence estimators."""

from pymc_bdmc.base.names import public_names as _public_names
from pymc_bdmc.testbeds.factors.annealing import anneal as anneal
from pymc_bdmc.testbeds.factors.estimators import ESTIMATORS as ESTIMATORS
from pymc_bdmc.testbeds.factors.estimators import Estimator as Estimator
from pymc_bdmc.testbeds.factors.estimators import harmonic as harmonic
from pymc_bdmc.testbeds.factors.estimators import posterior_chain as posterior_chain
from pymc_bdmc.testbeds.factors.models import BinaryAttributes as BinaryAttributes
from pymc_bdmc.testbeds.factors.models import Clustering as Clustering
from pymc_bdmc.testbeds.factors.models import FactorModel as FactorModel
from pymc_bdmc.testbeds.factors.models import LowRank as LowRank
from pymc_bdmc.testbeds.factors.models import Problem as Problem
from pymc_bdmc.testbeds.factors.race import race as race
from pymc_bdmc.testbeds.factors.race import standings as standings

__all__ = _public_names(globals())
