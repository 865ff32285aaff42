"""Sphinx configuration: `make docs` runs the examples and builds these pages and the reference."""

import socket

from sphinx.util.logging import getLogger
from sphinx_gallery.sorting import ExplicitOrder

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
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "pymc_bdmc"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

autosummary_generate = True
autodoc_typehints = "none"  # the descriptions of parameters tell their types
numpydoc_show_class_members = False


def online() -> bool:
    """Return whether the network can be reached, where lists of names of other projects lie."""
    try:
        socket.create_connection(("docs.python.org", 443), timeout=10).close()
    except OSError:
        return False
    return True


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
if not online():
    getLogger(__name__).info("Without a network the pages have no links to other projects")
    intersphinx_mapping.clear()
numpydoc_xref_param_type = bool(intersphinx_mapping)
numpydoc_xref_ignore = {"of", "or", "optional", "shape", "default"}

FIRST = [  # stories for users of models; those for writers of methods follow
    f"{name}.py"
    for name in (
        "first_evidence",
        "trust",
        "two_samplers",
        "which_model",
        "prior_sensitivity",
        "approximations",
        "eight_schools",
        "logistic_regression",
        "discrete_mixture",
    )
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"^models\.py$|bread|factor_models",
    "within_subsection_order": ExplicitOrder([*FIRST, "*"]),
    "download_all_examples": False,
    "show_memory": False,
}
