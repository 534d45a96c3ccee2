"""A party's end of a job: every request of the owner is checked against the protocol, answered, and written down.

Words of the handshake are answered by :class:`.party_handshake.PartyHandshake`, requests of an alignment or of a run by
the server that the handshake has opened.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, NamedTuple

from colonnade.errors import ColonnadeError, MessageError, printable
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.handshake import TALK, facts_in
from colonnade.federation.party_handshake import PartyHandshake
from colonnade.federation.party_job import BudgetKeeper, ViewKeeper
from colonnade.federation.protocol import ENDED, REQUEST, Conversation
from colonnade.federation.side_sections import PartyFile
from colonnade.runtime.remote.packet import Packet, read_packet, title, write_packet
from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.request_server import RequestServer, refusal, unexpected
from colonnade.wire.ledger import OWNER

log = logging.getLogger(__name__)
EARLY = 4  # exchanges that are remembered before there is a log


class _Exchange(NamedTuple):
    """A request and its reply, for the audit log."""

    packet: Packet
    request: bytes
    reply: bytes


class PartySession:
    """One party's process, from hello to the end of a job."""

    def __init__(self, party_file: PartyFile, folder: Path) -> None:
        self.party_file, self.name, self.folder = party_file, party_file.party.name, folder
        self.handshake = PartyHandshake(party_file, folder)
        self.conversation = Conversation()
        self._budget, self._views = BudgetKeeper(), ViewKeeper()
        self._early: list[_Exchange] = []

    @property
    def stage(self) -> str:
        """The stage of the protocol."""
        return self.conversation.stage

    @property
    def ended(self) -> bool:
        """Whether the owner said that the job is over."""
        return self.stage == ENDED

    @property
    def server(self) -> RequestServer | None:
        """What serves requests of an alignment or of a run; None before there is one."""
        return self.handshake.server

    @property
    def terms(self) -> dict[str, Any] | None:
        """The terms that this party has signed."""
        return None if self.handshake.job is None else self.handshake.job.terms

    @property
    def audit(self) -> AuditLog | None:
        """The audit log of the job, once it is known."""
        return None if self.handshake.job is None else self.handshake.job.audit

    def serve(self, request: bytes) -> bytes:
        """The reply to any request."""
        return self.answer(read_packet(request), request)

    def answer(self, packet: Packet, request: bytes) -> bytes:
        """The reply to a request that was read already; both are in the audit log before the reply leaves."""
        reply = self._answer_word(packet) if packet.kind == TALK else self._serve_request(packet, request)
        self.note(packet, request, reply)
        return reply

    def note(self, packet: Packet, request: bytes, reply: bytes) -> None:
        """Write a request and its reply to the audit log; those before the job is known are written later."""
        self._early = [*self._early, _Exchange(packet, request, reply)][-EARLY:]
        audit, job = self.audit, self.handshake.job
        if audit is not None and job is not None:
            for exchange in self._early:
                asked, (what, number) = exchange.packet, title(exchange.reply)
                audit.received(OWNER, asked.step or asked.kind, exchange.request, round=asked.round)
                audit.sent(OWNER, what, exchange.reply, round=number)
                self._views.after((exchange.request, exchange.reply), self.server, job)
            self._early = []

    def _answer_word(self, packet: Packet) -> bytes:
        """The answer to a word of the handshake, if the protocol allows it now."""
        word = packet.step
        try:
            self.handshake.check_word(word)
            facts = facts_in(packet)
            if self.handshake.is_new_owner(word, facts):
                self.conversation.restart()
            self.conversation.check(word)
            answer = self.handshake.answer(word, facts)
            self.conversation.say(word)
            return write_packet(packet.reply("answer", self.name, json.dumps(answer).encode()))
        except ColonnadeError as error:
            return self._refused(packet, error)
        except Exception as error:
            return self._refused(packet, unexpected(error, word))

    def _serve_request(self, packet: Packet, request: bytes) -> bytes:
        """The reply to a request of an alignment or of a run."""
        server, job = self.handshake.server, self.handshake.job
        if server is None or job is None:
            error = MessageError(f"a request '{packet.kind}' came to '{self.name}' before anything was signed.")
            return self._refused(packet, error)
        try:
            self.conversation.say(REQUEST)
        except MessageError as error:
            return self._refused(packet, error)
        self._views.before(packet, server, job)
        reply = server.answer(packet, request)
        if isinstance(server, PartyServer):
            self._budget.keep(server, job)
        if server.ended and not self.ended:
            job.folder.end()
            self.conversation.say("end")
        return reply

    def _refused(self, packet: Packet, error: ColonnadeError) -> bytes:
        log.warning("refused '%s': %s", printable(packet.step or packet.kind, 40), printable(error))
        return write_packet(packet.reply("refusal", self.name, refusal(error, self.name)))
