"""Read a result once: its attributes as fields, and its runs; nothing else touches the DataTree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, wraps
from typing import Any, Concatenate, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.types import Moves
from pymc_bdmc.estimators import PriorMass, TailCheck, check_mean_of_logs, log_prior_mass
from pymc_bdmc.simulations import FromPosterior

SIDES = {"simulated": ("forward", "reverse"), "real": ("real", "real_reverse")}
"""Groups of forward and of reverse runs, by kind of data."""

GROUPS = (*SIDES["simulated"], *SIDES["real"])
"""All groups of runs."""

LOST = "which sample_bdmc and lattice.anneal write. Was the result cut, or saved in parts?"


class DataSet(NamedTuple):
    """Finished runs on one data set, nats."""

    data: str  # `simulated` or `real`
    dataset: int
    forward: np.ndarray
    reverse: np.ndarray  # empty if there are none
    prior_draws: np.ndarray

    @property
    def mass(self) -> PriorMass:
        """Return log P(ℓ > −∞) by the prior draws."""
        return log_prior_mass(self.prior_draws)


class LastParticles(NamedTuple):
    """The weighted last states of the runs on the real data."""

    states: xr.Dataset  # variables by (chain, particle, …)
    weights: np.ndarray  # shape (K, N); they add up to 1, or are NaN if every weight is zero
    sweeps: int  # states of each particle: after the last weight, and after each further move
    free: list[str]  # names of the variables that are not Deterministics

    @property
    def within_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights within each run (0 in a run of weight 0), and log weights of the runs."""
        shares = np.nan_to_num(self.weights)
        runs = shares.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(shares / runs[:, None]), np.log(runs)

    @property
    def as_drawn(self) -> "LastParticles":
        """Return the states whose weights these are, before they moved on at β = 1."""
        n = self.weights.shape[1] // self.sweeps
        first = self.states.isel(particle=slice(n))
        return self._replace(states=first, weights=self.weights[:, :n] * self.sweeps, sweeps=1)


@dataclass(frozen=True, eq=False)
class Side:
    """Runs in one direction on one kind of data."""

    name: str
    run: xr.Dataset
    particles: int = 1

    def variable(self, name: str) -> xr.DataArray:
        """Return a variable; the error names it if it is missing."""
        if name not in self.run:
            raise ValueError(f"dt: its group {self.name!r} has no variable {name!r}, {LOST}")
        return self.run[name]

    def rows(self, name: str) -> np.ndarray:
        """Return a variable with a row for each data set; the real data have one row."""
        found = self.variable(name)
        return found.values if "dataset" in found.dims else found.values[None]

    @property
    def is_reverse(self) -> bool:
        """Return whether the runs go from the posterior to the start of the path."""
        return self.name in (reverse for _, reverse in SIDES.values())

    @property
    def log_weight(self) -> np.ndarray:
        """Return log weights, shape (D, K), nats; NaN marks a run that was not finished."""
        return self.rows("log_weight")

    @cached_property
    def finished(self) -> list[np.ndarray]:
        """Return log weights of finished runs by data set, reverse ones with the sign changed."""
        signed = -self.log_weight if self.is_reverse else self.log_weight
        return [each for row in signed if (each := _finished(row)).size]

    @property
    def n_finished(self) -> int:
        """Return the number of finished runs on all data sets."""
        return sum(row.size for row in self.finished)

    @property
    def chains(self) -> int:
        """Return the number of runs on each data set."""
        return self.run.sizes["chain"]

    @property
    def n_temperatures(self) -> int:
        """Return T; 0 if it is not known."""
        return self.run.sizes.get("beta", 1) - 1

    @property
    def prior_mass(self) -> tuple[np.ndarray, ...]:
        """Return lower and upper estimates of log P(ℓ > −∞) and their error, shape (D, 1)."""
        masses = [log_prior_mass(row) for row in self.rows("prior_draws")]
        return tuple(np.array(each)[:, None] for each in zip(*masses, strict=True))

    @property
    def bounding(self) -> np.ndarray:
        """Return log weights with log P(ℓ > −∞), whose means bound log ML, shape (D, K)."""
        lower, upper, _ = self.prior_mass
        return self.log_weight + (upper if self.is_reverse else lower)

    @cached_property
    def tail(self) -> TailCheck:
        """Check whether the mean of forward log weights exists; the worst case over data sets."""
        if self.is_reverse or "prior_log_likelihood" not in self.run:
            return TailCheck(np.nan, True, True, "")
        rows = np.atleast_2d(self.run["prior_log_likelihood"].values)
        checks = [check_mean_of_logs(row, self.particles) for row in rows]
        return min(checks, key=lambda check: (check.exists, check.resolved))

    @property
    def divergent_share(self) -> float:
        """Return the share of transitions that diverged; 0 if they were not counted."""
        n_runs = int(self.run["log_weight"].notnull().sum())
        if "divergences" not in self.run or not n_runs:
            return 0.0
        transitions = n_runs * self.n_temperatures * self.particles
        return float(self.run["divergences"].sum()) / transitions

    @property
    def lengths(self) -> np.ndarray:
        """Return thermodynamic lengths by data set, from the pilots, nats^½; empty if unknown."""
        return self.run.get("thermodynamic_length", xr.DataArray([])).values

    @property
    def pilot_rhat(self) -> float:
        """Return the largest R̂ of the pilots at β = 1; NaN without one."""
        return float(np.fmax.reduce(np.asarray(self.run.get("pilot_rhat", np.nan)), axis=None))


def _finished(values: np.ndarray) -> np.ndarray:
    """Leave out the values of runs that were not finished."""
    return values[~np.isnan(values)]


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
class Reading:
    """Content of a result: its groups, and its attributes as fields with their defaults."""

    groups: Mapping[str, xr.Dataset]
    found: dict = field(default_factory=dict, repr=False)  # findings of the checks; see `once`
    path: str = ""
    schedule: str = "unknown"
    step: str = "unknown"
    kernels: str = ""  # names of the moves, in order; `step` names their variables too
    is_compiled: int = 0
    particles: int | None = None  # N; None for a system whose runs are single chains
    simulate: str = ""
    not_simulated: str = ""  # why data could not be simulated
    hyperparameters: str = ""
    upper_bound: str | None = None  # start of the reverse runs on simulated data
    independent_starts: int = 0
    rounds: int = 0  # number of rounds whose gap was looked at, in a call with a target
    interrupted: int = 0
    system: str | None = None
    model: str = "{}"  # a hash of every variable of the model, as JSON
    random_seed: Any = None
    sampling_time: float = np.nan
    preparation_time: float = np.nan
    pymc_version: str = ""
    pymc_bdmc_version: str = ""
    constraints: str = ""
    finite_variables: str = ""
    discrete_variables: str = ""
    centred_effects: str = ""
    unreached: str = ""  # centred effects whose small scales the fit does not reach
    undefined: str = ""  # variables whose log density is NaN or +∞ at some θ on the real data
    undefined_error: str = ""  # an exception that it raises there, in a line
    undefined_prior: float = 0.0  # share of prior draws at which it is
    undefined_posterior: float = 0.0  # share of moves from posterior states that end there
    knows_tails: int = 0
    misfit: str = ""  # the feature of the data that shows that the model does not fit
    misfit_value: float = np.nan  # by how many deviations
    misfit_p_value: float = np.nan
    heavy_tail: float = 0.0  # Pareto k of the weights of the pilot's last states under the fit
    doubt: str = ""  # why the fit, at which runs on the real data start, misses something
    peaks: int = 0
    row_order: Any = ()
    critical_beta: float = np.nan
    flatness: float = 0.0  # largest unevenness of the visits to temperatures, by `temper`
    log_prior_mass: float | None = None
    log_prior_mass_error: float | None = None
    pilot_gradients: int = 0

    @classmethod
    def of(cls, result: Any) -> "Reading":
        """Read a result; a reading is returned as it is, and of anything else nothing is read."""
        if isinstance(result, Reading):
            return result
        if not isinstance(result, xr.DataTree):
            return cls({})
        groups = {str(name): child.dataset for name, child in result.children.items()}
        attrs = {str(name): value for name, value in result.attrs.items()}
        attrs["pilot_gradients"] = sum(
            int(n) for name, n in attrs.items() if name.startswith("gradients_")
        )
        known = {each.name for each in fields(cls)[2:]}
        return cls(groups, **{name: attrs[name] for name in known & set(attrs)})

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
                "judge draws of another sampler, dt = pm.sample_bdmc(model, posterior=idata); for "
                "log ML from such draws alone, bdmc.log_ml(idata, model)."
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

    def required(self, name: str) -> Any:
        """Return an attribute; the error names it if it is missing."""
        if (found := getattr(self, name)) is None:
            raise ValueError(f"dt: it has no attribute {name!r}, {LOST}")
        return found

    @property
    def source(self) -> str:
        """Return the model or the system, by which results on one of them are recognised."""
        return str(self.system) if self.model == "{}" else self.model

    @property
    def is_null(self) -> bool:
        """Return whether this is the result for a model without free variables, which is exact."""
        return self.path == "none"

    @property
    def is_tempering(self) -> bool:
        """Return whether this is a result of `temper`."""
        return self.has("tempering")

    @property
    def is_system(self) -> bool:
        """Return whether this is a result of a system without data, such as a lattice."""
        return not self.has("observed_data") and self.system is not None

    @property
    def main(self) -> str:
        """Return the kind of data whose log ML this is a result for."""
        return "simulated" if self.is_system else "real"

    @property
    def n_particles(self) -> int:
        """Return N."""
        return int(self.particles or 1)

    @property
    def moves(self) -> Moves:
        """Return the kernels of a transition."""
        return Moves(bool(self.is_compiled), tuple(self.kernels.split(", ")))

    @property
    def cost(self) -> tuple[int, float]:
        """Return gradient evaluations and seconds of the call, with its preparation."""
        runs = int(self.side("real").run.attrs["gradient_evaluations"])
        return runs + self.pilot_gradients, float(self.sampling_time + self.preparation_time)

    def start(self, data: str) -> str:
        """Return the kind of start of the reverse runs on simulated or on real data."""
        return "heuristic" if data == "real" else self.upper_bound or "unknown"

    @property
    def start_distance(self) -> float | None:
        """Return how far burned-in starts are from the posterior, on average; None if unknown."""
        reverse = self.side("reverse")
        if self.upper_bound != "burned-in" or "start_distance" not in reverse.run:
            return None
        return float(np.nanmean(reverse.rows("start_distance")))

    @property
    def contains_real(self) -> bool:
        """Return whether runs on simulated data are on the real data too."""
        return self.simulate == FromPosterior.name

    @property
    def data_source(self) -> str:
        """Return what data were simulated from: the prior too if no hyperparameter was held."""
        holds_none = self.simulate == "hyperparameters" and not self.hyperparameters
        return "prior" if holds_none else self.simulate

    @property
    def order(self) -> list[int]:
        """Return the numbers of the observations in the order that was given, if one was."""
        return np.atleast_1d(self.row_order).astype(int).tolist()

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """Return the real data by variable."""
        found = self.groups.get("observed_data", xr.Dataset())
        return {str(name): each.values for name, each in found.data_vars.items()}

    @property
    def tempering(self) -> xr.Dataset:
        """Return the draws of `temper`; raise an error for other results."""
        if not self.is_tempering:
            raise ValueError("dt: it has no group 'tempering'; a result of temper is needed.")
        return self.groups["tempering"]

    @property
    def burn_ins(self) -> xr.DataArray:
        """Return reverse log weights by (burn_in, dataset, chain), if there were several."""
        return self.group("burn_in")["log_weight"].transpose("burn_in", "dataset", "chain")

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
        return "; ".join(f"{name}: {text}" for name, text in found.items() if text)

    @property
    def pair(self) -> tuple[Side, Side]:
        """Return forward and reverse runs on simulated data."""
        return self.side("forward"), self.side("reverse")

    @property
    def directions(self) -> tuple[str, ...]:
        """Return the groups that bound log ML: both directions on simulated data, else real."""
        self.annealed(self)
        both = tuple(name for name in SIDES["simulated"] if name in self.groups)
        return both if self.has("forward") else ("real",)

    @cached_property
    def data_sets(self) -> list[DataSet]:
        """Return the finished runs of every data set that has some in each direction."""
        self.annealed(self)
        found = []
        for data, (forward, reverse) in SIDES.items():
            if not self.has(forward):
                continue
            names = [forward, reverse][: 2 if data == "simulated" or self.has(reverse) else 1]
            rows = [self.side(name).log_weight for name in names]
            draws = self.side(forward).rows("prior_draws")
            for i, (own, *each) in enumerate(zip(draws, *rows, strict=True)):
                weights = [_finished(row) for row in each]
                # Reverse runs do not count if one of them came to a state of probability zero.
                if not all(np.isfinite(row).all() for row in weights[1:]):
                    weights = weights[:1] if data == "real" else [np.empty(0)]
                if all(row.size for row in weights):
                    ends = [*weights, np.empty(0)]
                    found.append(DataSet(data, i, ends[0], ends[1], _finished(own)))
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
        weights, draws = (_finished(side.rows(name)[0]) for name in ("log_weight", "prior_draws"))
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
        """Return T of every round, and log weights by (round, …, chain), the largest T last."""
        side, name = self.side(group), f"{group}_log_weight"
        dims = ("dataset",) * ("dataset" in side.run.dims)
        if not self.has("rounds") or name not in self.groups["rounds"]:
            only = side.variable("log_weight").transpose(*dims, "chain")
            return [side.run.sizes["beta"] - 1], only.values[None]
        rounds = self.groups["rounds"]
        chain = "real_chain" if "real_chain" in rounds[name].dims else "chain"
        last = ~rounds["temperatures"].to_series().duplicated(keep="last").values
        if self.confirms:  # on new data
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

    def labels(self, n: int) -> pd.Index:
        """Return the coordinates of n observations, or their numbers."""
        for each in self.groups["observed_data"].data_vars.values():
            if each.sizes and each.shape[0] == n:
                return each[each.dims[0]].to_index()
        return pd.RangeIndex(n, name="observation")

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
        return {**kept.attrs, "table": kept.to_dataframe()}

    @property
    def too_low(self) -> float:
        """Return the nats by which log ML is shown to be too low, by draws that were given."""
        return float(self.agreement.get("too_low", 0.0))
