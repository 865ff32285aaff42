"""Ask before the data how strong a Bayes factor an experiment of some size will give."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from pymc_bdmc.base.arguments import check_counts, check_positive
from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.density.graph import without_initial_values
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.results.log_ml import log_ml
from pymc_bdmc.simulations import FromPrior
from pymc_bdmc.studies.compare_models import real_run, refuse
from pymc_bdmc.studies.information import NO_DATA_YET

_log = logging.getLogger("pymc.bdmc")


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Result of `plan`; it prints as its table.

    Attributes
    ----------
    log_bayes_factor : DataArray of shape (number of sizes, 2, D)
        Log Bayes factor of the model that the data come from against the other, nats, by ``size``,
        ``truth`` and ``dataset``; NaN if no log ML can be trusted.
    error : DataArray of the same shape
        Standard errors of these, nats.
    strong : float
        Bayes factor that counts as strong evidence.
    """

    log_bayes_factor: xr.DataArray
    error: xr.DataArray
    strong: float

    @property
    def table(self) -> pd.DataFrame:
        """Return a row for each size and each model that is true.

        ``strong`` is the chance of strong evidence for it, ``misleading`` that of strong evidence
        for the other, each with the ends of a 95 % interval (Clopper and Pearson). ``low``,
        ``median`` and ``high`` are quantiles (5, 50 and 95 %) of the log Bayes factor for it, nats.
        ``unknown`` is the number of data sets that are left out: those without a log ML that can be
        trusted, and after Ctrl-C those that were not reached.
        """
        found, rows = self.log_bayes_factor, {}
        limit = np.log(self.strong)
        for size, truth in product(found["size"].values, found["truth"].values):
            each = found.sel(size=size, truth=truth).values
            known = each[~np.isnan(each)]
            ends = np.quantile(known, [0.05, 0.5, 0.95]) if known.size else [np.nan] * 3
            rows[int(size), str(truth)] = {
                **_chance("strong", known >= limit),
                **_chance("misleading", known <= -limit),
                **dict(zip(["low", "median", "high"], ends, strict=True)),
                "unknown": each.size - known.size,
            }
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(table.index, names=["size", "truth"])
        return table

    def __repr__(self) -> str:
        return repr(self.table.round(3))

    def _repr_html_(self) -> str:
        return self.table.round(3).to_html()


def plan(
    models: Mapping[str, Callable[[int], pm.Model]],
    sizes: Sequence[int],
    *,
    datasets: int = 40,
    strong: float = 10.0,
    random_seed: int = 0,
    progressbar: bool = True,
    **options: Any,
) -> Plan:
    """Return how strong the Bayes factor between two models will be, by the size of the experiment.

    Data are simulated from each model in turn, with parameters from its prior, and the log ML of
    both models is estimated on them. So the chance of strong evidence for the model that is true,
    and that of misleading evidence, are known before the data (Bayes factor design analysis).

    Parameters
    ----------
    models : mapping of str to callable
        Two functions by name. Each takes the size and returns the model, with placeholders for the
        observed data. Both have the same observed variables.
    sizes : sequence of int
        Increasing sizes of the experiment.
    datasets : int, default 40
        Number of data sets from each model at each size.
    strong : float, default 10
        Bayes factor from which evidence counts as strong, by Jeffreys (1961), Appendix B.
    random_seed : int, default 0
    progressbar : bool, default True
    **options
        Passed to `sample_bdmc`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If there are not two models, if sizes do not increase, if data cannot be simulated, or if
        the models have other observed variables.

    References
    ----------
    Schönbrodt and Wagenmakers (2018), Bayes factor design analysis: planning for compelling
    evidence.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def effect(n, width=1.0):
    ...     with pm.Model() as model:
    ...         pm.Normal("y", pm.Normal("mean", 0, width), 1, observed=np.zeros(n))
    ...     return model
    >>> models = {"effect": effect, "no effect": lambda n: effect(n, width=0.01)}
    >>> found = bdmc.plan(models, [5, 20], datasets=3, cores=1, progressbar=False)
    >>> found.table.shape
    (4, 10)
    """
    is_pair = isinstance(models, Mapping) and len(models) == 2
    if not is_pair or not all(map(callable, models.values())):
        raise ValueError(
            "models: two functions of the size that return models are needed, by name."
        )
    if np.ndim(sizes) != 1 or not len(sizes) or any(np.diff(sizes) <= 0):
        raise ValueError(f"sizes: a list of increasing sizes is needed, got {sizes!r}.")
    check_counts(datasets=datasets, **{f"sizes[{i}]": size for i, size in enumerate(sizes)})
    check_positive(strong=strong)
    refuse(options, *NO_DATA_YET)
    built = {size: {name: build(size) for name, build in models.items()} for size in sizes}
    built = {size: _copied(size, pair) for size, pair in built.items()}
    names = list(models)
    values, errors = np.full((2, len(sizes), 2, datasets), np.nan)
    places = list(product(enumerate(sizes), enumerate(names)))
    rows = {f"{truth}, {size}": datasets for (_, size), (_, truth) in places}
    with (
        ChainProgress(rows, progressbar, "Data sets", "log BF") as progress,
        ExitStack() as at_end,
        suppress(KeyboardInterrupt),
    ):
        # Leave out the log of the calls, of which there are hundreds, but not their warnings.
        at_end.callback(_log.setLevel, _log.level)
        _log.setLevel(logging.WARNING)
        for (i, size), (j, truth) in places:
            entropy = [random_seed, i, j]
            both = built[size][truth], built[size][names[1 - j]]
            sets = FromPrior(datasets).simulate(TemperedDensity(both[0]), entropy)
            for d, each in enumerate(sets):
                seed = stream(entropy, Purpose.SIMULATE, d)
                own, other = (_log_ml(model, each.data, seed, options) for model in both)
                values[i, j, d] = own.value - other.value
                errors[i, j, d] = np.hypot(own.error, other.error)
                progress.advance(f"{truth}, {size}", 1, values[i, j, d])
    if np.isnan(values).all():
        raise KeyboardInterrupt(NOTHING_FINISHED)
    coords = {"size": list(sizes), "truth": names, "dataset": range(datasets)}
    return Plan(xr.DataArray(values, coords), xr.DataArray(errors, coords), strong)


def _copied(size: int, pair: Mapping[str, pm.Model]) -> dict[str, pm.Model]:
    """Return copies, whose data may be replaced, if data can be simulated and are alike."""
    shapes, copies = {}, {}
    for name, model in pair.items():
        checked_model(model, may_be_null=True)
        check_simulable(model)
        shapes[name] = {rv.name: rv.type.shape for rv in model.observed_RVs}
        with without_initial_values(model):
            copies[name] = model.copy()
    (first, ours), (second, theirs) = shapes.items()
    if ours != theirs:
        raise ValueError(
            f"models: at size {size}, {first!r} observes {ours} and {second!r} observes {theirs}; "
            "both must have the same observed variables."
        )
    return copies


def _log_ml(model: pm.Model, data: Mapping[str, np.ndarray], seed: Any, options: dict):
    """Replace a model's data by others of the same shape; return log ML, NaN if it has none."""
    for rv in model.observed_RVs:
        model.rvs_to_values[rv] = pt.constant(data[rv.name], name=rv.name)
    return log_ml(real_run(model, random_seed=seed, progressbar=False, **options))


def _chance(name: str, happened: np.ndarray) -> dict[str, float]:
    """Return a share and its interval as columns; nothing is known without data sets."""
    from scipy.stats import binomtest  # slow to import

    if not happened.size:
        return {name: np.nan, f"{name}_low": 0.0, f"{name}_high": 1.0}
    test = binomtest(int(happened.sum()), happened.size)
    low, high = test.proportion_ci(0.95)
    return {name: float(happened.mean()), f"{name}_low": low, f"{name}_high": high}
