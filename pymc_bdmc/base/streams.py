"""Derive independent random streams for every purpose from one seed."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeGuard, cast

import numpy as np

RandomSeed = int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None
"""Types of the argument ``random_seed``."""

Entropy = int | Sequence[int]
"""Normalised seed, which repeats the result if it is passed as `random_seed`."""


class Purpose(IntEnum):
    """First entry of a random stream's key, since different purposes need independent streams."""

    FIT = 0
    SIMULATE = 1
    PILOT = 2
    ANNEAL = 3
    SITES = 4
    START = 5
    TEMPER = 6
    TRAIN = 7
    POSTERIOR = 8
    SENSITIVITY = 10
    COMPARE = 11
    ORDERS = 12
    UNDEFINED = 13


class Fitting(IntEnum):
    """Third entry of the key for `Purpose.FIT`, to which a scout adds its own number, at most 3."""

    PRIOR_SCOUTS = 0
    WEIGHING_SCOUTS = 4
    SURPLUS = 8
    PEAKS = 9
    REACHED = 11
    FITTED_SCOUTS = 12


class Piloting(IntEnum):
    """Third entry of the key for `Purpose.PILOT`."""

    FROM_PRIOR = 0
    FROM_REFERENCE = 1
    REFIT = 2
    WEIGHING_FIT = 3
    SECOND_WEIGHING_FIT = 5


def entropy_of(random_seed: RandomSeed) -> Entropy:
    """Return the entropy of a seed, or new entropy from the system if the seed is None."""
    if random_seed is None:
        return cast(int, np.random.SeedSequence().entropy)
    if isinstance(random_seed, np.random.Generator):
        return int(random_seed.integers(2**63))
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed.generate_state(4).tolist()
    if _is_whole(random_seed):
        return int(random_seed)
    if isinstance(random_seed, Sequence | np.ndarray) and np.ndim(random_seed) == 1:
        entropy = list(random_seed)
        if entropy and all(map(_is_whole, entropy)):
            return [int(each) for each in entropy]
    raise TypeError(
        "random_seed: a whole number of at least 0, a sequence of them, a SeedSequence, a "
        f"Generator or None is needed, got {random_seed!r}."
    )


def _is_whole(seed: object) -> TypeGuard[int]:
    return isinstance(seed, int | np.integer) and not isinstance(seed, bool) and bool(seed >= 0)


def stream(entropy: Entropy, *key: int) -> np.random.SeedSequence:
    """Return the random stream of a key: a purpose, a data set, and the number of a task."""
    return np.random.SeedSequence(entropy, spawn_key=key)


def beside(seed: np.random.SeedSequence, purpose: Purpose) -> np.random.SeedSequence:
    """Return the stream of another purpose for the task that has this seed."""
    *key, round = seed.spawn_key[1:]  # the number of the first round is left out
    return stream(cast(Entropy, seed.entropy), purpose, *key, *([round] if round else []))


def recorded(entropy: Entropy) -> str:
    """Return entropy as text for the attribute ``random_seed`` of a result."""
    return " ".join(map(str, np.atleast_1d(np.array(entropy, dtype=object))))
