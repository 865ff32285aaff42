"""Runs that need no annealing: importance sampling from a reference near the posterior."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import ClassVar, NamedTuple, cast

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Point, Population, Run
from pymc_bdmc.engines.compiled.counted import Counted
from pymc_bdmc.engines.compiled.improving import (
    CHECKED,
    Drawn,
    adapted,
    improved,
    log_weights_at,
    second_moment,
    weighted,
)
from pymc_bdmc.engines.compiled.nested import Split, fit_nested, refit_nested
from pymc_bdmc.engines.compiled.tops import BY_GRADIENTS, LOST, fit_to_tops
from pymc_bdmc.engines.tasks import MOST_VARIANCE, Fit
from pymc_bdmc.estimators.tails import shape_of_weights
from pymc_bdmc.kernels.annealed import AnnealedReference
from pymc_bdmc.kernels.defensive import Defensive
from pymc_bdmc.kernels.metric import root_of, spread_of
from pymc_bdmc.kernels.nested import MOST_OTHERS, NestedReference
from pymc_bdmc.kernels.reference import AnyReference, Reference, metric_at

__all__ = [
    "FEW_PRIOR_STATES",
    "PRIOR_STATES",
    "DrawTuning",
    "Fitting",
    "Structure",
    "settled",
    "weigh",
]

CLIMBS, FEW_CLIMBS = 16, 4
"""Fewest climbs from prior draws on a first data set, where the chance that all end at the same of
two tops with equal basins is 3e-5; and for each top of it on those like it."""
OVERLOOKED = 1e-3
"""Largest chance, on a first data set, that one top more than were found, with as large a basin, is
overlooked: 16 climbs for one top, 20 for two, 48 for five and 58 for six."""
PRIOR_STATES, FEW_PRIOR_STATES = 256, 64
"""Prior draws among which a fit looks for what it misses; those at hand on further data."""
HEAVY = 1.0
"""Largest Pareto k of these weights, above which they would have no mean."""
RARE, MISSED = 3.0, 0.03
"""Nats by which log r lies below the log posterior where r misses it, and the share of the
posterior there, by prior draws, from which a fit is not used."""
MOST_SURPLUS = 5.0
"""Nats by which g may be larger at likely states that climbs passed than at any draw from a fit.
Measured on thin ridges (6 nats or more) and on models of which a normal mixture is a good fit
(below 3)."""
UNSEEN = -5.0
"""Nats of ℓ above log ML up to which prior draws together hold less than a third of that share."""
LIKELIEST = 2
"""Prior draws from which the likelihood alone is climbed if priors have heavy tails."""
REMEMBERED, MARGIN = 1e-3, 2.0
"""Share of a state's law that a burn-in may leave, and how many times as large as seen at the draws
by which a fit is judged the largest weight is taken to be."""
SHARES, MANY = (0.1, 0.25, 0.5, 0.75), 512
"""Shares of the prior in a defensive reference, and the draws by which the best is found."""
EVEN = 1.0
"""Relative variance of weights up to which more draws than the fewest are not needed."""
STEPS = {12: 1.0, 32: 1.0, 96: 4.0}
"""Temperatures at which latent variables are annealed, by the relative variance of weights from
which this is tried: about where it makes log Ẑ more exact for the same gradients."""
MOST_TAME_VARIANCE = 64.0
"""Largest relative variance of weights of a good nested or defensive fit: more draws are cheaper
than annealing, and the tails of these weights are known to be light."""


@dataclass(frozen=True, eq=False)
class DrawTuning:
    """Tuning of runs with T = 1 that weigh draws from a reference, which no kernel moves.

    Attributes
    ----------
    reference : AnyReference
    mean_log_likelihood : ndarray of shape (2,)
        Means of g = log p + ℓ − log r under r and under the posterior, nats.
    prior_log_likelihood : ndarray of shape (S,)
        g > −∞ at draws from r, nats.
    gradient_evaluations : int
        Cost of the fit.
    gradients_a_move : float
        Evaluations of log p + ℓ that a draw and its weight take.
    seconds_a_move : float
        CPU seconds of them.
    """

    reference: AnyReference
    mean_log_likelihood: np.ndarray
    prior_log_likelihood: np.ndarray
    gradient_evaluations: int
    gradients_a_move: float = 1.0
    seconds_a_move: float = field(default=np.nan, compare=False)
    path_betas: ClassVar[np.ndarray] = np.array([0.0, 1.0])
    accepted_draws: ClassVar[int] = 1
    rhat: ClassVar[float] = np.nan
    last_log_likelihood: ClassVar[np.ndarray] = np.empty(0)
    fit: ClassVar[None] = None
    peaks: ClassVar[int] = 0
    weighs_draws: ClassVar[bool] = True

    @property
    def is_nested(self) -> bool:
        """Whether draws are normal in the latent variables, so that they reach into necks."""
        return isinstance(_core_of(self.reference), NestedReference)

    @property
    def knows_tails(self) -> bool:
        """Whether the structure of the model says how heavy the tails of the reference must be."""
        return _is_tame(self.reference)

    @property
    def _log_remembered(self) -> float:
        """Log of the share of a state's law that a Metropolis move to a draw leaves, at most.

        The move forgets the state with a probability of at least the mean over the largest weight:
        Mengersen and Tweedie (1996).
        """
        g = self.prior_log_likelihood
        largest = MARGIN * np.exp(g.max() - logsumexp(g)) * len(g)
        return float(np.log1p(-1 / largest))

    @property
    def moves_to_forget(self) -> int:
        """Metropolis moves to draws after which `REMEMBERED` is left of a state."""
        return int(np.ceil(np.log(REMEMBERED) / self._log_remembered))

    def distance_after(self, moves: int) -> float:
        """Return the total variation from the posterior that so many moves leave, at most."""
        return float(np.exp(moves * self._log_remembered))

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return NaN at each β."""
        return np.full(len(betas), np.nan)


class Structure(NamedTuple):
    """Signs in a model that its posterior is hard to fit."""

    split: Split
    is_centred: bool
    """Whether the scale of some effects is unknown, so that the posterior may have a neck."""
    has_heavy_tails: bool
    """Whether a prior has polynomial tails, which the posterior has too if ℓ is flat there."""


class Fitting:
    """Fits to one data set.

    Parameters
    ----------
    density : Counted
    prior : ndarray of shape (P, n)
        Prior draws.
    structure : Structure
    rng : numpy.random.Generator
    """

    def __init__(
        self, density: Counted, prior: np.ndarray, structure: Structure, rng: np.random.Generator
    ):
        self._density, self._prior, self._structure, self._rng = density, prior, structure, rng
        self._log_prior, self._ells = density.terms(prior).T

    def first(
        self,
        given: Reference | None,
        degrees_of_freedom: float | None = None,
        named: Split | None = None,
    ) -> Fit:
        """Find a reference from which draws need no annealing; see `Fit`.

        A t distribution is laid at every top that climbs come to, or a nested reference at the
        modes of its marginal. Then draws from it are weighed: their weights must be even enough,
        and hardly any of the posterior may lie where prior draws find it and the reference does
        not. A fit of t distributions is not tried if effects are centred, since it cannot reach
        into the neck of their funnel. Otherwise it comes first, and the nested one is tried if its
        weights are uneven; the cheaper one is taken.

        Parameters
        ----------
        given : Reference or None
            A reference that is taken in place of a fit, if it is good enough.
        degrees_of_freedom : float, optional
            Degrees of freedom of a fit, if they were chosen.
        named : Split, optional
            The latent variables that were named, with which a nested reference is tried first.
        """
        if not (self._log_prior + self._ells < np.inf).all() or not len(self._prior):  # or NaN
            return self._failed("log p is NaN or +∞ at some prior draws")
        known = ""
        if given is not None:
            fit = self._judged(given, "fitted to the draws that were given")
            if fit.tuning is not None:
                return fit
            known = f"a fit to the draws that were given is far from the posterior ({fit.reason}); "
        if named is not None:
            # As many climbs as for θ: parameters may be of any kind, with a mode for either sign.
            fit = self._nested(named, climbs=CLIMBS)
            if fit.tuning is not None:
                return fit
            told = f"{named.title}: {fit.reason}"
            known = f"a fit with the latent variables that were named fails ({told}); "
        may_nest = self._structure.split.is_possible
        fits = []
        if not (may_nest and self._structure.is_centred):
            fits.append(self._by_tops(degrees_of_freedom))
        if may_nest and not (fits and fits[0].variance <= EVEN):
            fits.append(self._nested(self._structure.split))
        fit = min(fits, key=_price)
        if fit.tuning is None:
            reason = "; ".join(each.reason for each in fits)
            fit = fit._replace(reason=reason, misses=any(each.misses for each in fits))
        return fit._replace(
            reason=known + fit.reason,
            gradient_evaluations=self._density.evaluations,
            refuses_given=bool(known),
            seconds=self._density.seconds,
        )

    def further(self, known: DrawTuning) -> Fit:
        """Fit a reference to data like those of a known tuning.

        Climbs start at the known tops, and at some prior draws. The fit fails if they came to no
        top, or may have missed one. It is judged less than a first one: the runs on these data show
        what it misses.
        """
        like = _core_of(known.reference)
        reference: AnyReference | None
        if isinstance(like, NestedReference):
            reference, reason = refit_nested(self._density, like, self._prior, self._rng)
            if reference and isinstance(known.reference, AnnealedReference):
                reference = known.reference._replace(reference=reference)
        else:
            reference, reason = self._near(cast(Reference, like))
        if reference is None:
            return self._failed(reason)
        drawn = self._weighed(reference, isinstance(known.reference, Defensive))
        if not drawn.variance < np.inf:
            return self._failed("log p is NaN or +∞ at a draw from a fit")
        return self._fit(drawn, reason)

    def _near(self, like: Reference) -> tuple[Reference | None, str]:
        """Return t distributions at tops near those of other data, or None and the reason."""
        further = FEW_CLIMBS * len(like.locations)
        starts = chain(like.locations, _starts(self._prior, self._ells, further))
        climbs, shape = len(like.locations) + further, metric_at(like, 0)
        tops = fit_to_tops(
            self._density, starts, shape, climbs, like.degrees_of_freedom,
            climbing=self._density.climbing, most_lost=self._most_lost,
        )  # fmt: skip
        return (tops.reference if tops.is_all else None), tops.reason

    def _by_tops(self, degrees_of_freedom: float | None) -> Fit:
        """Fit t distributions to all tops."""
        prior = self._prior
        if prior.shape[1] > (most := self._density.climbing.most_elements):
            return self._failed(f"θ has more than {most} elements")
        starts = _starts(prior, self._ells, CLIMBS)
        if self._structure.has_heavy_tails:
            starts = chain(self._apart(), starts)
        tops = fit_to_tops(
            self._density, starts, spread_of(prior), CLIMBS, degrees_of_freedom, OVERLOOKED,
            self._density.climbing, self._most_lost,
        )  # fmt: skip
        if tops.reference is None or not tops.is_all:
            return self._failed(tops.reason)
        return self._judged(tops.reference, tops.reason)

    def _apart(self) -> list[np.ndarray]:
        """Return where climbs start at both ends, if prior and likelihood may be in conflict.

        If the tails of the prior are heavy, the posterior may have a mode near either. One start is
        the likeliest prior draw by the posterior density. From the others, those with the largest
        ℓ, a climb of ℓ alone comes to the mode of the likelihood.
        """
        prior, density = self._prior, self._density
        starts = [prior[np.argmax(self._log_prior + self._ells)]]
        if density.climbing is BY_GRADIENTS:
            root = root_of(spread_of(prior))
            for start in prior[np.argsort(-self._ells, kind="stable")[:LIKELIEST]]:
                end = BY_GRADIENTS.climb(density.likelihood, start, root, lambda theta: None)
                starts += [] if end is None else [end]
        return starts

    @property
    def _most_lost(self) -> float:
        """Return the share of climbs that may be lost; far out in heavy tails all of them are."""
        return 1.0 if self._structure.has_heavy_tails else LOST

    def _nested(self, split: Split, **climbs: int) -> Fit:
        """Fit a nested reference."""
        shape = spread_of(self._prior)
        reference, reason = fit_nested(
            self._density, self._prior, self._ells, split, shape, self._rng, **climbs
        )
        if reference is None:
            return self._failed(reason)
        return self._judged(reference, f"{split.title}: {reason}")

    def _weighed(self, reference: AnyReference, is_defensive: bool) -> Drawn:
        """Return weighted draws from a reference; if it is one of t distributions, improve it."""
        density, rng = self._density, self._rng
        if is_defensive and isinstance(reference, Reference) and self._is_small:
            found = adapted(density, reference, MANY, rng, partial(Defensive, share=SHARES[0]))
            return self._defended(found.reference.reference)
        drawn: Drawn = weighted(density, reference, CHECKED, rng)
        if isinstance(reference, Reference):
            drawn = improved(density, drawn, rng)
        if is_defensive:
            return self._defended(drawn.reference)
        return drawn if isinstance(reference, Reference) else self._annealed(drawn)

    def _annealed(self, drawn: Drawn) -> Drawn:
        """Return draws whose latent variables are annealed, if those at hand are too uneven."""
        nested = cast(NestedReference, _core_of(drawn.reference))
        at_hand = getattr(drawn.reference, "temperatures", 0)
        if np.isinf(nested.accuracy):  # the latent variables are normal
            return drawn
        nested = nested._replace(degrees_of_freedom=np.inf)
        for steps, uneven in STEPS.items():
            if steps > at_hand and drawn.variance > uneven:
                annealed = AnnealedReference(nested, steps)
                found: Drawn = weighted(self._density, annealed, CHECKED, self._rng)
                drawn = found if found.variance < drawn.variance else drawn
        return drawn

    @property
    def _is_small(self) -> bool:
        """Return whether a mixture can be adapted: few elements, and evaluations that are cheap."""
        return self._prior.shape[1] <= MOST_OTHERS and self._density.climbing is BY_GRADIENTS

    def _defended(self, reference: AnyReference) -> Drawn:
        """Return weighted draws from a reference with the share of the prior that is best."""
        density, even = self._density, Defensive(reference, 0.5)
        thetas, log_r = even.sample(MANY, self._rng, density)
        log_f, log_ps = density.terms(thetas).sum(axis=1), even.parts(thetas, density, self._rng)
        candidates = [even._replace(share=share) for share in SHARES]
        second = [second_moment(log_f - log_r, log_f - each.mixed(*log_ps)) for each in candidates]
        return weighted(density, candidates[int(np.argmin(second))], MANY, self._rng)

    def _judged(self, reference: AnyReference, reason: str) -> Fit:
        """Return the fit, improved by its own draws; no tuning if these need annealing."""
        drawn = self._weighed(reference, self._structure.has_heavy_tails)
        is_bounded = isinstance(drawn.reference, Defensive)
        if not drawn.variance <= _most_variance(drawn.reference):
            return self._failed(
                f"weights of draws from a fit have a relative variance of {drawn.variance:.2g}"
            )
        tail = shape_of_weights(np.exp(drawn.g - drawn.g.max()))
        if tail > HEAVY and not is_bounded:
            return self._failed(
                f"weights of draws from a fit may have no mean (Pareto k = {tail:.2g})"
            )
        if not is_bounded and (missed := self._missed(drawn)) > MISSED:
            part = f"{min(missed, 1):.0%} of the posterior"
            return self._failed(
                f"weighted prior draws put {part} where a fit has almost no probability"
            )._replace(misses=True)
        if isinstance(reference, Reference) and (surplus := self._surplus(drawn)) > MOST_SURPLUS:
            return self._failed(
                "optimisations passed likely states where a fit has almost no probability (its "
                f"density there is {surplus:.2g} nats too low)"
            )
        share = 1 / (1 + drawn.variance)
        reason += f"; draws from the fit have a relative effective sample size of {share:.0%}"
        return self._fit(drawn, reason)

    def _surplus(self, drawn: Drawn) -> float:
        """Return how far g exceeds all values at draws, at likely states that climbs passed; nats.

        Climbs follow a thin curved ridge, whose arms a normal approximation at its top does not
        cover; draws from that may all have even weights.
        """
        thetas, heights = self._density.most_likely_passed()
        if not len(thetas):  # nothing was climbed
            return -np.inf
        log_r = drawn.reference.log_density(thetas, self._density, self._rng)
        return float((heights - log_r).max() - drawn.g.max())

    def _failed(self, reason: str) -> Fit:
        return Fit(None, reason, np.inf, self._density.evaluations)

    def _fit(self, drawn: Drawn, reason: str) -> Fit:
        """Return the fit that draws show."""
        density, weights, seen = self._density, softmax(drawn.g), drawn.g > -np.inf
        means = np.array([drawn.g[seen].mean(), weights[seen] @ drawn.g[seen]])
        price = drawn.evaluations / len(drawn.g)
        tuning = DrawTuning(
            drawn.reference, means, drawn.g[seen], density.evaluations, price,
            price * density.seconds,
        )  # fmt: skip
        most = _most_variance(drawn.reference)
        return Fit(tuning, reason, drawn.variance, density.evaluations, most)

    def _missed(self, drawn: Drawn) -> float:
        """Return the share of the posterior where the reference has little mass, by prior draws."""
        log_ml = logsumexp(drawn.g) - np.log(len(drawn.g))
        heavy = self._ells - log_ml > UNSEEN  # the others cannot add up to what matters
        found = np.zeros(len(self._prior))
        if heavy.any():
            log_r = drawn.reference.log_density(self._prior[heavy], self._density, self._rng)
            excess = self._log_prior[heavy] + self._ells[heavy] - log_ml - log_r
            with np.errstate(over="ignore"):
                found[heavy] = np.where(excess > RARE, np.exp(self._ells[heavy] - log_ml), 0.0)
        return float(found.mean())


def _most_variance(reference: AnyReference) -> float:
    """Return the largest relative variance of weights with which a reference may be used."""
    return MOST_TAME_VARIANCE if _is_tame(reference) else MOST_VARIANCE


def _is_tame(reference: AnyReference) -> bool:
    """Return whether the structure of the model says how heavy the tails of the reference are."""
    return isinstance(reference, Defensive | NestedReference | AnnealedReference)


def _core_of(reference: AnyReference) -> AnyReference:
    """Return the reference of t distributions, or the nested one, that another is made of."""
    if isinstance(reference, Defensive | AnnealedReference):
        return reference.reference
    return reference


def _price(fit: Fit) -> float:
    """Return the evaluations by which draws from a fit make log Ẑ as exact as they are to be."""
    needed = max(fit.variance / EVEN, 1.0)
    return needed * fit.tuning.gradients_a_move if fit.tuning else np.inf


def _starts(prior: np.ndarray, heights: np.ndarray, climbs: int) -> Iterable[np.ndarray]:
    """Return prior draws where climbs start: for half of them the highest."""
    best = np.argsort(-heights, kind="stable")[: climbs // 2]
    return chain(prior[best], prior)


def settled(
    theta: np.ndarray,
    reference: AnyReference,
    density: Counted,
    n: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return a state after n Metropolis moves to draws from the reference, at β = 1.

    The posterior is forgotten at a rate of 1 less the inverse of the largest weight: Mengersen and
    Tweedie (1996).
    """
    new, log_r = reference.sample(n, rng, density)
    thetas = np.concatenate([theta[None], new])
    log_r = np.concatenate([reference.log_density(thetas[:1], density, rng), log_r])
    g, place = log_weights_at(thetas, log_r, density), 0
    for k, limit in enumerate(np.log(rng.random(n)), start=1):
        place = k if g[k] - g[place] >= limit else place
    return thetas[place]


def weigh(g: np.ndarray, ends: Point, evaluations: int, is_reverse: bool) -> Run:
    """Return a run with T = 1 whose particles are weighed and do not move.

    Parameters
    ----------
    g : ndarray of shape (N,)
        log p + ℓ − log r at draws from r, nats; −∞ where the model is impossible. In a reverse run
        the first is at θ*.
    ends : Point
        The draws by variable.
    evaluations : int
        Number of evaluations of log p + ℓ.
    is_reverse : bool
    """
    n, weights, possible = len(g), softmax(g), g > -np.inf
    sizes = np.array([float(n), 1 / (weights @ weights)])
    return Run(
        float(logsumexp(g) - np.log(n)),
        np.array([g.mean(), weights[possible] @ g[possible]]),
        np.full((2, 2), np.nan),
        np.zeros(2, dtype=int),
        evaluations,
        ends,
        weights,
        Population(sizes, np.zeros(2, dtype=bool), n),
        1,
        log_e_value=log_e_value(weights) if is_reverse else np.nan,
    )


def log_e_value(weights: np.ndarray) -> float:
    """Return the log of an e-value against the first of several particles as a posterior sample.

    If it is one, and the others are draws from r, then given all of them it is each one with a
    probability equal to its normalised weight. A bet that names other probabilities has an
    expectation of 1: equal ones gain if the particle lies too far out, and those in proportion to
    the squared weight if it lies where r has too little mass. This is the mean of both.
    """
    first = weights[0]
    with np.errstate(divide="ignore"):
        bets = 1 / (weights.size * first), first / np.sum(weights**2)
    return float(np.log(np.mean(bets)))
