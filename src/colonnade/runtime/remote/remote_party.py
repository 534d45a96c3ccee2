"""One party in another process as the owner sees it: its session, its requests, its states, its budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from colonnade.core.schedule import OWNER
from colonnade.errors import AwayError, ColonnadeError, MessageError, naming
from colonnade.runtime.remote.packet import Packet, read_packet, write_packet
from colonnade.runtime.remote.reply_numbers import BudgetReports, KeptStates, check_empty, check_said, largest
from colonnade.runtime.remote.request_server import refused
from colonnade.runtime.remote.transport import Transport
from colonnade.wire.message import Envelope, decode_fields, encode

Fields = dict[str, Tensor]
KEPT = "kept"


class RemoteParty:
    """Sends requests to one party and reads its replies; at most one request is unanswered."""

    def __init__(
        self, name: str, transport: Transport, agreed: Mapping[str, Any], *, goes_on: bool, recovers: bool = False
    ) -> None:
        """``agreed`` names the job and the plan; ``goes_on``: a party that comes back begins at its last state.

        ``recovers`` says that blinded sums can do without some parties.
        """
        self.name, self.transport, self.agreed = name, transport, agreed
        self.goes_on, self.recovers = goes_on, recovers
        self.states, self.budget = KeptStates(name), BudgetReports(name)
        self.masked: tuple[int, Fields] = 0, {}  # what came with the step of a blinded sum, by the sum's serial
        self._request: Packet | None = None  # the last one
        self._waiting = b""  # a request that wants no reply and travels with the next one
        self._turn = 0  # the number of the last turn that the party heard of

    @property
    def session(self) -> bytes:
        """The session that the last request was of."""
        return b"" if self._request is None else self._request.session

    def post(self, kind: str, about: Mapping[str, Any], *frames: bytes, silent: bool = False) -> bool:
        """Send a request with these frames; whether it was sent, and so will be replied to.

        A ``silent`` one, that wants no reply, travels with the next request: one message instead of two.
        """
        session = self.transport.session(self.name)
        self._follow(session, kind, about.get("turn", 0))
        last = 0 if self._request is None else self._request.sequence
        before, self._waiting = self._waiting, b""
        self._request = request = Packet(
            kind, **about, **self.agreed, session=session, sequence=last + 1, before=before, frames=frames
        )
        if silent and not before:
            self._waiting = write_packet(request)
            return False
        self.transport.post(self.name, write_packet(request))
        return True

    def post_waiting(self) -> bool:
        """Send the request that waits for a next one which will not come; whether there was one."""
        waiting, self._waiting = self._waiting, b""
        if waiting:
            self.transport.post(self.name, waiting)
        return bool(waiting)

    def call(self, kind: str, message: Fields | None = None, **about: Any) -> Fields:
        """One request and its reply."""
        self.post(kind, about, *([encode(message, envelope_of(kind, about))] if message else []))
        return self.reply() or {}

    def reply(self, *, form: Fields | None = None, replies: bool = True) -> Fields | None:
        """The tensors of the reply to the last request, or the error that the party had.

        ``form`` has the shapes that are due, and ``replies`` says whether a step answers with a message at all.
        """
        request = self._request
        assert request is not None
        reply = self._checked_reply(request)
        refusal = self._refusal_in(reply, request)
        if refusal is not None:
            raise refusal
        frame = reply.frames[0] if reply.frames else None
        check_said(self.name, request, frame is not None, replies)
        if frame is None:
            return None
        what = request.step or request.kind
        with naming(self.name, what, f" of round {request.round}"):
            fields, about = decode_fields(frame, largest(request, form))
        if about != Envelope(what, self.name, request.round):
            raise MessageError(
                f"'{self.name}' replied with a frame of '{about.sender}', step '{about.step}', round {about.round}."
            )
        check_empty(self.name, request, fields, self.recovers)
        return fields

    def _checked_reply(self, request: Packet) -> Packet:
        raw = self.transport.reply(self.name)
        try:
            reply = read_packet(raw)
        except MessageError as error:
            raise MessageError(f"'{self.name}' sent what is no reply: {error}") from None
        if reply.sender != self.name or reply.sequence != request.sequence:
            raise MessageError(
                f"a reply of '{reply.sender}' to request {reply.sequence} came from '{self.name}', which was asked "
                f"{request.sequence}; it is stale or forged."
            )
        if (reply.job, reply.session, reply.plan) != (request.job, request.session, request.plan):
            raise MessageError(f"'{self.name}' replied for another job, session or plan; it is stale or foreign.")
        more = len(reply.before) or len(reply.frames) > 1
        if not reply.is_about(request) or reply.kind not in ("answer", "refusal") or more:
            raise MessageError(f"'{self.name}' replied with a {reply.kind} that is not about what it was asked.")
        return reply

    def _refusal_in(self, reply: Packet, request: Packet) -> ColonnadeError | None:
        """The error that the party had, if it refused."""
        if reply.kind != "refusal":
            return None
        with naming(self.name, request.step or request.kind):
            return refused(reply.frames[0] if reply.frames else b"", self.name)

    def end(self) -> ColonnadeError | None:
        """Tell the party that the job is over. None if it says so too, or why it was not told.

        It may be absent, or refuse because it has ended before. A false reply, say of another job, is an error.
        """
        try:
            self.post("end", {})
        except ColonnadeError as error:
            return error
        assert self._request is not None
        try:
            reply = self._checked_reply(self._request)
        except AwayError as error:
            return error
        refusal = self._refusal_in(reply, self._request)
        if refusal is None:
            check_said(self.name, self._request, bool(reply.frames), replies=False)
        return refusal

    def _follow(self, session: bytes, kind: str, turn: int) -> None:
        """A new session's requests count from 1; the party begins where it kept its state, or all go back with it."""
        before, self._turn = self._turn, turn or self._turn
        if self._request is None or self._request.session == session:
            return
        self._waiting, newest = b"", None if kind == "back" else self.states.newest
        if newest is not None and (not self.goes_on or (turn and turn == before)):
            # The old session stays the last one: who asks once more is told so again, until the party has gone back.
            raise AwayError(f"'{self.name}' came back as another process amid a round.", self.name)
        self._request = None
        if newest is not None:
            self.call("back", {KEPT: newest})

    # states

    def keep_request(self) -> bytes:
        """What the party is told when it is to keep its state: which older ones are still needed."""
        return encode({"needed": self.states.ask()}, Envelope("keep", OWNER, 0))

    def go_back_request(self, state: Tensor) -> bytes:
        """What the party is told when it is to go back to a state."""
        self.states.newest = state
        return encode({KEPT: state}, Envelope("back", OWNER, 0))


def envelope_of(kind: str, about: Mapping[str, Any]) -> Envelope:
    """What the frames of a request say about themselves."""
    return Envelope(about.get("step") or kind, about.get("leader", OWNER), about.get("round", 0))
