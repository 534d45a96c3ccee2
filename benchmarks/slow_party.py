"""What a slow party costs a round: milliseconds from its reply being there to the end of the round.

The owner logs, hashes, reads and checks the replies of the others while the slow one's travels, whatever the order of
the parties; "in their order" is the same owner made to wait for the first party first, which is the slow one. Replies
are those of `python -m benchmarks.federation round`, 0.23 MB each. The parties are in this process and answer before
the clock starts, so that only the owner's work is timed; one reply is held back. Both kinds take turns; medians.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from benchmarks.federation import BATCH, Echo, remote_over, seat
from benchmarks.table import show
from colonnade.core.method import Turn
from colonnade.federation.certificates import make_keys, read_identity
from colonnade.federation.hello import hello_of
from colonnade.runtime.parties import AllParties
from colonnade.runtime.remote.packet import read_packet, write_packet
from colonnade.runtime.remote.party_server import PartyServer


class HeldBack:
    """Connections to parties in this process; the first one's reply is there only after some seconds."""

    def __init__(self, folder: Path, names: list[str], seconds: float) -> None:
        self.folder, self.seconds, self.names = folder, seconds, names
        self.parties = {name: PartyServer(seat(names, k)) for k, name in enumerate(names)}
        self.replies: dict[str, bytes] = {}
        self.there = 0.0  # when the slow reply is
        self.in_order = False

    def connection(self, party: str) -> int:
        return 1

    def wait(self, party: str, seconds: float, after: int = 0) -> int:
        return 1

    def send(self, party: str, connection: int, data: bytes) -> None:
        packet = read_packet(data)
        if packet.step == "hello":
            identity = read_identity(self.folder / party / "identity.key")
            facts = json.dumps(hello_of(party, identity, bytes(16), bytes(16))).encode()
            self.replies[party] = write_packet(packet.reply("answer", party, facts))
        else:
            self.replies[party] = self.parties[party].serve(data)
            self.there = time.perf_counter() + self.seconds

    def receive(self, party: str, connection: int, seconds: float) -> bytes:
        if party == self.names[0]:
            time.sleep(max(self.there - time.perf_counter(), 0.0))
        return self.replies.pop(party)

    def first(self, connections: Mapping[str, int], seconds: float) -> str | None:
        here = [party for party in connections if party != self.names[0]]
        return self.names[0] if self.in_order and self.names[0] in connections else here[0]

    def hang_up(self, party: str, reason: str) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is open."""


def after_the_reply(remote: AllParties, lines: HeldBack, number: int) -> float:
    """Milliseconds of a round from when the slow reply is there."""
    turn = Turn(number, torch.arange(BATCH))
    remote.ask(ECHO.give, turn)
    return 1000 * (time.perf_counter() - lines.there)


ECHO = Echo()


def measured(parties: int, seconds: float, rounds: int) -> list[str]:
    names = [f"party {k}" for k in range(parties)]
    times: dict[bool, list[float]] = {True: [], False: []}
    with TemporaryDirectory() as place:
        folder = Path(place)
        make_keys(folder, ["127.0.0.1"], names)
        lines = HeldBack(folder, names, seconds)
        remote = remote_over(lines, folder, names)
        for number in range(2 * rounds):
            lines.in_order = number % 2 == 0
            times[lines.in_order].append(after_the_reply(remote, lines, number))
    before, now = median(times[True][1:]), median(times[False][1:])
    return [str(parties), f"{before:.2f}", f"{now:.2f}", f"{before / now:.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, nargs="+", default=[4, 14, 50])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.2, help="How long the slow reply is held back.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measured(parties, options.seconds, options.rounds) for parties in options.parties]
    show("From the slow reply to the end of the round, ms", ["parties", "in their order", "as they come", "x"], rows)


if __name__ == "__main__":
    main()
