"""The subject of a blinded sum. Every party computes it itself, and binds its masks and its log of sums to it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from colonnade.seal.key_agreement import PROTOCOL
from colonnade.seal.ring import Ring
from colonnade.signatures import pack


class Form(NamedTuple):
    """The form of one tensor of a sum: everything that must be equal at all parties so that codes can be added."""

    shape: tuple[int, ...]
    ring: Ring
    bound: float

    def packed(self) -> bytes:
        """The form as bytes, with the scale as the float32 that is sent."""
        return pack(self.ring.bits, struct.pack("<f", self.bound), *self.shape)


class Subject(NamedTuple):
    """A step of a turn, the people whose rows are summed, in order, and the message that all parties got with it."""

    step: str
    purpose: str
    table: str
    leader: str
    round: int
    part: int
    people: tuple[int, ...]
    owner_digest: bytes = b""
    placed: int = 1
    """How often this side replaced the rows of the table; a simulation does so repeatedly."""
    history: bytes = b""
    """A digest of the earlier training messages to this party, if all parties got the same ones."""

    def meaning(self, forms: Mapping[str, Form]) -> bytes:
        """The digest that masks are bound to: parties with different digests share no mask."""
        tensors = [part for name in sorted(forms) for part in (name, forms[name].packed())]
        return hashlib.sha256(
            pack(PROTOCOL, "meaning", *self._turn(), self.owner_digest, self.history, *tensors)
        ).digest()

    def key(self, job: bytes) -> bytes:
        """The digest under which a party takes part in a sum once, independent of messages and scales."""
        return hashlib.sha256(pack(PROTOCOL, "subject", job, self.placed, *self._turn())).digest()[:16]

    def _turn(self) -> tuple[str | int | bytes, ...]:
        people = hashlib.sha256(b"".join(person.to_bytes(8, signed=True) for person in self.people)).digest()
        return self.step, self.purpose, self.table, self.leader, self.round, self.part, people


def digest_of(fields: Mapping[str, Tensor]) -> bytes:
    """A digest of a message as it is sent, 32 bytes.

    >>> import torch
    >>> digest_of({"h": torch.zeros(2)}) == digest_of({"h": torch.zeros(2, 1)})
    False
    """
    parts: list[bytes | str] = []
    for name in sorted(fields):
        tensor = fields[name].detach().contiguous().cpu()
        parts += [name, str(tensor.dtype), str(tuple(tensor.shape)), tensor.flatten().numpy().tobytes()]
    return hashlib.sha256(pack(PROTOCOL, "fields", *parts)).digest()
