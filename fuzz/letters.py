"""A fuzz target for atheris: whatever bytes come, a party refuses and the owner raises one of our errors.

    python fuzz/requests.py -max_total_time=120

The first byte chooses who is attacked and with the requests of which run; the others are a request, or instructions for
the mutations of ``benchmarks/hostile.py``, so that the fuzzer also gets behind magic numbers, digests and sequences.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import atheris

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "src")]

with atheris.instrument_imports(include=["colonnade.wire.message", "colonnade.runtime", "colonnade.seal"]):
    from benchmarks.hostile import (
        CASES,
        Score,
        attack_owner,
        attack_party,
        backend_of,
        direct,
        may_be_written,
        mutant,
        reach_through,
        silent_steps,
        train,
    )

    from colonnade.runtime.remote.packet import read_packet, write_packet
    from colonnade.runtime.remote.transport import DirectTransport


class Recorded(DirectTransport):
    """Lines that remember every request, and can give other bytes instead."""

    def __init__(self, remote: Any) -> None:
        before = direct(remote)
        super().__init__(before.parties)
        self._replies = before._replies
        self.remote, self.instead = remote, b""
        self.heard: list[tuple[str, Any, bytes, bytes]] = []

    def post(self, party: str, request: bytes) -> None:
        super().post(party, request)
        self.heard.append((party, dict(backend_of(self.remote)._turns), request, self._replies[party]))

    def reply(self, party: str) -> bytes:
        return self.instead or super().reply(party)


def recorded(name: str) -> Recorded:
    def record(run: Any) -> None:
        if not isinstance(direct(run.parties), Recorded):
            reach_through(run.parties, Recorded(run.parties))

    lines = direct(train(*CASES[name], on_round=record).parties)
    assert isinstance(lines, Recorded)
    return lines


def silent_of(lines: Recorded, party: str) -> list[str]:
    """The steps of all that was asked which read no message."""
    asked = [read_packet(request) for _, _, request, _ in lines.heard]
    return silent_steps(lines.parties[party], [*asked, *(read_packet(one.before) for one in asked if len(one.before))])


LINES = [recorded(name) for name in CASES]


def test_one_input(data: bytes) -> None:
    """One attack; an exception of this function is a finding."""
    if len(data) < 4:
        return
    lines, from_party, as_it_is = LINES[data[0] % len(LINES)], bool(data[1] & 1), bool(data[1] & 2)
    name, turns, request, reply = lines.heard[data[2] % len(lines.heard)]
    party, score = lines.parties[name], Score()
    assert party._last is not None
    due = write_packet(replace(read_packet(request), sequence=party._last[0] + 1, before=b""))
    raw = reply if from_party else due
    others = [one[2 + from_party] for one in lines.heard[-20:]]
    new = data[3:] if as_it_is else mutant(random.Random(data[3:]), raw, others)
    if not new or new == raw or may_be_written(raw, new, silent_of(lines, name), from_party):
        return
    if from_party:
        backend = backend_of(lines.remote)
        backend.parties[name]._request, backend._turns = replace(read_packet(request), frames=()), turns
        lines.instead = new
        attack_owner(lines.remote, name, raw, score)
        lines.instead = b""
    else:
        attack_party(party, [new], score)
    if score.crashed or score.accepted:
        raise AssertionError(f"{score.crashed} {score.accepted}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
