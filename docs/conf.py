"""Sphinx configuration: `make docs` builds these pages and the reference from the docstrings."""

project = "pymc_bdmc"
author = "The pymc_bdmc developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["_build"]
autosummary_generate = True
numpydoc_show_class_members = False
