"""Train restricted Boltzmann machines, track their log Z, and score them on held-out data."""

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp
from threadpoolctl import threadpool_limits

from pymc_bdmc.base.arguments import check_choice, check_counts, check_flags, check_positive
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.estimators import Estimate, bar, draw_places, place_probabilities
from pymc_bdmc.testbeds.rbm import RBM

_log = logging.getLogger("pymc.bdmc")


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
    progressbar: bool = True,
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
    progressbar : bool, default True

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
    check_flags(progressbar=progressbar)
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
                scores = [_mean_log_marginal(rbm, each) - log_z for each in (data, held_out)]
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


def _mean_log_marginal(rbm: RBM, data) -> float:
    return np.nan if data is None else float(rbm.log_marginal(data).mean())


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
    mean = _mean_log_marginal(rbm, data)
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
