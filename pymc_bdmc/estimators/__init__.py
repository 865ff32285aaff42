"""Estimate the evidence from arrays of log weights, with errors; all in nats.

``log_weight`` is log w in both directions, so E_f[w] = Z and E_r[1/w] = 1/Z. The package imports
only NumPy and SciPy.
"""

from pymc_bdmc.base import public_names as _public_names
from pymc_bdmc.estimators.agreement import DrawsComparison as DrawsComparison
from pymc_bdmc.estimators.agreement import compare_draws as compare_draws
from pymc_bdmc.estimators.agreement import copies as copies
from pymc_bdmc.estimators.agreement import differing_directions as differing_directions
from pymc_bdmc.estimators.averages import ErrorAnalysis as ErrorAnalysis
from pymc_bdmc.estimators.averages import PredictiveDensities as PredictiveDensities
from pymc_bdmc.estimators.averages import Reweighted as Reweighted
from pymc_bdmc.estimators.averages import WeightedAverage as WeightedAverage
from pymc_bdmc.estimators.averages import bootstrap as bootstrap
from pymc_bdmc.estimators.averages import cumulant_combined as cumulant_combined
from pymc_bdmc.estimators.averages import cumulant_forward as cumulant_forward
from pymc_bdmc.estimators.averages import cumulant_reverse as cumulant_reverse
from pymc_bdmc.estimators.averages import error_analysis as error_analysis
from pymc_bdmc.estimators.averages import jarzynski_forward as jarzynski_forward
from pymc_bdmc.estimators.averages import jarzynski_reverse as jarzynski_reverse
from pymc_bdmc.estimators.averages import log_ratio_of_averages as log_ratio_of_averages
from pymc_bdmc.estimators.averages import predictive_densities as predictive_densities
from pymc_bdmc.estimators.averages import reweighted_evidence as reweighted_evidence
from pymc_bdmc.estimators.averages import weighted_average as weighted_average
from pymc_bdmc.estimators.bar import WorkDistribution as WorkDistribution
from pymc_bdmc.estimators.bar import bar as bar
from pymc_bdmc.estimators.bar import histogram as histogram
from pymc_bdmc.estimators.bar import histogram_posterior as histogram_posterior
from pymc_bdmc.estimators.bar import overlap as overlap
from pymc_bdmc.estimators.bar import work_distribution as work_distribution
from pymc_bdmc.estimators.certified import CertifiedBounds as CertifiedBounds
from pymc_bdmc.estimators.certified import TotalVariation as TotalVariation
from pymc_bdmc.estimators.certified import certified_bounds as certified_bounds
from pymc_bdmc.estimators.certified import certified_lower as certified_lower
from pymc_bdmc.estimators.certified import certified_probability as certified_probability
from pymc_bdmc.estimators.certified import certified_upper as certified_upper
from pymc_bdmc.estimators.certified import datasets_needed as datasets_needed
from pymc_bdmc.estimators.certified import refutes as refutes
from pymc_bdmc.estimators.certified import round_confidence as round_confidence
from pymc_bdmc.estimators.certified import total_variation as total_variation
from pymc_bdmc.estimators.certified import upper_confidence_bound as upper_confidence_bound
from pymc_bdmc.estimators.checks import AverageCheck as AverageCheck
from pymc_bdmc.estimators.checks import Estimate as Estimate
from pymc_bdmc.estimators.checks import EvidenceDraws as EvidenceDraws
from pymc_bdmc.estimators.checks import TailCheck as TailCheck
from pymc_bdmc.estimators.checks import check_average as check_average
from pymc_bdmc.estimators.checks import check_mean_of_logs as check_mean_of_logs
from pymc_bdmc.estimators.checks import effective_sample_size as effective_sample_size
from pymc_bdmc.estimators.checks import log_mean_exp as log_mean_exp
from pymc_bdmc.estimators.checks import pareto_shape as pareto_shape
from pymc_bdmc.estimators.exchangeability import RankTest as RankTest
from pymc_bdmc.estimators.exchangeability import RunDistance as RunDistance
from pymc_bdmc.estimators.exchangeability import Shortfall as Shortfall
from pymc_bdmc.estimators.exchangeability import distances_to_others as distances_to_others
from pymc_bdmc.estimators.exchangeability import quantile_distance as quantile_distance
from pymc_bdmc.estimators.exchangeability import rank_among as rank_among
from pymc_bdmc.estimators.exchangeability import run_distance as run_distance
from pymc_bdmc.estimators.exchangeability import shifted_runs as shifted_runs
from pymc_bdmc.estimators.exchangeability import shortfall_difference as shortfall_difference
from pymc_bdmc.estimators.exchangeability import spread_and_tails as spread_and_tails
from pymc_bdmc.estimators.methods import ESTIMATORS as ESTIMATORS
from pymc_bdmc.estimators.methods import Comparison as Comparison
from pymc_bdmc.estimators.methods import Estimator as Estimator
from pymc_bdmc.estimators.methods import compare_estimators as compare_estimators
from pymc_bdmc.estimators.sandwich import PosteriorMean as PosteriorMean
from pymc_bdmc.estimators.sandwich import PriorMass as PriorMass
from pymc_bdmc.estimators.sandwich import certified_divergence as certified_divergence
from pymc_bdmc.estimators.sandwich import clustered_mean as clustered_mean
from pymc_bdmc.estimators.sandwich import clustered_median as clustered_median
from pymc_bdmc.estimators.sandwich import evidence_lower_bound as evidence_lower_bound
from pymc_bdmc.estimators.sandwich import forward_divergence as forward_divergence
from pymc_bdmc.estimators.sandwich import jeffreys_bound as jeffreys_bound
from pymc_bdmc.estimators.sandwich import log_e_values as log_e_values
from pymc_bdmc.estimators.sandwich import log_prior_mass as log_prior_mass
from pymc_bdmc.estimators.sandwich import posterior_log_ratio as posterior_log_ratio
from pymc_bdmc.estimators.sandwich import reverse_divergence as reverse_divergence
from pymc_bdmc.estimators.sandwich import total_variation_bound as total_variation_bound
from pymc_bdmc.estimators.sandwich import (
    total_variation_of_divergence as total_variation_of_divergence,
)
from pymc_bdmc.estimators.simulated_tempering import LadderEstimate as LadderEstimate
from pymc_bdmc.estimators.simulated_tempering import TemperatureFlow as TemperatureFlow
from pymc_bdmc.estimators.simulated_tempering import count_passages as count_passages
from pymc_bdmc.estimators.simulated_tempering import draw_places as draw_places
from pymc_bdmc.estimators.simulated_tempering import integrate_path as integrate_path
from pymc_bdmc.estimators.simulated_tempering import mbar_error as mbar_error
from pymc_bdmc.estimators.simulated_tempering import place_probabilities as place_probabilities
from pymc_bdmc.estimators.simulated_tempering import rao_blackwellized as rao_blackwellized
from pymc_bdmc.estimators.simulated_tempering import sequential_likelihood as sequential_likelihood
from pymc_bdmc.estimators.simulated_tempering import temperature_flow as temperature_flow
from pymc_bdmc.estimators.simulated_tempering import (
    thermodynamic_integration as thermodynamic_integration,
)

__all__ = _public_names(globals())
