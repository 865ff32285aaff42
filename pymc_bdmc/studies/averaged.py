"""Draw from the posterior of several models together, each by its probability."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base import logger
from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.density.refuse import model_of
from pymc_bdmc.results.compare import compare
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.studies.compare_models import ModelChoice

_log = logger(__name__)


def averaged(
    comparison: ModelChoice | Mapping[str, xr.DataTree],
    models: Mapping[str, pm.Model] | None = None,
    *,
    random_seed: RandomSeed = None,
) -> xr.DataTree:
    """Return posterior draws of several models together, each by its probability.

    Bayesian model averaging [1]_: the draws are from the mixture of the posteriors whose weights
    are the probabilities of the models, if all are equally probable beforehand. No draw is taken
    twice.

    Parameters
    ----------
    comparison : ModelChoice, or mapping of str to DataTree
        Result of `compare_models`, or results of `sample_bdmc` on the same data by name.
    models : mapping of str to pymc.Model, optional
        The models by the same names, to add predictions: the group ``posterior_predictive``, with a
        draw of the observed variables for each draw of the posterior.
    random_seed : int, sequence of int, SeedSequence or Generator, optional

    Returns
    -------
    DataTree
        Group ``posterior``, with the variables that all models with draws have in the same shape
        and with the same coordinates, by ``chain`` (one) and ``draw``, and with the coordinate
        ``model`` along ``draw``. Coordinates may be in another order. The log names the variables
        that differ. A model of little probability has no draws.

        Group ``models``: ``probability`` and ``probability_error``, one standard error, by
        ``model``.

    Raises
    ------
    ValueError
        If the log ML of a model cannot be trusted, if a model has no variables, if names differ, or
        if nothing is shared.

    References
    ----------
    .. [1] Hoeting, Madigan, Raftery and Volinsky (1999), Bayesian model averaging: a tutorial.
       https://doi.org/10.1214/ss/1009212519

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> models = {}
    >>> for name, mean in [("low", 0.0), ("high", 5.0)]:
    ...     with pm.Model() as models[name]:
    ...         y = pm.Normal("y", pm.Normal("b", mean), observed=2.3)
    >>> found = bdmc.compare_models(models, random_seed=1, cores=1, progressbar=False)
    >>> together = bdmc.averaged(found, models, random_seed=1)
    >>> sorted(together.children)
    ['models', 'posterior', 'posterior_predictive']
    >>> abs(together["models"]["probability"].sel(model="high").item() - 0.38) < 0.03
    True
    """
    if isinstance(comparison, ModelChoice):
        results, table = comparison.results, comparison.table
    else:
        table, results = compare(comparison), {n: [dt] for n, dt in comparison.items()}
    if wrong := list(table.index[~table["valid"]]):
        raise ValueError(f"comparison: the log ML of {wrong} cannot be trusted; leave them out.")
    if models is not None and set(models) != set(results):
        raise ValueError(f"models: {list(models)} are given, and {list(results)} are compared.")
    if null := [name for name, dts in results.items() if not Reading.of(dts[0]).n_draws]:
        raise ValueError(f"comparison: {null} have no free variables, so no draws; leave them out.")
    probability = table["probability"].to_numpy()
    rng = np.random.default_rng(entropy_of(random_seed))
    draws = {
        name: xr.concat([_stacked(dt["posterior"].dataset) for dt in results[name]], "sample")
        for name in table.index
    }
    sizes = np.array([each.sizes["sample"] for each in draws.values()])
    n = int(np.min(sizes[probability > 0] / probability[probability > 0]))
    ends = np.floor(np.cumsum(probability) * n + rng.random())  # by systematic resampling
    counts = np.minimum(np.diff(ends, prepend=0).astype(int), sizes)
    chosen = {
        name: draws[name].isel(sample=np.sort(rng.permutation(size)[:count]))
        for name, size, count in zip(table.index, sizes, counts, strict=True)
        if count
    }
    groups = {"posterior": _joined(list(chosen.values()))}
    if models is not None:
        predicted = [
            pm.sample_posterior_predictive(
                _by_draw(each), model_of(models[name]), progressbar=False, random_seed=rng
            )["posterior_predictive"].dataset
            for name, each in chosen.items()
        ]
        groups["posterior_predictive"] = _joined([*map(_stacked, predicted)])
    of_draw = "draw", np.repeat(list(chosen), counts[counts > 0])
    tree = xr.DataTree.from_dict(
        {name: group.assign_coords(model=of_draw) for name, group in groups.items()}
    )
    tree["models"] = xr.DataTree(_probabilities(table))
    return tree


def _stacked(draws: xr.Dataset) -> xr.Dataset:
    """Return the draws of all chains, one after the other."""
    return draws.drop_vars(["chain", "draw"]).stack(sample=("chain", "draw"), create_index=False)


def _joined(parts: list[xr.Dataset]) -> xr.Dataset:
    """Return draws of several models as one chain, with the variables that all have alike."""
    common = [name for name in parts[0] if all(name in each for each in parts)]
    differing = [name for name in common if len({_labels(each[name]) for each in parts}) > 1]
    reason = (
        f"comparison: shapes or coordinates of {differing} differ between the models, so their "
        "elements mean different things; give them the same ones to average them."
    )
    if not (shared := [name for name in common if name not in differing]):
        nothing = "comparison: there is no variable that all models have."
        raise ValueError(reason if differing else nothing)
    if differing:
        _log.warning(f"{reason} They are left out.")
    return _by_draw(
        xr.concat(
            [each[shared] for each in parts], "sample", join="outer", combine_attrs="drop_conflicts"
        )
    )


def _labels(values: xr.DataArray) -> frozenset:
    """Return the size and the labels of every dimension, in any order; else its positions."""
    inner = [dim for dim in values.dims if dim != "sample"]
    return frozenset((dim, values.sizes[dim], frozenset(values.get_index(dim))) for dim in inner)


def _by_draw(draws: xr.Dataset) -> xr.Dataset:
    found = draws.rename(sample="draw").expand_dims("chain")
    return found.transpose("chain", "draw", ...).assign_coords(
        chain=[0], draw=np.arange(found.sizes["draw"])
    )


def _probabilities(table: pd.DataFrame) -> xr.Dataset:
    """Return probabilities of models, with errors by the delta method from those of log ML."""
    p, errors = table["probability"].to_numpy(), table["error"].to_numpy()
    slopes = p[:, None] * (np.eye(len(p)) - p)  # of the softmax
    return xr.Dataset(
        {
            "probability": ("model", p),
            "probability_error": ("model", np.linalg.norm(slopes * errors, axis=1)),
        },
        coords={"model": list(table.index)},
    )
