"""Compare experiments by what they will tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_bdmc.density.refuse import checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.studies.information import asked_variables, information_gain, mean_and_error


def compare_designs(
    designs: Mapping[str, pm.Model],
    of: str | Sequence[str] | None = None,
    *,
    random_seed: int = 0,
    **options: Any,
) -> pd.DataFrame:
    """Compare experiments by their expected information gain.

    Models with the same free variables, in the same order, draw the same parameters, so their
    difference has a smaller error than either gain.

    Parameters
    ----------
    designs : mapping of str to pymc.Model
        Two or more models of the same parameters, by name.
    of : str or sequence of str, optional
        See `information_gain`.
    random_seed : int, default 0
        The same for every design.
    **options
        Passed to `information_gain`.

    Returns
    -------
    DataFrame
        Indexed by name, the largest gain first. Columns, in nats: ``gain`` and its ``error``; the
        ends ``lower`` and ``upper`` of its 95 % interval, with the assumption of `information_gain`
        on variances; ``lower_bound`` and ``upper_bound``, the means of its bounds; ``behind``, its
        distance from the first row, and the standard error of that distance, ``behind_error``.

    Raises
    ------
    ValueError
        For fewer than two designs, for other free variables in one of them, or another prior of
        those that are asked about; see `information_gain`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def design(at):
    ...     with pm.Model() as model:
    ...         pm.Normal("y", pm.Normal("slope") * np.array(at), 1, observed=np.zeros(len(at)))
    ...     return model
    >>> table = bdmc.compare_designs({"near": design([0.5, 1]), "far": design([1, 2])}, datasets=20,
    ...                              cores=1, progressbar=False)
    >>> list(table.index)
    ['far', 'near']
    """
    if not isinstance(designs, Mapping) or len(designs) < 2:
        raise ValueError("designs: a mapping of names to two or more models is needed.")
    free = {
        name: [rv.name for rv in checked_model(model).free_RVs] for name, model in designs.items()
    }
    first = next(iter(free))
    for name, variables in free.items():
        if variables != free[first]:
            raise ValueError(
                f"designs: {name!r} has the free variables {variables}, and {first!r} has "
                f"{free[first]}. A design changes the data only."
            )
    _check_priors(designs, of)
    found = {
        name: information_gain(model, of, random_seed=random_seed, **options)
        for name, model in designs.items()
    }
    order = sorted(found, key=lambda name: -found[name].value)
    table = pd.concat([found[name].summary for name in order])
    table.index = pd.Index(order, name="design")
    best = found[order[0]].table.mean(axis=1)
    behind = [mean_and_error(best - found[name].table.mean(axis=1)) for name in order]
    table[["behind", "behind_error"]] = behind
    return table


def _check_priors(designs: Mapping[str, pm.Model], of: str | Sequence[str] | None) -> None:
    """Raise an error if variables asked about differ in shape, or in prior density at a draw."""
    point: dict[str, np.ndarray] = {}
    first: dict[str, np.ndarray] = {}
    for name, model in designs.items():
        asked, density = asked_variables(model, of), TemperedDensity(model)
        drawn, _ = density.prior.draw()
        titles = {value: rv for value, rv in density.titles.items() if rv in asked}
        point = point or {value: drawn[value] for value in titles}
        shapes = {value: each.shape for value, each in point.items()}
        other = [rv for value, rv in titles.items() if drawn[value].shape != shapes.get(value)]
        if not other:
            found = dict(density.factors({**drawn, **point}))
            first = first or found
            other = [each for each in asked if not np.allclose(found[each], first[each])]
        if other:
            raise ValueError(
                f"designs: {name!r} has another shape or prior of {', '.join(other)} than "
                f"{next(iter(designs))!r}. A design changes the data only."
            )
