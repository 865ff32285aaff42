"""One seed, and from it a random stream for every purpose, which meets no other."""

from collections.abc import Sequence
from enum import IntEnum
from typing import cast

import numpy as np

__all__ = ["Entropy", "Purpose", "RandomSeed", "entropy_of", "recorded", "stream"]

RandomSeed = int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None
"""What a call takes."""

Entropy = int | Sequence[int]
"""What it makes of it: as `random_seed` it gives the same result again."""


class Purpose(IntEnum):
    """First entry of a random stream's key: streams of different purposes never meet."""

    FIT = 0
    SIMULATE = 1
    PILOT = 2
    ANNEAL = 3
    SITES = 4
    START = 5


def entropy_of(random_seed: RandomSeed) -> Entropy:
    """Entropy of a seed; fresh from the system for None."""
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**63))
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed.generate_state(4).tolist()
    return cast(Entropy, np.random.SeedSequence(random_seed).entropy)


def stream(entropy: Entropy, *key: int) -> np.random.SeedSequence:
    """The random stream of (purpose, data set, direction, chain), whoever runs it."""
    return np.random.SeedSequence(entropy, spawn_key=key)


def recorded(entropy: Entropy) -> str:
    """Entropy as the attribute ``random_seed`` of a result."""
    return " ".join(map(str, np.atleast_1d(np.array(entropy, dtype=object))))
