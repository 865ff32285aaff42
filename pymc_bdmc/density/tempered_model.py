"""Copy a PyMC model and give the copy an inverse temperature and data that can be replaced."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model.transform.optimization import freeze_dims_and_data

from pymc_bdmc.base.upstream import correct
from pymc_bdmc.density.forward_graph import INTERPRETED


class TemperedModel(pm.Model):
    """Copy of a PyMC model whose `logp` is log p(θ) + β ℓ(θ).

    Step methods, gradients and everything else that PyMC derives from ``model.logp()`` then target
    f_β. β and the observed data are shared inputs, so changing them recompiles nothing. Free
    variables, transforms, names, dims and coords are those of the original.

    Attributes
    ----------
    beta : shared scalar
        The inverse temperature.
    observed : dict of str to shared variable
        The observed data, by the name of the observed variable.
    """

    beta: pt.TensorVariable
    observed: dict[str, pt.TensorVariable]

    @classmethod
    def from_model(cls, model: pm.Model) -> "TemperedModel":
        """Copy ``model`` and give it an inverse temperature."""
        with without_initial_values(model), warnings.catch_warnings():
            # PyMC warns about GP objects of the old model, which are not used here.
            warnings.filterwarnings("ignore", "Detected variables likely created by GP")
            tempered = freeze_dims_and_data(model)
        # PyMC's own idiom for changing methods of a rebuilt model (see `freeze_model`).
        tempered.__class__ = cls
        tempered.check_bounds = model.check_bounds
        keep_order(tempered, model)
        for rv in tempered.basic_RVs:
            correct(rv)
        tempered.beta = pytensor.shared(np.array(1.0), name="beta")
        tempered.observed = {}
        for rv in tempered.observed_RVs:
            data = tempered.rvs_to_values[rv]  # constant, or a cast of one
            value = np.asarray(data.eval(mode=INTERPRETED))
            shared = pytensor.shared(value, name=f"{rv.name}_data", shape=value.shape)
            tempered.observed[rv.name] = tempered.rvs_to_values[rv] = shared
        return tempered

    def logp(self, vars=None, jacobian=True, sum=True):
        """Return the same as `pymc.Model.logp`; without ``vars`` the scalar log f_β."""
        if vars is not None or not sum:
            return super().logp(vars=vars, jacobian=jacobian, sum=sum)
        log_prior = super().logp(vars=self.free_RVs, jacobian=jacobian)
        # The switch makes β = 0 exact: 0·(−∞) counts as 0.
        return log_prior + pt.switch(self.beta > 0, self.beta * self.datalogp, 0.0)


def keep_order(copy: pm.Model, model: pm.Model) -> None:
    """Put the variables of a copy into their order in the model, which PyMC does not keep."""
    for variables in ("free_RVs", "observed_RVs", "potentials", "deterministics"):
        setattr(copy, variables, [copy[rv.name] for rv in getattr(model, variables)])


@contextmanager
def without_initial_values(model: pm.Model) -> Iterator[None]:
    """Hide initial values, which are not used here and which PyMC cannot always copy."""
    saved = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(saved))
        yield
    finally:
        model.rvs_to_initial_values.update(saved)
