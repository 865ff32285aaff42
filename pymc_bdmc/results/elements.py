"""Pair the draws of a sampler with the particles of a run, element by element."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import xarray as xr

from pymc_bdmc.density.draws import as_idata, check_finite, check_observed, lacking, order_of_labels
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import LastParticles

ROUNDING = 1e-6
"""Relative range up to which an element is constant; draws may be in single precision."""
LEAST_DRAWS = 100
"""Smallest number of draws from which a distribution is judged."""


@dataclass(frozen=True)
class Elements:
    """Draws and particles with the same elements, in the same order.

    Attributes
    ----------
    labels : list of str
        Names such as ``theta[A, 1]``, with coordinates if there are any.
    shapes : dict of str to tuple
        Shapes of the variables, in the order of their elements.
    draws : ndarray of shape (chains, draws, elements)
    particles : ndarray of shape (runs, particles, elements)
    weights : ndarray of shape (runs, particles)
        They add up to 1.
    free : ndarray of bool, shape (elements,)
        Whether the element belongs to a free variable of the model.
    continuous : ndarray of bool, shape (elements,)
        Whether the element's variable is continuous.
    """

    labels: list[str]
    shapes: dict[str, tuple[int, ...]]
    draws: np.ndarray
    particles: np.ndarray
    weights: np.ndarray
    free: np.ndarray
    continuous: np.ndarray

    def values(self, source: np.ndarray) -> dict[str, np.ndarray]:
        """Split draws or particles by variable, one draw a row."""
        ends = np.cumsum([prod(shape) for shape in self.shapes.values()])
        parts = np.split(source.reshape(-1, source.shape[2]), ends[:-1], axis=1)
        return {
            name: part.reshape(-1, *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


def paired_elements(
    result: xr.DataTree | Reading,
    idata: Any,
    free: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
) -> Elements:
    """Return the elements of all variables that both the draws and the run have.

    Parameters
    ----------
    result : DataTree or Reading
        Of `sample_bdmc`, with runs on the real data.
    idata : DataTree, Dataset or InferenceData
        See `as_idata`.
    free : sequence of str, optional
        Free variables of the model. Default: those named in the result.
    var_names : sequence of str, optional
        Variables to compare. Default: all that both have, with all free ones.

    Raises
    ------
    ValueError
        If draws cannot be compared; the message names the variable and the remedy.
    """
    if var_names is not None and (isinstance(var_names, str) or not len(var_names)):
        raise ValueError(f"var_names: a list of names is needed, got {var_names!r}.")
    read = Reading.of(result)
    last = _last_particles(read)
    particles = last.states
    given = _posterior(idata)
    posterior = given["posterior"].dataset
    if read.observed:
        check_observed("idata", given, read.observed)
    free = last.free if free is None else free
    needed = free if var_names is None else var_names
    _check_names(particles, posterior, [str(name) for name in needed])
    wanted = list(particles.data_vars) if var_names is None else list(var_names)
    labels, shapes, draws, states, is_free, continuous = [], {}, [], [], [], []
    for name in [str(each) for each in wanted if each in posterior]:
        own = particles[name]
        if name not in needed and not (_is_finite(own) and _is_finite(posterior[name])):
            continue  # a Deterministic may be NaN in some states
        theirs = _values(name, posterior[name], own)
        found = list(_labels(name, own))
        labels += found
        shapes[name] = own.shape[2:]
        states.append(own.values.reshape(*own.shape[:2], -1).astype(float))
        draws.append(theirs.reshape(*theirs.shape[:2], -1).astype(float))
        is_free += [name in free] * len(found)
        continuous += [own.dtype.kind == "f"] * len(found)
    of_draws, of_runs = (np.concatenate(each, axis=-1) for each in (draws, states))
    _without_rounding(of_draws, of_runs)
    return Elements(
        labels, shapes, of_draws, of_runs,
        last.weights, np.array(is_free), np.array(continuous),
    )  # fmt: skip


def _without_rounding(draws: np.ndarray, particles: np.ndarray) -> None:
    """Make elements equal, in place, if they are constant up to rounding in both sources."""
    both = (draws, particles)
    low = np.min([each.min(axis=(0, 1)) for each in both], axis=0)
    high = np.max([each.max(axis=(0, 1)) for each in both], axis=0)
    constant = high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))
    for each in both:
        each[..., constant] = low[constant]


def _last_particles(read: Reading) -> LastParticles:
    if not np.isfinite(read.last_particles.weights).all():
        raise ValueError(
            "dt: every run on the real data has a weight of zero, so it has no draws to compare "
            "with; see bdmc.diagnose(dt)."
        )
    return read.last_particles


def _posterior(idata: Any) -> xr.DataTree:
    """Return enough draws by chain and draw, with the data that they are fitted to."""
    found = as_idata("idata", idata)
    sizes = found["posterior"].sizes
    n = sizes["chain"] * sizes["draw"]
    if n < LEAST_DRAWS:
        raise ValueError(
            f"idata: {n} draws are too few to judge; {LEAST_DRAWS} are needed, and some 2000 "
            "independent ones to call them good."
        )
    return found


def _check_names(particles: xr.Dataset, posterior: xr.Dataset, free: list[str]) -> None:
    known = [str(name) for name in posterior.data_vars]
    if unknown := [name for name in free if name not in particles]:
        raise ValueError(f"var_names: the run has no variables {unknown}.")
    missing = [name for name in free if name not in posterior]
    if missing:
        alone = " If not, var_names=[...] compares other variables alone."
        raise ValueError(lacking("idata", missing, known) + alone)
    if not set(known) & set(map(str, particles.data_vars)):
        raise ValueError(f"idata: the run has none of its variables {known}.")


def _values(name: str, drawn: xr.DataArray, own: xr.DataArray) -> np.ndarray:
    """Return the draws of a variable, in the order of the run's elements."""
    if not {"chain", "draw"} <= set(drawn.dims):
        raise ValueError(f"idata: its {name} lacks the dimension chain or draw.")
    dims = own.dims[2:]
    if set(drawn.dims) == {"chain", "draw", *dims}:
        drawn = drawn.transpose("chain", "draw", *dims)
        for dim in dims:
            if dim in drawn.coords and dim in own.coords:
                theirs, ours = drawn.get_index(dim), own.get_index(dim)
                drawn = drawn.isel({dim: order_of_labels("idata", name, theirs, ours)})
    values = drawn.transpose("chain", "draw", ...).values
    if values.shape[2:] != own.shape[2:]:
        raise ValueError(
            f"idata: its {name} has the shape {values.shape[2:]}, the run's {own.shape[2:]}. Is it "
            "a fit of another model?"
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"idata: its {name} is not numeric but {values.dtype}.")
    check_finite("idata", name, values)
    return values


def _is_finite(values: xr.DataArray) -> bool:
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def _labels(name: str, own: xr.DataArray) -> Iterator[str]:
    coords = [own.get_index(dim).astype(str) for dim in own.dims[2:]]
    for place in np.ndindex(*own.shape[2:]):
        inside = ", ".join(values[i] for values, i in zip(coords, place, strict=True))
        yield f"{name}[{inside}]" if place else name
