"""Write the paragraph and the table of a result that belong into a paper."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.results.compare import check_comparable, compare, conclusions
from pymc_bdmc.results.finding import for_paper, outwards
from pymc_bdmc.results.log_ml import log_ml_of, notes, plus_minus
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.summary import summary_of
from pymc_bdmc.results.verdict import doubts_of, verdict_of

Row = tuple[str, str, str, str]

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
"""Starts of paths by name."""

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "R̂": r"$\hat{R}$", "nats^½": r"nats$^{1/2}$", "±": r"$\pm$", "−": "$-$",
    "Λ²": r"$\Lambda^2$", "Λ": r"$\Lambda$", "β": r"$\beta$", "θ": r"$\theta$", "ℓ": r"$\ell$",
    "≤": r"$\le$", "≥": r"$\ge$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "∞": r"$\infty$",
    "√": r"$\surd$", "<": "$<$", ">": "$>$",
}  # fmt: skip
"""LaTeX commands of special characters."""


def report(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, style: Literal["text", "latex"] = "text"
) -> str:
    """Return a paragraph on methods and results and a table, for a paper.

    Settings and versions are those in the result. All findings are sentences of `verdict`, and all
    numbers rows of `summary`; the number of a row that is not valid is left out. Doubts that
    `diagnose` lists, and what else log ML contains, follow as caveats.

    The report on several models has the numbers of `compare` in place of the verdicts: every log
    ML, the Bayes factor of the two best models, and the probabilities of the models.

    Parameters
    ----------
    dt : DataTree or mapping of str to DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `RBM.anneal`; or results of several models of
        the same data, by name.
    style : {"text", "latex"}, default "text"
        ``"latex"``: paragraphs and a ``tabular`` that need no package.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        For an unknown style, for a result of `temper`, or one that lacks a group or a variable, and
        for models of different data.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    >>> print(bdmc.report(dt).split(". ")[0])  # doctest: +ELLIPSIS
    Methods: We used bidirectional Monte Carlo of Ising(L=4, coupling=1.0) by pymc_bdmc 0.1...
    """
    if style not in ("text", "latex"):
        raise ValueError(f'style: it is "text" or "latex", not {style!r}.')
    if isinstance(dt, Mapping) and not isinstance(dt, xr.DataTree):
        return _written(*_on_models(dt), style)
    return _written(*_on_one(Reading.annealed(dt, "report")), style)


def _on_one(read: Reading) -> tuple[dict[str, str], list[Row]]:
    seed = [] if read.random_seed is None else [f"The random seed is {read.random_seed}."]
    parts = {
        "Methods": " ".join([*_methods(read), *seed]),
        "Results": " ".join(verdict_of(read).sentences(impersonal=True)),
        "Caveats": " ".join(_caveats(read)),
        "References": "" if read.is_null else REFERENCES,
    }
    rows: list[Row] = [("data", "quantity", "value", "remark")]
    if read.sets_of(read.main) and (found := log_ml_of(read)).valid:
        rows.append((read.main, "log ML", plus_minus(found.value, found.error), found.method))
    rows += (_row(data, quantity, row) for (data, quantity), row in summary_of(read).iterrows())
    return parts, rows


def _row(data: str, quantity: str, row: pd.Series) -> Row:
    """Return data, quantity, number and remark of a row of `summary`."""
    if not row["valid"]:
        return data, quantity, "", f"not valid: {row['kind']}"
    number = f"{row['value']:.2g}"
    if quantity.startswith("certified"):
        lower, upper = outwards(row["value"], row["value"])
        number = f"{lower if quantity.endswith('lower') else upper:.2f}"
    elif np.isfinite(row["error"]):
        number = plus_minus(row["value"], row["error"])
    return data, quantity, number, row["kind"]


def _on_models(results: Mapping[str, xr.DataTree]) -> tuple[dict[str, str], list[Row]]:
    reads, table = check_comparable(results), compare(results)
    methods = {name: _methods(read) for name, read in reads.items()}
    found = {name: [for_paper(log_ml_of(read).sentence)] for name, read in reads.items()}
    caveats = {name: _caveats(read) for name, read in reads.items()}
    seeds = (read.random_seed for read in reads.values())
    known = dict.fromkeys(str(seed) for seed in seeds if seed is not None)
    several = "s are" if len(known) > 1 else " is"
    seed = f" The random seed{several} {', '.join(known)}." if known else ""
    concluded = map(for_paper, conclusions(table))
    parts = {
        "Methods": _by_model(methods) + seed,
        "Results": " ".join([_by_model(found), *concluded]),
        "Caveats": _by_model(caveats),
        "References": f"{REFERENCES} Kass and Raftery (1995), Bayes factors.",
    }
    rows: list[Row] = [("model", "log ML", "log Bayes factor", "probability")]
    return parts, [*rows, *(_model_row(str(name), row) for name, row in table.iterrows())]


def _model_row(name: str, row: pd.Series) -> Row:
    """Return the name of a model and three numbers of its row in a table of `compare`."""
    if not row["valid"]:
        return name, "not valid", "", ""
    error, share = row["bayes_factor_error"], row["probability"]
    factor = plus_minus(row["log_bayes_factor"], error) if error else "0"
    shown = "< 0.001" if share < 0.001 else "> 0.999" if share > 0.999 else f"{share:.3f}"
    return name, plus_minus(row["log_ml"], row["error"]), factor, shown


def _by_model(texts: Mapping[str, Sequence[str]]) -> str:
    """Return the sentences of all models, then others after the names of their models."""
    shared = [each for each in next(iter(texts.values())) if all(each in t for t in texts.values())]
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(" ".join(each for each in text if each not in shared), []).append(name)
    others = [f"{', '.join(those)}: {text}" for text, those in names.items() if text]
    return " ".join([*shared, *others])


def _caveats(read: Reading) -> list[str]:
    """Return what else log ML contains, and the doubts about a result, without repetition."""
    doubts = [*notes(read), *(doubt.with_remedy for doubt in doubts_of(read))]
    return list(dict.fromkeys(f"{for_paper(each).removesuffix('.')}." for each in doubts))


def _methods(read: Reading) -> list[str]:
    """Return what to say about software, runs, path and kernel."""
    software = f"pymc_bdmc {read.pymc_bdmc_version or '(version unknown)'}"
    if read.pymc_version:
        software += f" and PyMC {read.pymc_version}"
    if read.is_null:
        return [f"The log density of the data was computed by {software}."]
    n, particles = read.side(read.directions[0]).n_temperatures, read.n_particles
    subject = "" if read.system is None else f" of {read.system}"
    text = [
        f"We used bidirectional Monte Carlo{subject} by {software}.",
        f"The path starts at {PATHS.get(read.path, 'the density at β = 0')}.",
    ]
    if n == 1:
        text.append(f"It has one step, which is importance sampling, with {particles} draws a run.")
    else:
        population = f"{particles} particles, resampled along the path"
        a_run = population if particles > 1 else "1 particle"
        text.append(
            f"It has {n} temperatures (schedule: {read.schedule}), and a run has {a_run}; the "
            f"kernel is {read.step}."
        )
    if read.has("real"):
        text.append(f"There are {read.side('real').chains} forward runs on the data.")
    if read.has("forward"):
        forward, reverse = read.pair
        start = "that draw" if read.contains_real else read.start("simulated")
        text.append(
            f"There are {forward.chains} forward and {reverse.chains} reverse runs "
            f"{_where(read, len(forward.log_weight))}; the start of reverse runs is {start}."
        )
    return text


def _where(read: Reading, n: int) -> str:
    """Return the data of the runs in both directions."""
    sources = {
        "prior": "parameters and data drawn from the model",
        "hyperparameters": (
            f"hyperparameters ({read.hyperparameters}) held at a draw from preliminary runs"
        ),
        "posterior": (
            "parameters drawn from the posterior, data drawn from the model given these, and runs "
            "on real and simulated data together"
        ),
        "matched": (
            "parameters and data drawn from the model, chosen to be most like the real data"
        ),
        "given": "a pair of parameters and data that was given",
    }
    source = "prior" if read.simulated_from_prior else read.simulate
    if source not in sources:
        return "of the system"
    return f"on each of {n} simulated data sets ({sources[source]})"


def _written(parts: Mapping[str, str], rows: Sequence[Row], style: str) -> str:
    """Return paragraphs and a table as text or LaTeX."""
    parts = {name: text for name, text in parts.items() if text}
    if style == "text":
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n\n".join([*(f"{name}: {text}" for name, text in parts.items()), "\n".join(lines)])
    paragraphs = [f"\\paragraph{{{name}}} {_latex(text)}" for name, text in parts.items()]
    header, *cells = [" & ".join(map(_latex, row)) + r" \\" for row in rows]
    start, end = "\\begin{tabular}{lllp{0.45\\textwidth}}", "\\end{tabular}"
    return "\n\n".join([*paragraphs, "\n".join([start, header, "\\hline", *cells, end])])


def _latex(text: str) -> str:
    """Return text with every special character as LaTeX, the longest matches first."""
    text = re.sub(r"(?<![\w)])-(?=\d)", "−", text)
    longest_first = sorted(LATEX, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: LATEX[found[0]], text)
