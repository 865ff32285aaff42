"""The path from a reference that is fitted to the posterior."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import xarray as xr

from pymc_bdmc.base.arguments import check_positive
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.density.draws import as_idata, posterior_states
from pymc_bdmc.paths.contract import Path, PathEngine
from pymc_bdmc.reference.metric import Metric, estimate_metric
from pymc_bdmc.reference.nested import MOST_LATENT, MOST_OTHERS
from pymc_bdmc.reference.student import Reference, make_reference

FEWEST_FROM_DRAWS = 10
"""Least T from a fit to draws, which knows the posterior better than a fit to a pilot."""
FEWEST_TO_FIT, MOST_TO_FIT = 100, 2000
"""Numbers of draws that a fit asks for and that it uses."""


@dataclass(frozen=True, eq=False)
class FittedPath(Path):
    """The path from a reference r near the posterior, f_β(θ) = r(θ)^(1−β) (p(θ) p(y|θ))^β.

    A pilot on the path from the prior fits r to the data, a multivariate t distribution on the
    unconstrained scale, before any weighted run and without θ*. So all identities hold. With up to
    20 elements of θ, the density is maximised from some draws from r, and a narrow peak that this
    comes upon gets a component of its own. The path is shorter by far where the posterior has one
    mode; a mode that neither the pilot nor an optimisation came upon stays missed.

    With ``idata``, draws of the posterior by NUTS say, the r of the real data is fitted to the
    first half of every chain, and reverse runs on the real data start from states of the second
    half, as with ``posterior=idata``. Draws from r are then weighed, if they are so near the
    posterior that they need no annealing. If they are not, since the draws that were given are
    wrong or of a shape that no t distribution has, a warning says so; then the path is chosen, and
    the call costs, as without them. Where temperatures, schedule, kernel or a target for the gap
    are given, runs are annealed from r, whatever it is like; ten temperatures do if it is good.

    With ``latent``, draws are weighed from a reference that is normal in the variables of these
    names given the others. If these draws need annealing, the call goes on as by default, and the
    attribute ``path_reason`` says why. The program finds latent variables itself: those with a
    normal prior given the others, and the larger one of two that are multiplied. Name them if
    others are nearly normal too, such as the logarithms of log-normal effects.

    Parameters
    ----------
    idata : DataTree, Dataset or InferenceData, optional
        With draws of the free variables in its group ``posterior``, from the real data.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distribution: the fewer, the heavier its tails. By default as
        many as θ has elements, but at least 3 and at most 10, or more where draws are weighed and
        their weights become more even.
    latent : str or sequence of str, optional
        Names of free variables. The others may have up to 12 elements on the unconstrained scale,
        and these up to 10,000. Not with the other two arguments.

    Raises
    ------
    ValueError
        By `sample_bdmc`, before it samples: if a name is unknown, if none or too many elements are
        left among the others, if too many are latent, or if the call asks for annealing.

    References
    ----------
    Surjanovic, Syed, Bouchard-Côté and Campbell (2022), Parallel tempering with a variational
    reference. With T = 1 it is bridge sampling: Meng and Wong (1996).

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 100), observed=0.5)
    >>> dt = pm.sample_bdmc(model, path=bdmc.FittedPath(degrees_of_freedom=5), chains=4,
    ...                     temperatures=10, random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'fitted'

    Effects that are log-normal given their scale, which the program would not take as latent:

    >>> with pm.Model() as model:
    ...     effect = pm.LogNormal("effect", 0, pm.HalfNormal("scale"), shape=3)
    ...     y = pm.Poisson("y", 10 * effect, observed=[8, 15, 12])
    >>> dt = pm.sample_bdmc(model, path=bdmc.FittedPath(latent="effect"), simulate=None,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path_reason"].split(":")[0]
    '1 parameter, 3 latent variables'
    """

    idata: xr.DataTree | None = None
    degrees_of_freedom: float | None = None
    latent: Sequence[str] | None = None
    name = "fitted"
    is_fitted = True

    def __post_init__(self):
        check_positive(degrees_of_freedom=self.degrees_of_freedom)
        if self.latent is not None:
            if self.idata is not None or self.degrees_of_freedom is not None:
                raise ValueError(
                    "latent: idata and degrees_of_freedom are about a t distribution in all "
                    "variables; leave them out, or latent. Draws may be passed as posterior=idata."
                )
            names = (self.latent,) if isinstance(self.latent, str) else tuple(self.latent)
            object.__setattr__(self, "latent", names)
        if self.idata is not None:
            object.__setattr__(self, "idata", as_idata("idata", self.idata))
            object.__setattr__(self, "fewest_temperatures", FEWEST_FROM_DRAWS)

    @property
    def starts(self) -> xr.DataTree | None:
        """The second half of the draws of every chain."""
        return None if self.idata is None else _half(self.idata, 1)

    def check(self, engine: PathEngine) -> None:
        """Refuse also what cannot be the latent variables."""
        super().check(engine)
        if self.latent is not None:
            _check_latent(self.latent, engine)

    def reference(
        self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]
    ) -> Reference:
        """Return a t distribution with the mean and the shape of draws, or of what a pilot saw."""
        if self.idata is not None and dataset == 0:
            fit = _fit_to_draws(_half(self.idata, 0), engine)
        else:
            found = from_prior().fit
            assert found is not None, "an engine with references has only continuous elements"
            fit = found
        return make_reference(*fit, self.degrees_of_freedom)


def _check_latent(names: Sequence[str], engine: PathEngine) -> None:
    """Refuse names of latent variables that are not free, or leave none or too many others."""
    if not engine.has_gradient:
        raise ValueError("latent: needs the gradient of the density, which has none; leave it out.")
    model, shapes = engine.density.model, engine.density.shapes.values()
    sizes = {rv.name: prod(shape) for rv, shape in zip(model.free_RVs, shapes, strict=True)}
    observed = [rv.name for rv in model.observed_RVs]
    for name in names:
        if name not in sizes:
            kind = "observed" if name in observed else "no free variable of the model"
            raise ValueError(f"latent: {name!r} is {kind}; choose among {[*sizes]}.")
    others = {name: size for name, size in sizes.items() if name not in names}
    n_latent = sum(sizes.values()) - sum(others.values())
    if not names:
        raise ValueError(f"latent: name at least one of {[*sizes]}, or leave it out.")
    if not others:
        raise ValueError(
            f"latent: {[*names]} are all free variables; leave out those that are not normal given "
            "the others, such as scales."
        )
    if sum(others.values()) > MOST_OTHERS:
        raise ValueError(
            f"latent: {sum(others.values())} elements are left among the others, {others}, and at "
            f"most {MOST_OTHERS} can be; name more of them, or leave latent out."
        )
    if n_latent > MOST_LATENT:
        raise ValueError(
            f"latent: {[*names]} have {n_latent} elements, and at most {MOST_LATENT} can be "
            "latent; leave latent out."
        )


def _fit_to_draws(idata: xr.DataTree, engine: PathEngine) -> tuple[np.ndarray, Metric]:
    """Return mean and shape of draws on the unconstrained scale."""
    density = engine.density
    with engine.lock:
        density.set_data(density.data)
        n = max(FEWEST_TO_FIT, 2 * density.size)
        points = posterior_states("path", idata, n, density, most=MOST_TO_FIT)
    thetas = np.array([density.jitted.ravel(point) for point in points])
    return thetas.mean(axis=0), estimate_metric(thetas, np.zeros_like(thetas), for_moves=False)


def _half(idata: xr.DataTree, which: int) -> xr.DataTree:
    """Return one half of the draws of every chain, and the data that they are fitted to."""
    posterior = idata["posterior"].dataset
    if "draw" in posterior.dims:
        middle = posterior.sizes["draw"] // 2
        posterior = posterior.isel(draw=[slice(middle), slice(middle, None)][which])
    groups = {"posterior": posterior}
    if "observed_data" in idata.children:
        groups["observed_data"] = idata["observed_data"].dataset
    return xr.DataTree.from_dict(groups)
