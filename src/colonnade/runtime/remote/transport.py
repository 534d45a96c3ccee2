"""How the owner's process reaches each party's: requests out, replies back, as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from colonnade.core.table import Table
from colonnade.runtime.remote.party_server import PartyServer


class Transport(Protocol):
    """The connections to all parties; each has at most one request that waits for its reply."""

    def post(self, party: str, request: bytes) -> None:
        """Send a request and do not wait."""

    def reply(self, party: str) -> bytes:
        """Wait for the reply to the last request; :class:`colonnade.errors.AwayError` if none comes in time."""

    def first(self, parties: Sequence[str]) -> str:
        """Whose reply to take next: one that is here, so that the owner works while others compute or travel."""

    def session(self, party: str) -> bytes:
        """Which session with this party is open; a party that came back as another process has another one."""

    def give(self, party: str, name: str, table: Table) -> None:
        """Let a party have its rows of another table, within one organisation; others bring their own."""

    def wait_for(self, party: str) -> None:
        """Wait until a party that was absent can be asked again, or raise :class:`colonnade.errors.AwayError`."""

    def close(self) -> None:
        """Hang up."""


class NearTransport:
    """Parties of this process, which are always here; how a request is served is said by whoever is one."""

    def __init__(self, parties: Mapping[str, PartyServer]) -> None:
        self.parties = dict(parties)
        self._replies: dict[str, bytes] = {}

    def first(self, parties: Sequence[str]) -> str:
        """The first in their order: all replies are here."""
        return parties[0]

    def session(self, party: str) -> bytes:
        """The session in the party's specification."""
        return self.parties[party].spec.session

    def give(self, party: str, name: str, table: Table) -> None:
        """Put the rows in place."""
        self.parties[party].place(name, table)

    def wait_for(self, party: str) -> None:
        """They are always here."""

    def close(self) -> None:
        """Nothing is open."""


class DirectTransport(NearTransport):
    """Requests and replies as they are. Tests with it hold for all transports."""

    def post(self, party: str, request: bytes) -> None:
        """Serve the request."""
        self._replies[party] = self.parties[party].serve(request)

    def reply(self, party: str) -> bytes:
        """The reply to the last request."""
        return self._replies.pop(party)
