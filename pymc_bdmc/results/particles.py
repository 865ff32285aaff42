"""Read the weighted particles of the runs on the real data, with the model that they are of."""

import json

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.version import VERSION
from pymc_bdmc.density.draws import all_draws, check_observed
from pymc_bdmc.density.identity import comparable_fingerprint
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.runs import LastParticles


def check_model_of_runs(
    dt: xr.DataTree, model: pm.Model, density: TemperedDensity, reader: str
) -> Reading:
    """Read a result; refuse one without real data, or of another model or other data.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`.
    model : pymc.Model
        The model of ``dt``.
    density : TemperedDensity
        Its density.
    reader : str
        Name of the function that reads ``dt``.

    Raises
    ------
    ValueError
        Names the variable and the remedy.
    """
    read = Reading.annealed(dt, reader)
    last, _ = read.last_particles, read.real  # errors without runs
    known = {rv.name for rv in density.model.unobserved_RVs}
    if unknown := sorted(set(map(str, last.states.data_vars)) - known):
        raise ValueError(f"dt: the model lacks its variables {unknown}. Is it a result of another?")
    check_observed("dt", dt, density.data)
    if (read.pymc_bdmc_version, read.pymc_version) == (VERSION, pm.__version__):
        then, now = json.loads(read.model), comparable_fingerprint(model)
        other = sorted(name for name in then if now and then[name] != now.get(name))
        if other:
            raise ValueError(
                "dt: it is a result of another model: the distribution, a parent, the transform or "
                f"the data of {other} differ. Pass the model of the run."
            )
    return read


def particle_values(last: LastParticles, model: pm.Model) -> dict[str, np.ndarray]:
    """Return the free variables of all particles on the model's own scale, run after run."""
    draws = xr.DataTree.from_dict({"posterior": last.states.rename(particle="draw")})
    names = [rv.name for rv in model.free_RVs]
    return dict(zip(names, all_draws("dt", draws, names, model), strict=True))
