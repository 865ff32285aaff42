"""The data sets of a campaign, and the sides of their sandwiches."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import xarray as xr

from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.base.types import Tuning
from pymc_bdmc.call.opened import Campaign
from pymc_bdmc.call.preparation import DataSets, Preparation, Tunings
from pymc_bdmc.call.rounds import Side
from pymc_bdmc.call.tree import last_states
from pymc_bdmc.engines.compiled.draws import DrawTuning
from pymc_bdmc.paths import Path
from pymc_bdmc.simulations import Simulated, if_possible


class Sets:
    """Simulates the data sets of a campaign, and makes the sides of their sandwiches.

    Parameters
    ----------
    campaign : Campaign
    preparation : Preparation
    simulated : dict of int to list of Simulated
        What was simulated already, by the number of the first; it is filled.
    """

    def __init__(
        self, campaign: Campaign, preparation: Preparation, simulated: dict[int, list[Simulated]]
    ):
        self._campaign, self._preparation, self._simulated = campaign, preparation, simulated

    @property
    def real(self) -> DataSets:
        """The real data, if there are runs on them."""
        return {0: self._campaign.density.data} if self._campaign.request.real_data else {}

    @property
    def fitted(self) -> DataSets:
        """The real data, if there are runs on them or data are simulated with a fit to them."""
        simulation = self._campaign.request.simulation
        needs_fit = simulation is not None and simulation.needs_fit
        return {0: self._campaign.density.data} if needs_fit else self.real

    def simulate(self, path: Path, first: int = 0) -> list[Simulated]:
        """Return the simulated data sets whose streams are numbered from ``first``.

        There are none if data cannot be simulated and the call does not need them.
        """
        request, session = self._campaign.request, self._campaign.session
        simulation = request.simulation
        if simulation is None:
            return []
        if first not in self._simulated:
            make = partial(
                simulation.simulate, self._campaign.density, session.entropy,
                partial(_fit, self._campaign, self._preparation, path), first,
            )  # fmt: skip
            name, store = "renewed" if first else "simulated", session.store
            kept = partial(store.remember, name, make) if store else make
            self._simulated[first] = if_possible(kept, needed=request.needs_simulated) or []
        return self._simulated[first]

    def all(self, simulated: Sequence[Simulated], first: int = 1) -> DataSets:
        """Return real and simulated data sets; these are numbered from ``first``."""
        return {**self.real, **{d: y.all_data for d, y in enumerate(simulated, start=first)}}

    def sides(
        self, tunings: Tunings, simulated: Sequence[Simulated], chains: int, first: int = 1
    ) -> list[Side]:
        """Return the sides of all sandwiches, with so many runs on the real data."""
        request, observed = self._campaign.request, self._campaign.density.data
        few = request.size.simulated(request.datasets)
        sides = [Side("real", 0, observed, tunings[0], chains)] if request.real_data else []
        if self._campaign.starts:
            starts = [Simulated(point, observed, "heuristic") for point in self._campaign.starts]
            sides.append(Side("real_reverse", 0, observed, tunings[0], len(starts), starts))
        for d, source in enumerate(simulated, start=first):
            sides.append(Side("forward", d, source.all_data, tunings[d], few))
            shortest = _shortest(source, tunings[d])
            sides.append(Side("reverse", d, source.all_data, tunings[d], few, [shortest]))
            for i, burn_in in enumerate(source.shorter, start=1):
                less = [replace(source, burn_in=burn_in)]
                sides.append(Side("burn_in", d, source.all_data, tunings[d], few, less, i))
        return sides

    def renewed(self, path: Path, chains: int) -> list[Side]:
        """Return the sides of a round on new simulated data."""
        first = self._campaign.request.datasets
        simulated = self.simulate(path, first)
        data = self.all(simulated, first + 1)
        tunings = self._preparation.tunings(data, path, fits=False)
        return self.sides(tunings, simulated, chains, first + 1)


def _fit(campaign: Campaign, preparation: Preparation, path: Path) -> xr.DataTree:
    """Return the caller's posterior draws; without them, draws from last particles of scouts."""
    if campaign.request.posterior is not None:
        return campaign.request.posterior
    density = campaign.density
    scouts = preparation.scouts({0: density.data}, path)
    states = last_states(
        density, [(run.ends, run.weights) for run in scouts],
        np.array([run.log_weight for run in scouts]), [run.ancestors for run in scouts],
        stream(campaign.session.entropy, Purpose.FIT), len(scouts[0].weights),
    )  # fmt: skip
    if "posterior" not in states:
        raise ValueError(
            "simulate: no run on the real data came to a state where they are possible, so there "
            "are no hyperparameters to hold; use 'prior'."
        )
    return xr.DataTree.from_dict(states)


def _shortest(source: Simulated, tuning: Tuning) -> Simulated:
    """Return a start with a shorter burn-in if its moves are independent; not one of several."""
    if source.shorter or not isinstance(tuning, DrawTuning):
        return source
    return replace(source, burn_in=tuning.shortened(source.burn_in))
