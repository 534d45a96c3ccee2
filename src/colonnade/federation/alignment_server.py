"""A party's end of an alignment: it serves the owner's requests, and only steps of an alignment."""

from __future__ import annotations

import torch

from colonnade.core.method import Turn
from colonnade.core.step import steps_of
from colonnade.errors import unknown
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.request_server import Fields, RequestServer
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.tables.align.alignment_party import AlignmentParty
from colonnade.wire.message import fields_of


class AlignmentServer(RequestServer):
    """A party's end of an alignment: it serves the owner's requests, and only steps of an alignment."""

    def __init__(self, group: AlignmentGroup, job: bytes, session: bytes) -> None:
        agreed = {"job": job, "session": session, "plan": Schema.unchecked().digest}
        super().__init__(group.name, agreed, {"step": self._step})
        self.group = group
        self._turn = Turn(0, torch.arange(0), purpose="align")

    def _step(self, packet: Packet) -> Fields | None:
        known = steps_of("party", AlignmentParty)
        if packet.step not in known:
            raise unknown(f"step of an alignment at '{self.name}'", packet.step, known)
        reads, _ = kinds_of(known[packet.step])
        received = [] if reads is None else [self.message(reads, packet)]
        (reply,) = self.group.run(known[packet.step], self._turn, received, shared=False)
        return None if reply is None else fields_of(reply)

    def wants_reply(self, packet: Packet) -> bool:
        """Every step of an alignment is replied to, if only to say that all is well."""
        return True

    def check_read(self, packet: Packet) -> None:
        """A step of an alignment reads all that its request says."""
