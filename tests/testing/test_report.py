"""A report tells everything, as text, as HTML, as JSON and as an exception."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pymc_bdmc.testing import CheckFailed, Report

FAILED = Report(
    "check_sampler", "walk <b>", False, 1e-5, np.inf, "e-value", 1200, 0.8, [1, 2],
    ("spread of mu",), ("slow mixing",),
)  # fmt: skip
PASSED = replace(FAILED, passed=True, evidence=0.3, findings=(), kind="p-value")


def test_failure_is_an_assertion_with_the_report():
    assert PASSED.raise_if_failed() is PASSED
    with pytest.raises(AssertionError, match="spread of mu") as caught:
        FAILED.raise_if_failed()
    assert isinstance(caught.value, CheckFailed)
    assert caught.value.report is FAILED


def test_json_holds_everything():
    read = json.loads(json.dumps(FAILED.to_dict(), allow_nan=False))
    assert read.pop("evidence") > 1e300
    assert read == {
        "check": "check_sampler", "subject": "walk <b>", "passed": False, "alpha": 1e-5,
        "kind": "e-value", "cost": 1200, "seconds": 0.8, "random_seed": [1, 2],
        "findings": ["spread of mu"], "blind_to": ["slow mixing"],
    }  # fmt: skip


def test_text_and_html():
    """HTML is escaped, and a p-value says where it fails."""
    assert "walk &lt;b&gt;: FAILED" in FAILED._repr_html_()
    assert "passed" in PASSED._repr_html_()
    assert "p-value 0.3, fails up to alpha" in str(PASSED)
