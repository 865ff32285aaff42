"""Sweep many chains of a restricted Boltzmann machine by compiled block Gibbs updates.

Kernels are written for a layer x, which conditions first, and a layer y: (visible, hidden) in a
forward chain and (hidden, visible) in reverse. With c the prior log odds of a unit and d the
contribution of the likelihood, the log odds of y_j at β given x are c_j + β (d_j + (x M)_j).
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit

LANES = 16  # random streams of a chain, which fit into one AVX-512 register

_single = np.float32
_word = np.uint32
_POWER_OF_TWO = (  # minimax polynomial of 2^f on [0, 1)
    _single(1.8775767e-3), _single(8.9893397e-3), _single(5.5826318e-2), _single(2.4015361e-1),
    _single(6.9315308e-1), _single(9.9999994e-1),
)  # fmt: skip
_EXPONENTIAL = tuple(1 / math.factorial(n) for n in range(12, -1, -1))  # series of e^r
_REASSOCIATE = {"reassoc", "contract", "nsz"}  # lets sums use all SIMD lanes; NaN stays NaN


class Layer(NamedTuple):
    """Layer of n chains, all float32, with log odds c + β d without input."""

    c: np.ndarray
    d: np.ndarray
    weights: np.ndarray  # to the other layer, shape (n_units, units of the other layer)
    units: np.ndarray = np.empty((0, 0), np.float32)  # (n, n_units), changed in place


@njit(inline="always", cache=True)
def _polynomial(x, coefficients):
    """Evaluate a polynomial by Horner's rule, the highest power first."""
    value = coefficients[0]
    for i in range(1, len(coefficients)):
        value = value * x + coefficients[i]
    return value


@njit(inline="always", cache=True)
def _exp_single(x):
    """Return e^x with relative error 2e-7 and without a branch, for x clipped to ±87."""
    t = min(max(x * _single(1.44269504), _single(-126)), _single(126))
    whole = np.floor(t)
    p = _polynomial(t - whole, _POWER_OF_TWO)
    return p * np.int32((np.int32(whole) + 127) << 23).view(np.float32)


@njit(inline="always", cache=True)
def _exp_double(x):
    """Return e^x for x ≤ 0 up to rounding and without a branch, for x clipped at −700."""
    t = max(x, -700.0) * 1.4426950408889634
    whole = np.floor(t + 0.5)
    p = _polynomial((t - whole) * 0.6931471805599453, _EXPONENTIAL)
    return p * np.int64((np.int64(whole) + 1023) << 52).view(np.float64)


@njit(fastmath=_REASSOCIATE, cache=True)
def _sample(layer, inputs, beta, streams, uniforms, units):
    """Draw the units of one chain given their inputs x M: unit j is 1 if u (1 + e^−logit) < 1.

    ``streams`` are xoshiro128+ generators (Blackman and Vigna 2021), used to 23 bits.
    """
    c, d = layer.c, layer.d
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for first in range(0, units.size, LANES):
        for lane in range(LANES):
            word = _word(s0[lane] + s3[lane])
            shifted = _word(s1[lane] << _word(9))
            s2[lane] ^= s0[lane]
            s3[lane] ^= s1[lane]
            s1[lane] ^= s2[lane]
            s0[lane] ^= s3[lane]
            s2[lane] ^= shifted
            s3[lane] = _word(s3[lane] << _word(11)) | (s3[lane] >> _word(21))
            whole = _single(np.int32(word >> _word(9)))
            uniforms[first + lane] = (whole + _single(0.5)) * _single(2**-23)
    for j in range(units.size):
        logit = c[j] + beta * (d[j] + inputs[j])
        below = uniforms[j] * (_single(1) + _exp_single(-logit)) < _single(1)
        units[j] = _single(1) if below else _single(0)


@njit(cache=True, nogil=True)
def _gibbs(x, y, to_y, betas, streams):
    """Draw y given its inputs from x, then x given y, at each chain's β; return the inputs of x."""
    uniforms = np.empty(max(x.c.size, y.c.size) + LANES, _single)
    for i in range(len(betas)):
        _sample(y, to_y[i], _single(betas[i]), streams[i], uniforms, y.units[i])
    to_x = np.dot(y.units, y.weights)
    for i in range(len(betas)):
        _sample(x, to_x[i], _single(betas[i]), streams[i], uniforms, x.units[i])
    return to_x


@njit(fastmath=_REASSOCIATE, cache=True)
def _dot(y, d, inputs):
    """Return Σ_j y_j (d_j + (x M)_j), in double precision."""
    total = 0.0
    for j in range(y.size):
        total += y[j] * (d[j] + inputs[j])
    return total


@njit(fastmath=_REASSOCIATE, cache=True)
def _log_sum(c, d, inputs, beta):
    """Return the log of the sum over all y, Σ_j log(1 + e^logit_j)."""
    total = 0.0
    for first in range(0, c.size, 1000):  # so many factors of at most 2 do not overflow
        product = 1.0
        for j in range(first, min(first + 1000, c.size)):
            logit = c[j] + beta * (d[j] + inputs[j])
            total += max(logit, 0.0)
            product *= 1.0 + _exp_double(-abs(logit))
        total += math.log(product)
    return total


@njit(fastmath=_REASSOCIATE, cache=True)
def _slope(layer, inputs, beta):
    """Return the derivative of `_log_sum` by β, which is the mean of `_dot` over y."""
    c, d = layer.c, layer.d
    total = 0.0
    for j in range(c.size):
        total += (d[j] + inputs[j]) / (
            _single(1) + _exp_single(-(c[j] + beta * (d[j] + inputs[j])))
        )
    return total


@njit(cache=True, nogil=True)
def anneal(x, y, constant, streams, betas, forward, integrated, stop):
    """Anneal a block of n chains in place; return log weights (n,), and mean and sd of ℓ (T + 1,).

    ``constant`` is added to ℓ, and ``streams`` are random streams of shape (n, 4, LANES), uint32.
    If the layer y is ``integrated``, the state of a chain is x alone. If ``stop`` is set, the
    chains end early and their log weights are NaN.
    """
    n, last = len(x.units), len(betas) - 1
    log_weight, mean, sd = np.zeros(n), np.zeros(last + 1), np.zeros(last + 1)
    ell, still = np.empty(n), np.zeros_like(x.d)
    for s in range(last + 1):
        if stop[0]:
            log_weight[:] = np.nan
            break
        to_y = np.dot(x.units, x.weights)
        here = s if forward else last - s
        for i in range(n):
            fixed = _dot(x.units[i], x.d, still) + constant
            if integrated:
                ell[i] = fixed + _slope(y, to_y[i], _single(betas[here]))
            else:
                ell[i] = fixed + _dot(y.units[i], y.d, to_y[i])
            if here < last and not integrated:
                log_weight[i] += (betas[here + 1] - betas[here]) * ell[i]
            elif here < last:
                log_weight[i] += (betas[here + 1] - betas[here]) * fixed
                log_weight[i] += _log_sum(y.c, y.d, to_y[i], betas[here + 1])
                log_weight[i] -= _log_sum(y.c, y.d, to_y[i], betas[here])
        mean[here], sd[here] = ell.mean(), ell.std()
        if s < last:
            _gibbs(x, y, to_y, np.full(n, betas[s + 1 if forward else here]), streams)
    return log_weight, mean, sd


@njit(cache=True, nogil=True)
def sweep(x, y, constant, streams, betas, n_sweeps, stop):
    """Sweep n chains in place, each at its own β, up to a ``stop``, and return ℓ (n,)."""
    n = len(x.units)
    ell, to_x, still = np.empty(n), np.empty_like(x.units), np.zeros_like(y.d)
    for _ in range(n_sweeps):
        to_x = _gibbs(x, y, np.dot(x.units, x.weights), betas, streams)
        if stop[0]:
            break
    for i in range(n):
        own = _dot(x.units[i], x.d, to_x[i]) + _dot(y.units[i], y.d, still)
        ell[i] = own + constant
    return ell


@njit(cache=True, nogil=True)
def free_energies(biases, inputs):
    """Return Σ_j log(1 + exp(b_j + inputs_ij)) of every row i, in double precision."""
    out = np.empty(len(inputs))
    zero = np.zeros_like(biases)
    for i in range(len(inputs)):
        out[i] = _log_sum(zero, biases, inputs[i], 1.0)
    return out


@njit(fastmath=_REASSOCIATE, cache=True, nogil=True)
def enumerate_states(biases, inputs, others, weights):
    """Return the log marginal weights of all 2^k states of a layer, summed over the other layer.

    Unit j of state s is bit j of s. ``inputs`` are the log odds of the other layer in state 0,
    ``others`` a log weight common to all states, and ``weights`` have shape (k, m).
    """
    k, m = weights.shape
    out = np.empty(1 << k)
    logits = inputs.copy()
    zero = np.zeros(m)
    state, own = 0, others
    for i in range(1 << k):  # in the Gray code, so that one unit changes
        out[state] = own + _log_sum(zero, logits, zero, 1.0)
        unit = 0  # the lowest set bit of i + 1 changes next
        while unit < k and not (i + 1) >> unit & 1:
            unit += 1
        if unit < k:
            state ^= 1 << unit
            sign = 1.0 if state >> unit & 1 else -1.0
            own += sign * biases[unit]
            logits += sign * weights[unit]
    return out
