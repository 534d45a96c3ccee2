"""What travels in an alignment: keys, masked points, places in shuffled lists, proofs. Never an id."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from colonnade.errors import MessageError

CHUNK = 16_384
"""Points in one message: half a megabyte."""
PLACE_BYTES = 8


class Greeting(NamedTuple):
    """How a party presents itself: a signed fresh key, uint8, and how many ids it has, int64."""

    key: Tensor
    incarnation: Tensor
    signature: Tensor
    rows: Tensor


GREETED = ((torch.uint8, 32), (torch.uint8, 16), (torch.uint8, 64), (torch.int64, 1))
"""The type and the width of each part of a greeting."""


class Roster(NamedTuple):
    """The greetings of all parties, one line each."""

    keys: Tensor
    incarnations: Tensor
    signatures: Tensor
    rows: Tensor


class Signed(NamedTuple):
    """A party's signature of the roster, or everybody's, one line each, uint8."""

    signatures: Tensor


class WantedPlaces(NamedTuple):
    """Which list is asked for, and from which place on."""

    whose: Tensor
    start: Tensor


class Box(NamedTuple):
    """Something about one list that only the next party on its way can open, uint8: masked ids, or places of them."""

    whose: Tensor
    sealed: Tensor


class AlignVerdict(NamedTuple):
    """How many ids are common, for each party in a box of its own, uint8 [parties, 36]."""

    sealed: Tensor


class Locks(NamedTuple):
    """A party's lock, uint8 [1, 32], or those of all, one line each."""

    locks: Tensor


class Macs(NamedTuple):
    """What a party proves to each, uint8 [parties, 32], or all to all, [parties, parties, 32]."""

    macs: Tensor


def as_tensor(raw: bytes, width: int) -> Tensor:
    """Bytes as lines of ``width``."""
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).reshape(-1, width)


def checked(came: Tensor, kind: torch.dtype, shape: tuple[int, ...], what: str) -> Tensor:
    """A tensor from another side, if it is of the expected type and shape."""
    if came.dtype != kind or tuple(came.shape) != shape:
        raise MessageError(
            f"{what} came as {came.dtype} of shape {tuple(came.shape)} where {kind} of shape {shape} was expected; "
            "check that all sides use the same version, or leave that party out."
        )
    return came


def boxed(sealed: bytes) -> Tensor:
    """A box as it travels."""
    return torch.frombuffer(bytearray(sealed), dtype=torch.uint8)


def places_in(raw: bytes, rows: int, count: int, who: str) -> np.ndarray:
    """So many places in a list of so many rows, each at most once."""
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


def number_of(came: Tensor, below: int, what: str) -> int:
    """One whole number from 0 to less than ``below``."""
    number = int(checked(came, torch.int64, (), what))
    if not 0 <= number < below:
        raise MessageError(f"{what} came as {number}; it goes from 0 to {below - 1}.")
    return number
