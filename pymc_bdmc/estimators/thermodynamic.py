"""Estimate log Z by thermodynamic integration of the mean log likelihood over β."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.simulated_tempering import MIN_CHAINS, checked_draws, place_probabilities

Rule = Literal["riemann", "trapezoid", "corrected"]


def integrate_path(
    betas: ArrayLike, mean: ArrayLike, variance: ArrayLike, rule: Rule = "trapezoid"
) -> np.ndarray:
    """Integrate m(β) = E_β[ℓ] over β, by one of three rules.

    Since m grows with slope v(β) = Var_β[ℓ], left Riemann sums are too low. The slopes also correct
    the trapezoid rule, to Δ(m_k + m_{k+1})/2 − Δ²(v_{k+1} − v_k)/12 (Friel, Hurn and Wyse 2014).

    Parameters
    ----------
    betas : array_like of shape (K,)
    mean, variance : array_like of shape (…, K)
        Mean and variance of ℓ at each β.
    rule : {"riemann", "trapezoid", "corrected"}

    Returns
    -------
    ndarray of shape (…,)
        Nats.

    Raises
    ------
    ValueError
        If the rule is unknown.

    Examples
    --------
    >>> from pymc_bdmc.estimators import integrate_path
    >>> float(integrate_path([0, 0.5, 1], [0, 1, 2], [1, 1, 1], "trapezoid"))
    1.0
    """
    mean, variance, width = np.asarray(mean), np.asarray(variance), np.diff(betas)
    if rule == "riemann":
        return mean[..., :-1] @ width
    if rule not in ("trapezoid", "corrected"):
        raise ValueError(f"rule: {rule!r} is none of 'riemann', 'trapezoid' and 'corrected'.")
    total = (mean[..., 1:] + mean[..., :-1]) @ width / 2
    if rule == "corrected":
        total = total - np.diff(variance, axis=-1) @ width**2 / 12
    return total


def thermodynamic_integration(
    log_likelihood: ArrayLike,
    betas: ArrayLike,
    *,
    places: ArrayLike | None = None,
    log_z: ArrayLike | None = None,
    rule: Rule = "trapezoid",
) -> Estimate:
    """Integrate the mean log likelihood of draws from simulated tempering.

    With ``places``, m_k is the mean over the draws made at β_k. With ``log_z``, every draw is
    weighted by its probability q(β_k | x) (Rao-Blackwellized TI-RB of Carlson et al. 2016). The
    error is by the jackknife over chains. It does not include the error of the rule, which is
    judged by the difference from the corrected trapezoid rule.

    Parameters
    ----------
    log_likelihood : array_like of shape (chains, draws)
        ℓ, nats.
    betas : array_like of shape (K,)
        The ladder.
    places : array_like of shape (chains, draws), optional
        Index of the temperature at which each state was drawn.
    log_z : array_like of shape (K,), optional
        The guess log Ẑ_k of the run.
    rule : {"riemann", "trapezoid", "corrected"}
        See `integrate_path`.

    Returns
    -------
    Estimate
        Valid if there are at least 8 chains, draws at every temperature, and a difference from the
        corrected rule of at most the error.

    Raises
    ------
    ValueError
        If not exactly one of ``places`` and ``log_z`` is given, or the rule is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import thermodynamic_integration
    >>> ell, ladder = np.full((8, 10), 2.0), np.linspace(0, 1, 5)
    >>> round(thermodynamic_integration(ell, ladder, log_z=2 * ladder).value, 6)
    2.0
    """
    if (places is None) == (log_z is None):
        raise ValueError("places, log_z: exactly one of them is needed.")
    ell, betas = checked_draws(log_likelihood), np.asarray(betas, dtype=float)
    moments = np.empty((3, len(ell), len(betas)))
    for i, row in enumerate(ell):
        if log_z is None:
            weights = np.asarray(places)[i][:, None] == np.arange(len(betas))
        else:
            weights = place_probabilities(row, betas, log_z)
        moments[:, i] = np.stack([np.ones_like(row), row, row**2]) @ weights

    def integral(sums, rule):
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = sums[1] / sums[0]
            return integrate_path(betas, mean, sums[2] / sums[0] - mean**2, rule)

    chains = len(ell)
    total = moments.sum(axis=1)
    value = float(integral(total, rule))
    correction = float(abs(integral(total, "corrected") - value))
    without = integral(total[:, None] - moments, rule)
    error = float(np.sqrt((chains - 1) * np.var(without))) if chains > 1 else np.nan
    empty = int(np.sum(total[0] == 0))
    name = f"{'TI' if log_z is None else 'TI-RB'} {rule}"
    reason = f"{chains} chains, {empty} temperatures without draws, correction {correction:.2g}"
    valid = chains >= MIN_CHAINS and empty == 0 and bool(correction <= error)
    return Estimate(value, error, name, valid, reason)
