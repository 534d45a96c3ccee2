"""Keys, signatures and shares of one or several parties as the tensors of one message, and back to bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from colonnade.errors import MessageError

Fields = dict[str, Tensor]
Said = dict[str, tuple[bytes, ...]]
"""Each party's bytes, in parts."""
NOTHING = torch.zeros(0, dtype=torch.int16)
_NOBODY = torch.zeros((), dtype=torch.int16)  # has no axis, so it is refused as a list
_SHOWN = 8  # fields in an error message


def spoken(*parts: bytes) -> Fields:
    """One party's bytes, in parts, as the fields of a message."""
    return {f"part{k}": _bytes(part) for k, part in enumerate(parts)}


def _bytes(part: bytes) -> Tensor:
    return torch.frombuffer(bytearray(part), dtype=torch.uint8) if part else torch.zeros(0, dtype=torch.uint8)


def heard(fields: Fields, lengths: Sequence[int | None], who: str) -> tuple[bytes, ...]:
    """The bytes of a message that :func:`spoken` made, in parts of these lengths (None for any length).

    Anything else is refused with a :class:`MessageError` that names ``who`` sent it.
    """
    parts = [fields.get(f"part{k}", NOTHING) for k in range(len(lengths))]
    right = all(part.dtype == torch.uint8 and part.ndim == 1 for part in parts) and len(fields) == len(parts)
    if not right or any(length not in (None, len(part)) for part, length in zip(parts, lengths, strict=True)):
        expected = ", ".join("some" if length is None else str(length) for length in lengths)
        raise MessageError(
            f"'{who}' was to say keys or signatures in parts of {expected} bytes; it said {forms_of(fields)}."
        )
    return tuple(part.numpy().tobytes() for part in parts)


def stacked(said: Mapping[str, Sequence[bytes]], names: Sequence[str]) -> Fields:
    """The bytes of several parties, stacked part by part in the order of ``names``, with the parties' numbers.

    >>> unstacked(stacked({"a": [b"x"], "c": [b"y"]}, "abc"), "abc", parts=1)
    {'a': (b'x',), 'c': (b'y',)}
    """
    if len({tuple(map(len, parts)) for parts in said.values()}) > 1:
        raise MessageError(f"keys, signatures or shares of {list(said)} came in different lengths; one is not right.")
    ordered = sorted(said, key=names.index)
    who = torch.tensor([names.index(name) for name in ordered], dtype=torch.int16)
    each = [spoken(*said[name]) for name in ordered]
    return {"who": who, **{part: torch.stack([own[part] for own in each]) for part in (each[0] if each else ())}}


def unstacked(fields: Fields, names: Sequence[str], parts: int) -> Said:
    """Each party's bytes from a message of :func:`stacked` with this number of parts; else a :class:`MessageError`."""
    who = fields.get("who", _NOBODY)
    places = who.tolist() if who.dtype == torch.int16 and who.ndim == 1 and len(who) <= len(names) else [-1]
    said = [fields.get(f"part{k}", NOTHING) for k in range(parts if places else 0)]
    fits = all(value.dtype == torch.uint8 and value.ndim == 2 and len(value) == len(places) for value in said)
    known = len(fields) == len(said) + 1 and all(0 <= place < len(names) for place in places)
    if not fits or not known or places != sorted(set(places)):
        raise MessageError(
            f"keys, signatures or shares of some of {list(names)} were expected, in this order and {parts} parts; "
            f"{forms_of(fields)} came."
        )
    return {names[place]: tuple(value[k].numpy().tobytes() for value in said) for k, place in enumerate(places)}


def forms_of(fields: Mapping[str, Tensor]) -> str:
    """The names, types and shapes of refused fields, for the error message.

    >>> forms_of({"who": torch.zeros(2)})
    "'who' as float32 [2]"
    """
    shown = [
        f"'{name:.40}' as {str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        for name, tensor in fields.items()
    ]
    return ", ".join(shown[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "") or "nothing"


def single(said: Mapping[str, bytes]) -> Said:
    """Bytes by party, each as a single part."""
    return {name: (part,) for name, part in said.items()}


def only(said: Said) -> dict[str, bytes]:
    """The first part of each party's bytes."""
    return {name: parts[0] for name, parts in said.items()}
