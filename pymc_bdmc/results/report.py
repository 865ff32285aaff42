"""Write the paragraph and the table of a result that belong into a paper."""

import re
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.results.groups import check_annealed, data_sets, directions, is_null, is_system
from pymc_bdmc.results.log_ml import decimals, log_ml, notes
from pymc_bdmc.results.summary import summary
from pymc_bdmc.results.verdict import verdict

__all__ = ["report"]

HEADER = ("data", "quantity", "value", "remark")

REFERENCES = (
    "Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using bidirectional "
    "Monte Carlo; Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with "
    "bidirectional Monte Carlo."
)

PATHS = {
    "prior": "the prior",
    "fitted": "a multivariate t distribution, or a mixture of several, fitted beforehand",
    "reference": "a reference distribution",
    "data": "the prior, one observation after the other",
}
"""Starts of paths, by name."""

SIMULATED = {
    "prior": "parameters and data drawn from the model",
    "hyperparameters": "hyperparameters ({names}) held at a draw from preliminary runs",
    "matched": "parameters and data drawn from the model, chosen to be most like the real data",
    "given": "a pair of parameters and data that was given",
}
"""Sources of simulated data, by name."""

IMPERSONAL = {
    "most like yours": "most like the real data", "data that you gave": "given data",
    "draws that you gave": "given draws", "until you know": "until it is known",
    "Your ": "The ", "your ": "the ",
}  # fmt: skip
"""Words of `verdict` that speak to its reader, and those of a paper."""

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "R̂": r"$\hat{R}$", "nats^½": r"nats$^{1/2}$", "±": r"$\pm$", "−": "$-$",
    "Λ²": r"$\Lambda^2$", "Λ": r"$\Lambda$", "β": r"$\beta$", "θ": r"$\theta$", "ℓ": r"$\ell$",
    "≤": r"$\le$", "≥": r"$\ge$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "∞": r"$\infty$",
    "√": r"$\surd$", "<": "$<$", ">": "$>$",
}  # fmt: skip
"""LaTeX commands of special characters."""


def report(dt: xr.DataTree, *, style: Literal["text", "latex"] = "text") -> str:
    """Return a paragraph on methods and results and a table, for a paper.

    Settings and versions are those in the result. All findings are sentences of `verdict`, and all
    numbers rows of `summary`; the number of a row that is not valid is left out. Doubts that
    `diagnose` lists, and what else log ML contains, follow as caveats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `RBM.anneal`.
    style : {"text", "latex"}, default "text"
        ``"latex"``: paragraphs and a ``tabular`` that need no package.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For an unknown style, for a result of `temper`, or one that lacks a group or a variable.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    >>> print(bdmc.report(dt).split(". ")[0])  # doctest: +ELLIPSIS
    Methods: We used bidirectional Monte Carlo of Ising(L=4, coupling=1.0) by pymc_bdmc 0.1...
    """
    if style not in ("text", "latex"):
        raise ValueError(f'style: it is "text" or "latex", not {style!r}.')
    check_annealed(dt, "report")
    table = summary(dt)
    told = [line for line in verdict(dt).text.split("\n") if not line.startswith("Next: ")]
    caveats = [*notes(dt).split("\n"), *table.attrs["warnings"]]
    parts = {
        "Methods": " ".join(_methods(dt)),
        "Results": _impersonal(" ".join(told)),
        "Caveats": _impersonal(" ".join(dict.fromkeys(map(_sentence, filter(None, caveats))))),
        "References": "" if is_null(dt) else REFERENCES,
    }
    parts = {name: text for name, text in parts.items() if text}
    rows = [HEADER, *_best(dt), *(_row(key, row) for key, row in table.iterrows())]
    if style == "text":
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n\n".join([*(f"{name}: {text}" for name, text in parts.items()), "\n".join(lines)])
    paragraphs = [f"\\paragraph{{{name}}} {_latex(text)}" for name, text in parts.items()]
    header, *cells = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
    tabular = [
        "\\begin{tabular}{lllp{0.45\\textwidth}}",
        header,
        "\\hline",
        *cells,
        "\\end{tabular}",
    ]
    return "\n\n".join([*paragraphs, "\n".join(tabular)])


def _methods(dt: xr.DataTree) -> list[str]:
    """Return sentences on software, runs, path and kernel."""
    attrs = dt.attrs
    versions = [f"pymc_bdmc {attrs.get('pymc_bdmc_version', '(version unknown)')}"]
    versions += [f"PyMC {attrs['pymc_version']}"] if "pymc_version" in attrs else []
    particles, n = int(attrs.get("particles", 1)), dt[directions(dt)[0]].sizes["beta"] - 1
    if is_null(dt):
        return [f"The log density of the data was computed by {' and '.join(versions)}."]
    subject = f" of {attrs['system']}" if "system" in attrs else ""
    told = [
        f"We used bidirectional Monte Carlo{subject} by {' and '.join(versions)}.",
        f"The path starts at {PATHS.get(str(attrs.get('path')), 'the density at β = 0')}.",
    ]
    if n == 1:
        told.append(f"It has one step, which is importance sampling, with {particles} draws a run.")
    else:
        more = "s, resampled along the path" if particles > 1 else ""
        told.append(
            f"It has {n} temperatures (schedule: {attrs.get('schedule', 'unknown')}), and a run "
            f"has {particles} particle{more}; the kernel is {attrs.get('step', 'unknown')}."
        )
    if "real" in dt.children:
        told.append(f"There are {dt['real'].sizes['chain']} forward runs on the data.")
    if "forward" in dt.children:
        n, chains = dt["forward"].sizes["dataset"], dt["forward"].sizes["chain"]
        source = SIMULATED.get(str(attrs.get("simulate")), "")
        if not attrs.get("hyperparameters") and attrs.get("simulate") == "hyperparameters":
            source = SIMULATED["prior"]
        source = source.format(names=attrs.get("hyperparameters"))
        where = f"on each of {n} simulated data sets ({source})" if source else "of the system"
        told.append(
            f"There are {chains} forward and {dt['reverse'].sizes['chain']} reverse runs {where}; "
            f"the start of reverse runs is {attrs.get('upper_bound', 'unknown')}."
        )
    if "random_seed" in attrs:
        told.append(f"The random seed is {attrs['random_seed']}.")
    return told


def _row(key: tuple, row: pd.Series) -> tuple[str, str, str, str]:
    """Return data, quantity, number and remark of a row of `summary`."""
    data, quantity = key
    if not row["valid"]:
        return data, quantity, "", f"not valid: {row['kind']}"
    value, error = row["value"], row["error"]
    if quantity.startswith("certified"):  # rounded outwards
        outwards = np.floor if quantity.endswith("lower") else np.ceil
        told = f"{outwards(100 * value) / 100:.2f}"
    elif np.isfinite(error):
        n = decimals(error)
        told = f"{value:.{n}f} ± {error:.{n}f}"
    else:
        told = f"{value:.2g}"
    return data, quantity, told, row["kind"]


def _best(dt: xr.DataTree) -> list[tuple[str, str, str, str]]:
    """Return the row of the recommended estimate, if there is one."""
    data = "simulated" if is_system(dt) else "real"
    if data not in [each[0] for each in data_sets(dt)]:
        return []
    found = log_ml(dt)
    row = {"value": found.value, "error": found.error, "valid": True, "kind": found.method}
    return [_row((data, "log ML"), pd.Series(row))] if found.valid else []


def _impersonal(text: str) -> str:
    for personal, other in IMPERSONAL.items():
        text = text.replace(personal, other)
    return text


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _latex(text: str) -> str:
    """Return text with every special character as LaTeX, the longest matches first."""
    text = re.sub(r"(?<![\w)])-(?=\d)", "−", text)
    for special in sorted(LATEX, key=len, reverse=True):
        text = text.replace(special, f"\0{list(LATEX).index(special)}\1")
    for place, command in enumerate(LATEX.values()):
        text = text.replace(f"\0{place}\1", command)
    return text
