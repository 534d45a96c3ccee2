"""What a party may answer to each word of the handshake: these names, each of this kind and size, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from colonnade.errors import MessageError, printable
from colonnade.federation.handshake import Facts

MOST_ROWS = 2**31 - 1
MOST_NUMBERS = 250_000  # in a row of one party: a picture of 256 x 256 x 3 has 196,608
MOST_CATEGORIES = 10**6  # of all columns of one party
MOST_DIMENSIONS = 4
_Kind = tuple[str, Callable[[Any], bool]]
"""A kind in words, and whether something is of it."""


def _hex(length: int, *, empty: bool = False) -> _Kind:
    def check(value: Any) -> bool:
        is_text = isinstance(value, str) and (len(value) == 2 * length or (empty and not value))
        return is_text and all(digit in "0123456789abcdef" for digit in value)

    return f"{length} bytes in hexadecimal", check


def _text(most: int) -> _Kind:
    return (
        f"a text of up to {most} printable characters",
        lambda value: isinstance(value, str) and len(value) <= most and value.isprintable(),
    )


def _numbers(value: Any, most: int) -> bool:
    """Whether it is a list of so many whole numbers above 0 at most."""
    return (
        isinstance(value, list) and len(value) <= most and all(type(number) is int and number > 0 for number in value)
    )


_COUNT: _Kind = ("a whole number from 0 on", lambda value: type(value) is int and 0 <= value <= MOST_ROWS)
_TIME: _Kind = ("seconds since 1970", lambda value: type(value) in (int, float) and 0 <= value < 2**53)
_SHAPE: _Kind = (
    f"a list of 1 to {MOST_DIMENSIONS} whole numbers whose product is {MOST_NUMBERS:,} at most",
    lambda value: _numbers(value, MOST_DIMENSIONS) and bool(value) and math.prod(value) <= MOST_NUMBERS,
)
_CODES: _Kind = (
    f"a list of whole numbers whose sum is {MOST_CATEGORIES:,} at most",
    lambda value: _numbers(value, MOST_NUMBERS) and sum(value) <= MOST_CATEGORIES,
)
_SIGNATURE = {"signature": _hex(64)}
ANSWERS: dict[str, dict[str, _Kind]] = {
    "hello": {"name": _text(64), "colonnade": _text(40), "incarnation": _hex(16), "time": _TIME, **_SIGNATURE},
    "terms": _SIGNATURE,
    "signed": {"aligned": _hex(32, empty=True)},
    "align": {},
    "prepare": {"rows": _COUNT, "test": _COUNT, "shape": _SHAPE, "cardinalities": _CODES},
    "plan": _SIGNATURE,
    "begin": {},
    "end": {},
}


def checked_answer(party: str, word: str, facts: Facts) -> Facts:
    """The facts, if they are what a party may answer to this word."""
    due = ANSWERS[word]
    if facts.keys() != due.keys():
        odd = printable(min(facts.keys() ^ due.keys()), 40)
        how = "lacks" if odd in due else "has besides"
        raise MessageError(f"the answer of '{party}' to '{word}' {how} '{odd}'; {_listed(due)} was expected.")
    for name, (kind, check) in due.items():
        if not check(facts[name]):
            shown = printable(_shown(facts[name]), 40)
            raise MessageError(f"'{party}' answered '{word}' with '{name}' = {shown}; {kind} was expected.")
    if word == "prepare" and len(facts["cardinalities"]) > (facts["shape"][0] if len(facts["shape"]) == 1 else 0):
        raise MessageError(
            f"'{party}' answered 'prepare' with {len(facts['cardinalities'])} 'cardinalities' for rows of 'shape' "
            f"{facts['shape']}; no more than it has columns were expected."
        )
    return facts


def _shown(value: Any) -> str:
    """Something for a sentence; of what is long only how long it is."""
    return (
        f"{type(value).__name__} of {len(value)}" if isinstance(value, list | dict) and len(value) > 8 else repr(value)
    )


def _listed(names: dict[str, _Kind]) -> str:
    return ", ".join(names) or "nothing"
