r"""Test samplers by bets on features that are fair if the sampler is correct (e-processes).

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
from itertools import combinations
from typing import Literal

import numpy as np
import pymc as pm
from pytensor.gradient import NullTypeGradError
from scipy.special import log_expit, logsumexp

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.streams import Purpose, RandomSeed, entropy_of, stream
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.refuse import angles, check_simulable, checked_model
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask
from pymc_bdmc.estimators.exchangeability import interquartile_range
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import Sampler, Subject, make_subject, name_of

SHAPES = ("location", "spread", "skewness", "tails")
"""Properties of every value that are compared."""

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


class Features:
    """Features of the elements of θ, the slopes of log p, log p itself and moments of the data.

    The slope ∂ log p(θ, y)/∂θ_i shows the position of θ_i within its posterior, for any data. For a
    normal posterior it is the distance from the conditional mean divided by the conditional
    variance. So slopes show faults that are small relative to the prior but not to the posterior.

    Each value is converted to u in (0, 1) by its rank among joint draws, so values may have any
    distribution. The features are cos(πju) for j = 1, 2, 3, 4, which respond to location, spread,
    skewness and tails (Neyman 1937, Smooth test for goodness of fit).

    ``draw`` returns θ from the joint distribution and sets its data in the density. Moments of the
    observed variables are among the values if ``data`` is true. ``titles`` are those of features,
    such as ``"spread of mu"``.
    """

    def __init__(
        self,
        density: TemperedDensity,
        draw: Callable[[], Point],
        rng: np.random.Generator,
        data: bool = False,
    ):
        self._density = density
        model = density.model
        self._observed = list(model.observed.items()) if data else []
        self._slopes = _gradient_of(density)
        self._angles = {model.rvs_to_values[rv].name for rv in angles(model)}
        learned = [self._parts(draw()) for _ in range(500)]  # draws that are not tested
        elements, slopes, _ = map(np.array, zip(*learned, strict=True))
        self._centre, self._scale = np.median(elements, axis=0), _spread(elements)
        self._steepness = _spread(slopes)
        pairs = list(combinations(range(elements.shape[1]), 2))
        most = 45  # products of two elements
        if len(pairs) > most:
            pairs = [pairs[i] for i in rng.choice(len(pairs), most, replace=False)]
        self._pairs = np.array(pairs, dtype=int).reshape(-1, 2).T
        values = np.transpose([self._values(*parts) for parts in learned])
        self._learned = list(zip(*map(_midranks, values), strict=True))
        self.names = self._named()
        self.titles = [f"{shape} of {name}" for name in self.names for shape in SHAPES]

    def too_small(self, ratio: float) -> str:
        """Describe the effects that are too small to be found."""
        scale = "posterior" if len(self._steepness) else "prior"
        # Derivatives of the means of the first two waves of a normal value, with respect to its
        # mean in standard deviations and to the log of its standard deviation: 0.671 and 0.742
        return (
            f"small effects: shifts of a mean by less than about {ratio / 0.671:.2g} {scale} "
            f"standard deviations, or relative changes of a standard deviation by less than about "
            f"{np.expm1(ratio / 0.742):.2g}, on each data set"
        )

    def _named(self) -> list[str]:
        elements = {
            self._density.titles[name] + (str(list(place)) if place else ""): name
            for name, shape in self._density.shapes.items()
            for place in np.ndindex(shape)
        }
        names, slopes = list(elements), []
        pairs = [f"{names[i]} · {names[j]}" for i, j in self._pairs.T]
        if len(self._steepness):
            sloping = {value.name for value in self._density.model.continuous_value_vars}
            slopes = [f"slope along {each}" for each in names if elements[each] in sloping]
            slopes.append("size of the slopes")
        moments = [f"{name}{of}" for name, _ in self._observed for of in (" mean", " mean square")]
        logs = ["log prior", "log likelihood", "log joint"]
        return [*elements, *pairs, *slopes, *logs, *moments]

    def _parts(self, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return elements of θ, slopes, and log p, ℓ, their sum and moments of the data."""
        # Angles are reduced modulo a full turn.
        turned = {
            name: np.arctan2(np.sin(point[name]), np.cos(point[name])) for name in self._angles
        }
        elements = [np.asarray(x, float).ravel() for x in ({**point} | turned).values()]
        data = [shared.get_value(borrow=True) for _, shared in self._observed]
        moments = [np.mean(y**power) if y.size else 0.0 for y in data for power in (1, 2)]
        log_prior, ell = map(float, self._density.terms(point, self._density.present_data))
        others = np.array([log_prior, ell, log_prior + ell, *moments])
        return np.concatenate(elements), self._slopes(point), others

    def _values(self, elements: np.ndarray, slopes: np.ndarray, others: np.ndarray) -> np.ndarray:
        standard = (elements - self._centre) / self._scale
        pairs = standard[self._pairs[0]] * standard[self._pairs[1]]
        size = [np.sum((slopes / self._steepness) ** 2)] if slopes.size else []
        return np.concatenate([elements, pairs, slopes, size, others])

    def values(self, points: Sequence[Point]) -> np.ndarray:
        """Return the named values at each θ, shape (points, names), with −∞ in place of NaN."""
        found = np.array([self._values(*self._parts(point)) for point in points])
        return np.where(np.isnan(found), -np.inf, found)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the features of named values, from −1 to 1, shape (..., names, shapes)."""
        columns = zip(np.moveaxis(values, -1, 0), *self._learned, strict=True)
        return waves(np.stack([np.interp(*column) for column in columns], axis=-1))


def _gradient_of(density: TemperedDensity) -> Callable[[Point], np.ndarray]:
    """Return the slopes of log p(θ, y) along continuous elements, or none without a gradient."""
    try:
        gradient = density.gradient
    except (NotImplementedError, NullTypeGradError):
        return lambda point: np.zeros(0)

    def slopes(point: Point) -> np.ndarray:
        density.set_beta(1.0)
        return np.concatenate(
            [np.zeros(0), *map(np.ravel, gradient(point, density.present_data).values())]
        )

    return slopes


def _spread(values: np.ndarray) -> np.ndarray:
    """Return the interquartile range of every column, with 0 in place of infinite values."""
    return interquartile_range(np.nan_to_num(values, posinf=0, neginf=0))


def waves(ranks: np.ndarray) -> np.ndarray:
    """Return cos(πju), whose mean is 0 for uniform u, with j along the last axis."""
    return np.cos(np.pi * ranks[..., None] * np.arange(1, len(SHAPES) + 1))


def _midranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct values and their relative mean ranks, for interpolation."""
    values, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if not values.size:
        return np.zeros(1), np.full(1, 0.5)
    return values, (np.cumsum(counts) - counts / 2) / counts.sum()


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
