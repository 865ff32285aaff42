"""The last stage of a campaign: its rounds as the groups of a DataTree."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.base.schedules import mean_between, thermodynamic_length
from pymc_bdmc.base.types import Point, Tuning
from pymc_bdmc.call.rounds import Round
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.results.reading import GROUPS, SIDES
from pymc_bdmc.results.write import (
    annealing_dataset,
    burn_in_dataset,
    particles_dataset,
    posterior_dataset,
    simulated_dataset,
    starts_dataset,
)


def annealed_groups(
    last: Round, pilots: Callable[[str], Mapping[str, tuple]] | None = None
) -> dict[str, xr.Dataset]:
    """Return the runs of the last round: a group for each direction and kind of data.

    Parameters
    ----------
    last : Round
    pilots : callable, optional
        Returns what the pilots of a group found, as variables by data set.
    """
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


def pilot_variables(last: Round, group: str, in_turn: bool) -> dict[str, tuple]:
    """Return what the pilots of a group found, by data set.

    On a path of the data their ℓ is not that of the runs, and is left out.
    """
    tunings = [side.tuning for side in last.sides if side.group == group]
    drawn = np.array(
        list(zip_longest(*[each.prior_log_likelihood for each in tunings], fillvalue=np.nan))
    ).T
    found: dict[str, tuple] = {
        "pilot_rhat": ("dataset", np.array([each.rhat for each in tunings])),
        "prior_log_likelihood": (("dataset", "prior_draw"), drawn),
    }
    return found if in_turn else _along_the_path(tunings, last.schedule.betas) | found


def model_groups(
    density: TemperedDensity,
    last: Round,
    starts: Sequence[Point],
    seed: np.random.SeedSequence,
    particles: int,
) -> dict[str, xr.Dataset]:
    """Return the groups that only a model has: last particles, draws, starts, simulated data.

    Parameters
    ----------
    density : TemperedDensity
    last : Round
    starts : sequence of Point
        States from which reverse runs on the real data started.
    seed : SeedSequence
        For the draws from the last particles.
    particles : int
        Number of particles of a run.
    """
    groups: dict[str, xr.Dataset] = {}
    if last.ends:
        places, (run,) = sorted(last.ends), last.runs["real"]
        ancestors = run.by_chain.get("ancestors", np.ones_like(run.log_weight))
        groups |= last_states(
            density, [last.ends[place] for place in places], run.log_weight[places],
            ancestors[places], seed, particles,
        )  # fmt: skip
    if starts:
        groups["real_starts"] = starts_dataset(density, starts)
    if simulated := last.simulated:
        groups["simulated"] = simulated_dataset(density, simulated)
    if "burn_in" in last.runs:
        groups["burn_in"] = burn_in_dataset(last.log_weights, simulated)
    return groups


def last_states(
    density: TemperedDensity,
    ends: Sequence[tuple[Point, np.ndarray]],
    log_weights: ArrayLike,
    ancestors: ArrayLike,
    seed: np.random.SeedSequence,
    n_particles: int,
) -> dict[str, xr.Dataset]:
    """Return last particles of runs on the real data, and draws from them if they have weight."""
    particles = particles_dataset(density, ends, np.asarray(log_weights), n_particles)
    if not np.isfinite(particles["bdmc_weight"]).all():
        return {"particles": particles}
    posterior = posterior_dataset(particles, np.asarray(ancestors), np.random.default_rng(seed))
    return {"particles": particles, "posterior": posterior}


def _along_the_path(tunings: Sequence[Tuning], betas: np.ndarray) -> dict[str, tuple]:
    """Return what pilots saw of ℓ along the path."""
    pilots = [(tuning.path_betas, tuning.mean_log_likelihood) for tuning in tunings]
    means = np.array([mean_between(betas, *pilot) for pilot in pilots])
    lengths = np.array([thermodynamic_length(*pilot) for pilot in pilots])
    return {
        "pilot_log_likelihood": (("dataset", "beta"), means),
        "thermodynamic_length": ("dataset", lengths),
    }


def rounds_dataset(rounds: Sequence[Round], target_gap: float | None) -> xr.Dataset:
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


def scouts_dataset(scouted: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return log Ẑ of the scouts of each path, nats; NaN if a path has fewer than another."""
    values = np.full((len(scouted), max(map(len, scouted.values()))), np.nan)
    for row, found in zip(values, scouted.values(), strict=True):
        row[: len(found)] = found
    return xr.Dataset({"log_weight": (("path", "chain"), values)}, {"path": list(scouted)})
