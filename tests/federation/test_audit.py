"""The audit log: a chain that goes on after crashes, and in which every edit, cut and other order is found."""

import errno
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.errors import ConfigError, FolderError
from colonnade.federation.audit_check import compare, verify
from colonnade.federation.audit_log import AuditLog, files_of, signed_bytes
from colonnade.federation.owner_transport import OwnerRecords, OwnerTransport
from colonnade.federation.party_report import message_counts
from colonnade.federation.prometheus import Metrics
from colonnade.federation.public_keys import read_public
from colonnade.federation.status_file import StatusFile
from colonnade.runtime.remote.packet import Packet, write_packet
from colonnade.signatures import Identity
from colonnade.signatures import verify as verify_signature

ME = Identity(bytes(range(32)))


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def entries_of(path):
    return [json.loads(line) for line in lines_of(path)]


@pytest.fixture
def log(tmp_path):
    """A log of ten messages, sealed."""
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, "bank", "credit") as log:
        for number in range(5):
            log.sent("shop", "logits", b"up %d" % number, round=number)
            log.received("shop", "fit", memoryview(b"down %d" % number), round=number, attempt=1)
        log.seal(ME)
    return path


def test_a_line_has_facts_and_no_values(log):
    first, message, *_, last = entries_of(log)
    assert first["facts"] == {"format": "colonnade/audit/1", "side": "bank", "job": "credit"}
    digest = hashlib.sha256(b"up 0").hexdigest()
    facts = {"n": 2, "what": "sent", "peer": "shop", "kind": "logits", "round": 0, "size": 4, "digest": digest}
    assert message | facts == message and message["time"].endswith("Z")
    assert message["before"] == first["hash"] and first["before"] == "0" * 64
    assert last["event"] == "sealed" and b"up 0" not in log.read_bytes() and b"down" not in log.read_bytes()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_whole_log(log):
    found = verify(log, ME.public)
    assert found.whole and (found.entries, found.side, found.job) == (12, "bank", "credit")
    assert found.sealed and found.signed and not verify(log).signed


def test_it_goes_on_after_a_restart(log):
    with AuditLog(log, "bank", "credit") as again:
        again.sent("shop", "logits", b"more", round=5)
        assert again.head == entries_of(log)[-1]["hash"]
    found = verify(log)
    assert found.whole and found.entries == 13 and not found.sealed


def test_a_long_log_goes_on_too(tmp_path):
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, "bank", "credit") as log:
        for number in range(1000):
            log.sent("shop", "logits", b"", round=number)
    assert path.stat().st_size > 2 * 128 * 1024, "longer than what is read at a start"
    with AuditLog(path, "bank", "credit") as log:
        log.event("again")
    assert verify(path).whole and verify(path).entries == 1002


@pytest.mark.parametrize("kept", [1, 100, -2, -1])
def test_a_torn_line_is_dropped_and_told(log, kept):
    *whole, last = lines_of(log)
    log.write_bytes(b"".join(whole) + last[:kept])
    torn = len(last[:kept])
    found = verify(log)
    assert found.broken == 12 and f"is torn after {torn} bytes" in found.why and found.entries == 11
    with AuditLog(log, "bank", "credit") as again:
        again.sent("shop", "logits", b"more")
    assert entries_of(log)[11]["event"] == f"torn line of {torn} bytes dropped"
    assert verify(log).whole and verify(log).entries == 13


def test_a_log_torn_in_its_first_line_starts_anew(log):
    log.write_bytes(lines_of(log)[0][:40])
    AuditLog(log, "bank", "credit").close()
    assert [entry["event"] for entry in entries_of(log)] == ["opened", "torn line of 40 bytes dropped"]
    assert verify(log).whole


def test_zeros_that_a_power_cut_left(log):
    log.write_bytes(log.read_bytes() + bytes(500))
    AuditLog(log, "bank", "credit").close()
    assert entries_of(log)[-1]["event"] == "torn line of 500 bytes dropped" and verify(log).whole


@pytest.mark.parametrize("text", [b"my only key", b"two\nlines\n", b'{"n":1,"time":"x"}\n'])
def test_a_foreign_file_is_left_as_it_is(tmp_path, text):
    path = tmp_path / "key.pem"
    path.write_bytes(text)
    with pytest.raises(FolderError, match="is no audit log, or its last line was altered"):
        AuditLog(path, "bank", "credit")
    assert path.read_bytes() == text


def test_another_job_and_another_writer_are_refused(log):
    with pytest.raises(FolderError, match="is the audit log of 'bank' in job 'credit', not of 'shop'"):
        AuditLog(log, "shop", "credit")
    with AuditLog(log, "bank", "credit"), pytest.raises(FolderError, match="written by another process"):
        AuditLog(log, "bank", "credit")
    closed = AuditLog(log, "bank", "credit")
    closed.close()
    with pytest.raises(FolderError, match="is closed already"):
        closed.event("late")


@pytest.mark.long  # a process of its own
def test_a_killed_writer_leaves_a_log_that_goes_on(tmp_path):
    path = tmp_path / "audit.jsonl"
    code = f"""
from colonnade.federation.audit_log import AuditLog
log = AuditLog({str(path)!r}, "bank", "credit")
print("ready", flush=True)
while True:
    log.sent("shop", "logits", b"x" * 1000, round=1)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        deadline = time.monotonic() + 10
        while path.stat().st_size < 10_000 and time.monotonic() < deadline:
            pass
        os.kill(process.pid, signal.SIGKILL)
    AuditLog(path, "bank", "credit").close()
    assert verify(path).whole and verify(path).entries > 10


@pytest.mark.parametrize("fact", [b"bytes", [1, 2], {"a": 1}, np.float64(1), np.zeros(2), float("nan"), 2**70])
def test_only_small_plain_facts(tmp_path, fact):
    with AuditLog(tmp_path / "audit.jsonl", "bank", "credit") as log:
        with pytest.raises(ConfigError, match="why of an audit log's line is a"):
            log.event("stopped", why=fact)
        with pytest.raises(ConfigError, match="20 facts came"):
            log.event("stopped", **{f"fact{number}": 1 for number in range(20)})
        log.event("stopped", why="é\U0001f600\n" * 1000, times=3, share=0.5, known=None, sure=True)
    assert verify(tmp_path / "audit.jsonl").whole
    told = entries_of(tmp_path / "audit.jsonl")[-1]["facts"]
    assert len(told["why"]) == 256 and told["times"] == 3 and told["sure"] is True


def test_the_longest_line_can_be_read_again(tmp_path):
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, "bank", "credit") as log:
        log.event("\U0001f600" * 999, **{f"fact{number}": "\U0001f600" * 999 for number in range(16)})
    AuditLog(path, "bank", "credit").close()
    assert verify(path).whole and verify(path).entries == 2


# what was done to a log


def test_every_altered_byte_is_found(log):
    raw = log.read_bytes()
    for place in range(0, len(raw), 7):
        log.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        found = verify(log)
        ends = raw[: place + 1].count(b"\n") if raw[place : place + 1] == b"\n" else raw[:place].count(b"\n") + 1
        assert found.broken == ends, f"byte {place}"


def test_an_altered_line_written_with_a_right_hash_is_found(log):
    """Whoever alters a line and its hash has to alter all lines below it, and cannot make the seal."""
    whole = lines_of(log)
    with AuditLog(log.with_name("other"), "bank", "credit") as other:
        other.sent("shop", "logits", b"another", round=0)
    log.write_bytes(b"".join([whole[0], lines_of(other.path)[1], *whole[2:]]))
    assert verify(log).broken in (2, 3) and "does not follow the line before it" in verify(log).why


@pytest.mark.long
def test_every_record_of_a_long_log(tmp_path):
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, "bank", "credit") as log:
        for number in range(998):
            log.sent("shop", "logits", b"%d" % number, round=number)
        log.seal(ME)
    lines = lines_of(path)
    assert verify(path, ME.public).whole and len(lines) == 1000
    for at in range(999):
        altered = lines[at].replace(b'"time":"2', b'"time":"3')
        put = [[altered, lines[at + 1]], [lines[at + 1]], [lines[at + 1], lines[at]]][at % 3]  # alter, remove, swap
        path.write_bytes(b"".join([*lines[:at], *put, *lines[at + 2 :]]))
        assert verify(path).broken == at + 1


def test_threads_make_one_chain(tmp_path):
    with AuditLog(tmp_path / "audit.jsonl", "bank", "credit") as log:
        work = [threading.Thread(target=lambda: [log.sent("shop", "x", b"y") for _ in range(200)]) for _ in range(4)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
    assert verify(log.path).whole and verify(log.path).entries == 801


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda lines: lines[1:], 1),
        (lambda lines: lines[:4] + lines[5:], 5),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], 5),
        (lambda lines: [*lines[:4], b"\n", *lines[4:]], 5),
        (lambda lines: [], 1),
        (lambda lines: [b"x" * 1_000_000], 1),
        (lambda lines: [b"[" * 100_000 + b"\n"], 1),
    ],
    ids=["first removed", "removed", "reordered", "twice", "blank", "empty", "one long line", "deep"],
)
def test_lines_that_were_removed_moved_or_added(log, change, broken):
    log.write_bytes(b"".join(change(lines_of(log))))
    found = verify(log)
    assert not found.whole and found.broken == broken and found.entries == broken - 1


def test_a_cut_end_is_found_by_the_key_alone(log):
    log.write_bytes(b"".join(lines_of(log)[:-3]))
    assert verify(log).whole and not verify(log).sealed, "a chain alone cannot know what came later"
    found = verify(log, ME.public)
    assert found.broken == 9 and "is no seal: lines may be missing" in found.why


def test_a_seal_of_another_key_is_found(log):
    found = verify(log, Identity.new().public)
    assert found.broken == 12 and "a seal that this key did not make" in found.why


def test_a_log_made_anew_by_another_has_no_right_seal(tmp_path):
    with AuditLog(tmp_path / "forged", "bank", "credit") as forged:
        forged.seal(Identity.new())
    assert verify(tmp_path / "forged").whole and not verify(tmp_path / "forged", ME.public).whole


def test_a_seal_can_be_sent_and_kept_by_the_others(tmp_path):
    with AuditLog(tmp_path / "a", "bank", "credit") as log:
        head = log.head
        seal = log.seal(ME)
        assert seal.head == head == entries_of(log.path)[0]["hash"]
    verify_signature(ME.public, signed_bytes("credit", "bank", 1, head), seal.signature)
    with AuditLog(tmp_path / "b", "shop", "credit") as other:
        other.event("peer sealed", peer="bank", head=seal.head, signature=seal.signature.hex())
    assert entries_of(other.path)[-1]["facts"]["signature"] == seal.signature.hex()


# two logs of one job


def two_logs(folder, sent, received, back=(), came=()):
    with AuditLog(folder / "bank", "bank", "credit") as bank, AuditLog(folder / "shop", "shop", "credit") as shop:
        for number in sent:
            bank.sent("shop", "fit", b"%d" % number, round=number)
        for number in received:
            shop.received("bank", "fit", b"%d" % number, round=number)
        for number in back:
            shop.sent("bank", "logits", b"%d" % number, round=number)
        for number in came:
            bank.received("shop", "logits", b"%d" % number, round=number)
        bank.sent("hospital", "fit", b"between others")
    return bank.path, shop.path


def test_logs_that_agree(tmp_path):
    assert compare(*two_logs(tmp_path, range(50), range(50), range(9), range(9))) == []


def test_a_message_that_did_not_arrive(tmp_path):
    (told,) = compare(*two_logs(tmp_path, [1, 2, 3], [1, 3]))
    assert told.startswith("'bank' sent 'fit' of round 2 (1 bytes, ") and "in line 3; 'shop' did not receive" in told


def test_a_message_that_nobody_sent(tmp_path):
    (told,) = compare(*two_logs(tmp_path, [], [], back=[1, 2], came=[1, 2, 3]))
    assert told.startswith("'bank' received 'logits' of round 3") and told.endswith("'shop' did not send it.")


def test_a_message_that_changed_on_its_way(tmp_path):
    a, b = two_logs(tmp_path, [], [])
    with AuditLog(a, "bank", "credit") as bank, AuditLog(b, "shop", "credit") as shop:
        bank.sent("shop", "fit", b"one", round=7)
        shop.received("bank", "fit", b"two", round=7)
    sent, received = compare(a, b)
    assert "did not receive it" in sent and "did not send it" in received and sent.count("round 7") == 1


def test_messages_in_another_order(tmp_path):
    (told,) = compare(*two_logs(tmp_path, [1, 2, 3, 4], [1, 3, 2, 4]))
    assert told.endswith("received it in another order.")


def test_what_cannot_be_compared(tmp_path, log):
    a, b = two_logs(tmp_path, [1], [1])
    with pytest.raises(ConfigError, match="both of 'bank'"):
        compare(a, log)
    with AuditLog(tmp_path / "else", "shop", "other job"):
        pass
    with pytest.raises(ConfigError, match="give two logs of one job"):
        compare(a, tmp_path / "else")
    b.write_bytes(b.read_bytes()[:-1])
    with pytest.raises(FolderError, match=r"line 2 of .* is torn after"):
        compare(a, b)


# a disk without room


def test_a_limit_on_file_size(tmp_path):
    """As a full disk: a write that has room for a part of a line; here and in a process of its own."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, "bank", "credit")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
    try:
        with pytest.raises(FolderError, match=r"cannot be written: File too large; nothing is sent without it"):
            log.sent("shop", "logits", b"up")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert verify(path).whole, "no half of a line is left"
    log.sent("shop", "logits", b"up")
    log.close()
    assert verify(path).entries == 2


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk(small_disk):
    path = small_disk / "audit.jsonl"
    with AuditLog(path, "bank", "credit") as log:

        def fill():
            for number in range(1000):
                log.sent("shop", "logits", b"up", round=number)

        with pytest.raises(FolderError, match="cannot be written: No space left on device") as told:
            fill()
        assert str(told.value).count(". ") == 0 and verify(path).whole
        entries = verify(path).entries
        with pytest.raises(FolderError, match="No space left"):
            log.event("stopped")
    assert verify(path).entries == entries > 50


def test_places_that_cannot_be_written(tmp_path):
    for path in (tmp_path / "none" / "audit.jsonl", tmp_path):
        with pytest.raises(FolderError, match=r"cannot be written: (No such file|Is a directory)"):
            AuditLog(path, "bank", "credit")
    with pytest.raises(FolderError, match="cannot be read"):
        verify(tmp_path / "none")


# the cost


def test_a_message_costs_little_beyond_its_digest(tmp_path):
    data, times = bytes(230_000), 300
    with AuditLog(tmp_path / "audit.jsonl", "bank", "credit") as log:

        def seconds(work):
            began = time.process_time()
            for _ in range(times):
                work()
            return time.process_time() - began

        digest = min(seconds(lambda: hashlib.sha256(data).hexdigest()) for _ in range(3))
        logged = min(seconds(lambda: log.sent("shop", "logits", data, round=1)) for _ in range(3))
    assert logged < 2 * digest, f"{logged / times * 1e6:.0f} us against {digest / times * 1e6:.0f}"


# the command line


def command(*words):
    return CliRunner().invoke(app, ["audit-log", "verify", *map(str, words)])


def public_key(path, kind=Encoding.PEM):
    key = Ed25519PublicKey.from_public_bytes(ME.public)
    path.write_bytes(key.public_bytes(kind, PublicFormat.SubjectPublicKeyInfo))
    return path


def test_verify_says_what_it_found(log, tmp_path):
    found = command(log)
    assert found.exit_code == 0
    assert found.stdout == f"{log}: whole; 12 lines of 'bank' in job 'credit', sealed; give --key to check by whom.\n"
    assert "sealed by this key" in command(log, "--key", public_key(tmp_path / "bank.pem")).stdout
    lines = lines_of(log)
    log.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"round":0', b'"round":1'), *lines[3:]]))
    found = command(log)
    assert found.exit_code == 1
    assert found.stdout == f"{log}: broken; line 3 was altered: it is not what its SHA-256 says.\n"


def test_verify_compares_two(tmp_path):
    a, b = two_logs(tmp_path, [1, 2], [1, 2])
    found = command(a, b)
    assert found.exit_code == 0 and found.stdout.count("not sealed") == 2
    assert found.stdout.endswith("The two logs agree on every message between them.\n")
    with AuditLog(b, "shop", "credit") as shop:
        shop.sent("bank", "logits", b"lost", round=9)
    found = command(a, b, "--json")
    facts = json.loads(found.stdout)
    assert found.exit_code == 1 and facts["compared"] and len(facts["differences"]) == 1
    assert [one["whole"] for one in facts["logs"]] == [True, True]
    assert "'shop' sent 'logits' of round 9" in command(a, b).stdout


def test_verify_refuses_bad_input(log, tmp_path):
    key = public_key(tmp_path / "bank.pem")
    (tmp_path / "no.pem").write_text("-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n")
    other = X25519PrivateKey.generate().public_key()
    (tmp_path / "x.pem").write_bytes(other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    for words, told in [
        ([tmp_path / "none"], "cannot be read: No such file"),
        ([log, log], "both of 'bank'"),
        ([log, "--key", tmp_path / "none"], "the key"),
        ([log, "--key", tmp_path / "no.pem"], "holds no Ed25519 public key"),
        ([log, "--key", tmp_path / "x.pem"], "holds no Ed25519 public key"),
        ([log, log, "--key", key], "1 keys came for 2 logs"),
    ]:
        found = command(*words)
        assert found.exit_code == 2 and found.stdout == "", words
        (line,) = found.stderr.splitlines()
        assert line.startswith("error: ") and told in line


def test_keys_come_in_three_forms(tmp_path):
    (tmp_path / "hex").write_text(ME.public.hex() + "\n")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bank")])
    private, now = Ed25519PrivateKey.from_private_bytes(ME.private()), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, now, now + timedelta(1))
    (tmp_path / "certificate").write_bytes(builder.sign(private, None).public_bytes(Encoding.PEM))
    public_key(tmp_path / "pem")
    for form in ("hex", "certificate", "pem"):
        assert read_public(tmp_path / form) == ME.public


def test_a_hostile_log_does_not_steer_the_terminal(tmp_path):
    with AuditLog(tmp_path / "a", "\x1b[2Jbank", "credit") as a, AuditLog(tmp_path / "b", "shop", "credit"):
        a.sent("shop", "x\ny", b"")
    found = command(tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 1 and "\x1b" not in found.stdout and len(found.stdout.splitlines()) == 3


def test_the_owner_logs_a_request_before_it_leaves(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl", "bank", "job")

    class Connections:
        """What is handed over leaves at once; until then its line must be there."""

        def send(self, party, connection, data):
            last = entries_of(log.path)[-1]
            assert (last["what"], last["peer"], last["kind"], last["round"]) == ("sent", party, "embed", 3)
            assert last["digest"] == hashlib.sha256(data).hexdigest()
            self.sent = data

    links, status = Connections(), StatusFile(tmp_path, "bank", "job", 1, ["shop"])
    lines = OwnerTransport(links, {"shop": b""}, bytes(16), 1.0, OwnerRecords(log, Metrics(), status), print)
    lines.links["shop"].conversation.stage = "begun"
    lines.post("shop", write_packet(Packet("step", step="embed", round=3)))
    assert links.sent
    log.close()
    del links.sent
    lines.links["shop"].replied()
    with pytest.raises(FolderError, match="closed"):
        lines.post("shop", write_packet(Packet("step", step="embed", round=3)))
    assert not hasattr(links, "sent"), "it left without a line in the log"


# files that were put aside


@pytest.fixture
def parts(tmp_path):
    """A sealed log of thirty messages in files of about 2,000 bytes, written by a side that was started twice."""
    path = tmp_path / "audit.jsonl"
    for start in (0, 15):
        with AuditLog(path, "bank", "credit", largest=2000) as log:
            for number in range(start, start + 15):
                log.sent("shop", "logits", b"up %d" % number, round=number)
            if start:
                log.seal(ME)
    return path


def test_a_large_file_is_put_aside_and_the_chain_goes_on(parts):
    aside = files_of(parts)[:-1]
    assert len(aside) > 2 and [path.name for path in aside] == [f"audit.jsonl.{k + 1}" for k in range(len(aside))]
    assert all(2000 <= path.stat().st_size < 3000 and path.stat().st_mode & 0o777 == 0o600 for path in aside)
    first, *_, last = entries_of(aside[0])
    after = entries_of(aside[1])[0]
    assert (after["event"], after["facts"], after["before"]) == ("continued", first["facts"], last["hash"])
    found = verify(parts, ME.public)
    assert found.whole and found.signed and found.entries == 1 + 30 + 1 + len(aside)


def test_all_files_of_a_log_are_compared_and_counted(parts, tmp_path):
    with AuditLog(tmp_path / "shop", "shop", "credit") as shop:
        for number in range(30):
            shop.received("bank", "logits", b"up %d" % number, round=number)
    assert compare(parts, tmp_path / "shop") == []
    assert [(of.kind, of.messages) for of in message_counts(parts)] == [("logits", 30)]


@pytest.mark.parametrize(("gone", "why"), [(0, r"put audit\.jsonl\.1"), (1, "lines were removed"), (-1, "no seal")])
def test_a_file_that_is_not_there_is_missed(parts, gone, why):
    files = files_of(parts)
    files[gone].unlink()
    if gone == -1:
        files[-2].rename(parts)
    found = verify(parts, ME.public)
    assert not found.whole and re.search(why, found.why)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 2), (1, -1)])
def test_files_that_were_swapped_are_found(parts, first, second):
    assert verify(parts, ME.public).whole
    one, other = files_of(parts)[first], files_of(parts)[second]
    raw = one.read_bytes(), other.read_bytes()
    one.write_bytes(raw[1])
    other.write_bytes(raw[0])
    found = verify(parts, ME.public)
    assert not found.whole and re.search("does not follow the line before|earlier file of this log", found.why)


def test_a_file_that_is_there_twice_is_found(parts):
    """Under a number that follows all others."""
    aside = files_of(parts)[-2]
    parts.with_name("audit.jsonl.99").write_bytes(aside.read_bytes())
    assert "does not follow the line before" in verify(parts, ME.public).why


def test_an_edit_in_a_file_that_was_put_aside_is_found(parts):
    second = files_of(parts)[1]
    second.write_bytes(second.read_bytes().replace(b'"size":4', b'"size":5', 1))
    assert "was altered" in verify(parts, ME.public).why


@pytest.mark.parametrize("left", [None, b"", b'{"n":1,"time":'])
def test_a_crash_between_two_files_loses_nothing(parts, left):
    """The file was put aside, and of the next one there is nothing, or a piece of its first line."""
    newest = parts.with_name(f"{parts.name}.{len(files_of(parts))}")
    parts.rename(newest)
    if left is not None:
        parts.write_bytes(left)
    with AuditLog(parts, "bank", "credit", largest=2000) as log:
        log.sent("shop", "logits", b"more", round=30)
    assert entries_of(parts)[0]["event"] == "continued" and verify(parts).whole


def test_files_of_another_log_are_not_taken_up(parts):
    parts.rename(parts.with_name("audit.jsonl.9"))
    with pytest.raises(FolderError, match="is the audit log of 'bank'"):
        AuditLog(parts, "shop", "credit")


def test_no_room_for_the_next_file_stops_the_side_and_loses_nothing(parts, monkeypatch):
    log = AuditLog(parts, "bank", "credit", largest=1)
    with monkeypatch.context() as full:
        full.setattr("os.write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        for _ in range(2):
            with pytest.raises(FolderError, match="No space left"):
                log.sent("shop", "logits", b"more", round=30)
    log.sent("shop", "logits", b"more", round=30)
    log.close()
    assert verify(parts).whole
