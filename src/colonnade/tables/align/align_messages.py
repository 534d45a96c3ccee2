"""The messages of an alignment: keys, masked points, places in shuffled lists, proofs. No message has an id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import MessageError

CHUNK = 16_384
"""The number of points in one message: half a megabyte."""
PLACE_BYTES = 8


class Greeting(NamedTuple):
    """A party's first message: a signed new key, uint8, and the number of its ids, int64."""

    key: Tensor
    incarnation: Tensor
    signature: Tensor
    rows: Tensor


GREETED = ((torch.uint8, 32), (torch.uint8, 16), (torch.uint8, 64), (torch.int64, 1))
"""The type and the width of each part of a greeting."""


class Roster(NamedTuple):
    """The greetings of all parties, one row each."""

    keys: Tensor
    incarnations: Tensor
    signatures: Tensor
    rows: Tensor


class Signed(NamedTuple):
    """One party's signature of the roster, or those of all parties, one row each, uint8."""

    signatures: Tensor


class WantedPlaces(NamedTuple):
    """The number of the wanted list, and the first wanted place in it."""

    whose: Tensor
    start: Tensor


class Box(NamedTuple):
    """Masked ids or places of one list, uint8, encrypted for the next party on the list's path."""

    whose: Tensor
    sealed: Tensor


class AlignVerdict(NamedTuple):
    """The number of common ids, encrypted for each party, uint8 [parties, 36]."""

    sealed: Tensor


class Locks(NamedTuple):
    """One party's lock, uint8 [1, 32], or those of all parties, one row each."""

    locks: Tensor


class Macs(NamedTuple):
    """One party's proofs for each party, uint8 [parties, 32], or those of all, [parties, parties, 32]."""

    macs: Tensor


class LeftPlaces(NamedTuple):
    """How many rows the owner has, and the places of the rows that the party has too, int64, in the common order."""

    total: Tensor
    places: Tensor


def as_tensor(raw: bytes, width: int) -> Tensor:
    """Bytes as a tensor with rows of ``width``."""
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).reshape(-1, width)


def checked(tensor: Tensor, kind: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
    """A tensor from another side, if it is of the expected type and shape."""
    if tensor.dtype != kind or tuple(tensor.shape) != shape:
        raise MessageError(
            f"{what} came as {tensor.dtype} of shape {tuple(tensor.shape)} where {kind} of shape {shape} was expected; "
            "check that all sides use the same version, or leave that party out."
        )
    return tensor


def boxed(sealed: bytes) -> Tensor:
    """An encrypted box as a tensor."""
    return torch.frombuffer(bytearray(sealed), dtype=torch.uint8)


def places_in(raw: bytes, rows: int, count: int, who: str) -> np.ndarray:
    """``count`` different places in a list of ``rows`` rows, from another party's bytes."""
    if len(raw) != PLACE_BYTES * count:
        raise MessageError(f"{who} gave {len(raw) // PLACE_BYTES} places where {count} ids are common; stop.")
    places = np.frombuffer(raw, "<i8").astype(np.int64)
    if not 0 <= places.min(initial=0) <= places.max(initial=0) < rows:
        raise MessageError(
            f"{who} gave places from {places.min()} to {places.max()} in a list of {rows}; "
            f"they go from 0 to {rows - 1}, so leave that side out."
        )
    if len(np.unique(places)) < len(places):
        raise MessageError(f"{who} gave the same place twice; every row is another's, so leave that side out.")
    return places


def number_of(tensor: Tensor, below: int, what: str) -> int:
    """One whole number from 0 to less than ``below``."""
    number = int(checked(tensor, torch.int64, (), what))
    if not 0 <= number < below:
        raise MessageError(f"{what} came as {number}; it goes from 0 to {below - 1}.")
    return number
