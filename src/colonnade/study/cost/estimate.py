"""Parts of a run, added up for a line: round trips, bytes on it, computing, and all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from colonnade.study.cost.link import Link
from colonnade.study.cost.timed_rounds import CostPart

WORDS = 8
"""What the owner says to every party beside the requests of a run, each word by itself, from hello to end."""
CONNECTING = 3
"""Round trips until a connection with TLS is there."""


@dataclass(frozen=True)
class BeforeTraining:
    """What comes before the plan: connections, the words of the handshake, and private alignment if there is one."""

    parties: int
    requests: int = 0
    """Of the alignment."""
    down: int = 0
    up: int = 0
    computing: float = 0.0
    """Of the alignment and the preparation, one side after the other."""

    @property
    def trips(self) -> int:
        """Round trips at most: every word and every request as if by itself."""
        return CONNECTING + WORDS * self.parties + self.requests


@dataclass(frozen=True)
class Cost:
    """What a job takes over one line, in seconds that add up to :attr:`seconds`."""

    link: Link
    computing: float
    trips: float
    transfer: float
    """What the bytes take that nothing else hides."""

    @property
    def seconds(self) -> float:
        """All together."""
        return self.computing + self.trips + self.transfer

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        seconds = {"computing": self.computing, "round_trips": self.trips, "transfer": self.transfer}
        rounded = {name: round(value, 3) for name, value in (seconds | {"seconds": self.seconds}).items()}
        return {"megabits": self.link.megabits, "milliseconds": self.link.milliseconds, **rounded}


@dataclass(frozen=True)
class CostEstimate:
    """What a job will cost: its parts, what comes before them, and what they take over some lines."""

    rounds: int
    before: BeforeTraining
    parts: Sequence[CostPart]

    @property
    def trips(self) -> int:
        """All round trips."""
        return self.before.trips + sum(part.trips for part in self.parts)

    @property
    def bytes(self) -> int:
        """All bytes of requests and replies, and of an alignment."""
        return self.before.down + self.before.up + sum(part.down + part.up for part in self.parts)

    def over(self, link: Link) -> Cost:
        """The whole job over a line."""
        own = self.training_over(link)
        sent = (self.before.down + self.before.up) * link.byte
        trips = own.trips + self.before.trips * link.trip
        return Cost(link, own.computing + self.before.computing, trips, own.transfer + sent)

    def training_over(self, link: Link) -> Cost:
        """Rounds, evaluations and checkpoints over a line, without what comes before."""
        computing = sum(part.computing for part in self.parts)
        trips = sum(part.trips for part in self.parts) * link.trip
        whole = sum(part.seconds_over(link) for part in self.parts)
        return Cost(link, computing, trips, max(0.0, whole - computing - trips))

    def to_json(self) -> dict[str, Any]:
        """Rounds, trips and bytes by part, as plain data."""
        before = self.before
        rows = [_row("before training", 1, before.trips, before.down, before.up, before.computing)]
        for name in dict.fromkeys(part.name for part in self.parts):
            each = [part for part in self.parts if part.name == name]
            sums = (sum(getattr(part, what) for part in each) for what in ("times", "trips", "down", "up", "computing"))
            rows.append(_row(name, *sums))
        return {"rounds": self.rounds, "round_trips": self.trips, "bytes": self.bytes, "parts": rows}


def _row(name: str, times: int, trips: int, down: int, up: int, computing: float) -> dict[str, Any]:
    counted = {"name": name, "times": times, "round_trips": trips, "bytes_down": down, "bytes_up": up}
    return counted | {"computing": round(computing, 4)}
