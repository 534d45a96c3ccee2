"""A peer's text on the way to a terminal, a log, a status file or an audit log: on one line, printable, bounded."""

from __future__ import annotations

import json
import logging
from io import StringIO
from pathlib import Path

import pytest

from colonnade.errors import LONGEST, ManifestError, RefusedError, printable
from colonnade.federation import certificates as keys
from colonnade.federation import party_connection as dial
from colonnade.federation.audit_log import AuditLog
from colonnade.federation.exit_codes import Exit, exit_of
from colonnade.federation.log_lines import log_to
from colonnade.federation.status_file import StatusFile, read_status
from colonnade.runtime.remote.request_server import LONGEST_REFUSAL, refusal, refused
from colonnade.seal.relay import spoken
from colonnade.wire.message import Envelope, encode

EVIL = "well\x1b]0;owned\x07\x1b[2J\r\n2026-11-18T00:00:00Z INFO all parties agreed\u202e\u2028\u200b" + "x" * 10_000


def is_harmless(text: str, most: int = LONGEST) -> bool:
    return text.isprintable() and "\n" not in text and len(text) <= most


def test_the_text_would_steer_a_terminal() -> None:
    """The control: as it came, it sets a window's title and writes a line of its own."""
    assert "\x1b" in EVIL and "\n" in EVIL and not is_harmless(EVIL)


def test_a_refusal_of_a_party_is_one_printable_sentence_with_its_name() -> None:
    for words in (EVIL, "the run of 'clinic' failed.", "of 'shop' " + EVIL):
        said = str(refused(refusal(ManifestError(words), "shop"), "shop"))
        assert is_harmless(said, LONGEST_REFUSAL + 40) and said.startswith("'shop' refused: ")


@pytest.mark.parametrize("kind", ["LinkError", "AwayError", "Broken", "UnreachableError", "KeyboardInterrupt", "Exit"])
def test_no_refusal_makes_a_service_start_the_owner_again_for_ever(kind: str) -> None:
    """Whoever was absent, or stopped by hand, is started again; a peer must not be able to say that it was so."""
    frame = encode(spoken(kind.encode(), b"no."), Envelope("refusal", "shop", 0))
    assert exit_of(refused(frame, "shop")) is Exit.BAD_INPUT


def test_files_of_a_side_hold_no_others_controls(tmp_path: Path) -> None:
    status = StatusFile(tmp_path, "owner", "job", 3, ["shop"])
    status.failed(EVIL)
    status.describe(EVIL, 4)
    found = read_status(tmp_path)
    assert is_harmless(found.error or "") and is_harmless(found.job)
    with AuditLog(tmp_path / "audit.jsonl", "owner", "job") as audit:
        audit.event("stopped", why=EVIL)
    lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert len(lines) == 2 and is_harmless(json.loads(lines[1])["facts"]["why"])


@pytest.mark.parametrize("how", ["lines", "json"])
def test_a_log_has_one_line_for_one_record(how: str) -> None:
    stream = StringIO()
    log_to(how, stream=stream)
    try:
        logging.getLogger("colonnade.federation").warning("%s", EVIL, extra={"why": EVIL})
    finally:
        log = logging.getLogger("colonnade")
        for handler in [one for one in log.handlers if getattr(one, "of_colonnade", False)]:
            log.removeHandler(handler)
        log.propagate = True
    text = stream.getvalue()
    assert text.count("\n") == 1 and text[:-1].isprintable() and len(text) < 10_000


def test_what_an_owner_says_when_it_hangs_up_is_printable() -> None:
    assert is_harmless(dial._plain(EVIL), LONGEST + 1)


def test_a_certificate_whose_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        value = "bank\x1b[2J"

    class Certificate:
        class subject:  # noqa: N801
            get_attributes_for_oid = staticmethod(lambda _: [Named()])

    monkeypatch.setattr(keys, "first_certificate", lambda _: Certificate())
    with pytest.raises(RefusedError, match="printable") as caught:
        keys.common_name(b"")
    assert is_harmless(str(caught.value))


def test_printable_keeps_what_people_write() -> None:
    assert printable("Kreditbüro 2, 東京") == "Kreditbüro 2, 東京"
    assert printable({"a": "\x1b"}) == "{'a': '\\x1b'}" and len(printable("x" * 9999)) == LONGEST
