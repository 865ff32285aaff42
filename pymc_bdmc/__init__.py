"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available, and
imports PyMC only if something needs it.

How strongly do the data support a model?
    ``bdmc.log_ml(pm.sample_bdmc(model, simulate=None))``
Which of two models do they support?
    ``bdmc.compare_models({"a": a, "b": b})``
The same, with results that you have
    ``bdmc.bayes_factor(dt_a, dt_b)``
Is p equal to 0.5?
    ``bdmc.point_null(dt_a, {"p": 0.5}, model=a)``
How much does the prior matter?
    ``bdmc.sensitivity(dt_a, build, [1, 2, 5])``
Can the draws of this run be trusted?
    ``bdmc.verdict(pm.sample_bdmc(model))``
Can I trust the draws that I have?
    ``bdmc.verdict(pm.sample_bdmc(model, posterior=idata))``
How good is my ADVI?
    ``bdmc.distance(dt_a, approximation)``
How good is NUTS on my model?
    ``bdmc.verdict(pm.sample_bdmc(model, step=pm.NUTS))``
Is my sampler correct?
    ``bdmc.testing.check_invariance(pm.Metropolis, model)``
How much will an experiment tell?
    ``bdmc.information_gain(model)``
What do I write in a paper?
    ``bdmc.report({"a": dt_a, "b": dt_b})``

Here ``dt_a`` and ``dt_b`` are results of ``pm.sample_bdmc`` on two models, and ``build(scale)``
makes a model with that scale of a prior. ``__init__.pyi`` lists all public names, which are
imported from their modules at the first use.
"""

from lazy_loader import attach_stub as _attach_stub

from pymc_bdmc.base.hooks import when_imported as _when_imported
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.base.version import warn_if_newer as _warn_if_newer
from pymc_bdmc.sampling import sample_bdmc

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
__version__ = VERSION


def _enter(pymc) -> None:
    """Make `sample_bdmc` a function of PyMC."""
    _warn_if_newer(pymc.__version__)
    pymc.sample_bdmc = sample_bdmc
    # PyMC 6 has no list of its public names for it to stand in, so `help(pm)` has it in the text.
    mention = "sample_bdmc : bidirectional Monte Carlo, by pymc_bdmc; see help(pymc.sample_bdmc)."
    if pymc.__doc__ and mention not in pymc.__doc__:
        pymc.__doc__ += f"\n\n{mention}\n"


_when_imported("pymc", _enter)
