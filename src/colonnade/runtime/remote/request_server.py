"""What every party's process does with requests, whatever they are about: check, answer once, refuse in a sentence.

A request that comes twice is answered from the last reply, and any other sequence than the next one is refused.
"""

from __future__ import annotations

import logging
import re
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from colonnade.errors import (
    ColonnadeError,
    LinkError,
    MessageError,
    NoCommonIdError,
    TableError,
    again,
    name_of,
    printable,
)
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.seal.relay import heard, spoken
from colonnade.wire.ledger import OWNER
from colonnade.wire.message import Envelope, decode_fields, encode, framed

log = logging.getLogger(__name__)
Fields = dict[str, Tensor]
LONGEST_REFUSAL = 2000  # bytes of its sentence
_PLACE = re.compile(r"(?<![\w.])/(?:[^/\s'\"]+/)+([^/\s'\";:,]*)")  # on this machine, from its root
Handler = Callable[[Packet], Fields | None]


class RequestServer(ABC):
    """One party's end of a session: of an alignment, or of a training run."""

    def __init__(self, name: str, agreed: Mapping[str, bytes], handlers: Mapping[str, Handler]) -> None:
        """``agreed`` names the job, the session and the plan; ``handlers`` are by kind of request, others refused."""
        self.name, self.agreed, self.handlers = name, agreed, handlers
        self.leaders: Sequence[str] = (OWNER,)  # whom a request may be for
        self.ended = False
        self._last: tuple[int, bytes, bytes] | None = None  # sequence, request, reply
        self._frame: tuple[bytes | memoryview, Fields] | None = (
            None  # the last one that was read, which some read twice
        )

    def serve(self, request: bytes) -> bytes:
        """The reply to a request; what is wrong with it goes back as a refusal, in one sentence."""
        return self.answer(read_packet(request), request)

    def answer(self, packet: Packet, request: bytes) -> bytes:
        """The reply to a request that was opened already."""
        if self._last is not None and self._last[:2] == (packet.sequence, request):
            return self._last[2]
        try:
            before = self._before(packet)
            for number, each in enumerate([*before, packet], 1 + (self._last[0] if self._last else 0)):
                self._check(each, number)
        except Exception as error:
            return self._refused(packet, error)  # it is no request of this session, so it counts as none
        try:
            for earlier in before:
                self._served(earlier)
            reply = self._written(packet, self._served(packet))
        except Exception as error:
            reply = self._refused(packet, error)
        self._last = packet.sequence, request, reply
        return reply

    def _refused(self, packet: Packet, error: Exception) -> bytes:
        reason = error if isinstance(error, ColonnadeError) else unexpected(error, packet.kind)
        if isinstance(reason, TableError):
            log_failure(packet.kind, reason)  # the owner does not hear all of it
        return write_packet(packet.reply("refusal", self.name, refusal(reason, self.name)))

    def _before(self, packet: Packet) -> list[Packet]:
        """The request in front of this one, if there is one and it may be there."""
        if not len(packet.before):
            return []
        before = read_packet(packet.before)
        if len(before.before) or self.wants_reply(before):
            raise MessageError(f"a request '{before.kind}' came to '{self.name}' in another one, and wants a reply.")
        return [before]

    def _check(self, packet: Packet, due: int) -> None:
        for what, agreed in self.agreed.items():
            if getattr(packet, what) != agreed:
                raise MessageError(f"a request of another {what} came to '{self.name}'; it is stale or foreign.")
        if packet.sender != OWNER or packet.leader not in self.leaders:
            raise MessageError(
                f"a request of '{packet.sender}' for '{packet.leader}' came to '{self.name}', which answers "
                f"{' or '.join(self.leaders)}; it is forged."
            )
        if packet.sequence != due:
            why = "comes again" if packet.sequence < due else "leaves some out"
            raise MessageError(f"request {packet.sequence} {why} at '{self.name}', which expects {due}.")

    def _served(self, packet: Packet) -> Fields | None:
        if packet.kind not in self.handlers:
            raise MessageError(f"a request of the kind '{packet.kind}' came to '{self.name}', which serves no such.")
        self.check_read(packet)
        return self.handlers[packet.kind](packet)

    def _written(self, packet: Packet, fields: Fields | None) -> bytes:
        """The reply with these fields, if there are some; their bytes are copied once."""
        if fields is None:
            return write_packet(packet.reply("answer", self.name))
        envelope = Envelope(packet.step or packet.kind, self.name, packet.round)
        return write_packet(packet.reply("answer", self.name), framed(fields, envelope))

    @abstractmethod
    def wants_reply(self, packet: Packet) -> bool:
        """Whether somebody waits for the reply, if only to know that all is well."""

    @abstractmethod
    def check_read(self, packet: Packet) -> None:
        """Refuse a request with fields that its step does not read."""

    def frame(self, packet: Packet, number: int) -> Fields:
        """The tensors of a frame, none if it is not there."""
        if number >= len(packet.frames) or not len(packet.frames[number]):
            return {}
        if self._frame is not None and self._frame[0] is packet.frames[number]:
            return self._frame[1]
        fields, about = decode_fields(packet.frames[number])
        if about != Envelope(packet.step or packet.kind, packet.leader, packet.round):
            raise MessageError(
                f"a frame of '{about.sender}', step '{about.step}', round {about.round} came in a request of "
                f"'{packet.leader}', step '{packet.step}', round {packet.round}."
            )
        self._frame = packet.frames[number], fields
        return fields

    def message(self, kind: Any, packet: Packet) -> Any:
        """The message of a class in the first frame, its fields as they came."""
        fields = self.frame(packet, 0)
        if tuple(fields) != kind._fields:
            raise MessageError(
                f"fields {tuple(fields)} came to '{self.name}' in step '{packet.step}'; {kind._fields} were expected."
            )
        return kind(**fields)


def log_failure(what: str, error: Exception) -> None:
    """Say in this side's own log what failed and where, on one line: the error's words may be the owner's choice."""
    at = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({at[0].filename}:{at[0].lineno})" if at else ""
    log.warning("'%s' failed: %s: %s%s", printable(what, 40), type(error).__name__, printable(error, 200), where)


def unexpected(error: Exception, what: str) -> ColonnadeError:
    """The error that the owner is told of an unexpected one: its text stays here, because it may hold our values."""
    log_failure(what, error)
    return MessageError(
        f"'{printable(what, 40)}' lacks something, or holds what does not belong there ({type(error).__name__}); do "
        "both sides run the same version?"
    )


def refusal(error: ColonnadeError, who: str) -> bytes:
    """An error as a frame: its kind, and its sentence."""
    text = _told(error, who).encode("utf-8", errors="replace")[:LONGEST_REFUSAL]
    return encode(spoken(name_of(error).encode(), text), Envelope("refusal", who, 0))


def _told(error: ColonnadeError, who: str) -> str:
    """The error's sentence as the owner may read it: without ids or values of this side's files, and without paths."""
    if isinstance(error, TableError) and not isinstance(error, NoCommonIdError):
        return f"'{who}' cannot do that with its files as they are; its log says why."
    return _PLACE.sub(r"\1", str(error))


def refused_request(request: bytes, who: str, error: ColonnadeError) -> bytes:
    """The reply to a request that ``who`` could not answer because of this error."""
    return write_packet(read_packet(request).reply("refusal", who, refusal(error, who)))


def refused(frame: bytes | memoryview, who: str) -> ColonnadeError:
    """The error in a frame of :func:`refusal` that ``who`` made; made printable, and always with its name in front."""
    fields, about = decode_fields(frame, limit=2 * LONGEST_REFUSAL)
    kind, text = (part.decode(errors="replace") for part in heard(fields, (None, None), who))
    if about != Envelope("refusal", who, 0):
        raise MessageError(f"a refusal of '{about.sender}' in step '{about.step}' came from '{who}'.")
    sentence = printable(text, LONGEST_REFUSAL)
    whole = sentence if sentence.startswith(f"'{who}'") else f"'{who}' refused: {sentence}"
    # Who ends by a LinkError is started again by its service, which a peer must not be able to make happen.
    return ColonnadeError(whole) if kind == LinkError.__name__ else again(kind, whole)
