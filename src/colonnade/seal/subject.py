"""What a blinded sum is about, as every party works it out by itself: its masks and its log are bound to this."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from colonnade.seal.key_agreement import PROTOCOL, pack
from colonnade.seal.ring import Ring


class Form(NamedTuple):
    """One tensor of a sum without its values: all that parties must agree on for its codes to add."""

    shape: tuple[int, ...]
    ring: Ring
    bound: float

    def packed(self) -> bytes:
        """The form as bytes; a scale counts as the float32 that travels."""
        return pack(self.ring.bits, struct.pack("<f", self.bound), *self.shape)


class Subject(NamedTuple):
    """A step of a turn, the people whose rows it adds up in their order, and what all parties were told with it."""

    step: str
    purpose: str
    table: str
    leader: str
    round: int
    part: int
    people: tuple[int, ...]
    told: bytes = b""
    placed: int = 1
    """How often this side put rows under the table's name; a simulation does so again and again."""
    history: bytes = b""
    """What this party was told in training before, if all were told alike."""

    def meaning(self, forms: Mapping[str, Form]) -> bytes:
        """What masks are bound to: parties that do not agree on all of it share no mask."""
        tensors = [part for name in sorted(forms) for part in (name, forms[name].packed())]
        return hashlib.sha256(pack(PROTOCOL, "meaning", *self._turn(), self.told, self.history, *tensors)).digest()

    def key(self, job: bytes) -> bytes:
        """What a party lends its values to once, whatever it is told or on which scale."""
        return hashlib.sha256(pack(PROTOCOL, "subject", job, self.placed, *self._turn())).digest()[:16]

    def _turn(self) -> tuple[str | int | bytes, ...]:
        people = hashlib.sha256(b"".join(one.to_bytes(8, signed=True) for one in self.people)).digest()
        return self.step, self.purpose, self.table, self.leader, self.round, self.part, people


def digest_of(fields: Mapping[str, Tensor]) -> bytes:
    """A message as it travels, in 32 bytes.

    >>> import torch
    >>> digest_of({"h": torch.zeros(2)}) == digest_of({"h": torch.zeros(2, 1)})
    False
    """
    parts: list[bytes | str] = []
    for name in sorted(fields):
        tensor = fields[name].detach().contiguous().cpu()
        parts += [name, str(tensor.dtype), str(tuple(tensor.shape)), tensor.flatten().numpy().tobytes()]
    return hashlib.sha256(pack(PROTOCOL, "fields", *parts)).digest()
