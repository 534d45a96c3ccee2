"""The owner's lines to its parties, whatever links them: what was asked is asked again after a broken link."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from colonnade.errors import AwayError, Broken
from colonnade.federation.audit import AuditLog
from colonnade.federation.metrics import Metrics
from colonnade.federation.status import StatusFile
from colonnade.federation.talk import Facts, answered, say
from colonnade.runtime.letter import open_letter
from colonnade.table import Table

log = logging.getLogger(__name__)


class Links(Protocol):
    """What parties connect to: a port as :class:`colonnade.federation.listen.Listener` has it, or something like it."""

    def connection(self, party: str) -> int:
        """The number of the party's present connection; 0 if it has none."""

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        """Wait until the party has a connection with a number above ``after``, and give it."""

    def send(self, party: str, connection: int, data: bytes) -> None:
        """Hand a message over, and do not wait for it to be gone."""

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        """The next message of this connection."""

    def hang_up(self, party: str, reason: str) -> None:
        """End the party's connection."""

    def close(self) -> None:
        """Hang up on all."""


class TlsLines:
    """One line a party. A link that breaks is waited for; a party that comes back as another process is away.

    ``enter`` leads a party through everything that was agreed before, and gives the name of the new session.
    """

    def __init__(
        self,
        listener: Links,
        deadline: float,
        audit: AuditLog,
        metrics: Metrics,
        status: StatusFile,
        enter: Callable[[str], bytes],
        check: Callable[[str, Facts], None],
        owner: bytes,
    ) -> None:
        self.listener, self.deadline, self.enter, self.check, self.owner = listener, deadline, enter, check, owner
        self.audit, self.metrics, self.status = audit, metrics, status
        self._at: dict[str, int] = {}  # by party: the number of its connection
        self._who: dict[str, str] = {}  # its incarnation
        self._sessions: dict[str, bytes] = {}
        self._asked: dict[str, bytes] = {}
        self._lost: dict[str, float] = {}  # who is away, since when

    # letters

    def post(self, party: str, request: bytes) -> None:
        """Send a request and do not wait; if the link is broken, the reply will find out."""
        self._asked[party] = request
        try:
            self._send(party, request)
        except Broken as error:
            log.info("%s", error)

    def reply(self, party: str) -> bytes:
        """Wait for the reply to the last request, over as many links as it takes."""
        until = time.monotonic() + self.deadline
        while True:
            try:
                return self._receive(party, until)
            except Broken as error:
                log.warning("%s", error)
                self.metrics.fault("link")
                self._reconnect(party, until)
                self._send(party, self._asked[party])
            except AwayError as error:
                self._lose(party)
                raise AwayError(f"'{party}' did not answer within {self.deadline:g} s: {error}", party) from None

    def session(self, party: str) -> bytes:
        """The open session; one that is away has none, unless it is back by now."""
        if party in self._lost:
            if self.listener.connection(party) <= self._at.get(party, 0):
                raise AwayError(f"'{party}' is away.", party)
            self.wait_for(party)
        return self._sessions[party]

    def open(self, party: str, session: bytes) -> None:
        """From now on letters are of this session."""
        self._sessions[party] = session

    def give(self, party: str, name: str, table: Table) -> None:
        """Everybody brings its own rows."""

    def wait_for(self, party: str) -> None:
        """Wait for a party until the deadline, and lead it in again; one that is here is only asked who it is."""
        until = self._lost.get(party, time.monotonic()) + self.deadline
        while True:
            try:
                if party in self._lost or not self._at.get(party):
                    self._connect(party, until)
                self._lost.pop(party, None)
                self._sessions[party] = self.enter(party)
                return
            except Broken as error:
                log.warning("%s", error)
                self._lose(party)

    def close(self) -> None:
        """Hang up."""
        self.listener.close()

    # words

    def talk(self, party: str, word: str, facts: Facts) -> Facts:
        """Say something to a party and hear its answer."""
        self._send(party, say(word, facts))
        return answered(self._receive(party, time.monotonic() + self.deadline), party)

    def hello(self, party: str) -> str:
        """Who is at the other end of the line: the incarnation of its process."""
        said = self.talk(party, "hello", {"incarnation": self.owner.hex()})
        self.check(party, said)
        return str(said["incarnation"])

    def meet(self, party: str) -> None:
        """Wait for a party's first connection."""
        self._connect(party, time.monotonic() + self.deadline)

    # links

    def _connect(self, party: str, until: float) -> None:
        log.info("waiting for '%s'", party)
        began = time.monotonic()
        self._at[party] = self.listener.wait(party, max(until - began, 0.0), after=self._at.get(party, 0))
        self.metrics.waited(party, time.monotonic() - began)
        self._who[party] = self.hello(party)
        self.metrics.up(party)
        self.status.connected(party)
        log.info("'%s' is here", party)

    def _reconnect(self, party: str, until: float) -> None:
        """The same process over another link; another process has lost its place in the round."""
        before = self._who.get(party)
        try:
            self._connect(party, until)
        except AwayError:
            self._lose(party)
            raise AwayError(f"'{party}' was not back within {self.deadline:g} s.", party) from None
        self.metrics.reconnected(party)
        if self._who[party] != before:
            self._lose(party, connected=True)
            raise AwayError(f"'{party}' came back as another process.", party)

    def _lose(self, party: str, *, connected: bool = False) -> None:
        self._lost.setdefault(party, time.monotonic())
        if connected:  # its link may be used to lead it in again
            self._at[party] -= 1
        else:
            self.listener.hang_up(party, "the owner waited too long for an answer; connect again.")
        self.metrics.away(party)
        self.status.away(party)

    def _send(self, party: str, data: bytes) -> None:
        letter = open_letter(data)
        self.listener.send(party, self._at.get(party, 0), data)
        self.audit.sent(party, letter.step or letter.kind, data, round=letter.round)
        self.metrics.sent(party, len(data))

    def _receive(self, party: str, until: float) -> bytes:
        data = self.listener.receive(party, self._at.get(party, 0), max(until - time.monotonic(), 0.0))
        letter = open_letter(data)
        self.audit.received(party, letter.step or letter.kind, data, round=letter.round)
        self.metrics.received(party, len(data))
        return data
