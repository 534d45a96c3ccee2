"""One party as the owner sees it: its connection, its process, how far the handshake is, and what it agreed to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from colonnade.errors import AwayError, MessageError
from colonnade.federation.handshake import Facts
from colonnade.federation.protocol import Conversation


class WordOrderError(RuntimeError):
    """The owner was about to send a word that the protocol does not allow then: an error in Colonnade itself."""


class Outgoing(NamedTuple):
    """A request of the owner as it is sent, and sent again, with what the audit log says of it."""

    data: bytes
    what: str
    """Its step, or else its kind."""
    round: int


@dataclass(frozen=True)
class PartyAbsence:
    """The absence of a party: since when, by the monotonic clock, and the error that says why."""

    since: float
    error: AwayError


class PartyLink:
    """All that the owner knows about one party; the methods say what happened to it.

    Its name and its public identity ``key`` stand in the job file, everything else is learnt from the party.
    """

    def __init__(self, name: str, key: bytes) -> None:
        self.name, self.key = name, key
        self.conversation = Conversation()
        self.connection = 0  # the number of its newest connection that was used
        self.greeted = 0.0  # when the owner last said hello, by the monotonic clock
        self.incarnation = b""  # the random number of the process that answered the last hello
        self.session = b""  # the name of the open session, which every request and reply bears
        self.request: Outgoing | None = None  # the request that has no reply yet
        self.absence: PartyAbsence | None = None
        self.signatures: dict[str, bytes] = {}  # of the terms and of the plan
        self.agreed_as: bytes | None = None  # the incarnation that signed the terms and aligned its rows
        self.shape: Facts | None = None  # its answer to ``prepare``: rows, test rows, shape, cardinalities

    @property
    def is_new(self) -> bool:
        """Whether no process of this party has answered a hello yet."""
        return not self.incarnation

    @property
    def is_absent(self) -> bool:
        """Whether it stopped answering and was not led through the handshake again."""
        return self.absence is not None

    @property
    def has_agreed(self) -> bool:
        """Whether its present process is the one that signed the terms and aligned its rows."""
        return self.agreed_as == self.incarnation

    def met(self, incarnation: bytes) -> None:
        """A process of this party answered a hello; another process than before begins the handshake again."""
        if incarnation != self.incarnation:
            self.conversation.restart()
        self.conversation.say("hello")
        self.incarnation = incarnation

    def lost(self, error: AwayError, since: float) -> None:
        """Note that it does not answer; its reply is not waited for any longer."""
        self.absence, self.request = PartyAbsence(since, error), None

    def returned(self) -> None:
        """Note that it answers again."""
        self.absence = None

    def asked(self, request: Outgoing) -> None:
        """Note a request that waits for its reply."""
        self.request = request

    def replied(self) -> None:
        """Note that the reply came, whatever it says."""
        self.request = None

    def opened(self, session: bytes) -> None:
        """Begin a session: from now on requests and replies belong to it."""
        self.session = session

    def may_say(self, word: str) -> None:
        """Raise :class:`WordOrderError` if the owner may not send this word, or a request, to this party now."""
        if self.conversation.allows(word):
            return
        try:
            self.conversation.check(word)
        except MessageError as error:
            raise WordOrderError(
                f"the owner was about to send '{word}' to '{self.name}' out of order: {error} This is an error in "
                "Colonnade; please report it."
            ) from None

    def deadline(self, seconds: float) -> float:
        """Until when the owner waits for it, by the monotonic clock: so many seconds since it went, or from now."""
        return (time.monotonic() if self.absence is None else self.absence.since) + seconds
