"""Put what checks find in words; the words stand in ``say.toml``, and nowhere else."""

import tomllib
from pathlib import Path
from typing import Any

from pymc_bdmc.model.hard_variables import sum_out
from pymc_bdmc.results.finding import Doubt, Message

_TEXT = tomllib.loads(Path(__file__).with_name("say.toml").read_text(encoding="utf-8"))
READER, PAPER = _TEXT.pop("reader"), _TEXT.pop("paper")
WORDS: dict[str, str] = {kind: text for part in _TEXT.values() for kind, text in part.items()}
"""Sentences and parts of sentences, by kind of message."""

LISTS = {"any of": ", or ", "list": ", ", "range": " to "}
"""Separators of the parts of a list."""


def say(what: Message | Doubt, impersonal: bool = False) -> str:
    """Return a message or a doubt in words."""
    if isinstance(what, Doubt):
        found = say_found(what, impersonal)
        return f"{found}; {say(what.remedy, impersonal)}" if what.remedy else found
    if what.kind in LISTS:
        return LISTS[what.kind].join(say(part, impersonal) for part in what.numbers["parts"])
    if what.kind == "sum out":
        return sum_out(what.numbers["names"])
    if what.kind == "clause":  # a sentence within another one
        return say(what.numbers["what"], impersonal).rstrip(".")
    numbers = {name: _told(value, impersonal) for name, value in what.numbers.items()}
    return WORDS[what.kind].format_map((PAPER if impersonal else READER) | numbers)


def say_found(doubt: Doubt, impersonal: bool = False) -> str:
    """Return a doubt in words, without its remedy; a whole sentence needs no group before it."""
    parts = (
        ("" if not group or each.kind == "clause" else f"{group}: ") + say(each, impersonal)
        for group, each in doubt.found.items()
    )
    return "; ".join(parts)


def _told(value: Any, impersonal: bool) -> Any:
    return say(value, impersonal) if isinstance(value, Message | Doubt) else value
