"""Read a result once: its attributes as fields, and its runs; nothing else touches the DataTree.

`pymc_bdmc.results.convert` and the stages of a campaign write it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Any, Concatenate

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.results.attributes import Attributes
from pymc_bdmc.results.runs import GROUPS, LOST, SIDES, DataSet, LastParticles, Side, finished


def once[**P, T](
    check: Callable[Concatenate["Reading", P], T],
) -> Callable[Concatenate["xr.DataTree | Reading", P], T]:
    """Let a check take a result or its reading, and compute it once for every reading."""

    @wraps(check)
    def found(result, /, *args: P.args, **kwargs: P.kwargs) -> T:
        read = Reading.of(result)
        key = (check, args, tuple(kwargs.items()))
        if key not in read.found:
            read.found[key] = check(read, *args, **kwargs)
        return read.found[key]

    return found


@dataclass(frozen=True, eq=False)
class Reading(Attributes):
    """Content of a result: its attributes as fields, and its groups."""

    groups: Mapping[str, xr.Dataset]
    found: dict = field(default_factory=dict, repr=False)
    """Findings of the checks; see `once`."""

    @classmethod
    def of(cls, result: Any) -> "Reading":
        """Read a result; a reading is returned as it is, and of anything else nothing is read."""
        if isinstance(result, Reading):
            return result
        if not isinstance(result, xr.DataTree):
            return cls({})
        groups = {str(name): child.dataset for name, child in result.children.items()}
        return cls(groups, **cls.known(result.attrs))

    @classmethod
    def annealed(cls, result: Any, reader: str = "") -> "Reading":
        """Read a result of annealed runs; the error names the function that reads it."""
        read = cls.of(result)
        if isinstance(result, list | tuple):
            raise ValueError(
                "dt: one result is needed, not a list. compare_models keeps a list for each model; "
                "its first result is found.results[name][0]."
            )
        if reader and read.is_tempering:
            raise ValueError(
                f"dt: {reader} reads annealed runs, and a result of temper has none; use evidence."
            )
        if not read.has("forward") and not read.has("real"):
            raise ValueError(
                "dt: it has neither group 'forward' nor 'real'; a result of sample_bdmc or of "
                "lattice.anneal is needed. Sample a model first, dt = pm.sample_bdmc(model); to "
                "judge draws of another sampler, dt = pm.sample_bdmc(model, posterior=idata)."
            )
        return read

    def has(self, *names: str) -> bool:
        """Return whether the result has all of these groups."""
        return set(names) <= set(self.groups)

    def group(self, name: str) -> xr.Dataset:
        """Return a group; the error names it if it is missing."""
        if name not in self.groups:
            raise ValueError(f"dt: it has no group {name!r}, {LOST}")
        return self.groups[name]

    @property
    def is_tempering(self) -> bool:
        """Return whether this is a result of `temper`."""
        return self.has("tempering")

    @property
    def tempering(self) -> xr.Dataset:
        """Return the draws of `temper`; raise an error for other results."""
        if not self.is_tempering:
            raise ValueError("dt: it has no group 'tempering'; a result of temper is needed.")
        return self.groups["tempering"]

    @property
    def gradients(self) -> float:
        """Return the gradient evaluations of the runs; NaN if they were not counted."""
        groups = [self.groups[name] for name in ("forward", "reverse", "real") if self.has(name)]
        return sum(group.attrs.get("gradient_evaluations", np.nan) for group in groups)

    @property
    def is_system(self) -> bool:
        """Return whether this is a result of a system without data, such as a lattice."""
        return not self.has("observed_data") and self.system is not None

    @property
    def cost(self) -> tuple[int, float]:
        """Return gradient evaluations and seconds of the call, with its preparation."""
        runs = int(self.side("real").run.attrs["gradient_evaluations"])
        return runs + self.pilot_gradients, float(self.sampling_time + self.preparation_time)

    @property
    def burn_ins(self) -> xr.DataArray:
        """Return reverse log weights by (burn_in, dataset, chain), if there were several."""
        return self.group("burn_in")["log_weight"].transpose("burn_in", "dataset", "chain")

    @property
    def main(self) -> str:
        """Return the kind of data whose log ML this is a result for."""
        return "simulated" if self.is_system else "real"

    @cached_property
    def sides(self) -> dict[str, Side]:
        """Return the groups of runs that the result has."""
        found = [name for name in GROUPS if name in self.groups]
        return {name: Side(name, self.groups[name], self.n_particles) for name in found}

    def side(self, name: str) -> Side:
        """Return a group of runs; the error names it if it is missing."""
        self.group(name)
        return self.sides[name]

    def by_group(self, find: Callable[[Side], str]) -> str:
        """Return what is found in each group of runs, after its name; empty if nothing is."""
        found = {name: find(side) for name, side in self.sides.items()}
        return "; ".join(f"{name}: {told}" for name, told in found.items() if told)

    @property
    def pair(self) -> tuple[Side, Side]:
        """Return forward and reverse runs on simulated data."""
        forward, reverse = map(self.side, SIDES["simulated"])
        return forward, reverse

    @property
    def start_distance(self) -> float | None:
        """Return how far burned-in starts are from the posterior, on average; None if unknown."""
        reverse = self.side("reverse")
        if self.upper_bound != "burned-in" or "start_distance" not in reverse.run:
            return None
        return float(np.nanmean(reverse.rows("start_distance")))

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the groups that bound log ML: both directions on simulated data, else real."""
        self.annealed(self)
        both = tuple(name for name in SIDES["simulated"] if name in self.groups)
        return both if self.has("forward") else ("real",)

    @cached_property
    def data_sets(self) -> list[DataSet]:
        """Return the finished runs of every data set that has some in each direction.

        Reverse runs count as not finished if one of them came to a state of probability zero.
        """
        self.annealed(self)
        found = []
        for data, (forward, reverse) in SIDES.items():
            if not self.has(forward):
                continue
            names = [forward, reverse][: 2 if data == "simulated" or self.has(reverse) else 1]
            rows = [self.side(name).log_weight for name in names]
            draws = self.side(forward).rows("prior_draws")
            for i, (own, *each) in enumerate(zip(draws, *rows, strict=True)):
                weights = [finished(row) for row in each]
                if not all(np.isfinite(row).all() for row in weights[1:]):
                    weights = weights[:1] if data == "real" else [np.empty(0)]
                if all(row.size for row in weights):
                    both = [*weights, np.empty(0)]
                    found.append(DataSet(data, i, both[0], both[1], finished(own)))
        return found

    def sets_of(self, data: str) -> list[DataSet]:
        """Return the data sets of one kind."""
        return [each for each in self.data_sets if each.data == data]

    @property
    def real(self) -> DataSet:
        """Return the finished runs on the real data."""
        if not (found := self.sets_of("real")):
            raise ValueError("dt: no run on the real data was finished; run it again.")
        return found[0]

    @cached_property
    def real_log_weights(self) -> np.ndarray:
        """Return log Ẑ of the finished runs on the real data, log P(ℓ > −∞) included; nats."""
        if not self.has("real"):
            return np.zeros(0)
        side = self.side("real")
        weights, draws = (finished(side.rows(name)[0]) for name in ("log_weight", "prior_draws"))
        return weights + log_prior_mass(draws).estimate if weights.size else weights

    @property
    def scouts(self) -> dict[str, np.ndarray]:
        """Return log Ẑ of a few runs on every path that the call considered, nats."""
        if "scouts" not in self.groups:
            return {}
        found = self.groups["scouts"]["log_weight"]
        paths = found["path"].values
        return {str(path): found.sel(path=path).dropna("chain").values for path in paths}

    @property
    def last_round(self) -> xr.Dataset:
        """Return role, gap and cost of the last round; empty if rounds are not kept."""
        return self.groups["rounds"].isel(round=-1) if self.has("rounds") else xr.Dataset()

    @property
    def confirms(self) -> bool:
        """Return whether the last round confirms a target on new data."""
        return bool(self.last_round.get("confirms", False))

    def ladder(self, group: str) -> tuple[list[int], np.ndarray]:
        """Return T of every round, and log weights by (round, …, chain), the largest T last.

        A result without rounds has one. Of rounds with the same T the last one is kept. If the last
        round confirms a target on new data, only that round is kept.
        """
        side, name = self.side(group), f"{group}_log_weight"
        dims = ("dataset",) * ("dataset" in side.run.dims)
        if not self.has("rounds") or name not in self.groups["rounds"]:
            only = side.variable("log_weight").transpose(*dims, "chain")
            return [side.run.sizes["beta"] - 1], only.values[None]
        rounds = self.groups["rounds"]
        chain = "real_chain" if "real_chain" in rounds[name].dims else "chain"
        last = ~rounds["temperatures"].to_series().duplicated(keep="last").values
        if self.confirms:
            last[:-1] = False
        weights = rounds[name].transpose("round", *dims, chain).values
        return rounds["temperatures"].values[last].tolist(), weights[last]

    def first_finished(self, n: int | None) -> "Reading":
        """Return the log weights of the first n finished runs in each direction, and no more."""
        groups: dict[str, xr.Dataset] = {}
        for name, side in self.sides.items():
            if name != "real_reverse":
                kept = {each: side.variable(each) for each in ("log_weight", "prior_draws")}
                run = xr.Dataset(kept).drop_vars(side.run.coords, errors="ignore")
                order = np.argsort(np.isnan(run["log_weight"].values), axis=-1, kind="stable")
                run = run.isel(chain=xr.DataArray(order, dims=run["log_weight"].dims))
                groups[name] = run.isel(chain=slice(n))
        return replace(self, groups=groups, found={})

    @cached_property
    def last_particles(self) -> LastParticles:
        """Return the weighted last states of the runs on the real data."""
        if not self.has("particles"):
            raise ValueError(
                "dt: it has no runs on the real data; call sample_bdmc with real_data=True, and "
                "pass what it returns."
            )
        found = self.groups["particles"].transpose("chain", "particle", ...)
        states = found.drop_vars("bdmc_weight")
        free = np.atleast_1d(found.attrs.get("free_variables", list(states.data_vars)))
        weights, sweeps = found["bdmc_weight"].values, found.attrs.get("sweeps", 1)
        return LastParticles(states, weights, sweeps, list(map(str, free)))

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """Return the real data by variable."""
        found = self.groups.get("observed_data", xr.Dataset())
        return {str(name): each.values for name, each in found.data_vars.items()}

    def labels(self, n: int) -> pd.Index:
        """Return the coordinates of n observations, or their numbers."""
        for each in self.groups["observed_data"].data_vars.values():
            if each.sizes and each.shape[0] == n:
                return each[each.dims[0]].to_index()
        return pd.RangeIndex(n, name="observation")

    def simulated(self, name: str) -> np.ndarray:
        """Return an observed variable in all simulated data sets, shape (D, …)."""
        return self.groups["simulated"][name].transpose("dataset", ...).values

    @property
    def n_draws(self) -> int:
        """Return the number of posterior draws; 0 without any."""
        sizes = self.groups["posterior"].sizes if self.has("posterior") else {"draw": 0}
        return sizes.get("chain", 1) * sizes.get("draw", 1)

    @cached_property
    def agreement(self) -> dict[str, Any]:
        """Return the judgement of the draws that the call was given, by field; empty without."""
        if "agreement" not in self.groups:
            return {}
        kept = self.groups["agreement"]
        told = {name: kept.attrs[name] for name in ("status", "text", "too_low")}
        contradicts = bool(kept.attrs.get("contradicts", False))
        return told | {"table": kept.to_dataframe(), "contradicts": contradicts}

    @property
    def too_low(self) -> float:
        """Return the nats by which log ML is shown to be too low, by draws that were given."""
        return float(self.agreement.get("too_low", 0.0))
