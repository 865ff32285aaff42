"""Checks for the pytest fixture ``bdmc``, with their shares of alpha."""

from functools import partial
from inspect import signature

from pymc_bdmc import testing
from pymc_bdmc.testing.report import CheckFailed, Report


class Checks:
    """The checks of `pymc_bdmc.testing`, which raise `CheckFailed` if they fail.

    The k-th check of a test gets alpha/(k(k + 1)). For any number of checks these shares add up to
    less than the alpha of the test. A budget of None stands for each check's own default. The
    report of every check is added to ``reports``, as a dictionary.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.testing.fixture import Checks
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> reports = []
    >>> report = Checks(1e-5, 1000, reports).check_invariance(pm.Slice, model, random_seed=1)
    >>> report.passed, report.alpha, len(reports)
    (True, 5e-06, 1)
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
