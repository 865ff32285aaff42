"""The last stage of a call: its rounds as a DataTree."""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import cast

import numpy as np
import pymc as pm
import xarray as xr

from pymc_bdmc.base import VERSION, logger
from pymc_bdmc.base.schedules import mean_between, thermodynamic_length
from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.call.options import CHAINS, Options
from pymc_bdmc.call.preparation import ModelPlan
from pymc_bdmc.call.rounds import Round, anneal_in_rounds
from pymc_bdmc.call.session import ModelSession, Session
from pymc_bdmc.density.graph import INTERPRETED, TemperedModel
from pymc_bdmc.density.identity import comparable_fingerprint
from pymc_bdmc.density.refuse import check_simulable, constraints
from pymc_bdmc.density.structure import hard_variables
from pymc_bdmc.density.support import undefined
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.results.agreement import agreement, agreement_dataset
from pymc_bdmc.results.checks.runs import undefined_far
from pymc_bdmc.results.log_ml import write_log_ml
from pymc_bdmc.results.reading import GROUPS, SIDES, Reading
from pymc_bdmc.results.write import (
    annealing_dataset,
    burn_in_dataset,
    observed_dataset,
    particles_dataset,
    posterior_dataset,
    run_attributes,
    simulated_dataset,
    starts_dataset,
)
from pymc_bdmc.simulations import FromPosterior

_log = logger(__name__)


def finish(session: ModelSession, plan: ModelPlan) -> xr.DataTree:
    """Run all rounds; return the result, with the judgement of the caller's draws.

    After Ctrl-C it has what is finished; if nothing is, that raises KeyboardInterrupt.
    """
    result = partial(to_datatree, session, plan)
    rounds = anneal_in_rounds(session, plan, result)
    dt = result(rounds)
    dt.attrs |= _undefined(session, rounds[-1], dt)
    if session.options.judged is not None:
        _judge(dt, session.options.judged, session.options.model)
    write_log_ml(dt)  # it is withheld if runs miss a part that given draws show, or that is NaN
    if remark := undefined_far(Reading.of(dt)):
        _log.info(remark)
    return dt


def to_datatree(session: ModelSession, plan: ModelPlan, rounds: Sequence[Round]) -> xr.DataTree:
    """Return the rounds so far as a DataTree."""
    last, engine = rounds[-1], session.engine
    pilots = partial(_pilot_variables, last, in_turn=plan.path.in_turn)
    with engine.lock:  # the density has the data of one run or another
        groups = {"observed_data": observed_dataset(engine.density)}
        groups |= annealed_groups(last, pilots)
        groups |= _model_groups(engine.density, last, stream(session.entropy, Purpose.POSTERIOR))
    if scouted := plan.preparation.scouted(0):
        by_path = (("path", "chain"), _padded(scouted.values()))
        groups["scouts"] = xr.Dataset({"log_weight": by_path}, {"path": list(scouted)})
    dt = tree_of_rounds(session, rounds, groups, _attributes(session, plan, rounds))
    write_log_ml(dt)
    return dt


def tree_of_rounds(
    session: Session, rounds: Sequence[Round], groups: dict[str, xr.Dataset], attributes: dict
) -> xr.DataTree:
    """Return a DataTree of groups and attributes, and of those that results of all calls have."""
    last = rounds[-1]
    groups = groups | {"rounds": _rounds_dataset(rounds, session.options.target_gap)}
    dt = xr.DataTree.from_dict(groups)
    dt.attrs |= run_attributes(last.schedule, session.entropy, session.started, last.interrupted)
    dt.attrs |= attributes
    return dt


def _attributes(session: ModelSession, plan: ModelPlan, rounds: Sequence[Round]) -> dict:
    options, engine, last = session.options, session.engine, rounds[-1]
    preparation, path, first = plan.preparation, plan.path, next(iter(last.simulated), None)
    if first is None or plan.simulation is None:
        kind = "none"
    else:  # the default chooses a kind by the real data
        kind = plan.simulation.name if first.real is None else FromPosterior.name
    attrs: dict[str, str | float] = {
        **hard_variables(options.model),
        **constraints(options.model),
        "peaks": plan.sides[0].tuning.peaks,
        "knows_tails": int(preparation.knows_tails),
        "unreached": ", ".join(preparation.unreached),
        "model": json.dumps(comparable_fingerprint(options.model)),
        "step": preparation.kernel,
        "kernels": ", ".join(engine.kernel_names.names),
        "is_compiled": int(engine.kernel_names.is_compiled),
        "path": path.name,
        "path_reason": plan.reason,
        "heavy_tail": preparation.heavy_tail if path.is_fitted else 0.0,
        "doubt": preparation.doubt if path.is_fitted else "",
        "particles": plan.sides[0].particles,
        "simulate": kind,
        "not_simulated": "" if first else _not_simulated(options),
        "upper_bound": first.status if first else "none",
        "hyperparameters": ", ".join(first.hyperparameters if first else []),
        "burn_in": max((each.burn_in for each in last.simulated), default=0),
        "rounds": sum(not each.confirms for each in rounds) if options.target_gap else 0,
        **{f"gradients_{stage}": n for stage, n in preparation.gradients.items()},
        "pymc_version": pm.__version__,
        "preparation_time": session.compile_time,
    }
    return attrs | ({"row_order": path.order} if path.order else {})


def _not_simulated(options: Options) -> str:
    """Return why data could not be simulated; empty if the call did not ask for it."""
    if options.simulate:
        return "the data could not be drawn, as the log says"
    try:
        check_simulable(options.model)
    except ValueError as error:
        return str(error).removeprefix("simulate: ").split(". ")[0].removesuffix(".")
    return ""


def _undefined(session: ModelSession, last: Round, dt: xr.DataTree) -> dict[str, str | float]:
    """Return where log p is NaN or +∞ on the real data, as attributes; nothing if nowhere."""
    engine, density = session.engine, session.engine.density
    if not (engine.meets_undefined and "posterior" in dt.children):
        return {}
    rng = np.random.default_rng(stream(session.entropy, Purpose.UNDEFINED))
    ends = [last.ends[place][0] for place in sorted(last.ends)]
    states = {name: np.concatenate([each[name] for each in ends]) for name in ends[0]}
    weights = np.ravel(cast(xr.DataArray, dt["particles"]["bdmc_weight"]))
    with engine.lock:
        found = undefined(density, states, weights / weights.sum(), rng)
    if not found.names:
        return {}
    return {
        "undefined": ", ".join(found.names),
        "undefined_error": found.error,
        "undefined_prior": found.prior,
        "undefined_posterior": found.posterior,
    }


def _judge(dt: xr.DataTree, judged: xr.DataTree, model: pm.Model) -> None:
    """Write the group ``agreement``: all of the caller's draws against those of the run."""
    if "posterior" not in dt.children:  # every weight is zero, or nothing was finished
        return
    try:
        dt["agreement"] = xr.DataTree(agreement_dataset(agreement(dt, judged, model=model)))
    except Exception as error:  # the runs are done, and must not be lost
        _log.warning(f"posterior: its draws are not judged ({type(error).__name__}): {error}")


def annealed_groups(
    last: Round, pilots: Callable[[str], Mapping[str, tuple]] | None = None
) -> dict[str, xr.Dataset]:
    """Return the runs of the last round by group, with the variables that ``pilots`` has for it."""
    groups = {}
    for group, annealed in last.runs.items():
        if group not in GROUPS:
            continue
        groups[group] = annealing_dataset(annealed, last.schedule.betas)
        if pilots:
            groups[group] = groups[group].assign(pilots(group))
        if group in SIDES["real"]:
            groups[group] = groups[group].isel(dataset=0, drop=True)
            groups[group].attrs["sample_dims"] = []
    return groups


def _pilot_variables(last: Round, group: str, in_turn: bool) -> dict[str, tuple]:
    """Return what the pilots of a group found, by data set."""
    tunings = [side.tuning for side in last.sides if side.group == group]
    drawn = _padded(each.prior_log_likelihood for each in tunings)
    found: dict[str, tuple] = {
        "pilot_rhat": ("dataset", np.array([each.rhat for each in tunings])),
        "prior_log_likelihood": (("dataset", "prior_draw"), drawn),
    }
    if in_turn:  # their ℓ is not that of the runs
        return found
    pilots = [(tuning.path_betas, tuning.mean_log_likelihood) for tuning in tunings]
    means = np.array([mean_between(last.schedule.betas, *pilot) for pilot in pilots])
    lengths = np.array([thermodynamic_length(*pilot) for pilot in pilots])
    return {
        "pilot_log_likelihood": (("dataset", "beta"), means),
        "thermodynamic_length": ("dataset", lengths),
        **found,
    }


def _padded(rows: Iterable[np.ndarray]) -> np.ndarray:
    """Stack rows; shorter ones end in NaN."""
    return np.array(list(zip_longest(*rows, fillvalue=np.nan))).T


def _model_groups(
    density: TemperedDensity, last: Round, seed: np.random.SeedSequence
) -> dict[str, xr.Dataset]:
    """Return the groups that only a model has: last particles, draws, starts, simulated data."""
    groups: dict[str, xr.Dataset] = {}
    if last.ends:
        places, (run,) = sorted(last.ends), last.runs["real"]
        ancestors = run.by_chain.get("ancestors", np.ones_like(run.log_weight))[places]
        ends, log_weights = [last.ends[place] for place in places], run.log_weight[places]
        n_particles = last.sides[0].particles
        groups |= last_states(density, ends, log_weights, ancestors, seed, n_particles)
    sources = [side.sources for side in last.sides if side.group == "real_reverse"]
    if sources:
        groups["real_starts"] = starts_dataset(density, [each.point for each in sources[0]])
    if simulated := last.simulated:
        groups["simulated"] = simulated_dataset(density, simulated)
    if "burn_in" in last.runs:
        groups["burn_in"] = burn_in_dataset(last.log_weights, simulated)
    return groups


def last_states(
    density: TemperedDensity,
    ends: Sequence[tuple[Point, np.ndarray]],
    log_weights: np.ndarray,
    ancestors: np.ndarray,
    seed: np.random.SeedSequence,
    n_particles: int,
) -> dict[str, xr.Dataset]:
    """Return last particles of runs on the real data, and draws from them if they have weight."""
    particles = particles_dataset(density, ends, log_weights, n_particles)
    if not np.isfinite(particles["bdmc_weight"]).all():
        return {"particles": particles}
    posterior = posterior_dataset(particles, ancestors, np.random.default_rng(seed))
    return {"particles": particles, "posterior": posterior}


def _rounds_dataset(rounds: Sequence[Round], target_gap: float | None) -> xr.Dataset:
    """Return T, role, gap, gradients, seconds and log weights of every round."""
    gaps = np.array([each.gap for each in rounds])
    gradients = [
        sum(run.gradient_evaluations for runs in each.runs.values() for run in runs)
        for each in rounds
    ]
    columns = {
        "temperatures": [each.schedule.n_temperatures for each in rounds],
        "meets_target": [target_gap is not None and each.meets(target_gap) for each in rounds],
        "confirms": [each.confirms for each in rounds],
        "jeffreys_bound": gaps[:, 0],
        "error": gaps[:, 1],
        "gradient_evaluations": gradients,
        "seconds": [each.seconds for each in rounds],
    }
    dataset = xr.Dataset({name: ("round", np.array(values)) for name, values in columns.items()})
    for group in [each for each in rounds[0].runs if each in GROUPS]:
        weights = np.array([each.log_weights(group) for each in rounds])
        if group in SIDES["real"]:  # which may have other numbers of runs than simulated data
            dataset[f"{group}_log_weight"] = ("round", "real_chain"), weights[:, 0]
        else:
            dataset[f"{group}_log_weight"] = ("round", "dataset", "chain"), weights
    return dataset


def null_result(model: pm.Model) -> xr.DataTree:
    """Return the result for a model without variables, whose log ML is known: equal log weights."""
    started = time.perf_counter()
    tempered = TemperedModel.from_model(model)
    log_p = float(tempered.datalogp.eval(mode=INTERPRETED))
    if not np.isfinite(log_p):
        raise ValueError(
            f"model: without free variables its log density is {log_p:g}. Check the data and the "
            "constants of their distributions."
        )
    real = xr.Dataset(
        {
            "log_weight": ("chain", np.full(CHAINS, log_p)),
            "prior_draws": ("chain", np.ones(CHAINS)),
        },
        {"beta": [0.0, 1.0]},
        {"gradient_evaluations": 0, "sample_dims": []},
    )
    observed = {}
    for name, data in tempered.observed.items():
        values = data.get_value()
        observed[name] = [f"{name}_dim_{i}" for i in range(values.ndim)], values
    dt = xr.DataTree.from_dict({"real": real, "observed_data": xr.Dataset(observed)})
    dt.attrs |= constraints(model) | {
        "path": "none",
        "path_reason": "the model has no free variables",
        "particles": 1,
        "simulate": "none",
        "upper_bound": "none",
        "interrupted": 0,
        "sampling_time": time.perf_counter() - started,
        "preparation_time": 0.0,
        "pymc_bdmc_version": VERSION,
        "pymc_version": pm.__version__,
    }
    write_log_ml(dt)
    return dt
