"""Sphinx configuration: `make docs` runs the examples and builds these pages and the reference."""

import os

project = "pymc_bdmc"
author = "The pymc_bdmc developers"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "**/GALLERY_HEADER.rst"]
myst_enable_extensions = ["colon_fence"]

html_theme = "pydata_sphinx_theme"
html_title = "pymc_bdmc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

autosummary_generate = True
numpydoc_show_class_members = False

intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
    "xarray": ("https://docs.xarray.dev/en/stable", None),
    "pymc": ("https://www.pymc.io/projects/docs/en/stable", None),
    "arviz": ("https://python.arviz.org/en/stable", None),
    "arviz_plots": ("https://python.arviz.org/projects/plots/en/latest", None),
}
intersphinx_timeout = 10
if os.environ.get("OFFLINE"):  # no links to other projects, whose lists of names lie on the network
    intersphinx_mapping.clear()
numpydoc_xref_param_type = bool(intersphinx_mapping)
numpydoc_xref_ignore = {"of", "or", "optional", "shape", "default"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "bread",
    "download_all_examples": False,
    "show_memory": False,
}
