"""Sessions for preparations that are tested alone."""

from pymc_bdmc.call.options import Options
from pymc_bdmc.call.session import Session


def session_of(engine, pool=None):
    """A session with an engine and perhaps workers, with the seed 1 and options by default."""
    return Session(Options(model=None, progressbar=False), engine, pool, 1, stop=None)
