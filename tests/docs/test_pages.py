"""The README runs, and the pages are whole."""

import ast
import importlib.util
import inspect
import re
import warnings
from functools import partial
from pathlib import Path

import arviz_base as az
import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.results.trees import runs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONG_PAGES = ["first_evidence.md", "howto.md", "hierarchical.md"]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def check_coin(found):
    """Uniform prior on p: every number of heads from 0 to 20 is equally likely."""
    assert abs(found.value + np.log(21)) < 4 * found.error


def test_the_page_on_use_names_all_rows_of_a_summary():
    text = (ROOT / "docs" / "using.md").read_text()
    assert all(f"`{row}`" in text for _, row in bdmc.summary(runs()).index)


@pytest.mark.slow
def test_the_code_of_the_page_on_use_runs():
    text, names = (ROOT / "docs" / "using.md").read_text(), {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(compile(block, "using.md", "exec"), names)
    check_coin(bdmc.log_ml(names["dt"]))


def words(page):
    """Words of a page without numbers, signs and lines, which differ between processors."""
    return re.findall(r"[^\W\d_]{2,}", page)


def readme():
    return (ROOT / "README.md").read_text()


def test_the_readme_prints_what_it_says(capsys, monkeypatch):
    """The text below the example is what it prints, up to the first […].

    Another processor may have other last digits, so errors need not agree to them.
    """
    (code,), (text,) = (
        re.findall(rf"```{kind}\n(.*?)```", readme(), re.S) for kind in ("python", "text")
    )
    monkeypatch.setattr(pm, "sample_bdmc", partial(bdmc.sample_bdmc, progressbar=False))
    exec(compile(code, "README.md", "exec"), names := {})
    check_coin(bdmc.log_ml(names["dt"]))
    printed, told = capsys.readouterr().out, text.split("[…]")[0]
    assert len(words(told)) > 50
    assert words(printed)[: len(words(told))] == words(told)
    numbers = [[float(x) for x in re.findall(r"-?\d+\.\d+", page)] for page in (printed, told)]
    assert numbers[0][: len(numbers[1])] == pytest.approx(numbers[1], rel=0.01, abs=0.003)


def questions(text):
    """Rows of the table from questions to calls."""
    table = re.search(r"\| question \| call \|\n.*?\n(.*?)\n\n", text, re.S)[1]
    return re.findall(r"^\| (.*?) \| `(.*?)` \|$", table, re.M)


def test_questions_and_calls_are_the_same_everywhere():
    """In the README, on the first page and in `help(bdmc)`."""
    rows = questions(readme())
    assert len(rows) == 15
    assert questions((ROOT / "docs" / "index.md").read_text()) == rows
    assert re.findall(r"^(\S.*)\n    ``(.*?)``$", bdmc.__doc__, re.M) == rows


def test_the_calls_of_the_readme_have_known_arguments():
    """The examples of these functions show in quick tests that such calls run."""
    for _, call in questions(readme()):
        for node in ast.walk(ast.parse(call)):
            if isinstance(node, ast.Call):
                function = eval(ast.unparse(node.func), {"bdmc": bdmc, "pm": pm})
                named = {each.arg: None for each in node.keywords}
                inspect.signature(function).bind(*node.args, **named)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of PyMC, on a fit cut short
@pytest.mark.parametrize(
    "call", [pytest.param(call, id=question) for question, call in questions(readme())]
)
def test_the_calls_of_the_readme_run(call, coins, monkeypatch):
    """With few runs, in this test alone: others of this file print what calls print."""
    few = {
        "temperatures": 5, "chains": 2, "random_seed": 1, "cores": 1, "progressbar": False,
        "simulate": bdmc.FromHyperparameters(datasets=2),
    }  # fmt: skip
    monkeypatch.setattr(pm, "sample_bdmc", partial(bdmc.sample_bdmc, **few))
    check = partial(bdmc.testing.check_invariance, budget=1000, random_seed=1)
    monkeypatch.setattr(bdmc.testing, "check_invariance", check)
    assert str(eval(call, coins))


@pytest.fixture(scope="module")
def coins():
    """Names in these calls: two models of a coin, their results of few runs, and draws."""

    def build(heads):
        with pm.Model() as model:
            pm.Binomial("heads", 20, pm.Beta("p", heads, heads), observed=14)
        return model

    names = {"pm": pm, "bdmc": bdmc, "build": build}
    names |= {"model": build(1), "a": build(1), "b": build(9)}
    for name in "ab":
        names[f"dt_{name}"] = bdmc.sample_bdmc(
            names[name], simulate=None, random_seed=1, cores=1, progressbar=False
        )
    draws = np.random.default_rng(1).beta(15, 7, size=(2, 500))
    names["idata"] = az.from_dict({"posterior": {"p": draws}})
    with warnings.catch_warnings(), names["a"]:
        warnings.simplefilter("ignore")
        names["approximation"] = pm.fit(100, progressbar=False, random_seed=1)
    return names


def test_the_readme_is_short_and_names_what_is_there():
    assert len(readme().splitlines()) <= 100
    for name in set(re.findall(r"`bdmc\.(\w+)", readme())):
        assert hasattr(bdmc, name), name
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\S+)", readme(), re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_whole(page):
    """What a page links is there, and no word in capitals is a gap left to be filled."""
    text = page.read_text()
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", text):
        assert (page.parent / link).exists(), link
    names = """
        ADVI BARRIER BDMC BFGS BREAD CHANGELOG COBYQA CONTRIBUTING EASY ELBO ESTIMATORS
        FAILED HARD ICAR INLA JSON KERNELS MBAR MCMC NUTS PATHS RAISE RMSE SCHEDULES
        STRIDE SVGD
    """
    prose = re.sub(r"`[\w.]+`", "", text)  # constants have such names
    assert set(re.findall(r"\b[A-Z]{4,}\b", prose)) <= set(names.split())


def listed():
    """Full names of all that the reference lists."""
    page, module = (ROOT / "docs" / "api.md").read_text(), ""
    for line in page.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([\w.]+)$", line):
            yield f"{module}.{found[1]}"


def test_everything_public_is_in_the_reference():
    """Each public name has a page, under its module; what is listed exists."""
    names = set(listed())
    functions = [name for name in bdmc.__all__ if not inspect.ismodule(getattr(bdmc, name))]
    wanted = {f"pymc_bdmc.{name}" for name in functions}
    for room in ("estimators", "lattice", "rbm", "testing", "testsystems"):
        wanted |= {f"pymc_bdmc.{room}.{name}" for name in getattr(bdmc, room).__all__}
    wanted |= {f"pymc_bdmc.base.schedules.{name}" for name in bdmc.schedules.__all__} - {
        "pymc_bdmc.base.schedules.Schedule"  # it is listed as pymc_bdmc.Schedule
    }
    assert not wanted - names
    for name in names:
        home, _, thing = name.rpartition(".")
        assert hasattr(importlib.import_module(home), thing), name


@pytest.mark.filterwarnings("ignore")  # of PyMC, on few chains
@pytest.mark.parametrize(
    "name",
    [
        "index.md",
        *(pytest.param(name, marks=pytest.mark.slow) for name in LONG_PAGES),
    ],
)
def test_pages_print_what_they_say(name, tmp_path, monkeypatch):
    """The code runs, and prints what is below it, but for the numbers.

    The examples of docstrings show more cheaply that the calls of the long pages run.
    """
    path = ROOT / "docs" / "outputs.py"
    spec = importlib.util.spec_from_file_location("outputs", path)
    outputs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(outputs)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text()
    assert words(outputs.renewed(page)) == words(page)
    assert "```text\n```" not in page
