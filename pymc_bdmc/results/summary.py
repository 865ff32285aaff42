"""Sum up a result: bounds, evidence and doubts in a table, and a paragraph for a paper."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.arguments import check_choice, check_flags
from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import Estimate, clustered_mean
from pymc_bdmc.results.compare import check_comparable, compare, conclusions
from pymc_bdmc.results.finding import (
    MAX_CHANCE,
    Table,
    for_paper,
    frame,
    half_interval,
    outwards,
    upwards,
)
from pymc_bdmc.results.log_ml import estimates_of, log_ml_of, notes, plus_minus, tempering_rows
from pymc_bdmc.results.reading import SIDES, Reading, once
from pymc_bdmc.results.sandwich import (
    bound_of,
    certified_of,
    certified_total_variation,
    gap_of,
    independent_gaps,
    quartiles,
    start_of,
)
from pymc_bdmc.results.verdict import doubts_of, verdict_of

QUARTILES = ["q25", "median", "q75"]


def summary(dt: xr.DataTree, *, details: bool = False) -> pd.DataFrame:
    """Summarise the bounds on log ML, the Jeffreys bound and the evidence, with errors; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.
    details : bool, default False
        Whether the table has quartiles over runs too, ``q25``, ``median`` and ``q75``.

    Returns
    -------
    DataFrame
        Indexed by (data, quantity). Columns: ``value``; ``error``, one standard error, for
        simulated data clustered by data set (with one data set: conditional on it); ``valid``,
        false if the value is not what its name says or if its error cannot be trusted; ``kind``,
        how the value was found, and why it is not valid. The doubts are in ``attrs["warnings"]``;
        see `diagnose`. All columns are printed.

        For each of ``simulated`` and ``real``: ``lower bound`` ⟨log w⟩_f; ``evidence``, log of the
        averaged weights; ``certified lower``, a bound that holds with 95 % probability for any
        number of chains (`certified`). For ``simulated`` also ``upper bound`` ⟨log w⟩_r, ``jeffreys
        bound`` (their gap), ``total variation`` (the largest error of a probability, with its
        certified upper end in ``kind``), ``ideal gap`` (the gap under perfect mixing, by the
        pilot; not valid if that of the runs is significantly smaller, p ≤ 0.001) and, with one
        data set, ``evidence, reverse`` and ``certified upper``; for ``real`` with ``posterior``
        draws also ``upper bound``, ``jeffreys bound``, ``evidence, reverse`` and ``evidence, both``
        (by BAR). The start of the reverse chains, on which the upper bound rests, is ``exact`` (θ*
        from the joint distribution), ``burned-in`` (from fitted hyperparameters) or ``heuristic``
        (from some sampler on the real data). For ``tempering``: ``evidence`` by RTS.

    Raises
    ------
    ValueError
        If the result lacks a group, a variable or an attribute; the message names it.

    Notes
    -----
    The mean of the log weights gives a bound; the log of the mean weight gives an estimate. If part
    of the prior makes the data impossible, bounds and evidence include log P(ℓ > −∞).

    If ℓ of draws from the start of the path has no mean, the log weights of runs have none either:
    their expectation is −∞ and the expected gap ∞, whatever the sample mean is. If ℓ has no
    variance, the sample mean has no error. In both cases certified bounds come first in the table,
    the lower bound is the median, which is below log ML + log 2 by Markov's inequality, and the gap
    is that of the medians.

    In the row of the gap, ``median`` is the gap of the medians of the two directions; with several
    data sets, the median of these gaps, between their quartiles. The error of an evidence is left
    out if its check fails.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> log_weight = ("chain", np.array([-1.0, -1.1, -0.9]))
    >>> real = xr.Dataset(dict(log_weight=log_weight, prior_draws=("chain", np.ones(3))))
    >>> table = bdmc.summary(xr.DataTree.from_dict(dict(real=real)))
    >>> round(float(table.loc[("real", "lower bound"), "error"]), 3)
    0.058
    """
    check_flags(details=details)
    table = summary_of(Reading.of(dt))
    return Table.of(table if details else table.drop(columns=QUARTILES))


@once
def summary_of(read: Reading) -> pd.DataFrame:
    """Return the table of `summary`."""
    if read.is_tempering:
        found = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
        rows = {("tempering", "evidence"): _evidence(found, "RTS")}
    else:
        rows = _annealed_rows(Reading.annealed(read))
    table = frame(rows, ["value", "error", *QUARTILES, "valid", "kind"], "data", "quantity")
    table = table.sort_index(level="data", sort_remaining=False)
    table.attrs["warnings"] = [doubt.with_remedy for doubt in doubts_of(read)]
    return table


def _annealed_rows(read: Reading) -> dict[tuple[str, str], dict]:
    """Return all rows; certified bounds come first if the mean of log weights does not exist."""
    rows = {
        (data, name): row
        for data, (forward, _) in SIDES.items()
        if read.has(forward)
        for name, row in _sandwich(read, data).items()
    }
    kind = "holds with 95%, any number of chains"
    certain = {
        (data, f"certified {side}"): {"value": row[side], "valid": True, "kind": kind}
        for (data, _), row in certified_of(read).iterrows()
        if data == "real" or len(read.side("forward").log_weight) == 1
        for side in ("lower", "upper")
        if np.isfinite(row[side])
    }
    tails = {data: read.side(SIDES[data][0]).tail for data, _ in certain}
    first = {key: row for key, row in certain.items() if not tails[key[0]].resolved}
    return first | rows | certain


def _sandwich(read: Reading, data: str) -> dict[str, dict]:
    """Return the rows of one kind of data; the real data may have no reverse runs."""
    forward, reverse = SIDES[data]
    rows = {"lower bound": bound_of(read, read.side(forward), data)}
    both = data == "simulated" or read.has(reverse)
    start = start_of(read, data) if both else ""
    if both:
        rows["upper bound"] = bound_of(read, read.side(reverse), data)
        rows["jeffreys bound"] = dict(gap_of(read, data))
    if data == "simulated":
        rows |= _total_variation(read, start) | _ideal_gap(read)
    if len(read.side(forward).log_weight) > 1:  # only the bounds on log ML are of use
        return rows
    found = {row.method: row for row in estimates_of(read, data).values()}
    rows["evidence"] = _evidence(found.get("forward average"), "averaged weights")
    if both:
        kind = f"averaged weights, {start}, error given it"
        rows["evidence, reverse"] = _evidence(found.get("reverse average"), kind)
        if data == "real":  # of no use on simulated data
            rows["evidence, both"] = _evidence(found.get("bar"), f"BAR, {start}")
    return rows


def _total_variation(read: Reading, start: str) -> dict[str, dict]:
    """Return the row of the total variation, with its certified upper end in ``kind``."""
    if not (found := certified_total_variation(read)):
        return {}
    sets = "data sets" if found.datasets > 1 else "data set"
    kind = (
        f"a probability, at most {upwards(found.upper)} with "
        f"{100 * found.confidence:.4g}%, {found.datasets} {sets}, {start}"
    )
    error = clustered_mean(found.terms[:, None])[1]
    row = {"value": found.value, "error": error, "valid": True, "kind": kind}
    return {"total variation": row | quartiles(found.terms)}


def _ideal_gap(read: Reading) -> dict[str, dict]:
    """Return the row of the gap under perfect mixing, not valid if the gap of the runs is less."""
    forward = read.side("forward")
    if not (lengths := forward.lengths).size:
        return {}
    value = float(np.mean(lengths**2) / (forward.n_temperatures * read.n_particles))
    rhat, most = forward.pilot_rhat, np.inf
    if forward.tail.resolved:  # the upper 99.9 % limit of the mean gap
        row, n = gap_of(read, "simulated"), independent_gaps(read)
        limit = row["value"] + half_interval(row["error"], n, 1 - 2 * MAX_CHANCE)
        most = float(limit) if np.isfinite(limit) else np.inf
    effort, length = "T" if read.n_particles == 1 else "TN", np.mean(lengths)
    kind = f"Λ²/{effort}, perfect mixing; Λ = {length:.3g} nats^½, from the pilot"
    if rhat > MAX_RHAT:
        kind += f", which may have missed a part: R̂ {rhat:.2g}"
    if value > most:
        kind += f"; not valid: the gap of the runs is smaller, at most {most:.2g}"
    valid = not (rhat > MAX_RHAT or value > most)
    # At T = 1 nothing mixes, and draws far out in the tails of a fit make Λ very large.
    is_shown = valid or forward.n_temperatures > 1
    return {"ideal gap": {"value": value, "valid": valid, "kind": kind}} if is_shown else {}


def _evidence(row: Estimate | None, kind: str) -> dict:
    """Return the row of an estimate, without its error if its check in `evidence` fails."""
    if not row:
        return {"valid": False, "kind": "no chain was finished in one of the directions"}
    if not row.valid:
        kind += f"; not valid: {row.reason}"
    error = row.error if row.valid else np.nan
    return {"value": row.value, "error": error, "valid": bool(row.valid), "kind": kind}


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
        Result of `sample_bdmc`, `lattice.anneal` or `RBM.anneal`; or results of one or several
        models of the same data, by name.
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
    check_choice("style", style, ("text", "latex"))
    if isinstance(dt, Mapping) and not isinstance(dt, xr.DataTree):
        if len(dt) == 1:
            return report(*dt.values(), style=style)
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
        "given": "a pair of parameters and data that was given",
    }
    if read.data_source not in sources:
        return "of the system"
    return f"on each of {n} simulated data sets ({sources[read.data_source]})"


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
