"""A party that answers the end of a job with rubbish must not undo a run that is done, nor keep the others from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from colonnade.federation.job_folder import JobFolder
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


def of_another_job(request: Packet, reply: Packet) -> Packet:
    return replace(reply, job=b"another job.....") if "end" in (request.kind, request.step) else reply


@pytest.mark.parametrize("lie", [rubbish, refused, of_another_job])
def test_a_run_that_is_done_stays_done(tmp_path: Path, lie) -> None:
    sides = Sides(make_sides(tmp_path))
    host = sides.host(spoil={"shop": lie})
    host.gather()
    host.train()
    assert read_status(tmp_path / "run-bank").state == "finished"
    assert sides.guests["mill"].ended
    host.close()


def heard(folder: Path) -> list[str]:
    return list((JobFolder(folder / "run-bank").ended or {})["heard"])


def test_who_answers_the_end_for_another_job_is_named_and_has_not_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's next process tells it again, by a word; only the true answer to that is believed."""
    sides = Sides(make_sides(tmp_path))
    host = sides.host(spoil={"shop": of_another_job})
    host.gather()
    host.train()
    host.close()
    assert "not heard: 'shop' replied for another job, session or plan" in caplog.text
    assert heard(tmp_path) == ["mill"]
    for spoil, known in ({"shop": of_another_job}, ["mill"]), ({}, ["mill", "shop"]):
        caplog.clear()
        again = sides.host(spoil=spoil)
        assert again.finished() is not None
        again.close()
        assert ("not heard: 'shop' answered 'end' with what cannot be" in caplog.text) == bool(spoil)
        assert heard(tmp_path) == known
