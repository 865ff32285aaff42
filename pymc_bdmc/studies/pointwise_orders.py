"""Predictive densities of observations in several orders, since one order favours the late ones."""

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.paths import DataPath
from pymc_bdmc.results.compare import pointwise
from pymc_bdmc.sampling import sample_bdmc


def pointwise_orders(
    model: pm.Model, orders: int = 4, *, random_seed: RandomSeed = None, **options: Any
) -> pd.DataFrame:
    """Return log p(y_i | those before it) of every observation, in several orders of the data.

    In one order the first observations are predicted from the prior and the last ones from nearly
    all data. An observation that is a surprise wherever it comes decides; one that is a surprise in
    some orders only was early there.

    Parameters
    ----------
    model : pymc.Model
        Model whose observations are independent given its variables; see `DataPath`.
    orders : int, default 4
        Number of orders: the one of the data, and random ones.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the orders and of all runs.
    **options
        Passed to `sample_bdmc`, such as ``chains`` or ``cores``.

    Returns
    -------
    DataFrame
        A row for each observation. In nats: a column for each order, by its number; ``mean`` over
        the orders, ``error`` of this mean by the runs, and ``spread``, the standard deviation over
        orders. ``valid``: whether it is in every order. ``attrs["log_ml"]`` has log ML by order;
        these are estimates of the same number.

    Raises
    ------
    ValueError
        If the observations cannot come one after the other, or ``orders`` is no number of orders.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    >>> table = bdmc.pointwise_orders(model, orders=2, chains=8, random_seed=1, cores=1,
    ...                               progressbar=False)
    >>> int(table["mean"].idxmin())  # the third observation is a surprise in both
    2
    """
    check_counts(orders=orders)
    entropy, path, tables = entropy_of(random_seed), DataPath(), []
    for k in range(orders):
        seed = stream(entropy, Purpose.ORDERS, k)
        dt = sample_bdmc(model, path=path, simulate=None, random_seed=seed, **options)
        tables.append(pointwise(dt))
        rng = np.random.default_rng(stream(entropy, Purpose.ORDERS, orders + k))
        path = DataPath(order=rng.permutation(len(tables[0])).tolist())
    aligned = [table.loc[tables[0].index] for table in tables]
    values = pd.concat({k: table["value"] for k, table in enumerate(aligned)}, axis=1)
    errors = np.array([table["error"] for table in aligned])
    found = values.assign(
        mean=values.mean(axis=1),
        error=np.sqrt((errors**2).sum(axis=0)) / orders,
        spread=values.std(axis=1, ddof=1) if orders > 1 else np.nan,
        valid=np.all([table["valid"] for table in aligned], axis=0),
    )
    found.attrs["log_ml"] = values.sum().tolist()
    return found
