"""Estimate the evidence from arrays of log weights, with errors; all in nats.

``log_weight`` is log w in both directions, so E_f[w] = Z and E_r[1/w] = 1/Z. The package imports
only NumPy and SciPy.
"""

from pymc_bdmc.estimators.agreement import DrawsComparison, compare_draws
from pymc_bdmc.estimators.approximation import (
    PosteriorMean,
    certified_divergence,
    evidence_lower_bound,
    posterior_log_ratio,
    total_variation_of_divergence,
)
from pymc_bdmc.estimators.averages import WeightedAverage, bootstrap, weighted_average
from pymc_bdmc.estimators.bar import bar, overlap
from pymc_bdmc.estimators.certified import (
    CertifiedBounds,
    certified_bounds,
    certified_lower,
    certified_probability,
    certified_upper,
    refutes,
    round_confidence,
)
from pymc_bdmc.estimators.checks import AverageCheck, check_average, effective_sample_size
from pymc_bdmc.estimators.consistency import (
    RunDistance,
    Shortfall,
    distances_to_others,
    quantile_distance,
    run_distance,
    shifted_runs,
    shortfall_difference,
)
from pymc_bdmc.estimators.cumulant import (
    cumulant_combined,
    cumulant_forward,
    cumulant_reverse,
)
from pymc_bdmc.estimators.data_rank import RankTest, rank_among, spread_and_tails
from pymc_bdmc.estimators.directions import differing_directions
from pymc_bdmc.estimators.divergence import (
    forward_divergence,
    log_e_values,
    reverse_divergence,
    total_variation_bound,
)
from pymc_bdmc.estimators.draws import copies
from pymc_bdmc.estimators.error_analysis import ErrorAnalysis, error_analysis
from pymc_bdmc.estimators.estimate import Estimate, EvidenceDraws
from pymc_bdmc.estimators.flow import TemperatureFlow, count_passages, temperature_flow
from pymc_bdmc.estimators.histogram import (
    WorkDistribution,
    histogram,
    histogram_posterior,
    work_distribution,
)
from pymc_bdmc.estimators.jarzynski import jarzynski_forward, jarzynski_reverse, log_mean_exp
from pymc_bdmc.estimators.methods import Comparison, compare_estimators
from pymc_bdmc.estimators.pointwise import PredictiveDensities, predictive_densities
from pymc_bdmc.estimators.registry import ESTIMATORS, Estimator
from pymc_bdmc.estimators.reweighting import (
    Reweighted,
    log_ratio_of_averages,
    reweighted_evidence,
)
from pymc_bdmc.estimators.sandwich import (
    PriorMass,
    clustered_mean,
    clustered_median,
    jeffreys_bound,
    log_prior_mass,
)
from pymc_bdmc.estimators.simulated_tempering import (
    LadderEstimate,
    draw_places,
    mbar_error,
    place_probabilities,
    rao_blackwellized,
    sequential_likelihood,
)
from pymc_bdmc.estimators.tails import TailCheck, check_mean_of_logs, pareto_shape
from pymc_bdmc.estimators.thermodynamic import integrate_path, thermodynamic_integration
from pymc_bdmc.estimators.total_variation import (
    TotalVariation,
    datasets_needed,
    total_variation,
    upper_confidence_bound,
)

__all__ = [
    "ESTIMATORS",
    "AverageCheck",
    "CertifiedBounds",
    "Comparison",
    "DrawsComparison",
    "ErrorAnalysis",
    "Estimate",
    "Estimator",
    "EvidenceDraws",
    "LadderEstimate",
    "PosteriorMean",
    "PredictiveDensities",
    "PriorMass",
    "RankTest",
    "Reweighted",
    "RunDistance",
    "Shortfall",
    "TailCheck",
    "TemperatureFlow",
    "TotalVariation",
    "WeightedAverage",
    "WorkDistribution",
    "bar",
    "bootstrap",
    "certified_bounds",
    "certified_divergence",
    "certified_lower",
    "certified_probability",
    "certified_upper",
    "check_average",
    "check_mean_of_logs",
    "clustered_mean",
    "clustered_median",
    "compare_draws",
    "compare_estimators",
    "copies",
    "count_passages",
    "cumulant_combined",
    "cumulant_forward",
    "cumulant_reverse",
    "datasets_needed",
    "differing_directions",
    "distances_to_others",
    "draw_places",
    "effective_sample_size",
    "error_analysis",
    "evidence_lower_bound",
    "forward_divergence",
    "histogram",
    "histogram_posterior",
    "integrate_path",
    "jarzynski_forward",
    "jarzynski_reverse",
    "jeffreys_bound",
    "log_e_values",
    "log_mean_exp",
    "log_prior_mass",
    "log_ratio_of_averages",
    "mbar_error",
    "overlap",
    "pareto_shape",
    "place_probabilities",
    "posterior_log_ratio",
    "predictive_densities",
    "quantile_distance",
    "rank_among",
    "rao_blackwellized",
    "refutes",
    "reverse_divergence",
    "reweighted_evidence",
    "round_confidence",
    "run_distance",
    "sequential_likelihood",
    "shifted_runs",
    "shortfall_difference",
    "spread_and_tails",
    "temperature_flow",
    "thermodynamic_integration",
    "total_variation",
    "total_variation_bound",
    "total_variation_of_divergence",
    "upper_confidence_bound",
    "weighted_average",
    "work_distribution",
]
