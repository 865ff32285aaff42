"""Fit a reference so near the posterior that draws from it need no annealing."""

from collections.abc import Iterable
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple, cast

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bdmc.engines.compiled.conditional import share_in_tails
from pymc_bdmc.engines.compiled.counted import Counted
from pymc_bdmc.engines.compiled.draws import DrawTuning, core_of, most_variance
from pymc_bdmc.engines.compiled.improving import (
    CHECKED,
    Drawn,
    adapted,
    improved,
    second_moment,
    weighted,
)
from pymc_bdmc.engines.compiled.nested import NoFit, Split, fit_nested, refit_nested
from pymc_bdmc.engines.compiled.scan import share_beyond
from pymc_bdmc.engines.compiled.tops import BY_GRADIENTS, CLIMBS, LOST, OVERLOOKED, fit_to_tops
from pymc_bdmc.estimators.tails import shape_of_weights
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.defensive import Defensive
from pymc_bdmc.reference.metric import root_of, spread_of
from pymc_bdmc.reference.nested import MOST_OTHERS, NestedReference
from pymc_bdmc.reference.student import AnyReference, Reference, metric_at
from pymc_bdmc.run.tasks import MOST_VARIANCE, Fit

FEW_CLIMBS = 4
"""Fewest climbs from prior draws for each known top on similar data."""
PRIOR_STATES, FEW_PRIOR_STATES = 256, 64
"""Numbers of prior draws by which a fit finds what it misses, on the first and on further data."""
HEAVY, JUDGING = 1.0, 2048
"""Largest Pareto k of the weights of draws, above which they have no mean, and the draws by which a
larger one is confirmed. It has a standard error of about (1 + k)/√M, M the largest of the weights
that show it: 0.4 with the fewest draws, 0.2 with these."""
RARE, MISSED = 3.0, 0.03
"""r misses a state if log r is this many nats below the log posterior. A fit is not used if more
than this share of the posterior, estimated from prior draws, is missed."""
RUNS = 64
"""Runs of `JUDGING` draws from a fit that misses a part: enough for a sharp certified bound."""
RAYS = 16, 256
"""Numbers of rays that scan a fit, and that confirm what the first ones find. Chosen: 16 find a
concentric shell exactly; of a skewed posterior of which a fit misses 0.4 %, one set of 16 in seven
finds more than `MISSED`."""
MOST_SURPLUS = 5.0
"""Nats by which g at likely states that climbs passed may exceed its largest value at draws.
Measured: 6 nats or more on thin ridges, and below 3 if a normal mixture fits well."""
UNSEEN = -5.0
"""Prior draws with ℓ − log ML below this, in nats, hold less than a third of `MISSED` together."""
LIKELIEST = 2
"""Number of prior draws from which the likelihood alone is climbed if priors have heavy tails."""
SHARES, MANY = (0.1, 0.25, 0.5, 0.75), 512
"""Candidate shares of the prior in a defensive reference, and the draws that compare them. As many
judge a fit whose weights look uneven."""
EVEN = 1.0
"""Relative variance of the weights up to which the fewest draws suffice."""
STEPS = {6: 1.0, 12: 1.0, 32: 1.5, 96: 4.0}
"""Numbers of temperatures at which latent variables are annealed. Each is tried if the relative
variance of the weights exceeds its value. Measured: about there it pays for its gradients."""


class Structure(NamedTuple):
    """Structure of a model that makes its posterior hard to fit."""

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
    reached : ndarray of shape (S, n), optional
        States that runs from the prior came to, equally weighted.
    """

    def __init__(
        self,
        density: Counted,
        prior: np.ndarray,
        structure: Structure,
        rng: np.random.Generator,
        reached: np.ndarray | None = None,
    ):
        self._density, self._prior, self._structure, self._rng = density, prior, structure, rng
        self._log_prior, self._ells = density.terms(prior).T
        self._reached = prior[:0] if reached is None else reached

    def first(
        self,
        given: Reference | None,
        degrees_of_freedom: float | None = None,
        named: Split | None = None,
    ) -> Fit:
        """Search for a reference whose draws need no annealing; see `Fit`.

        There are two kinds of fits: a mixture of t distributions at the tops that climbs find, and
        a nested reference at the modes of the marginal density. Draws from a fit are weighed. Their
        weights must be even enough, and prior draws may find hardly any of the posterior outside of
        the fit. Centred effects have a funnel whose neck t distributions cannot reach, so only the
        nested fit is tried. Otherwise the mixture comes first. If its weights are uneven, the
        nested fit is used if there is one, since its tails are known.

        Parameters
        ----------
        given : Reference or None
            A reference that is used without a fit if it is good enough.
        degrees_of_freedom : float, optional
            Degrees of freedom of a fit, if they were chosen.
        named : Split, optional
            Latent variables that the user named; a nested reference with them is tried first.
        """
        if not (self._log_prior + self._ells < np.inf).all() or not len(self._prior):
            return self._failed("log p is +∞ at some prior draws")
        known = ""
        if given is not None:
            fit = self._judged(given, "fitted to the draws that were given")
            if fit.tuning is not None:
                return fit
            known = f"a fit to the draws that were given is far from the posterior ({fit.reason}); "
        if named is not None:
            fit = self._nested(named)
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
        fit = next((each for each in reversed(fits) if each.tuning), fits[0])
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
        """Fit a reference to data that are similar to those of a known tuning.

        Climbs start at the known tops and at some prior draws. The fit fails if they find no top,
        or may have missed one. There are fewer checks than for a first fit, since the runs on these
        data show what it misses.
        """
        like = core_of(known.reference)
        reference: AnyReference
        try:
            if isinstance(like, NestedReference):
                reference, reason = refit_nested(self._density, like, self._prior, self._rng)
                if isinstance(known.reference, AnnealedReference):
                    reference = known.reference._replace(reference=reference)
            else:
                reference, reason = self._near(cast(Reference, like))
        except NoFit as no_fit:
            return self._failed(str(no_fit))
        drawn = self._weighed(reference, isinstance(known.reference, Defensive))
        if not drawn.variance < np.inf:
            return self._failed("log p is +∞ at a draw from a fit, or −∞ at all")
        return self._fit(drawn, reason)

    def _near(self, like: Reference) -> tuple[Reference, str]:
        """Return t distributions at tops near the known ones, and what climbs found."""
        further = FEW_CLIMBS * len(like.locations)
        starts = chain(like.locations, _starts(self._prior, self._ells, further))
        climbs, shape = len(like.locations) + further, metric_at(like, 0)
        tops = fit_to_tops(
            self._density, starts, shape, climbs, like.degrees_of_freedom,
            climbing=self._density.climbing, most_lost=self._most_lost,
        )  # fmt: skip
        if tops.reference is None or not tops.is_all:
            raise NoFit(tops.reason)
        return tops.reference, tops.reason

    def _by_tops(self, degrees_of_freedom: float | None) -> Fit:
        """Fit t distributions to all tops."""
        prior = self._prior
        if prior.shape[1] > (most := self._density.climbing.most_elements):
            return self._failed(f"θ has more than {most} elements")
        starts = _starts(prior, self._ells, CLIMBS)
        if self._structure.has_heavy_tails:
            starts = chain(self._apart(), starts)
        reached = self._reached[:CLIMBS]
        tops = fit_to_tops(
            self._density, chain(reached, starts), spread_of(prior), CLIMBS + len(reached),
            degrees_of_freedom, OVERLOOKED, self._density.climbing, self._most_lost,
        )  # fmt: skip
        if tops.reference is None or not tops.is_all:
            return self._failed(tops.reason)._replace(misses=tops.is_unfinished)
        return self._judged(tops.reference, tops.reason)

    def _apart(self) -> list[np.ndarray]:
        """Return starts of climbs near the prior and near the mode of the likelihood.

        If the prior has heavy tails and conflicts with the likelihood, the posterior may have a
        mode near both. The first start is the prior draw with the largest posterior density. The
        others are the ends of climbs of ℓ alone, from the prior draws with the largest ℓ.
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
        """Return the share of climbs that may be lost; far out in heavy tails all may be."""
        return 1.0 if self._structure.has_heavy_tails else LOST

    def _nested(self, split: Split) -> Fit:
        """Fit a nested reference."""
        density, prior, rng = self._density, self._prior, self._rng
        try:
            reference, reason = fit_nested(density, prior, self._ells, split, rng)
        except NoFit as no_fit:
            return self._failed(str(no_fit))._replace(misses=no_fit.misses)
        if np.isfinite(reference.accuracy):
            missed = share_in_tails(reference, density, RARE, rng)
            if missed > MISSED:
                return self._failed(
                    f"{missed:.0%} of the posterior is in tails of latent variables that a normal "
                    "distribution lacks"
                )
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
        """Return draws whose latent variables are annealed, if the given weights are too uneven."""
        nested = cast(NestedReference, core_of(drawn.reference))
        at_hand = drawn.reference
        steps_at_hand = at_hand.temperatures if isinstance(at_hand, AnnealedReference) else 0
        if np.isinf(nested.accuracy):  # the latent variables are normal
            return drawn
        for steps, uneven in STEPS.items():
            if steps > steps_at_hand and drawn.variance > uneven:
                annealed = AnnealedReference(nested, steps)
                found: Drawn = weighted(self._density, annealed, CHECKED, self._rng)
                drawn = found if found.variance < drawn.variance else drawn
        return drawn

    @property
    def _is_small(self) -> bool:
        """Return whether a mixture can be adapted: few elements and cheap evaluations."""
        return self._prior.shape[1] <= MOST_OTHERS and self._density.climbing is BY_GRADIENTS

    def _defended(self, reference: AnyReference) -> Drawn:
        """Return weighted draws from the reference mixed with the best share of the prior."""
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
        uneven = EVEN if isinstance(drawn.reference, Reference) else MOST_VARIANCE
        if uneven < drawn.variance < np.inf:
            # Of few draws a single one can have most of the weight.
            drawn = weighted(self._density, drawn.reference, MANY, self._rng)
        if not drawn.variance <= most_variance(drawn.reference):
            return self._failed(
                f"weights of draws from a fit have a relative variance of {drawn.variance:.2g}"
            )
        tail = 0.0 if is_bounded else _shape(drawn)
        if tail > HEAVY and len(drawn.g) < JUDGING:
            tail = _shape(weighted(self._density, drawn.reference, JUDGING, self._rng))
        if tail > HEAVY:
            return self._failed(
                f"{JUDGING} weights of draws from a fit may have no mean (Pareto k = {tail:.2g})"
            )
        log_ml = logsumexp(drawn.g) - np.log(len(drawn.g))
        if not is_bounded and (missed := self._missed(drawn.reference, log_ml)):
            g = weighted(self._density, drawn.reference, JUDGING, self._rng).g.reshape(RUNS, -1)
            log_zs = logsumexp(g, axis=1) - np.log(g.shape[1])
            return self._failed(missed)._replace(misses=True, log_weights=log_zs)
        if isinstance(reference, Reference) and (surplus := self._surplus(drawn)) > MOST_SURPLUS:
            return self._failed(
                "optimisations passed likely states where a fit has almost no probability (its "
                f"density there is {surplus:.2g} nats too low)"
            )
        share = 1 / (1 + drawn.variance)
        reason += f"; draws from the fit have a relative effective sample size of {share:.0%}"
        return self._fit(drawn, reason)

    def _surplus(self, drawn: Drawn) -> float:
        """Return by how much g at likely states that climbs passed exceeds g at all draws, nats.

        A normal approximation at the top of a thin curved ridge does not cover its arms. Its draws
        may still have even weights, but climbs follow the arms.
        """
        thetas, heights = self._density.most_likely_passed()
        if not len(thetas):  # nothing was climbed
            return -np.inf
        log_r = drawn.reference.log_density(thetas, self._density, self._rng)
        return float((heights - log_r).max() - drawn.g.max())

    def _failed(self, reason: str) -> Fit:
        return Fit(None, reason, np.inf, self._density.evaluations)

    def _fit(self, drawn: Drawn, reason: str) -> Fit:
        """Return the fit that these draws come from."""
        density, weights, seen = self._density, softmax(drawn.g), drawn.g > -np.inf
        means = np.array([drawn.g[seen].mean(), weights[seen] @ drawn.g[seen]])
        price = drawn.evaluations / len(drawn.g)
        tuning = DrawTuning(
            drawn.reference, means, drawn.g[seen], density.evaluations, price,
            price * density.seconds,
        )  # fmt: skip
        most = most_variance(drawn.reference)
        return Fit(tuning, reason, drawn.variance, density.evaluations, most)

    def _missed(self, reference: AnyReference, log_ml: float) -> str:
        """Say what shows that the reference misses part of the posterior; empty if nothing does."""
        density, log_f, found = self._density, self._log_prior + self._ells, {}
        heavy = self._ells - log_ml > UNSEEN  # the others cannot add up to what matters
        with np.errstate(over="ignore"):
            shares = np.exp(self._ells[heavy] - log_ml) / len(self._prior)
        is_rare = self._is_rare(reference, self._prior[heavy], log_f[heavy] - log_ml)
        found["weighted prior draws"] = float(shares @ is_rare)
        if len(reached := self._reached):
            log_f = density.terms(reached).sum(axis=1)
            found["runs from the prior"] = self._is_rare(reference, reached, log_f - log_ml).mean()
        if isinstance(reference, Reference) and density.climbing is BY_GRADIENTS:
            (rng,) = self._rng.spawn(1)
            for rays in RAYS:
                share = share_beyond(reference, density, self._prior, log_ml, RARE, rays, rng)
                if share <= MISSED:
                    break
            found["rays from the fit"] = share
        sign, missed = max(found.items(), key=itemgetter(1))
        if missed <= MISSED:
            return ""
        part = f"{min(missed, 1):.0%} of the posterior"
        return f"{sign} put {part} where a fit has almost no probability"

    def _is_rare(
        self, reference: AnyReference, thetas: np.ndarray, log_posterior: np.ndarray
    ) -> np.ndarray:
        """Return at which rows the reference has far less density than the posterior."""
        if not len(thetas):
            return np.zeros(0)
        log_r = reference.log_density(thetas, self._density, self._rng)
        return log_posterior - log_r > RARE


def _shape(drawn: Drawn) -> float:
    """Return Pareto k of the weights of draws."""
    return shape_of_weights(np.exp(drawn.g - drawn.g.max()))


def _starts(prior: np.ndarray, heights: np.ndarray, climbs: int) -> Iterable[np.ndarray]:
    """Return prior draws from which climbs start; the first half are the highest ones."""
    best = np.argsort(-heights, kind="stable")[: climbs // 2]
    return chain(prior[best], prior)
