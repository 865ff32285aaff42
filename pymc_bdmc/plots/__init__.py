"""Plot a result with arviz-plots, in matplotlib, bokeh or plotly."""

from pymc_bdmc.plots.agreement import plot_agreement
from pymc_bdmc.plots.burn_in import plot_burn_in
from pymc_bdmc.plots.compare import plot_compare
from pymc_bdmc.plots.consistency import plot_consistency
from pymc_bdmc.plots.convergence import plot_convergence
from pymc_bdmc.plots.distance import plot_distance
from pymc_bdmc.plots.error_analysis import plot_error_analysis
from pymc_bdmc.plots.estimators import plot_estimators
from pymc_bdmc.plots.hysteresis import plot_hysteresis
from pymc_bdmc.plots.race import plot_race
from pymc_bdmc.plots.sandwich import plot_sandwich
from pymc_bdmc.plots.tempering import plot_tempering
from pymc_bdmc.plots.work import plot_work

__all__ = [
    "plot_agreement",
    "plot_burn_in",
    "plot_compare",
    "plot_consistency",
    "plot_convergence",
    "plot_distance",
    "plot_error_analysis",
    "plot_estimators",
    "plot_hysteresis",
    "plot_race",
    "plot_sandwich",
    "plot_tempering",
    "plot_work",
]
