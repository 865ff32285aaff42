"""The simulations that have a name. A new one is a file beside this one, and an entry here."""

import logging
from collections.abc import Callable

from pymc_bdmc.base.arguments import check_choice
from pymc_bdmc.simulations.contract import Simulation
from pymc_bdmc.simulations.hyperparameters import HyperparametersIfAlike
from pymc_bdmc.simulations.posterior import FromPosterior
from pymc_bdmc.simulations.prior import FromPrior

_log = logging.getLogger("pymc.bdmc")

_NAMED = {each.name: each for each in (HyperparametersIfAlike, FromPosterior, FromPrior)}


def make_simulation(simulate: str | Simulation | None) -> Simulation | None:
    """Return the simulation of this name with default options; an object is returned unchanged.

    Raises
    ------
    ValueError
        For anything else.
    """
    if isinstance(simulate, Simulation | None):
        return simulate
    objects = [f"From{name.capitalize()}(...)" for name in _NAMED]
    more = *objects, "Matched(...)", "Given(point, data)", "None"
    check_choice("simulate", simulate, _NAMED, *more)
    return _NAMED[simulate]()


def if_possible[T](simulate: Callable[[], T], *, needed: bool) -> T | None:
    """Return what a function simulates, or None with a warning if data cannot be simulated.

    Parameters
    ----------
    simulate : callable
        Function without arguments. It may raise any exception: draws of the data call functions of
        the user.
    needed : bool
        Whether the call needs simulated data.

    Raises
    ------
    Exception
        The exception of the function, if simulated data are needed.
    """
    try:
        return simulate()
    except Exception as reason:
        if needed:
            raise
        _log.warning(
            "No data are simulated, so log ML is estimated, but the posterior draws are not "
            f"judged, as with simulate=None. ({reason})"
        )
        return None
