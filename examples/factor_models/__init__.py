"""The three models on which Grosse, Ghahramani and Adams (2015) compared evidence estimators.

`python benchmarks/testbed.py` runs the study, and docs/testbed.md has its results.
"""

from factor_models.annealing import anneal as anneal
from factor_models.estimators import ESTIMATORS as ESTIMATORS
from factor_models.estimators import Estimator as Estimator
from factor_models.estimators import harmonic as harmonic
from factor_models.estimators import posterior_chain as posterior_chain
from factor_models.models import BinaryAttributes as BinaryAttributes
from factor_models.models import Clustering as Clustering
from factor_models.models import FactorModel as FactorModel
from factor_models.models import LowRank as LowRank
from factor_models.models import Problem as Problem
from factor_models.plot import plot_race as plot_race
from factor_models.race import race as race
from factor_models.race import standings as standings
