"""A party's end of a description: it serves the owner's requests, and only steps of a description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.core.step import steps_of
from colonnade.description.describe_messages import Targets
from colonnade.description.describe_owner import PURPOSE
from colonnade.description.describe_party import DescribeParty
from colonnade.errors import MessageError, unknown
from colonnade.runtime.remote.packet import Packet
from colonnade.runtime.remote.request_server import Fields, RequestServer
from colonnade.runtime.schema import Schema, kinds_of
from colonnade.wire.ledger import OWNER, Ledger
from colonnade.wire.message import Envelope, fields_of, size


class DescriptionServer(RequestServer):
    """A party's end of a description, as everybody signed it; ``plan`` is what the plan says of the labels."""

    def __init__(self, end: DescribeParty, plan: Mapping[str, int], job: bytes, session: bytes) -> None:
        agreed = {"job": job, "session": session, "plan": Schema.unchecked().digest}
        super().__init__(end.name, agreed, {"step": self._step, "end": self._end})
        self.end, self.plan, self.ledger = end, plan, Ledger()
        self._known = steps_of("party", DescribeParty)

    def _step(self, packet: Packet) -> Fields | None:
        if packet.step not in self._known:
            raise unknown(f"step of a description at '{self.name}'", packet.step, self._known)
        reads, _ = kinds_of(self._known[packet.step])
        received = [] if reads is None else [self._received(reads, packet)]
        reply = getattr(self.end, packet.step)(*received)
        if reply is None:
            return None
        self._count(fields_of(reply), self.name, OWNER, packet.step)
        return fields_of(reply)

    def _received(self, reads: Any, packet: Packet) -> Any:
        message = self.message(reads, packet)
        self._count(fields_of(message), OWNER, self.name, packet.step)
        if isinstance(message, Targets):
            self._check_agreed(message)
        return message

    def _check_agreed(self, message: Targets) -> None:
        """Refuse labels of another kind than the plan has."""
        due = [self.plan[name] for name in ("rows", "bound", "together")]
        if len(message.keys) != self.plan["targets"] or message.sizes.flatten().tolist() != due:
            raise MessageError(
                f"{len(message.keys)} keys and sizes {message.sizes.flatten().tolist()[:3]} came to '{self.name}'; the "
                f"plan has {self.plan['targets']} and {due}."
            )

    def _count(self, fields: Fields, sender: str, receiver: str, step: str) -> None:
        self.ledger.record(PURPOSE, step, sender, receiver, size(fields, Envelope(step, sender, 0)))

    def _end(self, packet: Packet) -> None:
        self.ended = True

    def wants_reply(self, packet: Packet) -> bool:
        """Every step is replied to, if only to say that all is well."""
        return True

    def check_read(self, packet: Packet) -> None:
        """Refuse a request with a message that its step does not read, or with two."""
        known = self._known.get(packet.step)
        due = int(known is not None and kinds_of(known)[0] is not None)
        if len(packet.frames) > due or (packet.kind == "end" and packet.step):
            what = packet.step or packet.kind
            raise MessageError(f"a request '{what}' of a description came to '{self.name}' with more than it has.")
