"""Fit a reference so near the posterior that draws from it need no annealing."""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.integrate import trapezoid
from scipy.special import gammaln, logsumexp, softmax

from pymc_bdmc.base.types import Tuning
from pymc_bdmc.fits import limits
from pymc_bdmc.fits.adapt import CHECKED, adapted, improved, moved_to, second_moment
from pymc_bdmc.fits.draws import Drawn, DrawTuning, draw_weighted
from pymc_bdmc.fits.modes import (
    SEARCHES,
    Modes,
    ascend_by_gradients,
    find_modes,
)
from pymc_bdmc.fits.nested import NoFit, Structure, fit_nested, refit_nested, share_in_tails
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.blocks import BlockReference
from pymc_bdmc.reference.contract import AnyReference, Defensive, Density
from pymc_bdmc.reference.metric import root_of, spread_of
from pymc_bdmc.reference.nested import MOST_OTHERS, NestedReference
from pymc_bdmc.reference.student import Reference, make_reference, mix_references

MOST_WIDER = 3
"""Most components that are added for what rays find beyond a fit. Chosen."""
MANY = 512
"""Draws that compare shares of the prior, and that judge a fit whose weights look uneven."""
STEPS = {6: 1.0, 12: 1.0, 32: 1.5, 96: 4.0}
"""Numbers of temperatures at which latent variables are annealed. Each is tried if the relative
variance of the weights exceeds its value. Measured: about there it pays for its gradients."""

DRAWS = {16: 0.3, 64: 1.0}
"""Numbers of draws of every block, used like those above. Measured on Poisson counts: 16 draws take
20 evaluations in place of 5, and the gap of 1000 groups is then 0.02 nats, with 8 draws 0.25."""
HALVED = 0.5
"""Share of a variance that more draws must come down to, since each of them costs as much, and they
do not mend r(ψ), which may be what is uneven. Chosen."""


class Fit(NamedTuple):
    """Result of a search for a reference whose draws need no annealing."""

    tuning: Tuning | None
    """Tuning of runs with T = 1, whose particles do not move; None if the search failed."""
    reason: str
    """Summary of the search, or the reason why it failed."""
    variance: float
    """Relative variance v of the weight of a draw. A run of N draws has a gap of about v/N nats."""
    gradient_evaluations: int
    """Cost, in evaluations of log p + ℓ with or without its gradient."""
    refuses_given: bool = False
    """Whether a fit to the given draws, or with the named latent variables, was tried and is far
    from the posterior."""
    misses: bool = False
    """Whether the search is not finished, or a part of the posterior was found that the fit
    misses."""
    log_weights: ndarray = np.empty(0)
    """log Ẑ of runs that draw from a fit that misses a part, or may do so, nats, shape (K,). They
    are unbiased all the same."""


class Fitting:
    """Fits to one data set, given prior draws, shape (P, n).

    ``reached`` are states that runs from the prior reached, shape (S, n), equally weighted.
    """

    def __init__(
        self,
        density: Density,
        prior: ndarray,
        structure: Structure,
        rng: Generator,
        reached: ndarray | None = None,
    ):
        self._density, self._prior, self._structure, self._rng = density, prior, structure, rng
        self._log_prior, self._ells = density.terms(prior).T
        self._reached = prior[:0] if reached is None else reached
        self._is_bounded = structure.has_heavy_tails
        """Whether references get a share of the prior, so that weights are bounded."""
        self._scans = not structure.has_heavy_tails
        """Whether rays look for wider parts of the posterior."""
        self._may_miss = False
        """Whether a fit is made of the modes that a search found even if there may be more."""
        self._is_small = prior.shape[1] <= MOST_OTHERS and density.has_gradient
        """Whether a mixture can be adapted to θ."""

    def first(
        self,
        given: Reference | None,
        degrees_of_freedom: float | None = None,
        named: Structure | None = None,
        wider: Structure | None = None,
    ) -> Fit:
        """Search for a reference whose draws need no annealing.

        It is a mixture of t distributions at the modes that searches find or, if its weights are
        uneven, a nested reference at the modes of the marginal density, whose tails are known. If
        effects are centred, only the nested fit is tried, since t distributions cannot reach the
        neck of a funnel. Weights must be even enough, and prior draws may find hardly any of the
        posterior outside of the fit. A ``given`` reference comes first, and then one with the
        ``named`` latent variables. Last comes a nested fit whose latent variables may be of any
        family, in ``wider``, if they are independent blocks.
        """
        if not len(self._prior):
            return self._failed(NoFit("no prior draw is finite"))
        known = ""
        if given is not None:
            fit = self._tried(self._judged, given, "fitted to the draws that were given")
            if fit.tuning is not None:
                return fit
            known = f"a fit to the draws that were given is far from the posterior ({fit.reason}); "
        if named is not None:
            fit = self._tried(self._nested, named)
            if fit.tuning is not None:
                return fit
            reason = f"{named.title}: {fit.reason}"
            known = f"a fit with the latent variables that were named fails ({reason}); "
        structures = [self._structure]
        if wider:
            structures.append(wider)
        structures = [each for each in structures if each.may_nest]
        fits = []
        if not (self._structure.may_nest and self._structure.is_centred):
            fits.append(self._tried(self._mixture, degrees_of_freedom))
            # A mixture does not know the tails of latent variables, but has several modes.
            found = fits[0].tuning
            has_modes = isinstance(found, DrawTuning) and not found.is_conclusive
            enough = limits.EVEN if has_modes else limits.UNEVEN
            structures = structures if fits[0].variance > enough else []
        for structure in structures:
            fits.append(self._tried(self._nested, structure))
            if fits[-1].tuning:
                break
        fit = next((each for each in reversed(fits) if each.tuning), fits[0])
        if fit.tuning is None:
            reason = "; ".join(each.reason for each in fits)
            fit = fit._replace(reason=reason, misses=any(each.misses for each in fits))
        return fit._replace(
            reason=known + fit.reason,
            gradient_evaluations=self._density.evaluations,
            refuses_given=bool(known),
        )

    def further(self, known: DrawTuning, wider: Structure | None = None) -> Fit:
        """Fit a reference to data that are similar to those of a known tuning.

        The search is that on the first data, and knows nothing of what that found. Only a nested
        fit starts at the known mode if the search for it was conclusive, since another one would
        have ended there too. Nothing is refused, since the runs on these data show what a fit
        misses: modes that are not all found, or those of the known reference if there are none.
        If these data alone give latent variables tails or several modes, those in ``wider`` are
        fitted.
        """
        self._may_miss = True
        fit = self._tried(self._refitted, known)
        if wider and wider.may_nest and known.is_nested and self._misses_tails(fit):
            found = self._tried(self._fitted_anew, wider)
            fit = found if found.tuning else fit
        if fit.tuning is None:
            drawn = self._weighted(known.reference, CHECKED)
            if drawn.variance < np.inf:
                fit = self._fit(drawn, f"the fit to other data, since {fit.reason}")
        return fit

    def _tried(self, fit: Callable[..., Fit], *arguments) -> Fit:
        try:
            return fit(*arguments)
        except NoFit as no_fit:
            return self._failed(no_fit)

    def _failed(self, why: NoFit) -> Fit:
        evaluations = self._density.evaluations
        return Fit(
            None, str(why), np.inf, evaluations, misses=why.misses, log_weights=why.log_weights
        )

    def _refitted(self, known: DrawTuning, is_first: bool = True) -> Fit:
        reference: AnyReference
        core = known.reference.core
        if core.knows_tails:
            nested, modes = self._nested_again(core, known.is_conclusive and is_first)
            reference = _with_core(known.reference, nested)
        else:
            reference, modes = self._searched(core.degrees_of_freedom)
        drawn = self._evened(self._improved(reference))
        if not drawn.variance < np.inf:
            raise NoFit("log p is −∞ at all draws from a fit")
        if is_first and drawn.variance > limits.MOST_VARIANCE:
            # Then a draw far from the modes has most of the weight: the search starts there.
            found = drawn.thetas[[np.argmax(drawn.g)]]
            self._prior = np.concatenate([found, self._prior])
            self._log_prior, self._ells = self._density.terms(self._prior).T
            return self._refitted(known, is_first=False)
        return self._fit(drawn, modes.reason)

    def _misses_tails(self, fit: Fit) -> bool:
        """Return whether there is no fit, or one that lacks tails of latent variables."""
        if fit.tuning is None:
            return True
        core = fit.tuning.reference.core
        if np.isinf(core.accuracy):
            return False
        return share_in_tails(core, self._density, self._rng) > limits.MISSED

    def _fitted_anew(self, structure: Structure) -> Fit:
        reference, modes = self._nested_form(structure)
        return self._fit(self._improved(reference), modes.reason)

    def _nested_again(
        self, known: NestedReference, is_conclusive: bool
    ) -> tuple[NestedReference, Modes]:
        if is_conclusive:
            return refit_nested(self._density, known, self._prior, self._rng)
        latent = np.isin(np.arange(self._prior.shape[1]), known.latent)
        structure = self._structure._replace(latent=latent)
        found, modes = fit_nested(self._density, self._prior, self._ells, structure, self._rng)
        return self._on_grid(found) if known.is_on_grid and found.blocks else (found, modes)

    def _on_grid(self, found: NestedReference) -> tuple[NestedReference, Modes]:
        """Fit again with blocks of one element on a grid, which changes the marginal too."""
        on_grid = found._replace(is_on_grid=True)
        return refit_nested(self._density, on_grid, self._prior, self._rng)

    def _mixture(self, degrees_of_freedom: float | None) -> Fit:
        # The curvature takes two gradients an element, or several times n² evaluations.
        most = 500 if self._density.has_gradient else 30
        if self._prior.shape[1] > most:
            raise NoFit(f"θ has more than {most} elements")
        reference, modes = self._searched(degrees_of_freedom)
        return self._judged(reference, modes.reason, modes.basins == 1)

    def _searched(self, degrees_of_freedom: float | None) -> tuple[Reference, Modes]:
        """Return t distributions at all modes that a search finds, which knows none of them."""
        reached, starts = self._reached[:SEARCHES], self._starts(SEARCHES)
        if self._structure.has_heavy_tails:
            starts = chain(self._apart(), starts)
        starts, n = chain(reached, starts), SEARCHES + len(reached)
        metric, dof = spread_of(self._prior), degrees_of_freedom
        return self._at_modes(starts, metric, n, dof, limits.OVERLOOKED)

    def _at_modes(self, starts, metric, searches, dof, overlooked=1.0) -> tuple[Reference, Modes]:
        """Return t distributions at all modes, and how they were found."""
        # Far out in heavy tails all searches may be lost.
        most_lost = 1.0 if self._structure.has_heavy_tails else limits.LOST
        modes = find_modes(
            self._density, starts, metric, searches, dof, overlooked, self._density.has_gradient,
            most_lost,
        )  # fmt: skip
        if modes.reference is None:
            raise NoFit(modes.reason)
        if not (modes.is_all or self._may_miss):
            raise NoFit(modes.reason, modes.is_unfinished, self._runs(modes.reference))
        return modes.reference, modes

    def _starts(self, searches: int) -> Iterable[ndarray]:
        """Return prior draws from which searches start; the first half are the likeliest ones."""
        best = np.argsort(-self._ells, kind="stable")[: searches // 2]
        return chain(self._prior[best], self._prior)

    def _apart(self) -> list[ndarray]:
        """Return starts of searches near the prior and near the mode of the likelihood.

        If the prior has heavy tails and conflicts with the likelihood, the posterior may have a
        mode near both. So these are the likeliest prior draw a posteriori, and maxima of ℓ alone.
        """
        prior, density = self._prior, self._density
        starts = [prior[np.argmax(self._log_prior + self._ells)]]
        if density.has_gradient:
            root = root_of(spread_of(prior))
            for start in prior[np.argsort(-self._ells, kind="stable")[:2]]:
                end = ascend_by_gradients(density.likelihood, start, root)
                starts += [] if end is None else [end]
        return starts

    def _nested(self, structure: Structure) -> Fit:
        form, modes = self._nested_form(structure)
        is_latent = np.isin(np.arange(self._prior.shape[1]), form.core.latent)
        title = structure._replace(latent=is_latent).title  # some may have become parameters
        return self._judged(form, f"{title}: {modes.reason}", modes.basins == 1)

    def _nested_form(self, structure: Structure) -> tuple[AnyReference, Modes]:
        """Fit a nested reference whose latent variables are drawn in the way that they need."""
        density, rng = self._density, self._rng
        reference, modes = fit_nested(density, self._prior, self._ells, structure, rng)
        if np.isfinite(reference.accuracy):
            missed = share_in_tails(reference, density, rng)
            if missed > limits.MISSED and reference.blocks and not reference.is_on_grid:
                reference, modes = self._on_grid(reference)
                missed = share_in_tails(reference, density, rng)
            if missed > limits.MISSED:
                raise NoFit(
                    f"{missed:.0%} of the posterior is in tails of latent variables that no draw "
                    "reaches"
                )
        on_grid = reference.is_on_grid
        return BlockReference(reference, min(DRAWS)) if on_grid else reference, modes

    def _weighted(self, reference: AnyReference, n: int) -> Drawn:
        return draw_weighted(self._density, reference, n, self._rng)

    def _improved(self, reference: AnyReference) -> Drawn:
        """Return draws from a reference that is changed until their weights are even."""
        density, rng, is_mixture = self._density, self._rng, not reference.knows_tails
        if self._is_bounded and is_mixture and self._is_small:
            around = partial(Defensive, share=0.1)
            found = adapted(density, reference.core, MANY, rng, around)
            return self._defended(found.reference.core)
        drawn = self._weighted(reference, CHECKED)
        if is_mixture:
            drawn = improved(density, drawn, rng)
            wider = self._widened(drawn)
            drawn = drawn if wider is drawn else improved(density, wider, rng)
        if self._is_bounded:
            return self._defended(drawn.reference)
        return drawn if is_mixture else self._annealed(drawn)

    def _evened(self, drawn: Drawn) -> Drawn:
        """Return draws from a mixture of few elements with more components, if weights are uneven.

        One t distribution may lack a tail that few of its draws see: their Pareto k is 0.6, or 0.
        """
        uneven = limits.EVEN if self._may_miss else limits.UNEVEN
        if not (self._is_adapted(drawn.reference) and uneven < drawn.variance < np.inf):
            return drawn
        n = MANY if self._may_miss else 2 * MANY
        found = adapted(self._density, drawn.reference, n, self._rng, lambda each: each)
        return self._weighted(found.reference, n)  # the one found was the best of several

    def _is_adapted(self, reference: AnyReference) -> bool:
        """Return whether a mixture gets more components if weights are uneven."""
        return self._is_small and not (reference.knows_tails or self._structure.may_nest)

    def _annealed(self, drawn: Drawn) -> Drawn:
        """Return draws whose latent variables are annealed, if the given weights are too uneven."""
        at_hand = drawn.reference.effort
        if np.isinf(drawn.reference.core.accuracy):  # the latent variables are normal
            return drawn
        blocks = drawn.reference.core.blocks
        form, sizes = (BlockReference, DRAWS) if blocks else (AnnealedReference, STEPS)
        enough = HALVED if blocks else 1.0
        drawn = self._recentred(drawn) if at_hand else drawn
        for size, uneven in sizes.items():
            if size > at_hand and drawn.variance > uneven:
                found = self._weighted(form(drawn.reference.core, size), CHECKED)
                drawn = found if found.variance < enough * drawn.variance else drawn
                drawn = self._recentred(drawn)
        return drawn

    def _recentred(self, drawn: Drawn) -> Drawn:
        """Return draws with r(ψ) at the moments of the weighted ψ, if that makes weights more even.

        What Laplace approximations of many latent variables are off by adds up to a slope in ψ.
        """
        if not limits.EVEN < drawn.variance < np.inf:
            return drawn
        nested: NestedReference = drawn.reference.core
        phis = nested.to_units(drawn.thetas[:, nested.others])
        core = nested._replace(marginal=moved_to(phis, drawn.g, nested.marginal))
        found = self._weighted(_with_core(drawn.reference, core), CHECKED)
        return min(drawn, found, key=lambda each: each.variance)

    def _defended(self, reference: AnyReference) -> Drawn:
        """Return draws from the reference mixed with the best share of the prior."""
        inner = reference.inner if isinstance(reference, Defensive) else reference
        density, even = self._density, Defensive(inner, 0.5)
        thetas, log_r = even.sample(MANY, self._rng, density)
        log_f, log_ps = density.terms(thetas).sum(axis=1), even.parts(thetas, density, self._rng)
        candidates = [even._replace(share=share) for share in (0.1, 0.25, 0.5, 0.75)]
        second = [second_moment(log_f - log_r, log_f - each.mixed(*log_ps)) for each in candidates]
        return self._weighted(candidates[int(np.argmin(second))], MANY)

    def _judged(self, reference: AnyReference, reason: str, is_conclusive: bool = True) -> Fit:
        """Return the fit, improved by its own draws; refuse one whose draws need annealing."""
        drawn = self._improved(reference)
        if self._scans and not reference.knows_tails:
            added = len(drawn.reference.core.locations) - len(reference.core.locations)
            reason += f"; rays from it found wider parts ({added})" if added else ""
            is_conclusive &= not added
        drawn = self._evened(drawn)
        knows_tails = drawn.reference.knows_tails
        if (limits.MOST_VARIANCE if knows_tails else limits.EVEN) < drawn.variance < np.inf:
            # Of few draws a single one can have most of the weight.
            drawn = self._weighted(drawn.reference, MANY)
        most = limits.EVEN if self._is_adapted(drawn.reference) else limits.MOST_VARIANCE
        is_even = knows_tails or drawn.variance <= most
        if not (is_even and drawn.variance < np.inf):
            raise NoFit(
                f"weights of draws from a fit have a relative variance of {drawn.variance:.2g}"
            )
        if not self._is_bounded:
            self._check_for_missed(drawn)
        if not reference.knows_tails and (surplus := self._surplus(drawn)) > limits.SURPLUS:
            raise NoFit(
                "optimisations passed likely states where a fit has almost no probability (its "
                f"density there is {surplus:.2g} nats too low)"
            )
        share = 1 / (1 + drawn.variance)
        reason += f"; draws from the fit have a relative effective sample size of {share:.0%}"
        return self._fit(drawn, reason, is_conclusive)

    def _widened(self, drawn: Drawn[Reference]) -> Drawn[Reference]:
        """Return draws from the mixture with components for what rays find beyond it.

        Few rays may find more than there is, or less. So draws from the mixture with the component
        must confirm that the posterior has a share there.
        """
        density = self._density
        nested_is_next = self._structure.may_nest and drawn.variance > limits.EVEN
        if nested_is_next or not (self._scans and density.has_gradient):
            return drawn
        (rng,) = self._rng.spawn(1)
        for _ in range(MOST_WIDER):
            if not drawn.variance < np.inf:
                return drawn
            reference, log_ml = drawn.reference, logsumexp(drawn.g) - np.log(len(drawn.g))
            share, wider = part_beyond(reference, density, self._prior, log_ml, 16, rng)
            if wider is None or share <= limits.MISSED:
                return drawn
            share = min(share / (1 + share), 0.5)
            mixture = mix_references([reference, wider], np.array([1 - share, share]))
            found = draw_weighted(density, mixture, MANY, rng)
            if np.isinf(found.variance) or share_beyond(reference, found) <= limits.MISSED:
                return drawn
            drawn = found
        return drawn

    def _fit(self, drawn: Drawn, reason: str, is_conclusive: bool = True) -> Fit:
        """Return the fit that these draws come from."""
        density, weights, seen = self._density, softmax(drawn.g), drawn.g > -np.inf
        means = np.array([drawn.g[seen].mean(), weights[seen] @ drawn.g[seen]])
        price = drawn.evaluations / len(drawn.g)
        tuning = DrawTuning(
            drawn.reference, means, drawn.g[seen], density.evaluations, price,
            price * density.seconds, is_conclusive=is_conclusive,
        )  # fmt: skip
        return Fit(tuning, reason, drawn.variance, density.evaluations)

    def _check_for_missed(self, drawn: Drawn) -> None:
        """Refuse a fit that misses part of the posterior."""
        log_ml = logsumexp(drawn.g) - np.log(len(drawn.g))
        if missed := self._missed(drawn.reference, log_ml):
            raise NoFit(missed, True, self._runs(drawn.reference))

    def _runs(self, reference: AnyReference) -> ndarray:
        """Return log Ẑ of 64 runs of draws, nats: enough for a sharp certified bound."""
        g = self._weighted(reference, 64 * 32).g.reshape(64, -1)
        return logsumexp(g, axis=1) - np.log(g.shape[1])

    def _missed(self, reference: AnyReference, log_ml: float) -> str:
        """Say what shows that the reference misses part of the posterior; empty if nothing does."""
        density, log_f, found = self._density, self._log_prior + self._ells, {}
        heavy = self._ells - log_ml > -5.0  # the others hold less than MISSED / 3 together
        with np.errstate(over="ignore"):
            shares = np.exp(self._ells[heavy] - log_ml) / len(self._prior)
        is_rare = self._is_rare(reference, self._prior[heavy], log_f[heavy] - log_ml)
        found["weighted prior draws"] = float(shares @ is_rare)
        if len(reached := self._reached):
            log_f = density.terms(reached).sum(axis=1)
            found["runs from the prior"] = self._is_rare(reference, reached, log_f - log_ml).mean()
        if not reference.knows_tails and density.has_gradient:
            (rng,) = self._rng.spawn(1)
            # Chosen: if a fit misses 0.4 % of a skewed posterior, one set of 16 in seven finds more
            # than `MISSED`, hence the 256.
            for rays in (16, 256):
                share, _ = part_beyond(reference.core, density, self._prior, log_ml, rays, rng)
                if share <= limits.MISSED:
                    break
            found["rays from the fit"] = share
        sign, missed = max(found.items(), key=itemgetter(1))
        if missed <= limits.MISSED:
            return ""
        part = f"{min(missed, 1):.0%} of the posterior"
        return f"{sign} put {part} where a fit has almost no probability"

    def _is_rare(self, reference: AnyReference, thetas: ndarray, log_posterior: ndarray) -> ndarray:
        """Return at which rows the reference has far less density than the posterior."""
        if not len(thetas):
            return np.zeros(0)
        return log_posterior - reference.log_density(thetas, self._density, self._rng) > limits.RARE

    def _surplus(self, drawn: Drawn) -> float:
        """Return by how much g at likely states that searches passed exceeds g at draws, nats.

        A normal approximation at the mode of a thin curved ridge misses its arms, where searches
        go. Its draws may still have even weights.
        """
        thetas, heights = self._density.most_likely_passed()
        if not len(thetas):  # there was no search
            return -np.inf
        log_r = drawn.reference.log_density(thetas, self._density, self._rng)
        return float((heights - log_r).max() - drawn.g.max())


def _with_core(reference: Any, core: NestedReference) -> AnyReference:
    """Return a nested reference, or one whose latent variables are drawn in the same way."""
    if isinstance(reference, Defensive):
        return reference._replace(inner=_with_core(reference.inner, core))
    return core if reference.core is reference else reference._replace(core=core)


def share_beyond(reference: Reference, drawn: Drawn[Reference]) -> float:
    """Estimate the share of the posterior that a reference misses, by draws from another one."""
    log_ml = logsumexp(drawn.g) - np.log(len(drawn.g))
    log_p = drawn.g + drawn.reference.log_density(drawn.thetas) - log_ml
    return float(softmax(drawn.g)[log_p - reference.log_density(drawn.thetas) > limits.RARE].sum())


def part_beyond(
    reference: Reference, density: Density, prior: ndarray, log_ml: float, rays: int, rng: Generator
) -> tuple[float, Reference | None]:
    """Estimate the share of the posterior that lies beyond a fit, along rays from its components.

    In polar coordinates θ = m + s·L·z around a component with mean m and scale matrix L Lᵀ, any
    integral is E_z ∫ f(m + s L z) s^(n−1) ds times |L| and the area S of the unit sphere, for z
    uniform on it. Integrated is the posterior density where it exceeds that of the fit by more than
    `RARE` nats, from a radius of √n, since draws show what is nearer, to that of the farthest prior
    draw. The mean over rays, which components share, is unbiased. Returned is the largest over
    components, with a component of the same shape that is as wide as what was found.
    """
    n = prior.shape[1]
    log_sphere = np.log(2) + n / 2 * np.log(np.pi) - gammaln(n / 2)
    rays, share, wider = max(rays // len(reference.locations), 1), 0.0, None
    for k, location in enumerate(reference.locations):
        metric = reference.metric(k)
        root = root_of(metric)
        z = rng.standard_normal((rays, n))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        first = np.log(n) / 2
        last = np.log(np.linalg.norm(np.linalg.solve(root, (prior - location).T), axis=0).max())
        # As far apart, in log s, as the length of a normal vector varies: the sum over points gives
        # the integral of a normal density to 5e-9.
        points = min(120, int(np.ceil((last - first) * np.sqrt(2 * n))))
        if points < 2:
            continue
        log_s = np.linspace(first, last, points)
        thetas = location + (np.exp(log_s)[:, None] * (z @ root.T)[:, None]).reshape(-1, n)
        log_p = density.heights(thetas) - log_ml
        is_rare = log_p - reference.log_density(thetas) > limits.RARE
        log_volume = log_sphere + np.linalg.slogdet(root)[1] + n * log_s
        heights = np.where(is_rare, log_p, -np.inf).reshape(rays, points) + log_volume
        masses = np.exp(np.minimum(heights, 300.0)).mean(axis=0)
        found = float(trapezoid(masses, log_s))
        if found > share:
            square = trapezoid(masses * np.exp(2 * log_s), log_s) / found
            wide = metric._replace(scale=metric.scale * np.sqrt(square / n))
            share = found
            wider = make_reference(location, wide, reference.degrees_of_freedom)
    return share, wider
