"""What a party of :mod:`benchmarks.sides` answers if it lies; called with its guest, a request and the true reply."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from colonnade.federation.align_server import AlignServer
from colonnade.federation.guest import Guest
from colonnade.federation.talk import facts_in
from colonnade.message import decode_fields, encode
from colonnade.runtime.letter import Letter, open_letter, write_letter

Lie = Callable[[Guest, bytes, bytes], bytes]
DAY = 86_400


def lie_of(name: str) -> Lie:
    """The lie of this name; of none, the truth."""
    return LIES[name]() if name else lambda _, request, reply: reply


def says(word: str, **false: Callable[[Any], Any]) -> Callable[[], Lie]:
    """Another fact in the answer to a word."""

    def lie(_: Guest, request: bytes, reply: bytes) -> bytes:
        letter = open_letter(reply)
        if open_letter(request).step != word or letter.kind != "answer":
            return reply
        facts = facts_in(letter)
        facts |= {name: change(facts[name]) for name, change in false.items()}
        return write_letter(replace(letter, frames=(json.dumps(facts).encode(),)))

    return lambda: lie


def answers(change: Callable[[Letter], Letter]) -> Lie:
    """Something else in a training round."""

    def lie(_: Guest, request: bytes, reply: bytes) -> bytes:
        asked, letter = open_letter(request), open_letter(reply)
        trains = asked.kind == "step" and asked.purpose == "train" and letter.frames
        return write_letter(change(letter)) if trains else reply

    return lie


def narrow(letter: Letter) -> Letter:
    """The same tensors without their last column."""
    fields, about = decode_fields(letter.frames[0])
    return replace(letter, frames=(encode({name: value[..., :-1] for name, value in fields.items()}, about),))


def not_a_number(letter: Letter) -> Letter:
    """The last value is none."""
    return replace(letter, frames=(bytes(letter.frames[0])[:-4] + np.float32("nan").tobytes(),))


def stale() -> Lie:
    """From the second round on, the answer of the first."""
    kept: list[Letter] = []

    def change(letter: Letter) -> Letter:
        kept.append(letter)
        return kept[0]

    return answers(change)


def permuted() -> Lie:
    """Common rows in another order than was found."""

    def lie(guest: Guest, request: bytes, reply: bytes) -> bytes:
        server = guest.server
        if isinstance(server, AlignServer) and len(server.seat.peer.rows) and open_letter(request).step == "keep":
            server.seat.peer.rows = server.seat.peer.rows[::-1].copy()
        return reply

    return lie


LIES: dict[str, Callable[[], Lie]] = {
    "identity": says("hello", signature=lambda signature: "00" + signature[2:]),
    "clock": says("hello", time=lambda at: at + DAY),
    "version": says("hello", colonnade=lambda _: "0.0.1"),
    "rows": says("prepare", rows=lambda rows: rows - 1),
    "shape": lambda: answers(narrow),
    "nan": lambda: answers(not_a_number),
    "stale": stale,
    "permuted": permuted,
}
