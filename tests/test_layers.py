"""Imports point down the layers only, and the public surface is what the documentation says."""

import ast
import inspect
import pydoc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import reload
from inspect import isabstract
from pathlib import Path

import pymc as pm
import pytest

import pymc_bdmc
import pymc_bdmc as bdmc

ROOT = Path(pymc_bdmc.__file__).parent

# From the top of the package down; what stands on one line may not import from its own line.
LAYERS = [
    {"__init__"},
    {"studies"},
    {"lattice", "rbm", "sampling"},
    {"plots", "testing"},
    {"testbeds"},
    {"call"},
    {"results"},
    {"engines"},
    {"fits"},
    {"pilots", "testsystems"},
    {"run"},
    {"paths"},
    {"simulations"},
    {"kernels"},
    {"reference"},
    {"density"},
    {"estimators"},
    {"base"},
]


TREES = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def _nodes(path: Path, kind: type) -> Iterator:
    return (node for node in ast.walk(TREES[path]) if isinstance(node, kind))


def _layer(part: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if part in names)


def _imports(path: Path) -> set[str]:
    """Names of the modules of the package that a file imports, first component only."""
    found = set()
    for node in _nodes(path, ast.ImportFrom):
        if node.module == "pymc_bdmc":
            found |= {alias.name for alias in node.names}
        elif node.module.startswith("pymc_bdmc."):
            found.add(node.module.split(".")[1])
    for node in _nodes(path, ast.Import):
        assert not any(alias.name.startswith("pymc_bdmc") for alias in node.names), path
    return found


def test_imports_point_down():
    for path in TREES:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for other in _imports(path) - {own}:
            assert _layer(other) > _layer(own), f"{path} imports {other}"


def test_names_with_an_underscore_stay_in_their_module():
    """Only names without an underscore are imported; mypy's `implicit_reexport` checks the rest."""
    for path in TREES:
        for node in _nodes(path, ast.ImportFrom):
            if node.module.startswith("pymc_bdmc."):
                assert not any(alias.name.startswith("_") for alias in node.names), path


def test_estimators_and_schedules_need_numpy_and_scipy_only():
    allowed = {"numpy", "scipy", "pymc_bdmc", *sys.stdlib_module_names}
    for path in [*ROOT.glob("estimators/*.py"), ROOT / "base" / "schedules.py"]:
        names = [node.module for node in _nodes(path, ast.ImportFrom)]
        names += [alias.name for node in _nodes(path, ast.Import) for alias in node.names]
        assert {name.split(".")[0] for name in names} <= allowed, path


FRONTS = {"sample_bdmc", "anneal", "train", "temper", "compare_models"}


def _shape(function: ast.FunctionDef, lines: list[str]) -> tuple[int, int]:
    """Numbers of parameters, without ``self``, and of lines of code, without docstring."""
    arguments = function.args
    names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [arg.arg for arg in (arguments.vararg, arguments.kwarg) if arg]
    body = function.body[ast.get_docstring(function) is not None :] or function.body
    code = [line.strip() for line in lines[body[0].lineno - 1 : function.end_lineno]]
    n_lines = sum(bool(line) and not line.startswith("#") for line in code)
    return len(set(names) - {"self", "cls"}), n_lines


def test_functions_are_short_and_few_have_many_parameters():
    """At most 60 lines of code, and 8 parameters but for the public fronts."""
    found = []
    for path in TREES:
        lines = path.read_text().splitlines()
        found += [(node.name, *_shape(node, lines)) for node in _nodes(path, ast.FunctionDef)]
    assert max(n_lines for *_, n_lines in found) <= 60
    many = {name for name, n_parameters, _ in found if n_parameters > 8}
    assert {name for name in many if not name.startswith("plot_")} == FRONTS


def test_imports_wait_until_something_needs_them():
    """The package loads no library of plots and nothing slow that few functions need.

    `pm.sample_bdmc` is there if the package comes first, and survives a reload of either package.
    PyMC's handler shows a line of the log once.
    """
    program = (
        "import importlib, sys, pymc_bdmc; print(*sys.modules); import pymc\n"
        "assert pymc.sample_bdmc is pymc_bdmc.sample_bdmc\n"
        "importlib.reload(pymc_bdmc); importlib.reload(pymc)\n"
        "importlib.reload(pymc_bdmc)\n"
        "assert pymc.sample_bdmc is pymc_bdmc.sample_bdmc\n"
        "pymc_bdmc.base.logger('pymc_bdmc.call').info('told')"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    absent = {"arviz_plots", "arviz_stats", "matplotlib", "scipy.stats"}
    assert not absent & set(child.stdout.decode().split())
    assert child.stderr == b"told\n"


def test_public_names_are_listed_and_found():
    assert set(bdmc.__all__) <= set(dir(bdmc))
    assert bdmc.FromPrior is bdmc.FromPrior
    with pytest.raises(AttributeError, match="'pymc_bdmc' has no attribute 'no_such_name'"):
        _ = bdmc.no_such_name


def test_pm_sample_bdmc_is_the_front_door():
    """PyMC gains only this name."""
    reload(bdmc)
    assert pm.sample_bdmc is bdmc.sample_bdmc
    assert "sample_bdmc" in dir(pm)
    assert "Sandwich the log marginal" in pydoc.render_doc(pm.sample_bdmc)
    assert "__all__" not in vars(pm)


def test_signature_of_sample_bdmc():
    parameters = inspect.signature(pm.sample_bdmc).parameters
    assert list(parameters) == [
        "model", "chains", "particles", "temperatures", "path", "schedule", "step", "simulate",
        "real_data", "posterior", "target_error",
        "target_gap", "max_temperatures", "max_time", "random_seed", "cores", "executor",
        "progressbar", "quiet",
        "backend", "compile_kwargs", "store", "callback", "unknown",
    ]  # fmt: skip
    defaults = {name: p.default for name, p in parameters.items()}
    assert all(defaults[name] is None for name in ("chains", "particles", "temperatures", "path"))
    assert defaults["schedule"] == "adaptive"
    assert defaults["simulate"] == "hyperparameters"
    assert defaults["target_gap"] is None
    assert {p.kind for p in list(parameters.values())[1:-1]} == {inspect.Parameter.KEYWORD_ONLY}


def test_everything_public_has_an_example():
    for name in bdmc.__all__:
        thing = getattr(bdmc, name)
        if inspect.ismodule(thing):
            for inner in thing.__all__:
                documented = getattr(thing, inner)
                is_record = is_dataclass(documented) or hasattr(documented, "_fields")
                if callable(documented) and not is_record and not isabstract(documented):
                    assert ">>>" in documented.__doc__, inner
        else:
            assert ">>>" in thing.__doc__, name
