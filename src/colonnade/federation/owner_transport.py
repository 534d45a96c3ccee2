"""The owner's lines to its parties, whatever links them: what was asked is asked again after a broken link."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from colonnade.core.table import Table
from colonnade.errors import AwayError, Broken, MessageError
from colonnade.federation.answer_forms import checked_answer
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.handshake import Facts, answered, say
from colonnade.federation.prometheus import Metrics
from colonnade.federation.status_file import StatusFile
from colonnade.runtime.remote.packet import title

log = logging.getLogger(__name__)
PAUSE = 0.2  # seconds between two hellos to a party whose lines break at once, so that it cannot keep us busy
CONNECT_AGAIN = "connect again"  # what a party that is hung up on does, if the owner says so
REFUSED = "the owner refused this side"  # what it reads if the cause is its own, and coming again does not help


class Connections(Protocol):
    """What parties connect to: a port as :class:`~colonnade.federation.listener.Listener` has it, or the like."""

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


class OwnerTransport:
    """One line a party. A link that breaks is waited for; a party that comes back as another process is away.

    ``enter`` leads a party through everything that was agreed before, and opens a new session.
    """

    def __init__(
        self,
        listener: Connections,
        deadline: float,
        audit: AuditLog,
        metrics: Metrics,
        status: StatusFile,
        enter: Callable[[str], None],
        check: Callable[[str, Facts], None],
        owner: bytes,
    ) -> None:
        self.listener, self.deadline, self.enter, self.check, self.owner = listener, deadline, enter, check, owner
        self.audit, self.metrics, self.status = audit, metrics, status
        self._at: dict[str, int] = {}  # by party: the number of its connection
        self._who: dict[str, str] = {}  # its incarnation
        self._met: dict[str, float] = {}  # when it was last said hello to
        self._sessions: dict[str, bytes] = {}
        self._asked: dict[str, bytes] = {}  # the request that is not answered yet
        self._lost: dict[str, tuple[float, AwayError]] = {}  # who is away, since when and why

    # letters

    def post(self, party: str, request: bytes) -> None:
        """Send a request and do not wait; if the link is broken, the reply will find out."""
        if party in self._asked:
            self.reply(party)  # nobody waited for the one before, because somebody else went away
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
                answer = self._receive(party, until)
            except Broken as error:
                log.warning("%s", error)
                self.metrics.fault("link")
                self.status.failed(str(error))
                self._ask_again(party, until)
            except MessageError:
                del self._asked[party]  # it was answered, if with rubbish
                raise
            else:
                del self._asked[party]
                return answer

    def session(self, party: str) -> bytes:
        """The open session; one that is away has none, unless it is back by now."""
        if party in self._lost:
            if self.listener.connection(party) <= self._at.get(party, 0):
                raise self._lost[party][1]
            self.wait_for(party)
        return self._sessions[party]

    def open(self, party: str, session: bytes) -> None:
        """From now on letters are of this session."""
        self._sessions[party] = session

    def give(self, party: str, name: str, table: Table) -> None:
        """Everybody brings its own rows."""

    def is_away(self, party: str | None) -> bool:
        """Whether it went, and was not led in again."""
        return party in self._lost

    def wait_for(self, party: str) -> None:
        """Wait until the deadline for a party that went, and lead it in again."""
        while party in self._lost:
            since, error = self._lost[party]
            until = since + self.deadline
            if time.monotonic() >= until and self.listener.connection(party) <= self._at.get(party, 0):
                raise error
            self._connect(party, until)
            del self._lost[party]
            try:
                self.enter(party)
            except AwayError as error:
                if not self.is_away(error.party):
                    raise
                log.warning("%s", error)  # it went once more

    def close(self) -> None:
        """Hang up."""
        self.listener.close()

    # words

    def talk(self, party: str, word: str, facts: Facts) -> Facts:
        """Say something to a party and hear its answer."""
        request = say(word, facts)
        self.post(party, request)
        return checked_answer(party, word, answered(self.reply(party), party, request))

    def meet(self, party: str) -> None:
        """Wait for a party that was never here, or went; the first words to it come after this."""
        if party in self._lost or party not in self._who:
            since = self._lost[party][0] if party in self._lost else time.monotonic()
            self._connect(party, since + self.deadline)
            self._lost.pop(party, None)

    # links

    def _connect(self, party: str, until: float) -> None:
        """Wait for another link of a party, and hear which of its processes it is."""
        began, known = time.monotonic(), None
        log.info("waiting for '%s'", party)
        self.metrics.away(party)
        self.status.away(party)
        while known is None:
            time.sleep(max(self._met.get(party, 0.0) + PAUSE - time.monotonic(), 0.0))
            try:
                self._at[party] = self.listener.wait(party, until - time.monotonic(), after=self._at.get(party, 0))
            except AwayError as error:
                why = f"'{party}' did not connect within {self.deadline:g} s; start it."
                raise self._lose(party, _earlier(error, until) or why, until) from None
            try:
                self._met[party] = time.monotonic()
                known = self._hello(party)
            except Broken as error:
                log.warning("%s", error)
                self._check_time(party, until)
        self._who[party] = known
        self.metrics.waited(party, time.monotonic() - began)
        self.metrics.up(party)
        self.status.connected(party)
        log.info("'%s' is here", party)

    def _hello(self, party: str) -> str:
        """Who is at the other end of the line: the incarnation of its process."""
        request = say("hello", {"incarnation": self.owner.hex()})
        self._send(party, request)
        said = answered(self._receive(party, time.monotonic() + self.deadline), party, request)
        self.check(party, said)
        return str(said["incarnation"])

    def _ask_again(self, party: str, until: float) -> None:
        """Ask the same process over another link; another process has lost its place in the round."""
        before = self._who.get(party)
        while True:
            self._connect(party, until)
            self._check_time(party, until)
            self.metrics.reconnected(party)
            if self._who[party] != before:
                raise self._lose(party, f"'{party}' came back as another process.", connected=True)
            try:
                self._send(party, self._asked[party])
            except Broken as error:
                log.warning("%s", error)
            else:
                return

    def _check_time(self, party: str, until: float) -> None:
        """Whoever opens one line after the other and answers on none is as good as away."""
        if time.monotonic() >= until:
            raise self._lose(party, f"'{party}' answered on none of its lines within {self.deadline:g} s.", until)

    def _lose(self, party: str, why: str, until: float | None = None, *, connected: bool = False) -> AwayError:
        """A party is away: at the end of its deadline, or from now on; the error that says so."""
        error = AwayError(why, party)
        self._lost[party] = time.monotonic() if until is None else until - self.deadline, error
        self._asked.pop(party, None)
        if connected:  # its link may be used to lead it in again
            self._at[party] -= 1
        else:
            self.listener.hang_up(party, f"the owner waited too long for an answer; {CONNECT_AGAIN}.")
            self.metrics.away(party)
            self.status.away(party)
        self.status.failed(why)
        return error

    def _send(self, party: str, data: bytes) -> None:
        what, number = title(data)
        self.audit.sent(party, what, data, round=number)  # before it leaves, though the link may turn out to be broken
        self.listener.send(party, self._at.get(party, 0), data)
        self.metrics.sent(party, len(data))

    def _receive(self, party: str, until: float) -> bytes:
        try:
            data = self.listener.receive(party, self._at.get(party, 0), until - time.monotonic())
        except AwayError as error:
            why = f"'{party}' did not answer within {self.deadline:g} s; see that it is well."
            raise self._lose(party, _earlier(error, until) or why, until) from None
        try:
            what, number = title(data)
        except MessageError as error:
            raise MessageError(f"'{party}' sent what is no letter: {error}") from None
        self.audit.received(party, what, data, round=number)
        self.metrics.received(party, len(data))
        return data


def _earlier(error: AwayError, until: float) -> str:
    """What a link says that gave a party up before the deadline; nothing if it only waited till then."""
    return str(error) if time.monotonic() < until else ""
