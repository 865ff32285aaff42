r"""Plot a result with arviz-plots, in matplotlib, bokeh or plotly.

Every plot returns a :class:`arviz_plots.PlotCollection` and takes these optional arguments:

plot_collection : PlotCollection
    Figure to draw in; by default a new one.
backend : {"matplotlib", "bokeh", "plotly"}
    Plotting library.
aes_by_visuals : mapping of {str : sequence of str}
    Aesthetics that each visual uses.
visuals : mapping of {str : mapping or False}
    Options of the visuals that the plot lists, or False to leave one out. Most plots also have a
    visual ``legend``, drawn by :meth:`arviz_plots.PlotCollection.add_legend`.
\*\*pc_kwargs
    Passed to :meth:`arviz_plots.PlotCollection.wrap`.
"""

from pymc_bdmc.plots.estimates import plot_convergence as plot_convergence
from pymc_bdmc.plots.estimates import plot_error_analysis as plot_error_analysis
from pymc_bdmc.plots.estimates import plot_estimators as plot_estimators
from pymc_bdmc.plots.models import plot_compare as plot_compare
from pymc_bdmc.plots.models import plot_information as plot_information
from pymc_bdmc.plots.models import plot_plan as plot_plan
from pymc_bdmc.plots.models import plot_pointwise as plot_pointwise
from pymc_bdmc.plots.models import plot_sensitivity as plot_sensitivity
from pymc_bdmc.plots.posterior import plot_agreement as plot_agreement
from pymc_bdmc.plots.posterior import plot_distance as plot_distance
from pymc_bdmc.plots.runs import plot_burn_in as plot_burn_in
from pymc_bdmc.plots.runs import plot_consistency as plot_consistency
from pymc_bdmc.plots.runs import plot_hysteresis as plot_hysteresis
from pymc_bdmc.plots.runs import plot_sandwich as plot_sandwich
from pymc_bdmc.plots.runs import plot_tempering as plot_tempering
from pymc_bdmc.plots.runs import plot_work as plot_work
