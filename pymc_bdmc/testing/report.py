"""Report the result of a check, and run checks for the pytest fixture ``bdmc``."""

import sys
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from inspect import signature
from typing import Any, Literal

from pymc_bdmc import testing  # which imports this module, so only methods use it
from pymc_bdmc.base.streams import Entropy


@dataclass(frozen=True)
class Report:
    """Result that every ``check_…`` returns.

    Attributes
    ----------
    check : str
        Name of the check, such as ``check_sampler``.
    subject : str
        Subject of the check, in words.
    passed : bool
        Whether the evidence did not reach its threshold.
    alpha : float
        Largest probability that a correct subject fails; 0 for a deterministic check.
    evidence : float
        An e-value or a p-value. The check fails if an e-value is at least 1/alpha, or if a p-value
        is at most alpha. For a deterministic check it is 0 or 1.
    kind : {"e-value", "p-value"}
        Kind of evidence.
    cost : int
        Part of the budget used: transitions, draws or points, depending on the check.
    seconds : float
        Wall-clock time.
    random_seed : int or sequence of int
        Seed with which the same call repeats the check exactly.
    findings : tuple of str
        Faults found, with the strongest evidence first. Empty if the check passed.
    blind_to : tuple of str
        Faults that this check cannot see.

    Examples
    --------
    >>> from pymc_bdmc.testing import Report
    >>> report = Report("check_sampler", "Langevin", False, 1e-5, 3e7, "e-value", 1200, 0.8, 42,
    ...                 ("after 1 step: spread of mu",), ("slow mixing",))
    >>> print(report)
    check_sampler of Langevin: FAILED
      e-value 3e+07, fails from 1e+05 on (alpha = 1e-05)
      cost 1200, 0.8 s; repeat it with random_seed=42
      found: after 1 step: spread of mu
      cannot see: slow mixing
    """

    check: str
    subject: str
    passed: bool
    alpha: float
    evidence: float
    kind: Literal["e-value", "p-value"]
    cost: int
    seconds: float
    random_seed: Entropy
    findings: tuple[str, ...] = ()
    blind_to: tuple[str, ...] = ()

    def raise_if_failed(self) -> "Report":
        """Return the report if the check passed.

        Raises
        ------
        CheckFailed
            If the check failed: an AssertionError with the report as its text and attribute
            ``report``.
        """
        if not self.passed:
            raise CheckFailed(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes for JSON, with the largest float for an infinite e-value."""
        whole = asdict(self)
        whole["evidence"] = min(self.evidence, sys.float_info.max)
        return whole | {name: list(whole[name]) for name in ("findings", "blind_to")}

    @property
    def _rows(self) -> list[tuple[str, str]]:
        threshold = f"from {1 / self.alpha:.3g} on" if self.kind == "e-value" else "up to alpha"
        repeat = f"repeat it with random_seed={self.random_seed}"
        return [
            ("", f"{self.kind} {self.evidence:.3g}, fails {threshold} (alpha = {self.alpha:g})"),
            ("", f"cost {self.cost}, {self.seconds:.1f} s; {repeat}"),
            *(("found", finding) for finding in self.findings),
            *(("cannot see", fault) for fault in self.blind_to),
        ]

    @property
    def _title(self) -> str:
        return f"{self.check} of {self.subject}: {'passed' if self.passed else 'FAILED'}"

    def __str__(self) -> str:
        rows = [f"  {label}: {text}" if label else f"  {text}" for label, text in self._rows]
        return "\n".join([self._title, *rows])

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><td>{escape(label)}</td><td>{escape(text)}</td></tr>"
            for label, text in self._rows
        ]
        return f"<table><caption>{escape(self._title)}</caption>{''.join(rows)}</table>"


class CheckFailed(AssertionError):
    """Error of a failed check, whose text is the report.

    Attributes
    ----------
    report : Report

    Examples
    --------
    >>> from pymc_bdmc.testing import CheckFailed, Report
    >>> report = Report("check_gradient", "log p", False, 0.0, 0.0, "p-value", 20, 0.1, 42)
    >>> try:
    ...     report.raise_if_failed()
    ... except CheckFailed as failure:
    ...     print(failure.report.evidence)
    0.0
    """

    def __init__(self, report: Report):
        super().__init__(str(report))
        self.report = report


class Checks:
    """The checks of `pymc_bdmc.testing` for the pytest fixture ``bdmc``; they raise if they fail.

    The k-th check of a test gets alpha/(k(k + 1)). For any number of checks these shares add up to
    less than the alpha of the test. Reports are added to ``reports`` as dictionaries.
    """

    def __init__(self, alpha: float, budget: int | None, reports: list[dict]):
        self._alpha, self._reports, self._called = alpha, reports, 0
        self._options = {} if budget is None else {"budget": budget}

    def __getattr__(self, name: str):
        if not name.startswith("check_") or name not in testing.__all__:
            raise AttributeError(f"bdmc: there is no check named {name!r}")
        return partial(self._run, getattr(testing, name))

    def __dir__(self) -> list[str]:
        return [name for name in testing.__all__ if name.startswith("check_")]

    def _run(self, check, *subjects, **options) -> Report:
        __tracebackhide__ = True
        if "alpha" in options:
            raise TypeError(
                "bdmc: a check in a test gets its alpha from the session; mark the test "
                "@pytest.mark.bdmc(alpha=…) to give it more."
            )
        if "alpha" in signature(check).parameters:  # the others are deterministic
            self._called += 1
            options["alpha"] = self._alpha / (self._called * (self._called + 1))
        report = check(*subjects, **self._options | options)
        self._reports.append(report.to_dict())
        if not report.passed:
            raise CheckFailed(report)
        return report
