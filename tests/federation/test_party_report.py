"""A party's own page: what left its house and what came in, by its own ledger and its own audit log."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from colonnade.errors import FolderError
from colonnade.federation import party_process
from colonnade.federation.audit_check import verify
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.party_job import ledger_of
from colonnade.federation.party_process import PartyProcess
from colonnade.federation.party_report import message_counts
from colonnade.federation.side_files import read_party_file
from colonnade.report.party_page import MessageCount, PartyView, party_page
from colonnade.report.words import size
from colonnade.wire.ledger import Ledger
from colonnade.wire.message import Size
from near import PARTIES, Sides, make_sides

pytest.importorskip("grpc")
pytest.importorskip("pyarrow")


@pytest.fixture
def sides(tmp_path: Path) -> Any:
    found = Sides(make_sides(tmp_path, rows=24))
    yield found
    found.restart()


def processes(sides: Sides) -> dict[str, PartyProcess]:
    """The parties' processes, whose sessions the owner reaches without a connection."""
    made = {
        name: PartyProcess(read_party_file(sides.folder / name / "party.toml"), sides.folder / f"run-{name}")
        for name in PARTIES
    }
    sides.guests.update({name: process.session for name, process in made.items()})
    return made


def text_of(page: str) -> str:
    body = page.partition("<main>")[2].partition("</main>")[0]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_a_party_reports_what_left_its_house(sides: Sides) -> None:
    parties, host = processes(sides), sides.host()
    host.gather()
    run = host.train()
    host.close()
    shop = parties["shop"]
    assert shop.session.ended
    shop.finish()
    (path,) = (sides.folder / "run-shop").glob("job-*/report.html")
    page = path.read_text()
    told = text_of(page)
    assert "'shop' took part in the job 'job' (splitnn) of 'bank'" in told and "The job is finished." in told
    assert all(sentence in told for sentence in host.terms["learns"])
    own = [line for line in run.ledger.rows if "shop" in (line.sender, line.receiver) and line.purpose != "align"]
    counted = ledger_of(shop.session.server).rows
    assert {(line.step, line.purpose, line.sender, line.total) for line in counted} == {
        (line.step, line.purpose, line.sender, line.total) for line in own
    }, "the party's ledger is the owner's of this party"
    for line in counted:
        assert f"{line.step} {line.purpose} {line.messages:,} {size(line.payload)} {size(line.total)}" in told
    for word in ("hello", "terms", "signed", "align", "prepare", "plan", "begin"):
        assert re.search(rf" {word} [\d,]+ [\d.]+ k?B", told), f"the handshake's '{word}' is in no table"
    assert verify(path.parent / "audit.jsonl", shop.party_file.keys.identity.public).signed


def test_a_party_that_stops_reports_why(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    parties, host = processes(sides), sides.host()
    host.gather()
    host.close()
    parties["shop"].stop("it was <interrupted>.")
    (path,) = (sides.folder / "run-shop").glob("job-*/report.html")
    assert "This side stopped: it was &lt;interrupted&gt;." in path.read_text()
    assert "Values, by step" not in path.read_text(), "no step was taken"
    PartyProcess(read_party_file(sides.folder / "mill" / "party.toml"), sides.folder / "elsewhere").stop("no job.")
    assert not list((sides.folder / "elsewhere").rglob("report.html"))


def test_no_room_for_the_report_changes_nothing_else(
    sides: Sides, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parties, host = processes(sides), sides.host()
    host.gather()
    host.train()
    host.close()

    def full(*_: Any) -> None:
        raise FolderError("the disk is full.")

    monkeypatch.setattr(party_process, "write_party_report", full)
    parties["shop"].finish()
    # A handler of a test before may have put the error's type in front.
    assert re.search(r"the report cannot be written: (FolderError: )?the disk is full\.", caplog.text)
    assert parties["shop"].status.status.state == "finished"


def test_lines_that_are_no_messages_are_not_counted(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "audit.jsonl", "shop", "job") as log:
        for _ in range(2):
            log.received("owner", "embed", b"12345", round=1)
        log.sent("owner", "embed", b"123", round=1)
        log.event("stopped", why="sent")
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"what":"sent"}\n[]\n{"what":"sent","kind":"x","size":"y"}\ntorn')
    assert message_counts(tmp_path / "audit.jsonl") == [
        MessageCount(False, "embed", 2, 10),
        MessageCount(True, "embed", 1, 3),
    ]


def test_names_of_others_do_not_steer_the_page() -> None:
    ledger = Ledger()
    ledger.record("train", "<b>", "shop", "owner", Size(payload=400, overhead=40))
    view = PartyView("shop", "<i>", "<script>", "fdml", "ok", ["<u>"], ledger, [MessageCount(True, "<s>", 1, 440)])
    page = party_page(view)
    assert not re.search(r"<(b|i|u|s|script)>(?!\n?\(|\")", page.partition("<main>")[2].partition("</main>")[0])
    assert "What came in" in page and "<p>Nothing.</p>" in page
