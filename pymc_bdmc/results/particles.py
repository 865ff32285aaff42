"""Read the weighted particles of the runs on the real data, alone or beside draws of a sampler."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base import VERSION
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.compiled import NoGradient, NotJittable
from pymc_bdmc.density.draws import (
    all_draws,
    as_idata,
    check_finite,
    check_observed,
    lacking,
    order_of_labels,
)
from pymc_bdmc.density.identity import comparable_fingerprint
from pymc_bdmc.density.refuse import angles, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import weighted_average
from pymc_bdmc.results.reading import LastParticles, Reading

LEAST_DRAWS = 100
"""Smallest number of draws from which a distribution is judged."""


def expectation(dt: xr.DataTree, name: str) -> xr.Dataset:
    """Estimate the posterior mean of a variable from the weighted runs on the real data.

    The last states of forward runs only approximate the posterior, but their average weighted by w
    estimates its mean for any schedule, by Crooks' relation (Favaro et al. 2015, Eq. 11).

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, with runs on the real data.
    name : str
        A variable of the group ``particles``.

    Returns
    -------
    Dataset
        ``mean`` and ``error``, one standard error, with the dimensions and coordinates of the
        variable and in its units; attributes ``effective_sample_size``, ``valid``, whether the
        weights pass the check of `evidence`, and ``reason``, what it found. NaN if every weight is
        zero.

    Raises
    ------
    ValueError
        If there are no runs on the real data, or no such variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> states = ("chain", "particle", "day"), np.array([[[0.0, 2.0]], [[1.0, 4.0]]])
    >>> weights = ("chain", "particle"), np.array([[0.25], [0.75]])
    >>> particles = xr.Dataset(dict(x=states), coords=dict(bdmc_weight=weights))
    >>> dt = xr.DataTree.from_dict(dict(particles=particles))
    >>> bdmc.expectation(dt, "x")["mean"].values
    array([0.75, 3.5 ])
    """
    last = Reading.of(dt).last_particles
    if name not in last.states:
        known = sorted(map(str, last.states.data_vars))
        raise ValueError(f"{name!r} is not among the variables of the posterior: {known}.")
    states = last.states[name]
    shares, log_weights = last.within_runs
    within = xr.DataArray(shares, dims=("chain", "particle"))
    # Each run counts as one value, since its particles are not independent.
    means = states.where(within > 0, 0.0).weighted(within).mean("particle")
    average = weighted_average(log_weights, means.values)
    like = states.isel(chain=0, particle=0, drop=True)
    found = xr.Dataset(
        {"mean": like.copy(data=average.value), "error": like.copy(data=average.error)}
    )
    names = ("effective_sample_size", "valid", "reason")
    return found.assign_attrs({name: getattr(average, name) for name in names})


def runs_and_density(
    dt: xr.DataTree, model: pm.Model, reader: str
) -> tuple[Reading, TemperedDensity]:
    """Read a result of a model; refuse one without real data, or of another model or data."""
    model = checked_model(model)
    density, read = TemperedDensity(model).check(), Reading.annealed(dt, reader)
    last, _ = read.last_particles, read.real  # errors without runs
    known = {rv.name for rv in density.model.unobserved_RVs}
    if unknown := sorted(set(map(str, last.states.data_vars)) - known):
        raise ValueError(f"dt: the model lacks its variables {unknown}. Is it a result of another?")
    check_observed("dt", dt, density.data)
    if (read.pymc_bdmc_version, read.pymc_version) == (VERSION, pm.__version__):
        then, now = json.loads(read.model), comparable_fingerprint(model)
        other = sorted(name for name in then if now and then[name] != now.get(name))
        if other:
            raise ValueError(
                "dt: it is a result of another model: the distribution, a parent, the transform or "
                f"the data of {other} differ. Pass the model of the run."
            )
    return read, density


def particle_values(last: LastParticles, model: pm.Model) -> dict[str, np.ndarray]:
    """Return the free variables of all particles on the model's own scale, run after run."""
    draws = xr.DataTree.from_dict({"posterior": last.states.rename(particle="draw")})
    names = [rv.name for rv in model.free_RVs]
    return dict(zip(names, all_draws("dt", draws, names, model), strict=True))


class Unconstrained:
    """log p(θ, y) of rows θ, with Jacobians of transforms, by the fastest functions there are."""

    def __init__(self, density: TemperedDensity, gradient: bool = False):
        self.layout, self._density = density.jitted, density
        with suppress(NotJittable):  # else PyTensor evaluates the density, more slowly
            _ = self.layout.with_gradient if gradient else self.layout.without_gradient

    def rows(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return θ, one draw a row; elements are infinite or NaN at the edge of the support."""
        points = [
            self._density.unconstrain(dict(zip(values, each, strict=True)))
            for each in zip(*values.values(), strict=True)
        ]
        return np.array([self.layout.ravel(point) for point in points])

    def log_joint(self, theta: np.ndarray) -> np.ndarray:
        """Return log p(θ, y) of rows in nats, NaN for rows that are not finite."""
        found = np.full(len(theta), np.nan)
        finite = np.flatnonzero(np.isfinite(theta).all(axis=1))
        for place, point in zip(finite, self._points(theta[finite]), strict=True):
            found[place] = self._density.log_joint(point, self._density.data)
        return found

    @property
    def labels(self) -> np.ndarray:
        """Return names of the elements of θ, such as ``b[2]``."""
        named = zip(self.layout.titles.values(), self.layout.shapes.values(), strict=True)
        return np.array(
            [f"{n}{list(at) if at else ''}" for n, shape in named for at in np.ndindex(*shape)]
        )

    @property
    def is_smooth(self) -> np.ndarray:
        """Return which elements of θ are continuous and on no circle."""
        circles = [rv.name for rv in angles(self.layout.model)]
        is_continuous = np.arange(self.layout.size) < self.layout.n_continuous
        return is_continuous & ~self.layout.elements_of(circles)

    def scores(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(θ, y) and its gradient at finite rows, or raise `NoGradient`.

        The gradient is 0 in discrete elements. Both are NaN if log p cannot be evaluated.
        """
        values, found = np.empty(len(theta)), np.zeros(theta.shape)
        moving, flat, density = found[:, : self.layout.n_continuous], self.layout, self._density
        try:
            function, data = flat.with_gradient, flat.ravel_data(density.data)
            rows, interval = np.ascontiguousarray(theta), np.array([0.0, 1.0])
            _fill(function, rows, data, interval, values, moving)
        except NoGradient:
            raise
        except NotJittable:
            values = self.log_joint(theta)
            density.set_beta(1.0)
            for row, point in zip(moving, self._points(theta), strict=True):
                parts = density.gradient(point, density.data).values()
                row[:] = np.concatenate([*map(np.ravel, parts)])
        return values, found

    def _points(self, theta: np.ndarray) -> Iterator[Point]:
        """Yield the rows as points."""
        points = self.layout.unravel(theta)
        for row in range(len(theta)):
            yield {name: values[row] for name, values in points.items()}


@njit(cache=True)
def _fill(function, thetas, data, interval, values, gradients):
    """Write log p(θ, y) and its gradient at every row."""
    of_prior, of_data = np.empty(gradients.shape[1]), np.empty(gradients.shape[1])
    for i in range(len(thetas)):
        log_prior, ell = function(thetas[i], data, interval, of_prior, of_data)
        values[i] = log_prior + ell
        for j in range(gradients.shape[1]):
            gradients[i, j] = of_prior[j] + of_data[j]


@dataclass(frozen=True)
class Elements:
    """Draws of a sampler and particles of a run with the same elements, in the same order."""

    labels: list[str]  # names such as `theta[A, 1]`, with coordinates if there are any
    shapes: dict[str, tuple[int, ...]]  # shapes of the variables, in the order of their elements
    draws: np.ndarray  # shape (chains, draws, elements)
    particles: np.ndarray  # shape (runs, particles, elements)
    weights: np.ndarray  # shape (runs, particles); they add up to 1
    free: np.ndarray  # whether elements belong to a free variable of the model
    continuous: np.ndarray  # whether the variables of elements are continuous

    @property
    def n_draws(self) -> int:
        """Return the number of draws in all chains."""
        return self.draws.shape[0] * self.draws.shape[1]

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
    """Return the elements of draws and run, which both need the ``free`` variables."""
    if var_names is not None and (isinstance(var_names, str) or not len(var_names)):
        raise ValueError(f"var_names: a list of names is needed, got {var_names!r}.")
    read = Reading.of(result)
    last = read.last_particles
    if not np.isfinite(last.weights).all():
        raise ValueError(
            "dt: every run on the real data has a weight of zero, so it has no draws to compare "
            "with; see bdmc.diagnose(dt)."
        )
    given = as_idata("idata", idata)
    n = given["posterior"].sizes["chain"] * given["posterior"].sizes["draw"]
    if n < LEAST_DRAWS:
        raise ValueError(
            f"idata: {n} draws are too few to judge; {LEAST_DRAWS} are needed, and some 2000 "
            "independent ones to call them good."
        )
    if read.observed:
        check_observed("idata", given, read.observed)
    particles, posterior = last.states, given["posterior"].dataset
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
        shapes[name] = own.shape[2:]
        states.append(own.values.reshape(*own.shape[:2], -1).astype(float))
        draws.append(theirs.reshape(*theirs.shape[:2], -1).astype(float))
        coords = [own.get_index(dim).astype(str) for dim in own.dims[2:]]
        for place in np.ndindex(*own.shape[2:]):
            inside = ", ".join(values[i] for values, i in zip(coords, place, strict=True))
            labels.append(f"{name}[{inside}]" if place else name)
            is_free.append(name in free)
            continuous.append(own.dtype.kind == "f")
    both = np.concatenate(draws, axis=-1), np.concatenate(states, axis=-1)
    _without_rounding(*both)
    return Elements(labels, shapes, *both, last.weights, np.array(is_free), np.array(continuous))


def _without_rounding(*sources: np.ndarray) -> None:
    """Make elements equal, in place, if they are constant up to rounding in all sources."""
    low = np.min([each.min(axis=(0, 1)) for each in sources], axis=0)
    high = np.max([each.max(axis=(0, 1)) for each in sources], axis=0)
    # Draws may be in single precision.
    constant = high - low <= 1e-6 * np.maximum(np.abs(low), np.abs(high))
    for each in sources:
        each[..., constant] = low[constant]


def _check_names(particles: xr.Dataset, posterior: xr.Dataset, free: list[str]) -> None:
    if unknown := [name for name in free if name not in particles]:
        raise ValueError(f"var_names: the run has no variables {unknown}.")
    missing = {name: particles[name].shape[2:] for name in free if name not in posterior}
    if missing:
        alone = " If not, var_names=[...] compares other variables alone."
        raise ValueError(lacking("idata", missing, posterior, particles) + alone)
    if not set(posterior) & set(particles):
        raise ValueError(f"idata: the run has none of its variables {list(posterior)}.")


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
