"""A report says what the verdict says, with the numbers of the tables, and no more."""

import re

import numpy as np
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from tests.results.trees import result


@pytest.fixture(scope="module")
def results(schools_result):
    wild, alone = result(-3.0, n=8, sd=6.0), result(-3.0).drop_nodes(["forward", "reverse"])
    system = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    return {"schools": schools_result, "wild": wild, "alone": alone, "system": system}


NAMES = ["schools", "wild", "alone", "system"]


def check_latex(text):
    assert text.isascii()
    assert not re.search(r"(?<!\\)[%#_]", re.sub(r"\$[^$]*\$", "", text))
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_report_claims_what_the_verdict_says_in_plain_text_and_latex(results, name):
    dt = results[name]
    text = bdmc.report(dt)
    told = bdmc.verdict(dt).sentences(impersonal=True)
    assert f"Results: {' '.join(told)}\n" in text
    assert all(doubt in text for doubt in bdmc.diagnose(dt))
    assert not re.search(r"\b[Yy]ou", text)
    latex = bdmc.report(dt, style="latex")
    check_latex(latex)
    rows = latex.split("\\begin{tabular}")[1].split("\n")[1:]
    assert all(row.count(" & ") == 3 and row.endswith(r" \\") for row in rows if "&" in row)


def test_a_mapping_of_one_result_is_that_result(results):
    assert bdmc.report({"a": results["alone"]}) == bdmc.report(results["alone"])


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_the_table_is_one_of_the_summary(results, name):
    dt = results[name]
    table, lines = bdmc.summary(dt), bdmc.report(dt).split("\n\n")[-1].split("\n")
    n_best = int(bdmc.log_ml(dt).valid)
    assert len(lines) == 1 + n_best + len(table)
    for line, (key, row) in zip(lines[1 + n_best :], table.iterrows(), strict=True):
        assert re.match(rf"{key[0]} +{key[1]} ", line)
        rest = line.split(key[1], 1)[1].split()
        if not row["valid"]:
            assert " ".join(rest).startswith("not valid: ")
        elif key[1].startswith("certified"):  # rounded outwards
            outwards = 1 if key[1].endswith("upper") else -1
            assert 0 <= outwards * (float(rest[0]) - row["value"]) < 0.01
        elif np.isfinite(row["error"]):
            assert float(rest[0]) == pytest.approx(row["value"], abs=0.06 * row["error"])
            assert float(rest[2]) == pytest.approx(row["error"], rel=0.06)


def test_what_cannot_be_reported_is_refused(results):
    with pytest.raises(ValueError, match="style: 'html' is none of"):
        bdmc.report(results["schools"], style="html")
    with pytest.raises(ValueError, match="a result of temper has none"):
        bdmc.report(xr.DataTree.from_dict({"tempering": xr.Dataset()}))


def test_the_report_on_models_has_the_numbers_of_compare():
    results = {"wide": result(-5.0), "narrow": result(-3.0), "far": result(-40.0)}
    table, text = bdmc.compare(results), bdmc.report(results)
    lines = [re.split("  +", line) for line in text.split("\n\n")[-1].split("\n")]
    assert lines[0] == ["model", "log ML", "log Bayes factor", "probability"]
    for (told, *numbers), (name, row) in zip(lines[1:], table.iterrows(), strict=True):
        assert told == name
        log_ml, factor, probability = (float(each.strip("< ").split()[0]) for each in numbers)
        assert log_ml == pytest.approx(row["log_ml"], abs=0.06 * row["error"])
        assert factor == pytest.approx(row["log_bayes_factor"], abs=0.01)
        assert probability == pytest.approx(row["probability"], abs=1e-3)
    ratio = np.exp(-table["log_bayes_factor"].iloc[1])
    told = re.search(r"data favour narrow over wide, with a Bayes factor of (\S+)", text)
    assert float(told[1]) == pytest.approx(ratio, rel=0.005)
    assert 'call such evidence "positive"' in text
    assert "Kass and Raftery (1995), Bayes factors" in text
    assert not re.search(r"\b[Yy]ou|bdmc\.", text)


def test_the_report_on_models_says_what_they_share_once():
    results = {"a": result(-5.0), "b": result(-3.0)}
    results["a"].attrs["random_seed"], results["b"].attrs["random_seed"] = "5", "7"
    text = bdmc.report(results)
    assert text.count("We used bidirectional Monte Carlo") == 1
    assert "The random seeds are 5, 7." in text
    results["b"].attrs["path"] = "data"
    text = bdmc.report(results)
    assert text.count("We used bidirectional Monte Carlo") == 1
    assert "b: The path starts at the prior, one observation after the other." in text


def test_the_report_on_models_gives_no_number_that_is_not_valid():
    results = {"wild": result(-3.0, n=8, sd=6.0), "good": result(-9.0)}
    text = bdmc.report(results)
    assert "Only good has a log ML that can be trusted." in text
    assert text.split("\n")[-1].split() == ["wild", "not", "valid"]
    with pytest.raises(ValueError, match="its data are not those of good"):
        bdmc.report({"good": result(-9.0), "other": result(-9.0, y=np.arange(3.0))})
    check_latex(bdmc.report(results, style="latex"))
