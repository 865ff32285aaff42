"""Pictures of a result, on arviz-plots: matplotlib, bokeh or plotly.

Every plot returns a :class:`arviz_plots.PlotCollection` and takes these, all optional:

plot_collection : PlotCollection
    Where to draw.
backend : {"matplotlib", "bokeh", "plotly"}
    Plotting library.
aes_by_visuals : mapping of {str : sequence of str}
    Aesthetics that each visual uses.
visuals : mapping of {str : mapping or False}
    Options of the visuals that the plot lists, or False to leave one out. Most plots have a visual
    ``legend`` too, for :meth:`arviz_plots.PlotCollection.add_legend`.
**pc_kwargs
    Passed to :meth:`arviz_plots.PlotCollection.wrap`.
"""

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
