"""Compare a sampler's draws with the weighted particles of independent runs."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.special import fdtrc, ndtr, stdtrit

MARGINS = np.array([0.25, np.log(1.25), 0.15])
"""Margins of the shift, the log ratio of deviations, and the distance of distributions."""

LEAST_ESS, MOST_RHAT = 100, 1.01
"""Least effective sample size and largest R̂ of draws that can be judged."""

FALSE_ALARM = 0.005
"""Largest probability that draws from the posterior are called bad. A quarter of it is spent on the
limits of all rows, a quarter on chains that contradict each other, and half on chains that lie far
off."""

NEARLY_ALL = 0.9
"""Share of the draws of a chain that lie far off if the chain does."""

FEWEST_RUNS = 4
"""Smallest effective number of runs from which an error is estimated."""

BATCHES = 40
"""Number of batches over all chains, each of which should exceed the autocorrelation time."""

BLOCK = 2**22  # largest number of array elements in memory at a time


@dataclass(frozen=True)
class DrawsComparison:
    """Differences between draws and weighted particles by element, with their errors.

    The columns are the shift of the mean in standard deviations of the particles, the log of the
    standard deviation of the draws over that of the particles, and the largest distance of the
    distribution functions.

    Attributes
    ----------
    estimate, error : ndarrays of shape (elements, 3)
        Values and standard errors. They are NaN if an element has no spread to compare.
    degrees : ndarray of shape (elements, 3)
        Degrees of freedom of the errors.
    share : ndarray of shape (elements, 3)
        Share of the squared error that comes from the draws; the rest comes from the particles.
    ess, own_ess : ndarray of shape (elements,)
        Effective number of draws and of particles, the least over the three columns.
    rhat : ndarray of shape (elements,)
        Split R̂ of the draws; 1 if it is not significant.
    away : ndarray of shape (elements,)
        Distance from the median of the particles that nine tenths of the draws of a chain exceed,
        for the chain with the largest distance. The unit is (q95 − q05)/3.29 of the particles, a
        standard deviation that does not depend on their tails.
    reach : ndarray of shape (elements,)
        Limit for ``away``, the same for all elements that are compared together.
    ends : ndarray of shape (elements, 2)
        Means of two chains that contradict each other; NaN if no chains do.
    """

    estimate: np.ndarray
    error: np.ndarray
    degrees: np.ndarray
    share: np.ndarray
    ess: np.ndarray
    own_ess: np.ndarray
    rhat: np.ndarray
    away: np.ndarray
    reach: np.ndarray
    ends: np.ndarray

    def joined(self, other: "DrawsComparison") -> "DrawsComparison":
        """Join the rows of two comparisons."""
        columns = zip(vars(self).values(), vars(other).values(), strict=True)
        return DrawsComparison(*map(np.concatenate, columns))

    def limits(self, confidence: float, hypotheses: int) -> tuple[np.ndarray, np.ndarray]:
        """Return limits of all columns, simultaneous over this many hypotheses (Bonferroni).

        The limits are by Student's t. The distance D is the largest difference of two functions.
        The upper limit needs only the noise at the point of the true maximum, since D̂ is at least
        the difference there. The lower limit needs the largest noise at any point. For distribution
        functions this noise is a Brownian bridge B with P(sup|B| > c) = 2 exp(−2c²), whose quantile
        is converted to t by equal tail probabilities.
        """
        tail = (1 - confidence) / (2 * hypotheses)
        reach = stdtrit(self.degrees, 1 - tail) * self.error
        lower, upper = self.estimate - reach, self.estimate + reach
        anywhere = stdtrit(self.degrees[:, 2], 1 - ndtr(-np.sqrt(2 * np.log(2 / tail))))
        lower[:, 2] = np.maximum(0, self.estimate[:, 2] - anywhere * self.error[:, 2])
        upper[:, 2] = np.minimum(1, upper[:, 2])
        return lower, upper

    def status(self, hypotheses: int) -> np.ndarray:
        """Return ``"good"``, ``"open"`` or ``"bad"`` for every element, shape (elements,).

        *Good*: the upper and the lower 95 % limit of each column lie within the margins. These
        limits need no correction for the number of rows: all rows are good only if a row that is
        off by more than its margin is good too, which happens in 5 % of cases (Berger 1982).

        *Bad*: simultaneous limits of a column exclude *no difference*, and the estimate exceeds
        half of its margin, so that a difference that does not matter is not called bad. A row in
        which a chain lies far off (`away`) is bad too, for any effective sample size, and so is one
        in which chains contradict each other (`ends`).

        *Open*: all other elements, including those with an effective sample size below 100 or an R̂
        above 1.01.

        The probability that any element is called bad by chance is at most 0.005. To ensure this,
        means are compared only from an effective sample size of 100 on both sides, and standard
        deviations only from 200, since both a standard deviation and its error are too small if no
        draw is in a tail. The distance needs no such limit.
        """
        lower, upper = self.limits(0.90, 1)  # 95 % each
        within = (np.maximum(-lower, upper) <= MARGINS) | np.isnan(self.estimate)
        within[:, 2] = upper[:, 2] <= MARGINS[2]
        lower, upper = self.limits(1 - FALSE_ALARM / 4, hypotheses)
        differs = ((lower > 0) | (upper < 0)) & (np.abs(self.estimate) > MARGINS / 2)
        worth = np.minimum(self.ess, self.own_ess)[:, None]
        differs &= worth >= LEAST_ESS * np.array([1, 2, 0])
        known = (self.ess >= LEAST_ESS) & (self.rhat <= MOST_RHAT)
        bad = (known & differs.any(axis=1)) | self.is_far | self.contradicts
        good = known & within.all(axis=1) & ~bad
        return np.select([bad, good], ["bad", "good"], "open")

    @property
    def is_far(self) -> np.ndarray:
        """Return whether a chain lies far off, for every element."""
        return self.away > self.reach

    @property
    def contradicts(self) -> np.ndarray:
        """Return whether chains contradict each other, for every element."""
        return ~np.isnan(self.ends[:, 0])


def compare_draws(draws: ArrayLike, particles: ArrayLike, weights: ArrayLike) -> DrawsComparison:
    """Compare a sampler's draws with weighted particles of independent runs, element by element.

    Parameters
    ----------
    draws : array_like of shape (chains, draws, elements)
        Draws in the order in which the sampler made them; one chain is enough.
    particles : array_like of shape (runs, particles, elements)
    weights : array_like of shape (runs, particles)
        Weights ≥ 0; they are normalised over all runs.

    Returns
    -------
    DrawsComparison

    Raises
    ------
    ValueError
        If shapes do not fit, there are fewer than 100 draws or two runs, a value is NaN or
        infinite, or no weight is positive.

    Notes
    -----
    *Margins.* For a normal distribution, a shift by 0.25 standard deviations is a total variation
    of 2Φ(1/8) − 1 = 0.10. A standard deviation 1.25 times as large is 0.11, and both together are
    0.13. The margin of the distance is 0.15 for any distribution, so no probability P(x ≤ c) is off
    by more. An element is good if every functional is shown to be within its margin [1]_.

    *Errors.* Each functional has its own error, from the influence of every draw: x for the mean,
    (x − x̄)² for the standard deviation, and indicators at 19 pooled quantiles for the distance, of
    which the one with the largest error counts. The influences of the draws are averaged over 40
    batches [2]_. If longer batches vary more, the variance is extrapolated once [3]_. The
    influences of the particles are summed by run, since particles of one run have common ancestors.
    Their variance comes from the jackknife over runs. With W_k the weight of run k it has
    (ΣW²)²/ΣW⁴ − 1 degrees of freedom. The difference has the degrees of freedom of Welch and
    Satterthwaite.

    *Tails.* For means and standard deviations, values are clipped at 0.75(q95 − q05) beyond the
    pooled quantiles q05 and q95. This does not change a normal distribution, and gives a Cauchy
    distribution a mean and a standard deviation. If 95 % of the draws of an element have the same
    value, it has no such spread, and only its distance is compared.

    *Chains that contradict each other.* The mean of every chain has limits by its own batches. If a
    chain has an effective sample size of at least 100, its batches are longer than 2.5
    autocorrelation times, so that these limits hold; other chains are not compared. The limits of
    all chains and elements together hold with a probability of at least 0.99875. So chains
    contradict each other if the lower limit of one is above the upper limit of another, and their
    means differ by more than half of the margin. Chains that stay in different modes do, even if
    every mode has one, since the share of a mode is then the share of chains that started there.

    *Chains that lie far off.* A chain that never moves has no effective sample size. But if each
    draw of a chain is from the posterior, the share F of its draws in a region of probability p has
    the mean p for any dependence between draws, so P(F ≥ 0.9) ≤ p/0.9 (Markov). Let S be the
    largest distance of a state from the median of the particles over all elements, in standard
    deviations, and let s be the largest S of n independent particles. A further state has S > s
    with probability 1/(n + 1). If tails are no heavier than those of a Cauchy distribution, it has
    S > k s with a probability of at most 1/(k (n + 1)). So with C chains, the probability that nine
    tenths of the draws of a chain are beyond the ``reach`` k s is at most C/(0.9 k (n + 1)). With k
    this is made 0.0025. The number n is the smallest effective number of particles of any element.

    References
    ----------
    .. [1] Berger (1982), Multiparameter hypothesis testing and acceptance sampling.
       https://doi.org/10.1080/00401706.1982.10487790
    .. [2] Schmeiser (1982), Batch size effects in the analysis of simulation output. Operations
       Research 30, 556-568.
    .. [3] Vats and Flegal (2022), Lugsail lag windows for estimating time-average covariance
       matrices. https://doi.org/10.1093/biomet/asab049

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import compare_draws
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.normal([0, 1], [1, 2], size=(4, 1000, 2))
    >>> found = compare_draws(draws, rng.normal(size=(32, 64, 2)), np.ones((32, 64)))
    >>> found.status(hypotheses=6)
    array(['good', 'bad'], dtype='<U4')
    """
    draws, particles, weights = checked_samples(draws, particles, weights)
    chains, n, elements = draws.shape
    width = max(1, BLOCK // (chains * n + weights.size))
    found = [
        _compare(draws[..., i : i + width], particles[..., i : i + width], weights, elements)
        for i in range(0, elements, width)
    ]
    joined = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    size = joined["own_ess"].min()
    further = max(1.0, chains / (NEARLY_ALL * FALSE_ALARM / 2 * (size + 1)))
    farthest = joined.pop("farthest").max(axis=0)
    reach = further * exceeded(farthest, weights, 1 / (size + 1))
    return DrawsComparison(**joined, reach=np.full(elements, reach))


def checked_samples(draws, particles, weights) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the arguments of `compare_draws` as arrays; raise an error if they do not fit."""
    draws, particles, weights = (np.asarray(each, float) for each in (draws, particles, weights))
    if draws.ndim != 3 or particles.ndim != 3 or draws.shape[2] != particles.shape[2]:
        raise ValueError(
            "draws and particles need the shapes (chains, draws, elements) and (runs, particles, "
            f"elements), got {draws.shape} and {particles.shape}."
        )
    if weights.shape != particles.shape[:2] or not (weights >= 0).all() or not weights.sum() > 0:
        raise ValueError(
            f"weights: must be ≥ 0, of the shape {particles.shape[:2]}, and at least one must be "
            "positive."
        )
    if draws[..., 0].size < LEAST_ESS:
        raise ValueError(f"draws: {draws[..., 0].size} are too few; {LEAST_ESS} are needed.")
    if len(particles) < 2:
        raise ValueError("particles: two independent runs are needed for an error.")
    # A scale may overflow at a draw from a fit with long tails, which then has no weight.
    lost = ~np.isfinite(particles).all(axis=2) & (weights <= 1e-12 * weights.max())
    particles = np.where(lost[..., None], particles[~lost][:1], particles)
    weights = np.where(lost, 0.0, weights)
    if not (np.isfinite(draws).all() and np.isfinite(particles).all()):
        raise ValueError("draws and particles must be finite.")
    return draws, particles, weights / weights.sum()


def _compare(draws, particles, weights, elements: int) -> dict[str, np.ndarray]:
    """Compare a block of all elements, all chains together."""
    a, b, w = draws.reshape(-1, draws.shape[2]), particles.reshape(-1, draws.shape[2]), weights
    distance, grid = _distance(a, b, w.ravel())
    width = 0.75 * (grid[-1] - grid[0])  # clips a normal distribution at 4.1 deviations
    low, high = grid[0] - width, grid[-1] + width
    center = grid[len(grid) // 2]  # avoids rounding for values far from zero
    a_in, b_in = np.clip(a, low, high) - center, np.clip(b, low, high) - center
    mean_a, mean_b = a_in.mean(axis=0), w.ravel() @ b_in
    a_in, b_in = a_in - mean_a, b_in - mean_b
    var_a, var_b = np.mean(a_in**2, axis=0), w.ravel() @ b_in**2
    spread = np.minimum(var_a, var_b) > (1e-12 * np.maximum(np.abs(low), np.abs(high))) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        sd_b = np.sqrt(np.where(spread, var_b, np.nan))
        shift = (mean_a - mean_b) / sd_b
        log_ratio = 0.5 * np.log(np.where(spread, var_a, np.nan) / var_b)
        square_a, square_b = (a_in**2 / var_a - 1) / 2, (b_in**2 / var_b - 1) / 2
        of_shift = _errors(a_in / sd_b, b_in / sd_b + shift * square_b, draws, w)
        of_ratio = _errors(square_a, square_b, draws, w)
    of_places = np.array([_errors(1.0 * (a <= c), 1.0 * (b <= c), draws, w) for c in grid])
    worst = np.argmax(of_places[:, 0].sum(axis=1), axis=0)
    of_distance = np.take_along_axis(of_places, worst[None, None, None], axis=0)[0]
    variances, worth = np.stack([of_shift, of_ratio, of_distance], axis=-1)
    worth = np.where(np.isfinite(worth), worth, np.inf).min(axis=-1)
    total, batches = variances.sum(axis=0), number_of_batches(*draws.shape[:2])
    freedom = max(effective_runs(w.sum(axis=1)) - 1, 1e-3)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, variances[0] / total, 0.5)
        degrees = 1 / (share**2 / (batches - 1) + (1 - share) ** 2 / freedom)  # Welch
    away, farthest = _distances(draws, particles, weights)
    return {
        "estimate": np.stack([shift, log_ratio, distance], axis=-1),
        "error": np.sqrt(total),
        "degrees": degrees,
        "share": share,
        "ess": np.minimum(worth[0], len(a)),
        "own_ess": np.minimum(worth[1], 1 / np.sum(w**2)),
        "rhat": split_rhat(a_in.reshape(draws.shape), elements),
        "away": away,
        "farthest": farthest[None],
        "ends": _ends(draws, a_in.reshape(draws.shape), elements),
    }


def _ends(draws, clipped, elements: int) -> np.ndarray:
    """Return the means of two chains that contradict each other, or NaN, shape (elements, 2)."""
    chains, n, width = draws.shape
    squared = np.array([batch_variance(chain[None]) for chain in clipped])
    variances, scale = clipped.var(axis=1), clipped.std(axis=(0, 1))
    known = (variances >= LEAST_ESS * squared) & (variances > (1e-9 * scale) ** 2)
    degrees = max(number_of_batches(1, n) - 1, 1)
    reach = stdtrit(degrees, 1 - FALSE_ALARM / 4 / (2 * chains * elements)) * np.sqrt(squared)
    means = clipped.mean(axis=1)
    lower, upper = np.where(known, means - reach, -np.inf), np.where(known, means + reach, np.inf)
    low = upper.argmin(axis=0), np.arange(width)  # the chain with the lowest upper limit
    high = lower.argmax(axis=0), np.arange(width)
    apart = (lower[high] > upper[low]) & (means[high] - means[low] > MARGINS[0] / 2 * scale)
    by_chain = draws.mean(axis=1)
    return np.where(apart, [by_chain[low], by_chain[high]], np.nan).T


def _distances(draws, particles, weights) -> tuple[np.ndarray, np.ndarray]:
    """Return ``away`` by element, and the largest distance of every particle."""
    flat = particles.reshape(-1, particles.shape[2])
    order = np.argsort(flat, axis=0)
    below = np.cumsum(weights.ravel()[order], axis=0)
    ordered = np.take_along_axis(flat, order, axis=0)
    low, middle, high = (
        ordered[np.argmax(below >= q, axis=0), range(flat.shape[1])] for q in (0.05, 0.5, 0.95)
    )
    scale = (high - low) / 3.29  # q95 − q05 of a normal distribution, in standard deviations
    scale[~(scale > 1e-12 * np.abs(middle))] = np.inf  # without spread, there is no distance
    apart = np.quantile(np.abs(draws - middle) / scale, 1 - NEARLY_ALL, axis=1, method="lower")
    return apart.max(axis=0), np.max(np.abs(particles - middle) / scale, axis=2)


def exceeded(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the smallest value that at most this share of the weight reaches, or the largest."""
    order = np.argsort(-np.where(weights > 0, values.reshape(weights.shape), -np.inf), axis=None)
    place = int(np.searchsorted(np.cumsum(weights.ravel()[order]), share, side="right")) - 1
    return float(values.ravel()[order[max(place, 0)]])


def _distance(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest distance of the distribution functions, and 19 pooled quantiles."""
    both = np.concatenate([a, b])
    order = np.argsort(both, axis=0)
    both = np.take_along_axis(both, order, axis=0)
    of_a = np.cumsum(np.append(np.full(len(a), 1 / len(a)), np.zeros(len(b)))[order], axis=0)
    of_b = np.cumsum(np.append(np.zeros(len(a)), w)[order], axis=0)
    last = np.append(both[1:] > both[:-1], np.ones((1, both.shape[1]), bool), axis=0)  # of ties
    distance = np.max(np.abs(of_a - of_b), axis=0, where=last, initial=0.0)
    pooled = (of_a + of_b) / 2
    levels = np.arange(1, 20) / 20
    places = [np.minimum(np.sum(pooled < q - 1e-12, axis=0), len(both) - 1) for q in levels]
    return distance, np.take_along_axis(both, np.array(places), axis=0)


def _errors(of_a, of_b, draws, w) -> np.ndarray:
    """Return squared errors of mean influences and effective sizes, by draws and particles."""
    mean = w.ravel() @ of_b
    residuals = np.einsum("ki,kie->ke", w, of_b.reshape(*w.shape, -1))
    runs = w.sum(axis=1, keepdims=True)
    residuals -= runs * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        own = (len(w) - 1) / len(w) * np.sum((residuals / (1 - runs)) ** 2, axis=0)
        squared = np.array([batch_variance(of_a.reshape(draws.shape)), own])
        spread = np.array([of_a.var(axis=0), w.ravel() @ (of_b - mean) ** 2])
        return np.array([squared, spread / squared])


def effective_runs(shares: np.ndarray) -> float:
    """Return (ΣW²)²/ΣW⁴, the number of equal runs that would estimate a variance as precisely."""
    return float(np.sum(shares**2) ** 2 / np.sum(shares**4))


def batch_variance(values: np.ndarray) -> np.ndarray:
    """Estimate the squared error of the mean over (chains, draws, …) by batch means."""
    chains, n, elements = values.shape
    length = _length_of_batches(chains, n)

    def by_batches(length: int) -> np.ndarray:
        kept = values[:, n % length :]
        means = kept.reshape(chains * (n // length), length, elements).mean(axis=1)
        return means.var(axis=0, ddof=1) / len(means)

    long = by_batches(length)
    return long if length < 4 else long + np.maximum(0, long - by_batches(length // 2))


def number_of_batches(chains: int, draws: int) -> int:
    """Return the number of whole batches."""
    return chains * (draws // _length_of_batches(chains, draws))


def _length_of_batches(chains, draws):
    return max(1, draws // max(1, round(BATCHES / chains)))


def split_rhat(values: np.ndarray, comparisons: int) -> np.ndarray:
    """Return split R̂ by element, or 1 if batches in half chains show no significant difference."""
    chains, n, elements = values.shape
    each = min(max(2, round(BATCHES / chains / 2)), max(1, n // 4))  # in a half
    length = n // (2 * each)
    if n < 8:  # half chains of three draws are too short for a variance
        return np.ones(elements)
    kept = values[:, n - 2 * each * length :]
    batches = kept.reshape(2 * chains, each, length, elements).mean(axis=2)
    between = batches.mean(axis=1).var(axis=0, ddof=1)
    within = np.mean(kept.reshape(2 * chains, -1, elements).var(axis=1), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt(1 + between / within)
        ratio = between * each / batches.var(axis=1, ddof=min(1, each - 1)).mean(axis=0)
    p_value = fdtrc(2 * chains - 1, max(2 * chains * (each - 1), 1), ratio)
    significant = p_value <= 1e-3 / comparisons
    return np.where(significant, np.nan_to_num(rhat, nan=1.0, posinf=np.inf), 1.0)


def copies(draws: ArrayLike) -> float:
    """Return the mean number of copies of a draw, which is 1 unless draws were repeated.

    It is the mean over draws, so that n draws over it is their effective number (Kish).

    Consecutive equal draws, as after a rejection, count once. Equal values that come from rounding
    are not copies. They are recognised as multiples of a unit.

    Parameters
    ----------
    draws : array_like of shape (chains, draws, elements)
        Draws of continuous variables. Two draws are equal if all elements are.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import copies
    >>> copies(np.tile(np.random.default_rng(1).normal(size=(1, 100, 3)), (1, 10, 1)))
    10.0
    """
    draws = np.ascontiguousarray(draws, dtype=float)
    moved = np.any(draws[:, 1:] != draws[:, :-1], axis=2)
    kept = np.concatenate([draws[:, 0], draws[:, 1:][moved]])
    _, times = np.unique(kept, axis=0, return_counts=True)
    return 1.0 if all(map(_is_rounded, kept.T)) else float(times @ times / times.sum())


def _is_rounded(values: np.ndarray) -> bool:
    """Return whether all gaps between values are multiples of the smallest gap."""
    gaps = np.diff(np.unique(values))
    multiples = gaps / gaps.min(initial=np.inf)
    return bool(np.all(np.abs(multiples - np.round(multiples)) <= 0.01))  # chosen


def differing_directions(
    draws: ArrayLike, particles: ArrayLike, weights: ArrayLike
) -> tuple[np.ndarray, DrawsComparison] | None:
    """Find the directions in which draws and particles differ most, on half of both.

    The first two directions have the largest and the smallest ratio of variances. They are
    generalised eigenvectors of the covariance matrices. Along the third direction the means differ
    most, in standard deviations. These directions show a wrong correlation, or a shift along a
    narrow ridge, that no single element shows. They are compared on the other half of chains and
    runs, so that their choice causes no bias. With many elements, the covariance matrices are
    regularised, and only the elements that differ most are used.

    Parameters
    ----------
    draws, particles, weights
        As for `compare_draws`.

    Returns
    -------
    directions : ndarray of shape (elements, 3)
        Coefficients of the elements.
    comparison : DrawsComparison
        Three rows, from the halves that were not used to find the directions. If these halves are
        too small, the function returns None instead of the directions and the comparison.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import differing_directions
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], size=(4, 1000))
    >>> _, found = differing_directions(draws, rng.normal(size=(32, 64, 2)), np.ones((32, 64)))
    >>> found.status(hypotheses=6).tolist()
    ['bad', 'bad', 'bad']
    """
    draws, particles, weights = checked_samples(draws, particles, weights)
    half = 19 * draws.shape[1] // 40  # of a single chain, with a gap between
    first, second = (
        (draws[::2], draws[1::2]) if len(draws) > 1 else (draws[:, :half], draws[:, -half:])
    )
    by_run = weights.sum(axis=1)
    halves = (by_run[::2], by_run[1::2])
    runs = min(effective_runs(each / each.sum()) if each.any() else 0.0 for each in halves)
    if second[..., 0].size < LEAST_ESS or runs < FEWEST_RUNS:
        return None
    directions = _directions(first, particles[::2], weights[::2])
    found = compare_draws(second @ directions, particles[1::2] @ directions, weights[1::2])
    # Chains are judged by element.
    return directions, replace(found, away=0 * found.away, ends=np.nan * found.ends)


def _directions(draws: np.ndarray, particles: np.ndarray, weights: np.ndarray) -> np.ndarray:
    a, b = (each.reshape(-1, each.shape[2]) for each in (draws, particles))
    w = weights.ravel() / weights.sum()
    low, high = np.quantile(a, [0.01, 0.99], axis=0)
    below, above = np.quantile(b[w > 0], [0.01, 0.99], axis=0)
    center = (low + high + below + above) / 4
    reach = np.maximum(high, above) - np.minimum(low, below)
    a, b = (np.clip(each - center, -2 * reach, 2 * reach) for each in (a, b))
    mean_a, mean_b = a.mean(axis=0), w @ b
    var_a, var_b = a.var(axis=0), w @ (b - mean_b) ** 2
    scale = np.sqrt((var_a + var_b) / 2)
    usable = np.flatnonzero(np.minimum(var_a, var_b) > (1e-9 * (np.abs(center) + reach)) ** 2)
    worth = min(len(a), 1 / np.sum(w**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = ((mean_a - mean_b) / scale) ** 2 + np.log(var_a / var_b) ** 2
    chosen = usable[np.argsort(-score[usable])[: max(2, int(worth / 5))]]
    found = np.zeros((len(scale), 3))
    if chosen.size:
        a, b = ((x - m)[:, chosen] / scale[chosen] for x, m in ((a, mean_a), (b, mean_b)))
        ridge = np.eye(chosen.size) * chosen.size / worth
        cov_a, cov_b = a.T @ a / len(a) + ridge, (b * w[:, None]).T @ b + ridge
        vectors = eigh(cov_a, cov_b)[1][:, [-1, 0]]
        apart = np.linalg.solve(cov_a + cov_b, (mean_a - mean_b)[chosen] / scale[chosen])
        found[chosen] = np.column_stack([vectors, apart]) / scale[chosen, None]
    return found
