"""The path from a reference of the user's own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.base.arguments import check_positive
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.paths.contract import Path, PathEngine
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import Reference, make_reference


@dataclass(frozen=True, eq=False)
class ReferencePath(Path):
    """The path from a reference of your own: independent t distributions, stretched together.

    Parameters
    ----------
    location, scale : mapping of str to array_like
        Of every free variable on the unconstrained scale, by its name: of log σ for a positive
        σ, say. They may come from a fit to the real data, but not from the θ* of simulated ones.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distribution. By default as many as θ has elements, but at least
        3 and at most 10.

    Raises
    ------
    ValueError
        By `sample_bdmc`: if a variable is missing or unknown, has another shape, or a scale is not
        positive.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x", 0, 100), observed=0.5)
    >>> path = bdmc.ReferencePath(location={"x": 0.0}, scale={"x": 3.0})
    >>> dt = pm.sample_bdmc(model, path=path, chains=4, temperatures=10, simulate=None,
    ...                     random_seed=1, cores=1, progressbar=False)
    >>> dt.attrs["path"]
    'reference'
    """

    location: Mapping[str, ArrayLike]
    scale: Mapping[str, ArrayLike]
    degrees_of_freedom: float | None = None
    name = "reference"

    def __post_init__(self):
        check_positive(degrees_of_freedom=self.degrees_of_freedom)

    def check(self, engine: PathEngine) -> None:
        """Refuse also what does not fit the variables."""
        super().check(engine)
        self._made(engine)

    def reference(
        self, engine: PathEngine, dataset: int, from_prior: Callable[[], Tuning]
    ) -> Reference:
        """Return the same for all data."""
        return self._made(engine)

    def _made(self, engine: PathEngine) -> Reference:
        scale = self._flat("scale", engine)
        if not (scale > 0).all():
            raise ValueError(f"scale: must be positive, got {dict(self.scale)}.")
        shape = Metric(scale, np.zeros((0, len(scale))), np.zeros(0))
        return make_reference(self._flat("location", engine), shape, self.degrees_of_freedom)

    def _flat(self, argument: str, engine: PathEngine) -> np.ndarray:
        """Return the values of an argument as θ."""
        given, density = getattr(self, argument), engine.density
        names = [rv.name for rv in density.model.free_RVs]
        if set(given) != set(names):
            raise ValueError(f"{argument}: must give {names}, got {sorted(given)}.")
        point = {}
        for name, (value, shape) in zip(names, density.shapes.items(), strict=True):
            point[value] = np.asarray(given[name], float)
            if point[value].shape != shape or not np.isfinite(point[value]).all():
                raise ValueError(
                    f"{argument}: {name} must be finite and of shape {shape} on the unconstrained "
                    f"scale, got {given[name]!r}."
                )
        return density.jitted.ravel(point)
