"""What a party was told in training, in one digest: its networks follow from that and from its own secret and rows.

Masks of a sum of all parties are bound to it. So an owner that tells one party something else than the others, or has
one alone go back, reads noise, where the sums before and after would differ by that party's values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.schema import Schema
from colonnade.seal.blind_party import BlindParty
from colonnade.seal.subject import digest_of
from colonnade.signatures import pack


class History:
    """Empty before the first message, and always where a party that is absent may miss some."""

    def __init__(self, schema: Schema, blinded: BlindParty | None) -> None:
        self.schema, self.party = schema, "" if blinded is None else blinded.party
        self.binds = blinded is not None and not blinded.recover
        self.digest = b""

    @contextmanager
    def hears(self, packet: Packet, read_fields: Callable[[], Mapping[str, Tensor]]) -> Iterator[None]:
        """Note a message of training; where a method tells each party its own, that there was one.

        What fails half-way leaves another history than what does not: else one side could be let learn, and not the
        others.
        """
        fields = read_fields() if self.binds and packet.purpose == "train" else {}
        if fields:
            alone = self.schema.is_known(self.party, "each", packet.step)
            said = pack("colonnade/told", self.digest, packet.step, packet.round, b"" if alone else digest_of(fields))
            self.digest = hashlib.sha256(said).digest()
        yield
        if fields:
            self.digest = hashlib.sha256(self.digest).digest()

    def state(self) -> dict[str, Tensor]:
        """The history as a part of a kept state: a party that goes back to the state has the history of that time."""
        return {"seal/told": torch.tensor(list(self.digest), dtype=torch.uint8)} if self.binds else {}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take that back."""
        self.digest = bytes(state["seal/told"].tolist()) if "seal/told" in state else b""
