"""Requests and replies as the owner sees them, with the computing between them, and the same replayed over a line.

A trace is made by the code that a federation runs, owner and parties in one process: so its round trips and its bytes
are those of a federation, and nobody counts them by hand.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, final

from colonnade.runtime.remote.party_server import PartyServer
from colonnade.runtime.remote.transport import NearTransport
from colonnade.study.cost.link import Link


class Computed(NamedTuple):
    """The owner computed for so many seconds."""

    seconds: float


class Asked(NamedTuple):
    """The owner sent a request; the party needed so many seconds for its reply."""

    party: str
    request: int
    seconds: float
    reply: int


class Heard(NamedTuple):
    """The owner waited for a party's reply."""

    party: str


@dataclass(frozen=True)
class Trace:
    """What happened at the owner, in its order."""

    events: list[Computed | Asked | Heard] = field(default_factory=list)

    @property
    def trips(self) -> int:
        """How often the owner waited for replies that were not under way when it waited before."""
        count, sent = 0, False
        for event in self.events:
            count += sent and isinstance(event, Heard)
            sent = isinstance(event, Asked) or (sent and isinstance(event, Computed))
        return count

    @property
    def down(self) -> int:
        """Bytes of all requests."""
        return sum(event.request for event in self.events if isinstance(event, Asked))

    @property
    def up(self) -> int:
        """Bytes of all replies."""
        return sum(event.reply for event in self.events if isinstance(event, Asked))

    def seconds_over(self, link: Link) -> float:
        """How long it takes over a line that all parties share, each computing on a machine of its own."""
        clock = down = up = 0.0
        free: dict[str, float] = {}  # when a party has done what it was asked
        ready: dict[str, tuple[float, int]] = {}  # replies that have not left: since when, and how many bytes
        here: dict[str, float] = {}
        for event in self.events:
            if isinstance(event, Computed):
                clock += event.seconds
            elif isinstance(event, Asked):
                down = max(down, clock) + event.request * link.byte
                free[event.party] = max(free.get(event.party, 0.0), down + link.trip / 2) + event.seconds
                ready[event.party] = free[event.party], event.reply
            else:
                for party in sorted(ready, key=ready.__getitem__):
                    since, size = ready.pop(party)
                    up = max(up, since) + size * link.byte
                    here[party] = up + link.trip / 2
                clock = max(clock, here[event.party])
        return clock


class Stopwatch:
    """Seconds of computing: time that passed, or CPU time if that is less, so that other programs do not count."""

    def __init__(self) -> None:
        self.lap()

    def lap(self) -> float:
        """Seconds since the last lap."""
        before = getattr(self, "_now", (0.0, 0.0))
        self._now = time.perf_counter(), time.process_time()
        return min(self._now[0] - before[0], self._now[1] - before[1])


@final
class TimedTransport(NearTransport):
    """Times every request, and notes it in a trace; over a line of one speed for all, replies arrive in order."""

    def __init__(self, parties: Mapping[str, PartyServer]) -> None:
        super().__init__(parties)
        self.trace, self._watch = Trace(), Stopwatch()

    @contextmanager
    def tracing(self) -> Iterator[Trace]:
        """A trace of what is done inside."""
        self.trace = trace = Trace()
        self._watch.lap()
        yield trace
        trace.events.append(Computed(self._watch.lap()))
        self.trace = Trace()  # of what nobody asked for

    def post(self, party: str, request: bytes) -> None:
        """Serve the request."""
        self.trace.events.append(Computed(self._watch.lap()))
        self._replies[party] = reply = self.parties[party].serve(request)
        self.trace.events.append(Asked(party, len(request), self._watch.lap(), len(reply)))

    def reply(self, party: str) -> bytes:
        """The reply to the last request."""
        self.trace.events.append(Computed(self._watch.lap()))
        self.trace.events.append(Heard(party))
        return self._replies.pop(party)
