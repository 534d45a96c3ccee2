"""How the owner reaches its parties. After a broken connection it sends the same request again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from colonnade.core.table import Table
from colonnade.errors import AwayError, Broken, ColonnadeError, MessageError, printable
from colonnade.federation.answer_forms import checked_answer
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.handshake import Facts, answer_in, word_packet
from colonnade.federation.hello import check_hello
from colonnade.federation.packet_sample import PacketSample
from colonnade.federation.party_link import Outgoing, PartyLink
from colonnade.federation.prometheus import Metrics
from colonnade.federation.protocol import REQUEST
from colonnade.federation.status_file import StatusFile
from colonnade.runtime.remote.packet import Packet, title, write_packet

log = logging.getLogger(__name__)
PAUSE = 0.2  # seconds between two hellos to a party whose connections break at once, so that it cannot keep us busy
CONNECT_AGAIN = "connect again"  # what a party that is hung up on does, if the owner says so
REFUSED = "the owner refused this side"  # what it reads if the cause is its own, and coming again does not help


class Connections(Protocol):
    """What parties connect to: a port as :class:`~colonnade.federation.listener.Listener` has it, or the like."""

    def connection(self, party: str) -> int:
        """The number of the party's present connection; 0 if it has none."""

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        """Wait until the party has a connection with a number above ``after``, and give it."""

    def send(self, party: str, connection: int, data: bytes) -> None:
        """Hand a message over, without waiting until it is sent."""

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        """The next message of this connection."""

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        """Which of these parties has a message to take, or a connection that ended; None if none has in time."""

    def hang_up(self, party: str, reason: str) -> None:
        """End the party's connection."""

    def close(self) -> None:
        """Hang up on all."""


@dataclass(frozen=True)
class OwnerRecords:
    """Where the owner writes down what happens: for auditors, for monitoring, and for status requests."""

    audit: AuditLog
    metrics: Metrics
    status: StatusFile
    packets: PacketSample = field(default_factory=PacketSample)
    """A few packets as they are, if the owner records its view."""


class OwnerTransport:
    """One :class:`PartyLink` for each party. A connection that breaks is waited for, until the deadline.

    A party that comes back as another process is absent until ``enter`` has led it through the handshake again, and
    has opened a new session with it.
    """

    def __init__(
        self,
        connections: Connections,
        keys: Mapping[str, bytes],
        incarnation: bytes,
        deadline: float,
        records: OwnerRecords,
        enter: Callable[[str], None],
    ) -> None:
        """``keys`` are the parties' public identities by name; ``incarnation`` is this owner's process."""
        self.connections, self.incarnation, self.deadline, self.enter = connections, incarnation, deadline, enter
        self.audit, self.metrics, self.status = records.audit, records.metrics, records.status
        self.packets = records.packets
        self.links = {name: PartyLink(name, key) for name, key in keys.items()}

    # requests and replies of an alignment or a run

    def post(self, party: str, request: bytes) -> None:
        """Send a request and do not wait; if the connection is broken, :meth:`reply` will notice."""
        self.links[party].may_say(REQUEST)
        self._post(self.links[party], Outgoing(request, *title(request)))

    def reply(self, party: str) -> bytes:
        """Wait for the reply to the last request, over as many connections as it takes."""
        link, until = self.links[party], time.monotonic() + self.deadline
        while True:
            try:
                reply = self._receive(link, until)
            except Broken as error:
                log.warning("%s", error)
                self.metrics.fault("link")
                self.status.failed(str(error))
                self._ask_again(link, until)
            except MessageError:
                link.replied()
                raise
            else:
                link.replied()
                return reply

    def first(self, parties: Sequence[str]) -> str:
        """Whose reply is here; waits for the first of them."""
        found = self.connections.first({name: self.links[name].connection for name in parties}, self.deadline)
        if found is None:
            raise self._silent(self.links[parties[0]], time.monotonic())
        return found

    def session(self, party: str) -> bytes:
        """The open session; a party that is absent has none, unless it is back by now."""
        link = self.links[party]
        if link.absence is not None:
            if self.connections.connection(party) <= link.connection:
                raise link.absence.error
            self.wait_for(party)
        return link.session

    def give(self, party: str, name: str, table: Table) -> None:
        """Do nothing: every party brings its own rows."""

    def is_absent(self, party: str | None) -> bool:
        """Whether the party stopped answering, and was not led through the handshake again."""
        return party in self.links and self.links[party].is_absent

    def wait_for(self, party: str) -> None:
        """Wait until the deadline for a party that is absent, and lead it through the handshake again."""
        link = self.links[party]
        while link.absence is not None:
            until = link.deadline(self.deadline)
            if time.monotonic() >= until and self.connections.connection(party) <= link.connection:
                raise link.absence.error
            self._connect(link, until)
            link.returned()
            try:
                self.enter(party)
            except AwayError as error:
                if not self.is_absent(error.party):
                    raise
                log.warning("%s", error)  # it went once more

    def close(self) -> None:
        """Hang up."""
        self.connections.close()

    # words of the handshake

    def exchange(self, party: str, word: str, facts: Facts) -> Facts:
        """Say a word of the handshake to a party, and give its answer."""
        link, packet = self.links[party], word_packet(word, facts)
        link.may_say(word)
        self._post(link, _word(packet))
        answer = checked_answer(party, word, answer_in(self.reply(party), party, packet))
        link.conversation.say(word)
        return answer

    def meet(self, party: str) -> None:
        """Wait for a party that never connected, or is absent, and say hello; other words come after this."""
        link = self.links[party]
        if link.is_absent or link.is_new:
            self._connect(link, link.deadline(self.deadline))
            link.returned()

    def ended(self, party: str) -> None:
        """Note that the party answered the request by which the job ends."""
        self.links[party].conversation.say("end")

    # connections

    def _post(self, link: PartyLink, request: Outgoing) -> None:
        if link.request is not None:
            self.reply(link.name)  # nobody waited for the one before, because another party was lost meanwhile
        link.asked(request)
        try:
            self._send(link, request)
        except Broken as error:
            log.info("%s", error)

    def _connect(self, link: PartyLink, until: float) -> None:
        """Wait for another connection of a party, and learn which of its processes it is from."""
        began, incarnation = time.monotonic(), b""
        log.info("waiting for '%s'", link.name)
        self.metrics.absent(link.name)
        self.status.absent(link.name)
        while not incarnation:
            time.sleep(max(link.greeted + PAUSE - time.monotonic(), 0.0))
            try:
                link.connection = self.connections.wait(link.name, until - time.monotonic(), after=link.connection)
            except AwayError as error:
                why = f"'{link.name}' did not connect within {self.deadline:g} s; start it."
                raise self._lose(link, _earlier(error, until) or why, until) from None
            try:
                link.greeted = time.monotonic()
                incarnation = self._hello(link)
            except Broken as error:
                log.warning("%s", error)
                self._check_time(link, until)
        link.met(incarnation)
        self.metrics.waited(link.name, time.monotonic() - began)
        self.metrics.up(link.name)
        self.status.connected(link.name)
        log.info("'%s' is here", link.name)

    def _hello(self, link: PartyLink) -> bytes:
        """The incarnation of the process at the other end of the connection, if it is that party's."""
        link.may_say("hello")
        request = word_packet("hello", {"incarnation": self.incarnation.hex()})
        self._send(link, _word(request))
        reply = self._receive(link, time.monotonic() + self.deadline)
        facts = answer_in(reply, link.name, request)
        try:
            return check_hello(link.name, facts, link.key, self.incarnation)
        except ColonnadeError as error:
            self.connections.hang_up(link.name, printable(f"{REFUSED}: {error}"))
            raise

    def _ask_again(self, link: PartyLink, until: float) -> None:
        """Ask the same process over another connection; another process has lost its place in the round."""
        before, request = link.incarnation, link.request
        assert request is not None
        while True:
            self._connect(link, until)
            self._check_time(link, until)
            self.metrics.reconnected(link.name)
            if link.incarnation != before:
                raise self._lose(link, f"'{link.name}' came back as another process.", connected=True)
            try:
                self._send(link, request)
            except Broken as error:
                log.warning("%s", error)
            else:
                return

    def _check_time(self, link: PartyLink, until: float) -> None:
        """Note a party as absent that opens one connection after the other and answers on none."""
        if time.monotonic() >= until:
            why = f"'{link.name}' answered on none of its connections within {self.deadline:g} s."
            raise self._lose(link, why, until)

    def _lose(self, link: PartyLink, why: str, until: float | None = None, *, connected: bool = False) -> AwayError:
        """Note that a party is absent, from the end of its deadline or from now on; the error that says so."""
        error = AwayError(why, link.name)
        link.lost(error, time.monotonic() if until is None else until - self.deadline)
        if connected:  # this connection may be used to lead it through the handshake again
            link.connection -= 1
        else:
            self.connections.hang_up(link.name, f"the owner waited too long for an answer; {CONNECT_AGAIN}.")
            self.metrics.absent(link.name)
            self.status.absent(link.name)
        self.status.failed(why)
        return error

    def _silent(self, link: PartyLink, until: float, earlier: str = "") -> AwayError:
        """Note that a party did not answer in time, or why its connection gave it up ``earlier``."""
        why = f"'{link.name}' did not answer within {self.deadline:g} s; see that it is well."
        return self._lose(link, earlier or why, until)

    def _send(self, link: PartyLink, request: Outgoing) -> None:
        # before it leaves, though the connection may turn out to be broken
        self.audit.sent(link.name, request.what, request.data, round=request.round)
        self.packets.offer("sent", link.name, request.data)
        self.connections.send(link.name, link.connection, request.data)
        self.metrics.sent(link.name, len(request.data))

    def _receive(self, link: PartyLink, until: float) -> bytes:
        try:
            data = self.connections.receive(link.name, link.connection, until - time.monotonic())
        except AwayError as error:
            raise self._silent(link, until, _earlier(error, until)) from None
        try:
            what, number = title(data)
        except MessageError as error:
            raise MessageError(f"'{link.name}' sent what is no reply: {error}") from None
        self.audit.received(link.name, what, data, round=number)
        self.packets.offer("received", link.name, data)
        self.metrics.received(link.name, len(data))
        return data


def _word(packet: Packet) -> Outgoing:
    """A word of the handshake, ready to be sent."""
    return Outgoing(write_packet(packet), packet.step, packet.round)


def _earlier(error: AwayError, until: float) -> str:
    """Why a connection gave a party up before the deadline; empty if it waited until the deadline."""
    return str(error) if time.monotonic() < until else ""
