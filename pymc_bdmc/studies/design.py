"""Ask before the data how much an experiment will tell, or how strong its Bayes factor will be."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.traversal import ancestors
from scipy.special import stdtrit

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_counts, check_positive, check_progressbar
from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.density.graph import without_initial_values
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import log_mean_exp
from pymc_bdmc.results.finding import frame
from pymc_bdmc.results.log_ml import decimals, log_ml
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.sampling import sample_bdmc
from pymc_bdmc.simulations import FromPrior, Simulated
from pymc_bdmc.studies.compare_models import real_run, refuse

NO_DATA_YET = (
    ("simulate", "real_data", "posterior", "target_error"), "the experiment has no data yet"
)  # fmt: skip
"""Options of `sample_bdmc` that ask for the real data, and why they are refused."""


@dataclass(frozen=True, eq=False, repr=False)
class InformationGain:
    """Result of `information_gain`; it prints as a sentence.

    Attributes
    ----------
    table : DataFrame
        A row for each simulated data set: ``lower`` and ``upper``, nats. The information in the
        data set lies between their expectations over runs.
    result : DataTree
        The runs behind it.
    """

    table: pd.DataFrame
    result: xr.DataTree

    @property
    def value(self) -> float:
        """Return the estimate, the middle between the mean bounds; nats."""
        return float(self.table.mean(axis=None))

    @property
    def error(self) -> float:
        """Return the standard error of the value over data sets, nats."""
        return float(self.table.mean(axis=1).sem())

    @property
    def interval(self) -> tuple[float, float]:
        """Return a 95 % interval between the lower bound and the upper one, each with its error.

        Both are means over independent data sets, by Student's t. The interval holds for many data
        sets if both columns of the table have finite variances over data sets. There is no
        certified interval: without an assumption on the tails none holds for the mean of unbounded
        terms (Bahadur and Savage 1956). Order statistics need no such assumption, but they bound
        the median, and the expected gain is the mean.
        """
        middle = self.table.mean()
        reach = stdtrit(len(self.table) - 1, 0.975) * self.table.sem()
        return float((middle - reach)["lower"]), float((middle + reach)["upper"])

    @property
    def summary(self) -> pd.DataFrame:
        """Return a row with the columns of `compare_designs`, but for the distance from a best."""
        columns = ["gain", "error", "lower", "upper", "lower_bound", "upper_bound"]
        bounds = self.table[["lower", "upper"]].mean()
        return pd.DataFrame([(self.value, self.error, *self.interval, *bounds)], columns=columns)

    def __repr__(self) -> str:
        row = self.summary.iloc[0]
        n = decimals(self.error)
        return (
            f"The expected information gain is {row['gain']:.{n}f} ± {row['error']:.{n}f} nats, "
            f"from {len(self.table)} simulated data sets. Runs bound it to "
            f"{row['lower_bound']:.{n}f} to {row['upper_bound']:.{n}f} in expectation; with the "
            f"errors of both, the 95 % interval is {row['lower']:.{n}f} to {row['upper']:.{n}f}, "
            "if the variance over data sets is finite."
        )


def information_gain(
    model: pm.Model | None = None,
    of: str | Sequence[str] | None = None,
    *,
    datasets: int = 100,
    **options: Any,
) -> InformationGain:
    r"""Return the expected information gain of the data about the parameters, in nats.

    It is :math:`E[\log p(y \mid \theta) - \log p(y)]` over parameters and data drawn from the
    model: the mean KL divergence of the posterior from the prior, and the mutual information of
    parameters and data. For every simulated data set the parameters behind it are known, so
    :math:`\log p(y \mid \theta)` is exact, and runs in both directions bound :math:`\log p(y)`
    [1]_. Forward runs give an upper bound of the gain in expectation, reverse ones a lower bound.
    Nested Monte Carlo has one of them only, and contrastive bounds [2]_ end at the logarithm of the
    number of contrasts.

    Parameters
    ----------
    model : pymc.Model, optional
        Its observed data are placeholders for their shape. Default: that of the ``with`` block.
    of : str or sequence of str, optional
        Free variables about which is asked, with all others integrated out. They may not depend on
        other variables a priori. Default: all.
    datasets : int, default 100
        Number of simulated data sets; the error falls with its square root.
    **options
        Passed to `sample_bdmc`.

    Returns
    -------
    InformationGain

    Raises
    ------
    ValueError
        If data cannot be simulated, for names that are no free variables or that depend on others,
        and for options about real data.

    References
    ----------
    .. [1] Grosse, Ghahramani and Adams (2015), Sandwiching the marginal likelihood using
       bidirectional Monte Carlo, Section 4. https://doi.org/10.48550/arXiv.1511.02543
    .. [2] Foster, Jankowiak, O'Meara, Teh and Rainforth (2020), A unified stochastic gradient
       approach to designing Bayesian-optimal experiments. https://doi.org/10.48550/arXiv.1911.00294

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), 1, observed=np.zeros(20))
    >>> found = bdmc.information_gain(model, datasets=10, random_seed=1, cores=1, progressbar=False)
    >>> bool(abs(found.value - np.log(21) / 2) < 4 * found.error)
    True
    """
    model = checked_model(model)
    check_counts(datasets=datasets)
    if datasets == 1:
        raise ValueError("datasets: a single one has no error; pass two or more.")
    refuse(options, *NO_DATA_YET)
    names = _asked_variables(model, of)
    options |= {"real_data": False}
    if of is None:
        dt = sample_bdmc(model, simulate=FromPrior(datasets), **options)
        given = _log_densities(model, dt, [rv.name for rv in model.observed_RVs])
        return InformationGain(_gains(given, given, _bounds(dt)), dt)
    seen = _observing(model, names)
    joint = sample_bdmc(seen, simulate=FromPrior(datasets), **options)
    sets = _sets(TemperedDensity(model), joint)
    dt = sample_bdmc(model, simulate=_Known(len(sets), sets), **options)
    given = _bounds(joint).sub(_log_densities(seen, joint, names), axis="index")
    return InformationGain(_gains(given["lower"], given["upper"], _bounds(dt)), dt)


@dataclass(frozen=True, eq=False)
class _Known(FromPrior):
    """Data sets that were simulated before, each with an exact sample of its posterior."""

    sets: Sequence[Simulated] = ()
    renews: ClassVar[bool] = False

    def simulate(
        self, density: TemperedDensity, entropy: Entropy, fit=None, first: int = 0
    ) -> list[Simulated]:
        """Return the data sets."""
        return list(self.sets)


def _asked_variables(model: pm.Model, of: str | Sequence[str] | None) -> list[str]:
    """Return the names of the variables asked about, if their information gain is defined."""
    check_simulable(model)
    free = {rv.name: rv for rv in model.free_RVs}
    if of is None:
        return list(free)
    names = [of] if isinstance(of, str) else list(of)
    if not names or not set(names) <= set(free):
        raise ValueError(f"of: {list(names)} are not among the free variables {list(free)}.")
    if set(names) == set(free):
        raise ValueError("of: these are all variables; leave it out.")
    for name in names:
        parents = [rv.name for rv in set(model.basic_RVs) & set(ancestors(free[name].owner.inputs))]
        if parents:
            raise ValueError(
                f"of: the prior of {name} depends on {', '.join(sorted(parents))}, so its marginal "
                "density is not known. Ask about these too."
            )
    return names


def _observing(model: pm.Model, names: Sequence[str]) -> pm.Model:
    """Return the model in which these variables are data too."""
    density = TemperedDensity(model)
    point, _ = density.prior.draw()
    values = density.constrain({name: value[None] for name, value in point.items()})
    with without_initial_values(model):
        return pm.observe(model, {name: values[name][0] for name in names})


def _sets(density: TemperedDensity, dt: xr.DataTree) -> list[Simulated]:
    """Return the simulated data sets of a result as data sets of a model."""
    simulated = dt["simulated"].dataset
    sets = []
    for d in range(simulated.sizes["dataset"]):
        one = {str(name): each.values for name, each in simulated.isel(dataset=d).items()}
        data = {name: np.asarray(one[name], y.dtype) for name, y in density.data.items()}
        point = density.unconstrain({rv.name: one[rv.name] for rv in density.model.free_RVs})
        sets.append(Simulated(point, data, "exact"))
    return sets


def _log_densities(model: pm.Model, dt: xr.DataTree, names: Sequence[str]) -> pd.Series:
    """Return the log density of observed variables given all others, by data set; nats."""
    density, found = TemperedDensity(model), []
    for each in _sets(density, dt):
        factors = dict(density.factors(each.point, each.data))
        found.append(sum(float(factors[name].sum()) for name in names))
    return pd.Series(found)


def _bounds(dt: xr.DataTree) -> pd.DataFrame:
    """Return lower and upper bounds of log ML in expectation, by finished data set; nats."""
    bounds = {}
    for each in Reading.of(dt).sets_of("simulated"):
        mass = each.mass.estimate
        ends = log_mean_exp(each.forward) + mass, mass - log_mean_exp(-each.reverse)
        bounds[each.dataset] = ends
    return pd.DataFrame.from_dict(bounds, orient="index", columns=["lower", "upper"])


def _gains(lower: pd.Series, upper: pd.Series, log_ml: pd.DataFrame) -> pd.DataFrame:
    """Return bounds of the information in each data set, from those of log p(y|θ) and log p(y)."""
    table = pd.DataFrame({"lower": lower - log_ml["upper"], "upper": upper - log_ml["lower"]})
    return table.dropna().rename_axis("dataset")


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
        those asked about; see `information_gain`.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def design(at):
    ...     with pm.Model() as model:
    ...         mean = pm.Normal("slope") * pm.Data("at", at)
    ...         pm.Normal("y", mean, 1, observed=np.zeros(len(at)))
    ...     return model
    >>> table = bdmc.compare_designs({"near": design([0.5, 1]), "far": design([1, 2])}, datasets=6,
    ...                              random_seed=1, cores=1, progressbar=False)
    >>> list(table.index)
    ['far', 'near']
    """
    if not isinstance(designs, Mapping) or len(designs) < 2:
        raise ValueError("designs: a mapping of names to two or more models is needed.")
    _check_designs(designs, of)
    found = {
        name: information_gain(model, of, random_seed=random_seed, **options)
        for name, model in designs.items()
    }
    order = sorted(found, key=lambda name: -found[name].value)
    table = pd.concat([found[name].summary for name in order])
    table.index = pd.Index(order, name="design")
    best = found[order[0]].table.mean(axis=1)
    behind = [best - found[name].table.mean(axis=1) for name in order]
    table[["behind", "behind_error"]] = [(each.mean(), each.sem()) for each in behind]
    return table


def _check_designs(designs: Mapping[str, pm.Model], of: str | Sequence[str] | None) -> None:
    """Raise an error if variables differ, or the shape or prior of those asked about."""
    first, variables = next(iter(designs)), None
    point: dict[str, np.ndarray] = {}
    priors: dict[str, np.ndarray] = {}
    for name, model in designs.items():
        model = checked_model(model)
        free = [rv.name for rv in model.free_RVs]
        variables = variables or free
        if free != variables:
            raise ValueError(
                f"designs: {name!r} has the free variables {free}, and {first!r} has {variables}. "
                "A design changes the data only."
            )
        asked, density = _asked_variables(model, of), TemperedDensity(model)
        drawn, _ = density.prior.draw()
        own = {value: drawn[value] for value, rv in density.titles.items() if rv in asked}
        point = point or own
        shapes = {value: each.shape for value, each in point.items()}
        other = [density.titles[k] for k, each in own.items() if each.shape != shapes.get(k)]
        if not other:
            found = dict(density.factors({**drawn, **point}))
            priors = priors or found
            other = [each for each in asked if not np.allclose(found[each], priors[each])]
        if other:
            raise ValueError(
                f"designs: {name!r} has another shape or prior of {', '.join(other)} than "
                f"{first!r}. A design changes the data only."
            )


_log = logger(__name__)


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
        return frame(rows, None, "size", "truth")

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
    progressbar: bool | str = True,
    **options: Any,
) -> Plan:
    """Return how strong the Bayes factor between two models will be, by the size of the experiment.

    Data are simulated from each model in turn, with parameters from its prior, and the log ML of
    both models is estimated on them. So the chance of strong evidence for the model that is true,
    and that of misleading evidence, are known before the data (Bayes factor design analysis [1]_).

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
    progressbar : bool or str, default True
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
    .. [1] Schönbrodt and Wagenmakers (2018), Bayes factor design analysis: planning for compelling
       evidence. https://doi.org/10.3758/s13423-017-1230-y

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> def effect(n):
    ...     with pm.Model() as model:
    ...         pm.Normal("y", pm.Normal("mean"), 1, observed=np.zeros(n))
    ...     return model
    >>> def null(n):
    ...     with pm.Model() as model:
    ...         pm.Normal("y", 0, 1, observed=np.zeros(n))
    ...     return model
    >>> models = {"effect": effect, "no effect": null}
    >>> found = bdmc.plan(models, [20], datasets=2, random_seed=1, cores=1, progressbar=False)
    >>> found.table.index.tolist()
    [(20, 'effect'), (20, 'no effect')]
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
    check_progressbar(progressbar)
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
        model = checked_model(model, may_be_null=True)
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
