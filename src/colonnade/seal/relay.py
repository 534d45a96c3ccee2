"""Bytes of several parties (keys, signatures, shares) as the tensors of one message, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from colonnade.errors import MessageError

Fields = dict[str, Tensor]
Said = dict[str, tuple[bytes, ...]]
"""What each party said, in parts."""


def spoken(*parts: bytes) -> Fields:
    """What one party says."""
    return {f"part{k}": torch.frombuffer(bytearray(part), dtype=torch.uint8) for k, part in enumerate(parts)}


def heard(fields: Fields) -> tuple[bytes, ...]:
    """What :func:`spoken` said."""
    return tuple(value.numpy().tobytes() for value in fields.values())


def stacked(said: Mapping[str, Sequence[bytes]], names: Sequence[str]) -> Fields:
    """What several parties said, part by part, and who they are.

    >>> unstacked(stacked({"a": [b"x"], "c": [b"y"]}, "abc"), "abc")
    {'a': (b'x',), 'c': (b'y',)}
    """
    who = torch.tensor([names.index(name) for name in said], dtype=torch.int16)
    each = [spoken(*parts) for parts in said.values()]
    return {"who": who, **{part: torch.stack([one[part] for one in each]) for part in (each[0] if each else ())}}


def unstacked(fields: Fields, names: Sequence[str]) -> Said:
    """What :func:`stacked` stacked, or :class:`MessageError`."""
    who = fields.get("who", torch.zeros(0))
    rest = [value for name, value in fields.items() if name != "who"]
    places = [int(place) for place in who]
    fits = all(value.dtype == torch.uint8 and value.ndim == 2 and len(value) == len(places) for value in rest)
    if not fits or not all(0 <= place < len(names) for place in places) or len(set(places)) < len(places):
        raise MessageError(f"keys, signatures or shares of some of {list(names)} were expected; something else came.")
    parts = [[row.numpy().tobytes() for row in value] for value in rest]
    return {names[place]: tuple(part[k] for part in parts) for k, place in enumerate(places)}


def single(said: Mapping[str, bytes]) -> Said:
    """What is said in one part."""
    return {name: (part,) for name, part in said.items()}


def only(said: Said) -> dict[str, bytes]:
    """The one part of everybody."""
    return {name: parts[0] for name, parts in said.items()}
