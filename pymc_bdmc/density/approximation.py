"""Convert approximations of a posterior to draws and log densities on the unconstrained scale."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from pymc.vartypes import continuous_types
from scipy.linalg import solve_triangular

from pymc_bdmc.density.graph import INTERPRETED, Layout


@dataclass(frozen=True, eq=False)
class Approximation:
    """Independent draws from a density q, with log q."""

    draws: np.ndarray
    """θ, one draw a row."""
    log_density: np.ndarray
    """log q of the draws, normalised, nats."""
    log_q: Callable[[np.ndarray], np.ndarray] | None
    """log q of rows of θ; None if it is known at the draws only."""


def make_approximation(
    approximation: Any, layout: Layout, draws: int, rng: np.random.Generator
) -> Approximation:
    """Draw from an approximation of any kind that `pymc_bdmc.distance` takes, and evaluate log q.

    ``draws`` is the number of draws if the approximation does not give its own.
    """
    if isinstance(approximation, tuple | list) and len(approximation) == 2:
        given, log_q = approximation
        return _given(given, log_q, layout)
    density = _density(approximation, layout)
    if isinstance(approximation, xr.Dataset | np.ndarray):
        raise ValueError(
            "approximation: draws alone have no density. Pass a pair (draws, log_q) with log q of "
            "every draw, or compare the draws with bdmc.agreement."
        )
    if density is None:
        raise TypeError(
            "approximation: expected what pm.fit returns, a frozen SciPy distribution with rvs and "
            "logpdf, a Laplace or DADVI result or an ADVI Trainer of pymc_extras, or a pair "
            f"(draws, log_q), not {type(approximation).__name__}."
        )
    theta = _rows(density.rvs(draws, rng), layout)
    return Approximation(theta, _log_density(density.logpdf, theta), density.logpdf)


@dataclass(frozen=True, eq=False)
class _Density:
    rvs: Callable[[int, np.random.Generator], ArrayLike]
    logpdf: Callable[[np.ndarray], np.ndarray]


def _density(approximation: Any, layout: Layout) -> _Density | None:
    """Recognise the kind of approximation by its attributes."""
    if isinstance(approximation, xr.DataTree):
        return _of_pymc_extras(approximation, layout)
    if hasattr(approximation, "groups") and hasattr(approximation, "model"):
        return _of_pm_fit(approximation, layout)
    state = getattr(approximation, "state", approximation)  # a Trainer of pymc_extras has one
    if isinstance(getattr(state, "params", None), Mapping):
        return _of_trainer(state.params, layout)
    if hasattr(approximation, "rvs") and hasattr(approximation, "logpdf"):
        return _Density(
            lambda n, rng: approximation.rvs(size=n, random_state=rng), approximation.logpdf
        )
    return None


def _normal(mean: np.ndarray, factor: np.ndarray) -> _Density:
    """Make a normal density from standard deviations or a Cholesky factor of the covariance."""
    full = factor.ndim == 2
    log_scale = float(np.sum(np.log(np.diag(factor) if full else factor)))
    constant = log_scale + 0.5 * mean.size * np.log(2 * np.pi)

    def rvs(n: int, rng: np.random.Generator) -> np.ndarray:
        z = rng.standard_normal((n, mean.size))
        return mean + (z @ factor.T if full else z * factor)

    def logpdf(theta: np.ndarray) -> np.ndarray:
        away = theta - mean
        z = solve_triangular(factor, away.T, lower=True).T if full else away / factor
        return -0.5 * np.sum(z**2, axis=1) - constant

    return _Density(rvs, logpdf)


def _of_covariance(mean: np.ndarray, covariance: np.ndarray) -> _Density:
    try:
        return _normal(mean, np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "approximation: its covariance matrix is not positive definite, so it has no density. "
            "Fit it again from another start, or with another optimiser."
        ) from error


def _of_pm_fit(approximation: Any, layout: Layout) -> _Density:
    """Convert a mean-field or full-rank fit with one group of variables."""
    if not all(group.has_logq for group in approximation.groups):
        raise ValueError(
            f"approximation: {type(approximation).__name__}, as SVGD returns it, is a set of "
            "points without a density. Pass a mean field or a full rank fit."
        )
    if len(approximation.groups) > 1:
        raise ValueError("approximation: it has several groups; pass a pair (draws, log_q).")
    group = approximation.groups[0]
    ordered = sorted(group.ordering.values(), key=lambda entry: entry[1].start)
    sizes = {name: part.stop - part.start for name, part, *_ in ordered}
    order = places(sizes, layout)
    mean = np.asarray(group.mean.eval(mode=INTERPRETED))
    if hasattr(group, "L"):
        covariance = np.asarray(group.cov.eval(mode=INTERPRETED))
        return _of_covariance(mean[order], covariance[np.ix_(order, order)])
    return _normal(mean[order], np.asarray(group.std.eval(mode=INTERPRETED))[order])


def _of_pymc_extras(tree: xr.DataTree, layout: Layout) -> _Density:
    """Convert a Laplace approximation or deterministic ADVI, whose normal is in the tree."""
    if "fit" in tree.children and {"mean_vector", "covariance_matrix"} <= set(tree["fit"]):
        fit = tree["fit"].dataset
        order = _places_of_labels(fit["mean_vector"]["rows"].values.tolist(), layout)
        covariance = fit["covariance_matrix"].values[np.ix_(order, order)]
        return _of_covariance(fit["mean_vector"].values[order], covariance)
    found = tree["optimizer_result"].dataset if "optimizer_result" in tree.children else {}
    if "x" in found and found["x"].size == 2 * layout.size:
        means, log_deviations = np.split(found["x"].values, 2)
        labels = found["x"]["variables"].values.tolist()[: layout.size]
        order = _places_of_labels(labels, layout)
        return _normal(means[order], np.exp(log_deviations[order]))
    what = "draws"
    if "pathfinder" in tree.children:
        what = "draws of Pathfinder, resampled or of several paths,"
    elif "fit" in tree.children and "elbo" in tree["fit"]:
        what = "draws of fit_advi; its Trainer, which holds the density, can be passed. They are"
    raise ValueError(
        f"approximation: a DataTree with {what} without a density. Pass a pair (draws, log_q) with "
        "log q of every draw, or compare the draws with bdmc.agreement."
    )


def _of_trainer(params: Mapping[str, ArrayLike], layout: Layout) -> _Density:
    """Convert guides of pymc_extras: diagonal, multivariate and low-rank normal."""
    found = {name: np.asarray(value, float) for name, value in params.items()}
    if "loc" in found and found["loc"].size == layout.size:
        if "L_packed" in found:
            factor = np.zeros((layout.size, layout.size))
            factor[np.tril_indices(layout.size)] = found["L_packed"]
            np.fill_diagonal(factor, np.exp(np.diag(factor)))
            return _normal(found["loc"], factor)
        if {"cov_factor", "cov_diag_unconstrained"} <= found.keys():
            factor = found["cov_factor"]
            diagonal = np.diag(np.exp(2 * found["cov_diag_unconstrained"]))
            return _of_covariance(found["loc"], factor @ factor.T + diagonal)
    titles = list(layout.titles.values())
    if {f"{title}_{part}" for title in titles for part in ("loc", "scale")} == found.keys():
        mean, log_scale = (
            np.concatenate([found[f"{title}_{part}"].ravel() for title in titles])
            for part in ("loc", "scale")
        )
        if mean.size == layout.size:
            return _normal(mean, np.exp(log_scale))
    raise ValueError(
        f"approximation: its parameters {sorted(found)} are not those of a normal guide of this "
        f"model, whose variables are {titles}. Is it a fit of another model?"
    )


def _given(
    draws: Any, log_q: ArrayLike | Callable[[Any], ArrayLike], layout: Layout
) -> Approximation:
    """Convert a pair of draws (flat or by variable) and log q (a function or an array)."""
    named = isinstance(draws, Mapping | xr.Dataset)
    theta = ravel("draws", draws, layout) if named else _rows(draws, layout)
    if not callable(log_q):
        known = np.asarray(log_q, float).ravel()
        if known.shape != (len(theta),):
            raise ValueError(
                f"log_q: {known.size} values for {len(theta)} draws; one value per draw is needed."
            )
        return Approximation(theta, _log_density(lambda _: known, theta), None)

    def of_rows(rows: np.ndarray) -> np.ndarray:
        return np.asarray(log_q(layout.unravel(rows) if named else rows), float)

    return Approximation(theta, _log_density(of_rows, theta), of_rows)


def ravel(argument: str, values: Mapping[str, Any] | xr.Dataset, layout: Layout) -> np.ndarray:
    """Convert values by variable to rows of θ; shapes are (n, *shape), or chains and draws."""
    if isinstance(values, xr.Dataset):
        order = [dim for dim in ("chain", "draw", "sample") if dim in values.dims]
        values = {str(name): each.transpose(*order, ...) for name, each in values.items()}
    arrays = {name: np.asarray(each) for name, each in values.items()}
    _check_names(argument, arrays, layout)
    rows = []
    for name, shape in layout.shapes.items():
        array = arrays[name]
        if array.ndim <= len(shape) or array.shape[array.ndim - len(shape) :] != shape:
            raise ValueError(
                f"{argument}: its {name} has the shape {array.shape}; the number of draws, "
                f"followed by {shape}, is needed."
            )
        rows.append(array.reshape(-1, prod(shape)).astype(float))
    if len({len(each) for each in rows}) > 1:
        raise ValueError(f"{argument}: its variables differ in the number of draws.")
    return _checked(argument, np.concatenate(rows, axis=1), layout)


def _checked(argument: str, rows: np.ndarray, layout: Layout) -> np.ndarray:
    """Return rows, which must be finite, and integers for discrete variables."""
    for name, part in layout.parts.items():
        values = rows[:, part]
        if not np.isfinite(values).all():
            raise ValueError(f"{argument}: its {name} is not finite in some draws.")
        is_discrete = layout.values[name].dtype not in continuous_types
        if is_discrete and (values != np.round(values)).any():
            raise ValueError(
                f"{argument}: {name} is discrete, and some of its draws are not integers, so q "
                "is not a density of it. Pass a pair (draws, log_q)."
            )
    return rows


def places(sizes: Mapping[str, int], layout: Layout) -> np.ndarray:
    """Return the position of each element of θ in a fit to variables of these sizes, in order."""
    _check_names("approximation", sizes, layout)
    for name, size in sizes.items():
        if size != prod(layout.shapes[name]):
            raise ValueError(
                f"approximation: its {name} has {size} elements, the model's "
                f"{prod(layout.shapes[name])}. Is it a fit of another model?"
            )
    given = np.concatenate([np.arange(layout.size)[layout.parts[name]] for name in sizes])
    return np.argsort(given)


def _places_of_labels(labels: Sequence[str], layout: Layout) -> np.ndarray:
    """Return `places`, from a label for every element: ``name`` or ``name[index]``."""
    names = [
        next((n for n in layout.shapes if label == n or label.startswith(f"{n}[")), label)
        for label in map(str, labels)
    ]
    return places({name: names.count(name) for name in dict.fromkeys(names)}, layout)


def _check_names(argument: str, names: Mapping[str, Any], layout: Layout) -> None:
    for value, title in layout.titles.items():
        if value != title and title in names and value not in names:
            raise ValueError(
                f"{argument}: {title} is on the model's own scale. Pass {value}, its value on "
                "the unconstrained scale, and log q as a density there."
            )
    missing = sorted(set(layout.shapes) - set(names))
    unknown = sorted(set(map(str, names)) - set(layout.shapes))
    if missing or unknown:
        faults = [f"lacks {missing}"] * bool(missing)
        faults += [f"has {unknown} besides"] * bool(unknown)
        raise ValueError(
            f"{argument}: it {' and '.join(faults)}; the model's unconstrained variables are "
            f"{list(layout.shapes)}. Is it of another model?"
        )


def _rows(draws: ArrayLike, layout: Layout) -> np.ndarray:
    """Return draws as rows, which must be finite and of the right length."""
    theta = np.asarray(draws, float)
    if theta.ndim == 1:  # θ has a single element
        theta = theta[:, None]
    if theta.ndim != 2 or theta.shape[1] != layout.size:
        shapes = ", ".join(f"{name} {shape}" for name, shape in layout.shapes.items())
        raise ValueError(
            f"approximation: its draws have the shape {theta.shape}, and (n, {layout.size}) is "
            f"needed: one draw per row, with the elements of {shapes} in this order."
        )
    return _checked("approximation", theta, layout)


def _log_density(log_q: Callable[[np.ndarray], ArrayLike], theta: np.ndarray) -> np.ndarray:
    """Return log q at its own draws, which must be finite."""
    values = np.asarray(log_q(theta), float)
    if values.size != len(theta):
        raise ValueError(
            f"log_q: it gives {values.size} values for {len(theta)} draws; one for each is needed, "
            "the logarithm of their joint density."
        )
    if not np.isfinite(values).all():
        raise ValueError(
            "log_q: it is not finite at some draws of the approximation. Pass the log density "
            "from which these draws were made."
        )
    return values.ravel()
