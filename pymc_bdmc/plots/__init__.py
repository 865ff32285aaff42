"""Pictures of a result, on arviz-plots: matplotlib, bokeh or plotly."""

from pymc_bdmc.plots.hysteresis import plot_hysteresis
from pymc_bdmc.plots.sandwich import plot_sandwich

__all__ = ["plot_hysteresis", "plot_sandwich"]
