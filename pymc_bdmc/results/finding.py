"""Findings of checks, as kinds and numbers; `pymc_bdmc.results.say` has the words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

Status = Literal["good", "open", "bad"]


class Message(NamedTuple):
    """Something to be said: its kind, and numbers, names and further messages in it."""

    kind: str
    numbers: Mapping[str, Any]


def message(kind: str, /, **numbers: Any) -> Message:
    """Return a message of a kind."""
    return Message(kind, numbers)


NOTHING = message("nothing")
"""Stands for a part of a sentence that is left out."""


def messages_of_json(text: str) -> tuple[Message, ...]:
    """Return messages that were stored by `json.dumps`."""

    def read(stored: Sequence) -> Message:
        kind, numbers = stored
        return Message(kind, {k: read(v) if isinstance(v, list) else v for k, v in numbers.items()})

    return tuple(map(read, json.loads(text)))


class Doubt(NamedTuple):
    """A doubt about a result."""

    found: Mapping[str, Message]
    """By group of runs; the empty name stands for all."""
    remedy: Message | None


class Finding(NamedTuple):
    """Result of one check."""

    name: str
    status: Status | None
    """None if the check does not affect the verdict."""
    messages: tuple[Message, ...] = ()
    remedy: Message | Doubt | None = None
    value: float = np.nan
    error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan
    brief: Message | None = None
    """A short form of the messages, for those who want the answer only."""
