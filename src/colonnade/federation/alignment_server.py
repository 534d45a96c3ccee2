"""A party's end of an alignment behind letters."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from colonnade.core.method import Turn
from colonnade.core.step import steps_of
from colonnade.errors import unknown
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.request_server import Fields, Handler, RequestServer
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.tables.align import align_steps as steps
from colonnade.tables.align.align_sheets import AlignmentGroup
from colonnade.wire.message import fields_of


class AlignServer(RequestServer):
    """A party's end of an alignment behind letters."""

    def __init__(self, seat: AlignmentGroup, job: bytes, session: bytes) -> None:
        super().__init__(seat.name, job, session, Schema.unchecked().digest)
        self.seat = seat
        self._turn = Turn(0, torch.arange(0), purpose="align")

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The steps of an alignment, and no other."""
        return {"step": self._step}

    def _step(self, letter: Packet) -> Fields | None:
        known = steps_of("party", steps)
        if letter.step not in known:
            raise unknown(f"step of an alignment at '{self.name}'", letter.step, known)
        reads, _ = kinds_of(known[letter.step])
        received = [] if reads is None else [self.message(reads, letter)]
        (reply,) = self.seat.run(known[letter.step], self._turn, received, shared=False)
        return None if reply is None else fields_of(reply)

    def wants_reply(self, letter: Packet) -> bool:
        """Every step of an alignment is replied to, if only to say that all is well."""
        return True

    def check_read(self, letter: Packet) -> None:
        """A step of an alignment reads all that its request says."""
