"""A party that answers the end of a job with rubbish must not undo a run that is done, nor keep the others from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colonnade.federation.status_file import read_status
from colonnade.runtime.remote.packet import Packet
from colonnade.seal.relay import spoken
from colonnade.wire.message import Envelope, encode
from near import Sides, make_sides

REFUSAL = encode(spoken(b"FolderError", b"the disk of the owner is full."), Envelope("refusal", "shop", 0))


def rubbish(request: Packet, reply: Packet) -> bytes | Packet:
    return b"CLNL" if "end" in (request.kind, request.step) else reply


def refused(request: Packet, reply: Packet) -> Packet:
    is_end = "end" in (request.kind, request.step)
    return replace(reply, kind="refusal", frames=(REFUSAL,)) if is_end else reply


@pytest.mark.parametrize("lie", [rubbish, refused])
def test_a_run_that_is_done_stays_done(tmp_path: Path, lie) -> None:
    sides = Sides(make_sides(tmp_path))
    host = sides.host(spoil={"shop": lie})
    host.gather()
    host.train()
    assert read_status(tmp_path / "run-bank").state == "finished"
    assert sides.guests["mill"].ended
    host.close()
