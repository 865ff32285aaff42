"""Draw standard normal numbers inside numba; seeds give the same ones in all its versions."""

import math

import numpy as np

from pymc_bdmc.base.compiling import njit

_LAYERS = 256
_EDGE = 3.6541528853610088  # where the tail begins, and the area of a layer: Marsaglia and Tsang
_AREA = 0.00492867323399


def _ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return widths of the layers from the base up, densities, and limits that need no test."""
    widths = [_AREA * math.exp(0.5 * _EDGE**2), _EDGE]
    while len(widths) < _LAYERS:
        height = _AREA / widths[-1] + math.exp(-0.5 * widths[-1] ** 2)
        widths.append(math.sqrt(-2 * math.log(height)))
    x = np.array([*widths, 0.0])
    return x, np.exp(-0.5 * x**2), x[1:] / x[:-1]


_WIDTHS, _DENSITIES, _INSIDE = _ziggurat()


@njit(nogil=True, cache=True, allocates=False)
def standard_normal(rng):
    """Draw by the ziggurat method (Marsaglia and Tsang 2000), mostly from one uniform number."""
    while True:
        place = _LAYERS * rng.random()
        layer = int(place)
        u = 2.0 * (place - layer) - 1.0  # other digits, so independent of the layer
        x = u * _WIDTHS[layer]
        if abs(u) < _INSIDE[layer]:
            return x
        if layer == 0:
            while True:
                beyond = -math.log(1.0 - rng.random()) / _EDGE
                if -2.0 * math.log(1.0 - rng.random()) > beyond**2:
                    return math.copysign(_EDGE + beyond, u)
        low, high = _DENSITIES[layer], _DENSITIES[layer + 1]
        if low + rng.random() * (high - low) < math.exp(-0.5 * x**2):
            return x


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def copy_vector(source, target):
    """Overwrite one vector by another.

    Assigning slices in numba takes several times as long, and seconds to compile.
    """
    for i in range(source.size):
        target[i] = source[i]
