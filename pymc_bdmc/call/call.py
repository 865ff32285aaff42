"""The last two stages of a campaign on a PyMC model: rounds of annealing, and their result."""

import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.call.opened import Campaign
from pymc_bdmc.call.prepared import Prepared
from pymc_bdmc.call.rounds import Round
from pymc_bdmc.call.tree import (
    annealed_groups,
    model_groups,
    pilot_variables,
    rounds_dataset,
    scouts_dataset,
)
from pymc_bdmc.density.identity import comparable_fingerprint
from pymc_bdmc.density.refuse import constraints
from pymc_bdmc.density.structure import hard_variables
from pymc_bdmc.density.support import undefined
from pymc_bdmc.results.agreement import agreement, agreement_dataset
from pymc_bdmc.results.attributes import run_attributes
from pymc_bdmc.results.checks.integrity import undefined_far
from pymc_bdmc.results.convert import observed_dataset
from pymc_bdmc.results.log_ml import write_log_ml
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.simulations import FromPosterior, Simulated, Simulation

_log = logging.getLogger("pymc.bdmc")


def finish(campaign: Campaign, prepared: Prepared) -> xr.DataTree:
    """Run all rounds; return the result, with the judgement of the caller's draws.

    After Ctrl-C what is finished is there. What to doubt in the result is logged.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C comes before any run is finished.
    """
    result = partial(to_datatree, campaign, prepared)
    rounds = campaign.session.anneal(prepared.runs, result)
    dt = result(rounds)
    dt.attrs |= _undefined(campaign, rounds[-1], dt)
    if campaign.request.judged is not None:
        _judge(dt, campaign.request.judged, campaign.request.model)
    write_log_ml(dt)  # it is withheld if runs miss a part that given draws show, or that is NaN
    if told := undefined_far(Reading.of(dt)):
        _log.info(told)
    return campaign.session.finish(dt)


def to_datatree(campaign: Campaign, prepared: Prepared, rounds: Sequence[Round]) -> xr.DataTree:
    """Return the rounds so far as a DataTree."""
    last, density, target = rounds[-1], campaign.density, campaign.request.limits.target_gap
    pilots = partial(pilot_variables, last, in_turn=prepared.path.in_turn)
    seed = stream(campaign.session.entropy, Purpose.POSTERIOR)
    starts = campaign.starts if "real_reverse" in last.runs else []
    with campaign.engine.lock:  # it holds the data of one run or another
        groups = {"observed_data": observed_dataset(density)}
        groups |= annealed_groups(last, pilots)
        groups |= model_groups(density, last, starts, seed, prepared.runs.plan.particles)
    if scouted := prepared.preparation.scouted(0):
        groups["scouts"] = scouts_dataset(scouted)
    dt = xr.DataTree.from_dict(groups | {"rounds": rounds_dataset(rounds, target)})
    dt.attrs |= _attributes(campaign, prepared, rounds)
    write_log_ml(dt)
    return dt


def _attributes(campaign: Campaign, prepared: Prepared, rounds: Sequence[Round]) -> dict:
    """Return what the result says of the call and of the run."""
    request, last = campaign.request, rounds[-1]
    simulation, first = request.simulation, next(iter(last.simulated), None)
    entropy, started = campaign.session.entropy, campaign.compiled
    attrs = run_attributes(last.schedule, entropy, started, last.interrupted)
    has_target = request.limits.target_gap is not None
    return attrs | {
        **hard_variables(request.model),
        "peaks": prepared.runs.sides[0].tuning.peaks,
        "knows_tails": int(prepared.preparation.knows_tails),
        "weighs_real": int(prepared.preparation.weighs_real),
        "unreached": ", ".join(prepared.preparation.unreached),
        **constraints(request.model),
        "model": json.dumps(comparable_fingerprint(request.model)),
        "step": prepared.preparation.kernel,
        "kernels": ", ".join(campaign.engine.kernel_names.names),
        "is_compiled": int(campaign.engine.kernel_names.is_compiled),
        "path": prepared.path.name,
        "path_reason": prepared.reason,
        "heavy_tail": prepared.preparation.heavy_tail if prepared.path.is_fitted else 0.0,
        "doubt": prepared.preparation.doubt if prepared.path.is_fitted else "",
        **({"row_order": prepared.path.order} if prepared.path.order else {}),
        "particles": prepared.runs.plan.particles,
        "simulate": _kind_of(simulation, first),
        "upper_bound": first.status if first else "none",
        "hyperparameters": ", ".join(first.hyperparameters if first else []),
        "burn_in": max((each.burn_in for each in last.simulated), default=0),
        "rounds": sum(not each.confirms for each in rounds) if has_target else 0,
        **{f"gradients_{stage}": n for stage, n in prepared.preparation.gradients.items()},
        "pymc_version": pm.__version__,
        "preparation_time": campaign.compiled - campaign.started,
    }


def _undefined(campaign: Campaign, last: Round, dt: xr.DataTree) -> dict[str, str | float]:
    """Return where log p is NaN on the real data, as attributes; nothing if nowhere."""
    if not (campaign.engine.meets_undefined and "posterior" in dt.children):
        return {}
    density, seed = campaign.density, stream(campaign.session.entropy, Purpose.UNDEFINED)
    ends = [last.ends[place][0] for place in sorted(last.ends)]
    states = {name: np.concatenate([each[name] for each in ends]) for name in ends[0]}
    weights = np.ravel(cast(xr.DataArray, dt["particles"]["bdmc_weight"]))
    with campaign.engine.lock:
        density.set_data(density.data)
        found = undefined(density, states, weights / weights.sum(), np.random.default_rng(seed))
    if not found.names:
        return {}
    return {
        "undefined": ", ".join(found.names),
        "undefined_prior": found.prior,
        "undefined_posterior": found.posterior,
    }


def _kind_of(simulation: Simulation | None, first: Simulated | None) -> str:
    """Return the name of the kind of simulated data; the default chooses one by the real data."""
    if simulation is None or first is None:
        return "none"
    return simulation.name if first.real is None else FromPosterior.name


def _judge(dt: xr.DataTree, judged: xr.DataTree, model: pm.Model) -> None:
    """Write the group ``agreement``: all of the caller's draws against those of the run."""
    if "posterior" not in dt.children:  # every weight is zero, or nothing was finished
        return
    try:
        dt["agreement"] = xr.DataTree(agreement_dataset(agreement(dt, judged, model=model)))
    except Exception as error:  # the runs are done, and must not be lost
        _log.warning(f"posterior: its draws are not judged ({type(error).__name__}): {error}")
