r"""Test samplers by bets that are fair if the sampler is correct (e-processes).

A bettor starts with capital 1. On every new observation the bettor stakes a share of the capital
that was fixed beforehand, at odds that are fair for a correct sampler. So the capital M is a
nonnegative martingale of mean 1, and P(M ever reaches 1/α) ≤ α for any stopping rule (Ville 1939;
Grünwald, de Heide and Koolen 2024, Safe Testing). The mean capital of many bettors is also such a
martingale. So one check can test many directions, sizes and functions of a fault at once, at the
cost of the logarithm of their number.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
import pymc as pm
from scipy.special import log_expit, logsumexp

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.refuse import check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask
from pymc_bdmc.testing.features import Features
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Sampler, Subject, make_subject, name_of

STAKES = 0.9 * 2.0 ** -np.arange(8)
"""Stakes as shares of the capital. Bets with two directions use every stake in both."""


class Bets:
    """Capitals of bettors, in blocks of equally large groups named by the subject of their bets."""

    def __init__(self, *blocks: Sequence[str]):
        self._names = [name for names in blocks for name in names]
        self._log_capitals = [np.zeros((len(names), 1)) for names in blocks]

    def pay(self, *log_payoffs: np.ndarray | float) -> None:
        """Add log payoffs by block, shape (groups, bettors), or 0.0 if nothing was staked."""
        pairs = zip(self._log_capitals, log_payoffs, strict=True)
        with np.errstate(invalid="ignore"):
            capitals = [capital + log_payoff for capital, log_payoff in pairs]
        # A bettor without capital stays without: −∞ + ∞.
        self._log_capitals = [np.where(np.isnan(each), -np.inf, each) for each in capitals]

    @property
    def _log_evidence(self) -> np.ndarray:
        """Return the log of the mean capital by group, shape (groups,)."""
        means = [logsumexp(each, axis=1) - np.log(each.shape[1]) for each in self._log_capitals]
        return np.concatenate(means)

    @property
    def evidence(self) -> float:
        """Return the e-value, the mean capital of all groups."""
        with np.errstate(over="ignore"):
            return float(np.exp(logsumexp(self._log_evidence) - np.log(len(self._names))))

    def findings(self, alpha: float) -> tuple[str, ...]:
        """Return the groups with an e-value of at least 1/alpha, in decreasing order."""
        log_evidence = self._log_evidence
        order = np.argsort(-log_evidence, kind="stable")
        return tuple(self._names[i] for i in order if log_evidence[i] >= -np.log(alpha))


def even_chance(n: int, n_groups: int, alpha: float) -> float:
    """Return the mean that n bets detect with probability 1/2, in standard deviations of a bet.

    With the best stake on a mean μ of standard deviation σ, the log capital grows by (μ/σ)²/2 per
    observation (Kelly 1956). It must grow by log(1/alpha) and the log of the number of bettors.
    """
    return float(np.sqrt(2 * np.log(2 * len(STAKES) * n_groups / alpha) / n))


def fair_bets(values: np.ndarray) -> np.ndarray:
    """Return log payoffs of bets on the sign of a mean that is 0 for a correct sampler.

    A stake of λ on the value d pays 1 + λ·d, which has mean 1 and is positive (Waudby-Smith and
    Ramdas 2024, Estimating means of bounded random variables by betting, Section 4).

    Parameters
    ----------
    values : ndarray of shape (n, groups)
        Observations from −1 to 1.

    Returns
    -------
    ndarray of shape (groups, bettors)
        Sums over the n observations, as from the other functions of bets.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.testing.bets import Bets, fair_bets
    >>> bets = Bets(["location"])
    >>> for difference in np.random.default_rng(1).uniform(-0.9, 1, size=8000):
    ...     bets.pay(fair_bets(np.array([[difference]])))
    >>> bets.evidence > 1e3, bets.findings(alpha=1e-3)
    (True, ('location',))
    """
    stakes = np.concatenate([STAKES, -STAKES])
    return np.log1p(values[:, :, None] * stakes).sum(axis=0)


def unit_bets(values: np.ndarray) -> np.ndarray:
    """Return log payoffs of bets on means above 1 of values ≥ 0, shape (n, groups)."""
    return np.log1p((values[:, :, None] - 1) * STAKES).sum(axis=0)


def odds_bets(log_odds: np.ndarray, happened: np.ndarray) -> np.ndarray:
    """Return log payoffs of bets against the claimed log odds of an event, both of shape (groups,).

    If p is claimed, a bettor who believes in a probability q is paid q/p if the event happens and
    (1 − q)/(1 − p) otherwise. If p is right, the mean of this payoff is 1.
    """
    sign = np.where(happened, 1.0, -1.0)[:, None]
    claimed = np.clip(log_odds, -1e300, 1e300)[:, None]  # avoids 2·∞ − ∞
    # Bettors believe in the log odds shift + slope · claimed log odds.
    shifts = np.array([-2.0, -1.0, -0.5, -0.2, 0.0, 0.2, 0.5, 1.0, 2.0])
    slopes = np.array([0.0, 0.5, 0.8, 1.0, 1.25, 2.0])
    believed = (shifts[:, None] + slopes * claimed[:, :, None]).reshape(len(log_odds), -1)
    return log_expit(sign * believed) - log_expit(sign * claimed)


def tilted_bets(weights: np.ndarray, reached: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return log payoffs of bets on h of weighted states against h′ of exact states, (n, groups).

    If weights w ≥ 0, of this shape or (n, 1), have mean 1 and the weighted states are distributed
    as exact ones, w·(1 ± h) − (1 ± h′) has mean 0 and is at least −2.
    """
    gains = [weights * (1 + sign * reached) - (1 + sign * exact) for sign in (1, -1)]
    pays = np.log1p(np.multiply.outer(gains, STAKES / 2)).sum(axis=1)
    return pays.swapaxes(0, 1).reshape(exact.shape[1], -1)


def order_bets(log_odds: np.ndarray, differences: np.ndarray) -> np.ndarray:
    """Return log payoffs of bets against the claimed log odds of the observed order of pairs.

    Log odds have shape (n, 1) or (n, groups). Bettors change them by multiples of differences whose
    sign depends on the order, shape (n, groups).
    """
    claimed = np.clip(log_odds, -1e300, 1e300)[:, :, None]
    multiples = np.array([-4.0, -2.0, -1.0, -0.5, -0.2, 0.2, 0.5, 1.0, 2.0, 4.0])
    with np.errstate(over="ignore"):
        believed = claimed + np.clip(differences, -1e300, 1e300)[:, :, None] * multiples
    return np.sum(log_expit(believed) - log_expit(claimed), axis=0)


class Check:
    """Running check with a budget for its cost; ``alpha`` is None if it is deterministic."""

    def __init__(self, name: str, budget: int, random_seed: RandomSeed, alpha: float | None = None):
        if alpha is not None and not 0 < alpha < 1:
            raise ValueError(f"alpha: must lie between 0 and 1, got {alpha!r}.")
        check_counts(budget=budget)
        self.budget, self.alpha, self.entropy = budget, alpha or 0.0, entropy_of(random_seed)
        self.spent = 0
        self.findings: dict[str, str] = {}  # first fault of each kind, if deterministic
        self._name, self._started = name, time.perf_counter()

    def generator(self, purpose: Purpose = Purpose.SIMULATE) -> np.random.Generator:
        """Return a new generator for this purpose."""
        return np.random.default_rng(stream(self.entropy, purpose))

    def densities(self, *models: pm.Model, simulated: bool = True) -> list[TemperedDensity]:
        """Return the densities of models that can be annealed and, if needed, simulated."""
        plain = [checked_model(model) for model in models]
        for model in plain if simulated else []:
            check_simulable(model)
        return [TemperedDensity(model).check() for model in plain]

    def bet(
        self, bets: Bets, observe: Callable[[int], Sequence], cost: int = 1, batch: int = 1
    ) -> None:
        """Bet on data sets, each at this cost, until there is a verdict after some batch.

        ``observe`` returns the payoffs on n data sets.
        """
        while bets.evidence < 1 / self.alpha and self.spent + cost <= self.budget:
            n = min(batch, (self.budget - self.spent) // cost)
            with np.errstate(over="ignore"):  # step methods overflow before they reject
                bets.pay(*observe(n))
            self.spent += n * cost

    def report(
        self,
        subject: str,
        blind_to: Sequence[str],
        findings: Sequence[str] | None = None,
        evidence: float | None = None,
        kind: Literal["e-value", "p-value"] = "p-value",
    ) -> Report:
        """Return the verdict, which an e-value decides if there is one, and else the findings."""
        findings = list(self.findings.values()) if findings is None else findings
        evidence = float(not findings) if evidence is None else evidence
        passed = evidence < 1 / self.alpha if kind == "e-value" else not findings
        return Report(
            self._name, subject, passed, self.alpha, evidence, kind, self.spent,
            time.perf_counter() - self._started, self.entropy,
            () if passed else tuple(findings), tuple(blind_to),
        )  # fmt: skip


class Trial(Check):
    """Running check of a sampler on a model, whose observed variables are simulated.

    ``density`` has the data of the last draw, and ``rng`` is the sampler's generator. ``features``
    include those of the data if ``data`` is true. ``counts`` are options of the check.
    """

    def __init__(
        self,
        name: str,
        model: pm.Model,
        alpha: float,
        budget: int,
        random_seed: RandomSeed,
        counts: Mapping[str, int] | None = None,
        data: bool = False,
    ):
        super().__init__(name, budget, random_seed, alpha)
        check_counts(**counts or {})
        (self.density,) = self.densities(model)
        self._joint = self.density.joint()
        self._joint.seed(self.generator())
        self.rng = self.generator(Purpose.ANNEAL)
        self.features = Features(self.density, self.draw, self.rng, data)

    def draw(self) -> Point:
        """Draw θ and data jointly, and set the data in the density."""
        point, data, _ = self._joint.draw_supported()
        self.density.set_data(data)
        return point

    def renew_data(self, point: Point) -> None:
        """Set new data in the density, drawn given θ."""
        free = [rv.name for rv in self.density.model.free_RVs]
        constrained = self.density.constrain({name: x[None] for name, x in point.items()})
        simulator = self.density.joint(given=free)
        simulator.seed(self.rng)
        self.density.set_data(simulator.draw(*(constrained[name][0] for name in free))[1])

    def run(
        self,
        step: Sampler,
        betas: np.ndarray,
        names: Sequence[Sequence[str]],
        observe: Callable[[Subject, int], Sequence[np.ndarray | float]],
        cost: int,
        noise: float,
        blind_to: Sequence[str] = ("slow mixing: a sampler that never moves passes",),
    ) -> Report:
        """Tune the sampler on the data of another draw, and bet until there is a verdict.

        ``names`` are those of `Bets`. ``observe`` draws θ and n data sets, each at this cost, and
        returns the payoffs. ``noise`` is the standard deviation of a bet in units of its mean.
        """
        if cost > self.budget:
            raise ValueError(f"budget: one data set takes {cost}, got {self.budget}.")
        bets, title = Bets(*names), name_of(step)
        _, data, _ = self._joint.draw_supported()
        try:
            with np.errstate(over="ignore"):
                pilot = PilotTask(data, stream(self.entropy, Purpose.PILOT))
                subject = make_subject(step, self.density, betas, pilot)
            title = subject.title
            self.bet(bets, partial(observe, subject), cost, batch=10)
            findings, evidence = bets.findings(self.alpha), bets.evidence
        except FloatingPointError as error:
            findings, evidence = (f"reached a state without a density: {error}",), np.inf
        smallest = noise * even_chance(self.budget // cost, sum(map(len, names)), self.alpha)
        blind_to = [*blind_to, self.features.too_small(smallest)]
        return self.report(title, blind_to, findings, evidence, "e-value")
