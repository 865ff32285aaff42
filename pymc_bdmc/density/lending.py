"""Reuse the compiled densities of earlier calls while their model is unchanged."""

import threading
from weakref import WeakKeyDictionary

import pymc as pm
from pymc.pytensorf import resolve_backend_compile_kwargs

from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.identity import fingerprint, replaceable_data, snapshot
from pymc_bdmc.density.tempered import TemperedDensity

MOST_KEPT = 4
"""Number of models whose density is kept (the last ones); each keeps a copy of its data."""

_kept: WeakKeyDictionary[pm.Model, tuple[tuple, TemperedDensity]] = WeakKeyDictionary()
_lock = threading.Lock()


class Loan:
    """Density for one call: that of an earlier call if the model is unchanged, else a new one.

    Unchanged is the same `pymc.Model` object whose graphs have the same operations, constants and
    values of shared variables (`pymc.Data`, lengths of dims), each compared by content; the same
    variables, names, dims, coordinates and transforms; the same ``check_bounds``, PyTensor
    ``floatX`` and backend. So a new length, another variable, another covariate or an array that
    its owner wrote to give a new density. Other observed data of the same shape do not, unless
    something else in the model uses them. A model with code of the user's own, such as
    `pymc.CustomDist` or an operation that is neither PyMC's nor PyTensor's, is prepared anew in
    every call, since what that code refers to cannot be compared; so is every model where
    ``compile_kwargs`` are given.

    A density is used by one call at a time, since it holds the data on which it is evaluated; a
    second call at the same time gets its own.

    Parameters
    ----------
    model : pymc.Model
    backend : str, optional
        Backend of PyTensor, as in `sample_bdmc`.
    compile_kwargs : dict, optional
        As in `sample_bdmc`.

    Attributes
    ----------
    density : TemperedDensity
        Density with the data of the model.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.density.lending import Loan
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> first = Loan(model)
    >>> Loan(model).density is first.density
    False
    >>> first.give_back()
    >>> Loan(model).density is first.density
    True
    """

    @alone
    def __init__(
        self, model: pm.Model, backend: str | None = None, compile_kwargs: dict | None = None
    ):
        self._model = model
        self._seen = None if compile_kwargs else snapshot(model, backend)
        with _lock:
            kept = _kept.pop(model, None)
        if kept and kept[0] == self._seen:
            self.density = kept[1]
            self.density.observe({**self.density.data, **replaceable_data(model)})
            self.density.reset()
        else:
            self.density = TemperedDensity(
                model, resolve_backend_compile_kwargs(backend, compile_kwargs)
            )
        self.density.check()

    @property
    def fingerprint(self) -> dict[str, str]:
        """Return a hash of each variable; empty if the model cannot be compared."""
        return {} if self._seen is None else fingerprint(self._model)

    def give_back(self) -> None:
        """Return the density for the next call, in its initial state; not called after an error."""
        if self._seen is None:
            return
        self.density.reset()
        with _lock:
            _kept[self._model] = self._seen, self.density
            if len(_kept) > MOST_KEPT:
                del _kept[next(iter(_kept))]  # the oldest
