"""Restricted Boltzmann machines: annealed, trained and scored, exact where small."""

from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp
from threadpoolctl import threadpool_limits

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_choice, check_counts, check_positive, check_progressbar
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Purpose, RandomSeed, beside, entropy_of, stream
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.call import systems
from pymc_bdmc.estimators import Estimate, bar, draw_places, place_probabilities
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.testbeds import rbm_kernels
from pymc_bdmc.testbeds.rbm_kernels import Layer

__all__ = [
    "RBM", "HeldOut", "Training", "anneal", "binary_digits", "held_out_log_likelihood", "train",
]  # fmt: skip

_log = logger(__name__)

_BLOCK = 14  # units enumerated by one compiled call; chosen for tables of 128 KiB

_NEVER = np.zeros(1, np.uint8)  # flag for calls that are never stopped


class RBMState(NamedTuple):
    """States of n chains: units, float32 zeros and ones, and ℓ, shape (n,), nats."""

    visible: np.ndarray
    hidden: np.ndarray
    log_likelihood: np.ndarray


@dataclass(frozen=True, eq=False)
class RBM:
    r"""Binary restricted Boltzmann machine, f(v, h) = exp(a·v + b·h + v·W·h).

    It is annealed along f_β = p_1 exp(β ℓ) with ℓ = log f − log p_1. The normalised prior p_1 has
    independent units. So f_1 = f, and log Z is the log of the machine's whole partition function.
    Salakhutdinov and Murray (2008) introduced this path.

    Parameters
    ----------
    a : array_like of shape (V,)
        Biases of the visible units.
    b : array_like of shape (H,)
        Biases of the hidden units.
    W : array_like of shape (V, H)
        Weights.
    prior_log_odds : array_like of shape (V,), optional
        Log odds of the visible units under p_1 (see `with_base_rate`). By default p_1 is uniform.
    integrated : {"none", "hidden", "visible"}
        Layer that is summed over. Log weights then use the free energies of the other layer, such
        as log f_β(v) = log Σ_h f_β(v, h), and have a smaller spread.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite in float32, or ``integrated`` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.zeros((3, 2)))
    >>> float(round(rbm.log_z() / np.log(2), 6))
    5.0
    """

    a: np.ndarray
    b: np.ndarray
    W: np.ndarray
    prior_log_odds: np.ndarray = None  # type: ignore[assignment] # an array from the first check on
    integrated: Literal["none", "hidden", "visible"] = "none"

    def __post_init__(self):
        V, H = np.size(self.a), np.size(self.b)
        if self.prior_log_odds is None:
            object.__setattr__(self, "prior_log_odds", np.zeros(V))
        for name, shape in {"a": (V,), "b": (H,), "W": (V, H), "prior_log_odds": (V,)}.items():
            given = np.array(getattr(self, name), dtype=float)
            if given.shape != shape:
                raise ValueError(f"{name}: expected the shape {shape}, got {given.shape}.")
            if not (np.abs(given) <= np.finfo(np.float32).max).all():
                raise ValueError(f"{name}: must be finite, also in float32.")
            given.flags.writeable = False
            object.__setattr__(self, name, given)
        check_choice("integrated", self.integrated, ("none", "hidden", "visible"))

    @classmethod
    def load(cls, path: str | PathLike) -> Self:
        """Read an ``.npz`` file with the arrays a, b and W.

        Raises
        ------
        ValueError
            If arrays are missing; the message names them.
        """
        with np.load(path) as file:
            missing = {"a", "b", "W"} - set(file)
            if missing:
                raise ValueError(f"{path}: the arrays {sorted(missing)} are missing.")
            return cls(file["a"], file["b"], file["W"])

    def save(self, path: str | PathLike) -> None:
        """Write the arrays a, b and W to an ``.npz`` file for `load`."""
        np.savez_compressed(path, a=self.a, b=self.b, W=self.W)

    def with_base_rate(self, visible: ArrayLike) -> Self:
        """Return the same machine with the base rates of the visible units as its prior.

        Parameters
        ----------
        visible : array_like of shape (n, V)
            Training data, or samples of the machine. One state of ones and one of zeros are added,
            so that no probability is 0 or 1.
        """
        visible = np.asarray(visible)
        rate = (visible.sum(axis=0) + 1) / (len(visible) + 2)
        return replace(self, prior_log_odds=logit(rate))

    @property
    def description(self) -> str:
        """Return a description of a transition."""
        return f"block Gibbs, {self.integrated} integrated"

    # --- Exact answers ---

    @cached_property
    def log_prior_constant(self) -> float:
        """Return the log of the sum over states of exp(prior_log_odds·v), nats."""
        return float(np.logaddexp(0, self.prior_log_odds).sum() + self.b.size * np.log(2))

    def log_z(self, beta: float = 1.0) -> float:
        """Return log Z_β = log Σ p_1 exp(β ℓ), a sum over the smaller layer; nats.

        Parameters
        ----------
        beta : float
            Inverse temperature; at 1 the result is the machine's log partition function.

        Raises
        ------
        ValueError
            If both layers have more than 25 units.
        """
        if min(self.W.shape) > 25:  # about a minute
            raise ValueError(
                "W: both layers have more than 25 units, too many to enumerate; estimate log Z "
                "with rbm.anneal."
            )
        total = logsumexp([logsumexp(block) for block in self._log_marginals(beta)])
        return float(total - (1 - beta) * self.log_prior_constant)

    def _log_marginals(self, beta: float):
        """Yield log Σ f over one layer for all states of the smaller one, in blocks."""
        biases = (1 - beta) * self.prior_log_odds + beta * self.a, beta * self.b
        weights = beta * self.W
        if self.a.size > self.b.size:
            biases, weights = biases[::-1], weights.T
        own, other = biases
        low = min(_BLOCK, own.size)
        for high in range(1 << (own.size - low)):
            on = low + np.flatnonzero(high >> np.arange(own.size - low) & 1)
            yield rbm_kernels.enumerate_states(
                own[:low],
                other + weights[on].sum(axis=0),
                own[on].sum(),
                np.ascontiguousarray(weights[:low]),
            )

    def log_marginal(self, visible: ArrayLike) -> np.ndarray:
        """Return log f(v) = log Σ_h f(v, h), minus the free energy.

        Parameters
        ----------
        visible : array_like of shape (n, V)

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        visible = np.asarray(visible, dtype=float)
        return visible @ self.a + rbm_kernels.free_energies(self.b, visible @ self.W)

    # --- Chains ---

    @cached_property
    def _layers(self) -> tuple[Layer, Layer]:
        """Visible and hidden layer in float32, without units."""
        parts = (
            (self.prior_log_odds, self.a - self.prior_log_odds, self.W),
            (np.zeros_like(self.b), self.b, self.W.T),
        )
        visible, hidden = (Layer(*(np.ascontiguousarray(x, np.float32) for x in p)) for p in parts)
        return visible, hidden

    def _ordered(
        self, state: RBMState, visible_first: bool, rng: np.random.Generator
    ) -> tuple[Layer, Layer, float, np.ndarray]:
        """Return the first arguments of the kernels: layers, of which x conditions first."""
        shape = (len(state.visible), 4, rbm_kernels.LANES)
        streams = rng.integers(2**32, size=shape, dtype=np.uint32)
        visible = self._layers[0]._replace(units=state.visible)
        hidden = self._layers[1]._replace(units=state.hidden)
        x, y = (visible, hidden) if visible_first else (hidden, visible)
        return x, y, self.log_prior_constant, streams

    def completed(self, visible: ArrayLike, rng: np.random.Generator) -> RBMState:
        """Draw the hidden units given visible ones of shape (n, V)."""
        visible = np.asarray(visible, dtype=float)
        chance = expit(self.b + visible @ self.W)
        return self._state(visible, rng.random(chance.shape) < chance)

    def scored(self, state: RBMState) -> RBMState:
        """Return the same units with this machine's ℓ."""
        return self._state(*state[:2])

    def _state(self, visible: np.ndarray, hidden: np.ndarray) -> RBMState:
        visible, hidden = (np.ascontiguousarray(x, dtype=np.float32) for x in (visible, hidden))
        x, y = self._layers
        interaction = np.einsum("ij,ij->i", visible @ x.weights, hidden)
        fields = visible @ x.d + hidden @ y.d
        ell = interaction.astype(float) + fields + self.log_prior_constant
        return RBMState(visible, hidden, ell)

    def draw_prior(self, chains: int, rng: np.random.Generator) -> RBMState:
        """Draw exactly at β = 0."""
        visible = rng.random((chains, self.a.size)) < expit(self.prior_log_odds)
        return self._state(visible, rng.random((chains, self.b.size)) < 0.5)

    def draw_posterior(
        self, chains: int, rng: np.random.Generator, burn_in: int, stop: np.ndarray = _NEVER
    ) -> RBMState:
        """Draw at β = 1, exactly if a layer has at most 20 units.

        Otherwise the states are the last ones of chains that are annealed from the prior for half
        of the ``burn_in`` sweeps and stay at β = 1 for the other half. If ``stop`` is set, the
        chains end early.
        """
        if self.posterior_status(burn_in) == "exact":
            return self._draw_exactly(chains, rng)
        state = self.draw_prior(chains, rng)
        if burn_in > 1:
            betas = np.linspace(0, 1, burn_in // 2 + 1)
            replace(self, integrated="none").run(state, betas, Direction.FORWARD, rng, stop)
        return self.step(state, np.ones(chains), rng, burn_in - burn_in // 2, stop)

    def posterior_status(self, burn_in: int) -> Literal["exact", "burned-in", "heuristic"]:
        """Return the kind of start that `draw_posterior` gives for an upper bound."""
        if min(self.W.shape) <= 20:  # a table of 8 MiB
            return "exact"
        return "burned-in" if burn_in else "heuristic"

    def _draw_exactly(self, chains, rng) -> RBMState:
        table = np.concatenate(list(self._log_marginals(1.0)))
        cumulative = np.cumsum(np.exp(table - table.max()))
        drawn = np.searchsorted(cumulative, cumulative[-1] * rng.random(chains), side="right")
        states = drawn[:, None] >> np.arange(min(self.W.shape)) & 1
        if self.a.size > self.b.size:
            chance = expit(self.a + states @ self.W.T)
            return self._state(rng.random(chance.shape) < chance, states)
        return self.completed(states, rng)

    def log_likelihood(self, state: RBMState) -> np.ndarray:
        """Return ℓ of the states, shape (n,), nats."""
        return state.log_likelihood

    def step(
        self,
        state: RBMState,
        betas: np.ndarray,
        rng: np.random.Generator,
        sweeps: int = 1,
        stop: np.ndarray = _NEVER,
    ) -> RBMState:
        """Sweep every chain in place at its own β, first the hidden and then the visible units.

        Parameters
        ----------
        state : RBMState
            States of n chains.
        betas : ndarray of shape (n,)
        rng : Generator
            Seeds the compiled streams.
        sweeps : int
        stop : ndarray of uint8, shape (1,)
            Flag. If it is set, the current sweep is the last one.
        """
        if sweeps == 0:
            return state
        ordered = self._ordered(state, True, rng)
        ell = rbm_kernels.sweep(*ordered, np.asarray(betas, float), sweeps, stop)
        return state._replace(log_likelihood=ell)

    def run(
        self,
        state: RBMState,
        betas: np.ndarray,
        direction: Direction,
        rng: np.random.Generator,
        stop: np.ndarray = _NEVER,
    ) -> Run:
        """Anneal a block of chains, and overwrite ``state`` with the last states.

        A forward transition draws the hidden units and then the visible ones. Its reversal draws
        them in the opposite order. If a layer is integrated, the state is the other layer alone,
        and the transition is its own reversal.

        Parameters
        ----------
        state : RBMState
            States of n chains, from `draw_prior` or `draw_posterior`.
        betas : ndarray of shape (T + 1,)
            The schedule.
        direction : Direction
        rng : Generator
            Seeds the compiled streams.
        stop : ndarray of uint8, shape (1,)
            Flag. If it is set, the chains end early and their log weights are NaN.
        """
        forward = direction is Direction.FORWARD
        integrated = self.integrated != "none"
        visible_first = self.integrated != "visible" if integrated else forward
        ordered = self._ordered(state, visible_first, rng)
        betas = np.array(betas, dtype=float)  # a read-only array would need another compilation
        path = rbm_kernels.anneal(*ordered, betas, forward, integrated, stop)
        return Run.of_block(direction, *path)


def anneal(
    rbm: RBM,
    *,
    chains: int = 100,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    burn_in: int = 1000,
    **options: Any,
) -> xr.DataTree:
    """Sandwich the log partition function of an RBM between forward and reverse chains.

    Parameters
    ----------
    rbm : RBM
        Machine, with its prior and its integrated layer.
    chains : int, default 100
        Number of chains per direction, at least 2. They are run 100 at a time.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        Spacing of the inverse temperatures.
    burn_in : int, default 1000
        Number of sweeps before a reverse chain, if both layers have more than 20 units. Half of the
        sweeps anneal the state from the prior. The upper bound is then burned-in, or heuristic
        without any sweep. If a layer has at most 20 units, reverse chains start from exact samples.
        (With at most 25 units, `RBM.log_z` is exact.)
    **options
        The further options of `pymc_bdmc.anneal`: ``target_gap``, ``max_temperatures`` and
        ``max_time`` for rounds; ``random_seed``, ``cores``, ``executor``, ``progressbar``,
        ``store`` and ``callback``.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. After Ctrl-C, blocks of chains that were not finished are NaN.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or is pressed a second time.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(4), np.zeros(3), np.eye(4, 3))
    >>> dt = bdmc.rbm.anneal(rbm, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - rbm.log_z()) < 4 * error)
    True
    """
    runs = MachineChains(rbm, burn_in)
    return systems.anneal(
        runs, chains=chains, temperatures=temperatures, schedule=schedule, **options
    )


@dataclass(frozen=True)
class MachineChains:
    """Chains of a machine and the burn-in of their starts at β = 1, as given to `anneal`."""

    rbm: RBM
    burn_in: int = 1000
    block_size: ClassVar[int] = 100
    defaults: ClassVar[tuple[int, str]] = 1000, "linear"

    def __post_init__(self):
        if not isinstance(self.rbm, RBM):
            raise ValueError(f"rbm: a restricted Boltzmann machine is needed, got {self.rbm!r}.")
        check_counts(burn_in=self.burn_in)

    @property
    def description(self) -> str:
        """Name of a transition."""
        return self.rbm.description

    @property
    def attributes(self) -> dict[str, object]:
        """Attributes that describe the machine in a result."""
        status = self.rbm.posterior_status(self.burn_in)
        return {
            "system": f"RBM {self.rbm.a.size}x{self.rbm.b.size}",
            "upper_bound": status,
            "independent_starts": 1,
            "burn_in": self.burn_in if status == "burned-in" else 0,
        }

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a block; their log weights are NaN if ``stop`` is set."""
        rng = np.random.default_rng(beside(task.seed, Purpose.ANNEAL))
        if task.direction is Direction.FORWARD:
            state = self.rbm.draw_prior(task.chains, rng)
        else:
            state = self.rbm.draw_posterior(task.chains, rng, self.burn_in, stop)
        return self.rbm.run(state, task.betas, task.direction, rng, stop)


# --- Training ---


@dataclass(frozen=True)
class Training:
    """Trained machine, and its records by epoch.

    Attributes
    ----------
    rbm : RBM
        The machine, with the base rates of its training data as the prior.
    log_z : ndarray of shape (epochs + 1,)
        Estimate of log Z before training and after every epoch, nats.
    log_likelihood : ndarray of shape (epochs + 1,)
        Mean log likelihood of the training data with that log Z, nats.
    held_out : ndarray of shape (epochs + 1,)
        Mean log likelihood of the held-out data with that log Z, nats; NaN without held-out data.
    """

    rbm: RBM
    log_z: np.ndarray
    log_likelihood: np.ndarray
    held_out: np.ndarray


@dataclass(frozen=True)
class HeldOut:
    """Mean log likelihood of held-out data, nats, with the errors that come from log Z.

    Attributes
    ----------
    lower : Estimate
        Estimate from the stochastic upper bound on log Z.
    estimate : Estimate
        Estimate from Bennett's acceptance ratio.
    upper : Estimate
        Estimate from the stochastic lower bound on log Z.
    """

    lower: Estimate
    estimate: Estimate
    upper: Estimate


def train(
    data: ArrayLike,
    hidden: int,
    *,
    method: Literal["cd", "pcd"] = "pcd",
    steps: int = 1,
    epochs: int = 20,
    rate: float = 0.05,
    batch: int = 100,
    particles: int = 500,
    temperatures: int = 20,
    held_out: ArrayLike | None = None,
    random_seed: RandomSeed = None,
    progressbar: bool | str = True,
) -> Training:
    """Train by contrastive divergence (CD-k) or its persistent form (PCD), and track log Z.

    At first all weights are zero and log Z_β is known exactly. From then on, chains of simulated
    tempering track it at a ladder of β. Importance weights update log Z_β at every update of the
    parameters (Carlson et al. 2016, Eq. 24). After each sweep, a small step towards equal visits
    prevents errors from adding up. The parameters are not updated with these chains, since updates
    lower f at the chains of the negative phase. Anneal the trained machine to get log Z with an
    error.

    Parameters
    ----------
    data : array_like of shape (n, V)
        Zeros and ones.
    hidden : int
        Number of hidden units.
    method : {"cd", "pcd"}
        Whether the chains of the negative phase start from the data (Hinton 2002) or continue from
        their last states (Tieleman 2008).
    steps : int
        k, the number of sweeps per parameter update.
    epochs : int
        Number of passes through the data.
    rate : float
        Learning rate, which decreases linearly to zero over the epochs.
    batch : int
        Number of rows of the data per update.
    particles : int
        Number of chains that track log Z.
    temperatures : int
        Number of steps of the ladder of β. Larger machines need more.
    held_out : array_like of shape (m, V), optional
        Data that are scored but not used for training.
    random_seed : int, sequence of int, SeedSequence or Generator, optional
        Seed of the result.
    progressbar : bool or str, default True

    Returns
    -------
    Training
        The trained machine, or after Ctrl-C the machine of the last finished epoch.

    Raises
    ------
    ValueError
        If the data are not zeros and ones, the method is unknown, or the rate or a count is not
        positive.
    KeyboardInterrupt
        If Ctrl-C comes before an epoch is finished, or is pressed a second time.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.rbm import train
    >>> data = np.repeat([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], 100, axis=0)
    >>> training = train(data, 3, epochs=50, rate=0.2, batch=20, random_seed=1,
    ...                  progressbar=False)
    >>> bool(training.log_likelihood[-1] > training.log_likelihood[0] + 2)
    True
    >>> bool(abs(training.log_z[-1] - training.rbm.log_z()) < 0.3)
    True
    """
    check_counts(
        hidden=hidden, steps=steps, epochs=epochs, batch=batch, particles=particles,
        temperatures=temperatures,
    )  # fmt: skip
    data = np.asarray(data, dtype=np.float32)
    for name, given in {"data": data, "held_out": held_out}.items():
        rows = data if given is None else np.asarray(given)
        is_table = rows.ndim == 2 and rows.size > 0 and rows.shape[1:] == data.shape[-1:]
        if not (is_table and np.isin(rows, (0, 1)).all()):
            raise ValueError(f"{name}: expected rows of zeros and ones, as long as those of data.")
    check_positive(rate=rate)
    check_progressbar(progressbar)
    check_choice("method", method, ("cd", "pcd"))
    rng = np.random.default_rng(stream(entropy_of(random_seed), Purpose.TRAIN))
    rate_on = (data.sum(axis=0) + 1) / (len(data) + 2)
    a, b = logit(rate_on), np.zeros(hidden)
    rbm = RBM(a, b, np.zeros((len(a), hidden)), prior_log_odds=a)
    tracker, fantasy = _Tracker(rbm, particles, temperatures, rng), rbm.draw_prior(batch, rng)
    changed = RBM(a, b, rng.normal(0, 0.01, size=(len(a), hidden)), prior_log_odds=a)
    records = []
    n_batches = max(1, len(data) // batch)
    with (
        interruptible() as stop,
        threadpool_limits(1),  # rounding of matrix products depends on the number of threads
        ChainProgress({method: epochs}, progressbar, "Epochs", "log likelihood") as progress,
    ):
        for update in range(epochs * n_batches + 1):
            if stop[0]:
                break
            epoch, batch_number = divmod(update, n_batches)
            if batch_number == 0:
                batches = np.array_split(rng.permutation(len(data)), n_batches)
            rows = batches[batch_number]
            rbm = changed
            tracker.update(rbm, steps)
            if batch_number == 0:
                trained, log_z = rbm, tracker.log_z[-1]
                scores = [rbm.log_marginal(data).mean() - log_z, np.nan]
                if held_out is not None:
                    scores[1] = rbm.log_marginal(held_out).mean() - log_z
                records.append([log_z, *scores])
                progress.advance(method, int(epoch > 0), scores[0])
            if method == "cd":
                fantasy = rbm.completed(data[rows], rng)
            fantasy = rbm.step(fantasy, np.ones(len(fantasy.visible)), rng, sweeps=steps)
            changed = _updated(rbm, data[rows], fantasy.visible, rate * (1 - epoch / epochs))
        finished = len(records) - 1
        if finished < 1:
            raise KeyboardInterrupt
        if finished < epochs:
            _log.warning(f"Interrupted: the machine was trained for {finished} of {epochs} epochs.")
    return Training(trained, *np.array(records).T)


def _updated(rbm: RBM, data: np.ndarray, fantasy: np.ndarray, rate: float) -> RBM:
    """Return the machine after a step along the gradient, with the hidden units summed over."""
    on_data, on_fantasy = expit(rbm.b + data @ rbm.W), expit(rbm.b + fantasy @ rbm.W)
    return RBM(
        rbm.a + rate * (data.mean(axis=0) - fantasy.mean(axis=0)),
        rbm.b + rate * (on_data.mean(axis=0) - on_fantasy.mean(axis=0)),
        rbm.W + rate * (data.T @ on_data / len(data) - fantasy.T @ on_fantasy / len(fantasy)),
        rbm.prior_log_odds,
    )


class _Tracker:
    """Chains of simulated tempering that track log Z_β from zero weights, β log Σ_x exp(a·v)."""

    def __init__(self, rbm: RBM, chains: int, temperatures: int, rng: np.random.Generator):
        self.rng = rng
        self.betas = np.linspace(0, 1, temperatures + 1)
        self.log_z = self.betas * rbm.log_prior_constant
        self.state = rbm.draw_prior(chains, rng)
        self.places = rng.integers(len(self.betas), size=chains)

    def update(self, rbm: RBM, sweeps: int) -> None:
        """Continue with new parameters of a machine with the same prior."""
        before = self.state.log_likelihood
        log_q = np.log(place_probabilities(before, self.betas, self.log_z) + 1e-300)
        self.state = rbm.scored(self.state)
        gain = self.betas * (self.state.log_likelihood - before)[:, None]
        self.log_z = self.log_z + logsumexp(log_q + gain, axis=0) - logsumexp(log_q, axis=0)
        self.state = rbm.step(self.state, self.betas[self.places], self.rng, sweeps=sweeps)
        q = place_probabilities(self.state.log_likelihood, self.betas, self.log_z)
        self.places = draw_places(q, self.rng)
        uneven = np.log(q.mean(axis=0) * len(self.betas))
        self.log_z += 0.02 * (uneven - uneven[0])  # chosen: small, since a sweep has few visits


def held_out_log_likelihood(rbm: RBM, data: ArrayLike, dt: xr.DataTree) -> HeldOut:
    """Estimate the mean log likelihood of data under a machine, with two bounds.

    Parameters
    ----------
    rbm : RBM
    data : array_like of shape (n, V)
        Zeros and ones that were not used for training.
    dt : DataTree
        Result of `rbm.anneal` on that machine. The lower bound depends on the start of the reverse
        chains, ``dt.attrs["upper_bound"]``.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.rbm import RBM, held_out_log_likelihood
    >>> rbm = RBM(np.zeros(2), np.zeros(2), np.zeros((2, 2)))
    >>> group = xr.Dataset(dict(log_weight=(("dataset", "chain"), np.full((1, 9), np.log(16)))))
    >>> dt = xr.DataTree.from_dict(dict(forward=group, reverse=group))
    >>> float(round(held_out_log_likelihood(rbm, [[0, 1]], dt).estimate.value / np.log(2), 3))
    -2.0
    """
    mean = float(rbm.log_marginal(data).mean())
    weights = (dt[name].dataset["log_weight"].values for name in ("forward", "reverse"))
    forward, reverse = (each[~np.isnan(each)] for each in weights)  # Ctrl-C leaves some unfinished

    def bound(weights, side):
        error = float(np.std(weights, ddof=1) / np.sqrt(len(weights)))
        return Estimate(mean - float(weights.mean()), error, side, True, "mean log weight")

    log_z = bar(forward, reverse)
    estimate = Estimate(mean - log_z.value, log_z.error, "bar", log_z.valid, log_z.reason)
    return HeldOut(bound(reverse, "lower"), estimate, bound(forward, "upper"))


def binary_digits() -> np.ndarray:
    """Load scikit-learn's 1797 digits of 8×8 pixels as zeros and ones, shape (1797, 64).

    Raises
    ------
    ImportError
        Without scikit-learn; the message gives the command that installs it.

    Examples
    --------
    >>> from pymc_bdmc.rbm import binary_digits
    >>> binary_digits().shape
    (1797, 64)
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "The digits need scikit-learn: pip install 'pymc-bdmc[digits]'."
        ) from error
    return (load_digits().data > 8).astype(np.float32)
