"""Checks of audit logs: whether one is as it was written, and whether two sides' logs of one job agree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

from colonnade.disk.small_files import opened
from colonnade.errors import ConfigError, FolderError, SealError
from colonnade.federation.audit_log import FORMAT, LONGEST_LINE, START, checked_line, files_of, signed_bytes
from colonnade.signatures import verify as verify_signature


@dataclass(frozen=True)
class LogVerdict:
    """What was found in one log."""

    path: str
    side: str
    job: str
    entries: int
    """Lines that are right, up to the first that is not."""
    broken: int | None = None
    """The first line that is not right."""
    why: str = ""
    sealed: bool = False
    """Whether the last line is a seal; else lines may be missing at the end, and nobody could tell."""
    signed: bool = False
    """Whether the seals were checked with a key and are that key's."""

    @property
    def whole(self) -> bool:
        """Whether every line is right."""
        return self.broken is None


class _BrokenError(Exception):
    """A line that is not right, and why."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class Passage(NamedTuple):
    """What two logs must agree on about one message."""

    kind: str
    round: int | None
    size: int | None
    digest: str

    def __str__(self) -> str:
        when = "" if self.round is None else f" of round {self.round}"
        return f"'{self.kind}'{when} ({self.size} bytes, {self.digest[:12]})"


Passages = list[tuple[int, Passage]]
"""Messages in one direction, each with its line."""


class Story(NamedTuple):
    """The messages in a log, by direction and peer, which the peers' logs should have too."""

    side: str
    job: str
    passed: Mapping[tuple[str, str], Passages]


def verify(path: str | Path, public: bytes | None = None) -> LogVerdict:
    """Look at every line of a log; with the side's ``public`` key, its seals too, and there must be one at the end."""
    entries = 0
    first: dict[str, Any] = {}
    last: dict[str, Any] = {}
    try:
        for entry in _entries(Path(path), public):
            entries, first, last = entries + 1, first or entry, entry
        if public is not None and not _is_seal(last):
            raise _BrokenError(entries, "is where the log ends, and is no seal: lines may be missing behind it")
    except _BrokenError as broken:
        return LogVerdict(str(path), *_whose(first), entries, broken=broken.line, why=str(broken))
    return LogVerdict(str(path), *_whose(first), entries, sealed=_is_seal(last), signed=public is not None)


def compare(first: str | Path, other: str | Path) -> list[str]:
    """Where two sides' logs of one job differ about what passed between them; empty if nowhere."""
    a, b = _story(Path(first)), _story(Path(other))
    if a.job != b.job:
        raise ConfigError(f"{first} is of job '{a.job}' and {other} of '{b.job}'; give two logs of one job.")
    if a.side == b.side:
        raise ConfigError(f"{first} and {other} are both of '{a.side}'; give the logs of two sides.")
    return [*_differences(a, b), *_differences(b, a)]


def log_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a log that is whole; the first line that is not right is an error that names it."""
    try:
        yield from _entries(path)
    except _BrokenError as broken:
        raise FolderError(f"line {broken.line} of {path} {broken}; only whole logs can be compared.") from None


def _entries(path: Path, public: bytes | None = None) -> Iterator[dict[str, Any]]:
    """The entries of a log, each after it was checked against the ones before."""
    before, number, whose = START, 0, ("", "")
    for raw in _lines(path):
        entry = checked_line(raw[:-1]) if raw.endswith(b"\n") else None
        if entry is None:
            raise _BrokenError(number + 1, _what_is_wrong(raw))
        if not number and entry.get("event") == "continued":
            raise _BrokenError(1, f"is in an earlier file of this log; put {path.name}.1 and so on beside it")
        if entry["before"] != before or entry["n"] != number + 1:
            raise _BrokenError(number + 1, "does not follow the line before it: lines were removed, added or moved")
        if number == 0:
            if entry.get("event") != "opened" or entry.get("facts", {}).get("format") != FORMAT:
                raise _BrokenError(1, f"does not open a log in the format {FORMAT}")
            whose = _whose(entry)
        if _is_seal(entry) and public is not None:
            side, job = whose
            if not _is_signed(entry, public, signed_bytes(job, side, number, before)):
                raise _BrokenError(number + 1, "is a seal that this key did not make over these lines")
        before, number = entry["hash"], number + 1
        yield entry
    if not number:
        raise _BrokenError(1, "is missing: the log is empty")


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a log, from all its files in their order."""
    try:
        for part in files_of(path):
            with opened(part) as file:
                while raw := file.readline(LONGEST_LINE):
                    yield raw
    except OSError as error:
        raise FolderError(f"the audit log {path} cannot be read: {error.strerror}.") from error


def _what_is_wrong(raw: bytes) -> str:
    if raw.endswith(b"\n"):
        return "was altered: it is not what its SHA-256 says"
    if len(raw) == LONGEST_LINE:
        return f"is longer than {LONGEST_LINE} bytes, which no line of an audit log is"
    return f"is torn after {len(raw)} bytes: its writer was cut off, and drops it when it starts again"


def _is_signed(entry: dict[str, Any], public: bytes, signed: bytes) -> bool:
    try:
        verify_signature(public, signed, bytes.fromhex(str(entry.get("facts", {}).get("signature"))))
    except (SealError, ValueError):
        return False
    return True


def _is_seal(entry: dict[str, Any]) -> bool:
    return entry.get("what") == "event" and entry.get("event") == "sealed"


def _whose(first: dict[str, Any]) -> tuple[str, str]:
    facts = first.get("facts", {})
    return str(facts.get("side", "")), str(facts.get("job", ""))


def _story(path: Path) -> Story:
    passed: dict[tuple[str, str], Passages] = defaultdict(list)
    first: dict[str, Any] = {}
    for line, entry in enumerate(log_entries(path), start=1):
        first = first or entry
        if entry.get("what") in ("sent", "received"):
            passed[entry["what"], str(entry.get("peer"))].append((line, _passage(entry)))
    side, job = _whose(first)
    return Story(side, job, passed)


def _passage(entry: dict[str, Any]) -> Passage:
    """The facts of a message; whatever else a hostile log holds in their place becomes plain text or None."""
    number, size = (value if type(value) is int else None for value in (entry.get("round"), entry.get("size")))
    return Passage(str(entry.get("kind")), number, size, str(entry.get("digest")))


def _differences(sender: Story, receiver: Story) -> list[str]:
    """Messages that one log has as sent and the other does not have as received in the same order, and the reverse."""
    sent = sender.passed.get(("sent", receiver.side), [])
    received = receiver.passed.get(("received", sender.side), [])
    only_sent, only_received = _unmatched(sent, received)
    moved = Counter(passage for _, passage in only_sent) & Counter(passage for _, passage in only_received)
    differences = []
    for line, passage in only_sent:
        how = "received it in another order" if passage in moved else "did not receive it"
        differences.append(f"'{sender.side}' sent {passage} in line {line}; '{receiver.side}' {how}.")
    for line, passage in only_received:
        if passage not in moved:
            sentence = f"'{receiver.side}' received {passage} in line {line}; '{sender.side}' did not send it."
            differences.append(sentence)
    return differences


def _unmatched(sent: Passages, received: Passages) -> tuple[Passages, Passages]:
    """The entries that only one of the lists has; equal beginnings, the usual case, are skipped quickly."""
    same = 0
    while same < min(len(sent), len(received)) and sent[same][1] == received[same][1]:
        same += 1
    sent, received = sent[same:], received[same:]
    matcher = SequenceMatcher(
        None, [passage for _, passage in sent], [passage for _, passage in received], autojunk=False
    )
    only_sent: Passages = []
    only_received: Passages = []
    for what, i, j, k, m in matcher.get_opcodes():
        if what != "equal":
            only_sent += sent[i:j]
            only_received += received[k:m]
    return only_sent, only_received
