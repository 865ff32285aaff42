"""Heat bath for many states of a lattice, each at its own β."""

import numpy as np

from pymc_bdmc.base.compiling import njit


@njit(nogil=True, cache=True)
def sweep(states, strengths, n_colours, uniforms):
    """Draw every site given its neighbours, with weights exp(strength · equal neighbours).

    Parameters
    ----------
    states : ndarray of uint8, shape (chains, L, L)
        Colours, changed in place.
    strengths : ndarray of shape (chains,)
        β times the bond strength.
    n_colours : int
    uniforms : ndarray of shape (chains, L, L)
    """
    chains, side, _ = states.shape
    chances = np.empty(n_colours)
    for i in range(chains):
        powers = np.exp(strengths[i] * np.arange(5))
        colours = states[i]
        for x in range(side):
            for y in range(side):
                right, left = colours[x, (y + 1) % side], colours[x, y - 1]
                below, above = colours[(x + 1) % side, y], colours[x - 1, y]
                total = 0.0
                for c in range(n_colours):
                    same = (right == c) + (left == c) + (below == c) + (above == c)
                    total += powers[int(same)]
                    chances[c] = total
                drawn, target = 0, uniforms[i, x, y] * total
                while chances[drawn] < target:
                    drawn += 1
                colours[x, y] = drawn
