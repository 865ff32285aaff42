"""Every fault of another project has a script, and a report with it that could be posted."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / "docs" / "upstream"
PAGE = HOME.with_suffix(".md").read_text()
REPORTS = sorted(HOME.glob("*.md"))
PROPOSAL = "evidence_convention"
"""This script has no report, since it shows no fault."""


def test_the_page_links_every_report_and_every_script_has_one():
    names = {report.stem for report in REPORTS}
    assert set(re.findall(r"\(upstream/(\w+)\.md\)", PAGE)) == names
    assert {script.stem for script in HOME.glob("*.py")} == names | {PROPOSAL}


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.stem)
def test_a_report_has_its_script_and_few_words(report):
    """Below the title and the versions are the script, what it prints, and what is wrong."""
    form = r"# .*\n\n(.*)\n\n```python\n(.*?)```\n\n```text\n(.*?)```\n\n(.*)"
    versions, code, printed, told = re.fullmatch(form, report.read_text(), re.S).groups()
    assert code == report.with_suffix(".py").read_text().split('"""\n\n', 1)[1]
    package = printed.splitlines()[0] if report.stem != "cold_cache" else "PyTensor"
    assert package.split(" SciPy")[0] in versions
    assert "should" in told
    assert len(f"{versions} {told}".split()) <= 120
