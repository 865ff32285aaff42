"""Pictures of a result, on arviz-plots: matplotlib, bokeh or plotly; a file for each."""
