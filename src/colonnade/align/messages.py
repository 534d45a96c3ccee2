"""What travels in an alignment: keys, masked points, places in shuffled lists, proofs. Never an id."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from colonnade.errors import MessageError

CHUNK = 16_384
"""Points in one message: half a megabyte."""


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


class Wanted(NamedTuple):
    """Whose set is asked for, and from which place on."""

    whose: Tensor
    start: Tensor


class Points(NamedTuple):
    """Masked ids of one set, uint8 [n, 32]."""

    whose: Tensor
    points: Tensor


class Places(NamedTuple):
    """Where the common ids are in a shuffled list of one set, in the common order, int64."""

    whose: Tensor
    places: Tensor


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


def checked_places(came: Tensor, rows: int, count: int | None, who: str) -> Tensor:
    """Places in a list of so many rows, each at most once; ``count`` of them, if that is known."""
    checked(came, torch.int64, (came.numel() if count is None else count,), f"a list of places by {who}")
    if came.numel() and not 0 <= int(came.min()) <= int(came.max()) < rows:
        raise MessageError(
            f"{who} gave places from {int(came.min())} to {int(came.max())} in a list of {rows}; "
            f"they go from 0 to {rows - 1}, so leave that side out."
        )
    if len(torch.unique(came)) < came.numel():
        raise MessageError(f"{who} gave the same place twice; every row is another's, so leave that side out.")
    return came


def number_of(came: Tensor, below: int, what: str) -> int:
    """One whole number from 0 to less than ``below``."""
    number = int(checked(came, torch.int64, (), what))
    if not 0 <= number < below:
        raise MessageError(f"{what} came as {number}; it goes from 0 to {below - 1}.")
    return number
