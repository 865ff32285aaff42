"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available, and
imports PyMC only if something needs it. Public names are imported from the modules that
``__init__.pyi`` lists, at the first use.
"""

from lazy_loader import attach_stub as _attach_stub

from pymc_bdmc.base.hooks import when_imported as _when_imported
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.sampling import sample_bdmc

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
__version__ = VERSION


def _enter(pymc) -> None:
    """Make `sample_bdmc` a function of PyMC."""
    pymc.sample_bdmc = sample_bdmc
    # PyMC 6 has no list of its public names for it to stand in, so `help(pm)` has it in the text.
    mention = "sample_bdmc : bidirectional Monte Carlo, by pymc_bdmc; see help(pymc.sample_bdmc)."
    if pymc.__doc__ and mention not in pymc.__doc__:
        pymc.__doc__ += f"\n\n{mention}\n"


_when_imported("pymc", _enter)
