r"""Plot a result with arviz-plots, in matplotlib, bokeh or plotly; one file per plot.

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
