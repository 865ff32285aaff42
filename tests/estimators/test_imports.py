"""The estimators are a layer of plain arrays: NumPy, SciPy and the standard library only."""

import ast
import sys
from pathlib import Path

import pytest

import pymc_bdmc.estimators

FILES = sorted(Path(pymc_bdmc.estimators.__file__).parent.glob("*.py"))
ALLOWED = {"numpy", "scipy", *sys.stdlib_module_names}


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_layer(path):
    for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert name.split(".")[0] in ALLOWED or name.startswith("pymc_bdmc.estimators"), name


def test_public_names_are_sorted_and_exist():
    names = pymc_bdmc.estimators.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(pymc_bdmc.estimators, name) for name in names)
